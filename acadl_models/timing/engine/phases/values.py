"""Jitted: the values of affine expressions, and latencies that vary along loops."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403


@jit
def value_of(t, m, expression):
    """The value of an affine expression at the present values of loop variables and atoms."""
    values = m[M_VALUES]
    total = t[expression + TX_CONSTANT]
    at = expression + TX_LIST
    for _ in range(t[expression + TX_TERMS]):
        total += m[values + t[at]] * t[at + 1]
        at += 2
    return total


@jit
def latency_program(t, m, program, words, size):
    """Run the program of a latency."""
    at = program + TC_CODE
    end = at + 2 * t[program + TC_LENGTH]
    top = m[M_STACK] - 1
    while at < end:
        operation, operand = t[at], t[at + 1]
        at += 2
        if operation <= X_BYTES:
            top += 1
            if operation == X_NUMBER:
                m[top] = operand
            elif operation == X_EXPRESSION:
                m[top] = value_of(t, m, operand)
            else:
                m[top] = words if operation == X_WORDS else size
        elif operation == X_JUMP:
            at = program + TC_CODE + 2 * operand
        elif operation == X_JUMP_IF_ZERO:
            top -= 1
            if m[top + 1] == 0:
                at = program + TC_CODE + 2 * operand
        elif operation == X_NOT or operation == X_NEG:
            m[top] = -m[top] if operation == X_NEG else int(m[top] == 0)
        else:
            top -= 1
            if (operation == X_FLOORDIV or operation == X_MOD or operation == X_CDIV) and m[top + 1] == 0:
                return DIVIDES_BY_ZERO
            m[top] = binary(operation, m[top], m[top + 1])
    return m[top]


@jit
def binary(operation, a, b):
    if operation == X_ADD:
        return a + b
    if operation == X_SUB:
        return a - b
    if operation == X_MUL:
        return a * b
    if operation == X_FLOORDIV:
        return a // b
    if operation == X_MOD:
        return a - (a // b) * b
    if operation == X_CDIV:
        return -(-a // b)
    if operation == X_MIN:
        return min(a, b)
    if operation == X_MAX:
        return max(a, b)
    return compare(operation, a, b)


@jit
def compare(operation, a, b):
    if operation == X_LT:
        return int(a < b)
    if operation == X_LE:
        return int(a <= b)
    if operation == X_GT:
        return int(a > b)
    if operation == X_GE:
        return int(a >= b)
    if operation == X_EQ:
        return int(a == b)
    return int(a != b)


@jit
def fail(t, m, program, value):
    """Stop the run: a latency has no legal value. Returns one, for the rest of the cycle."""
    if m[M_STATUS] == RUNNING:
        m[M_STATUS] = BAD_LATENCY
        m[M_OBJECT] = t[program + TC_OBJECT]
        m[M_VALUE] = value
    return 1


@jit
def latency_of(t, m, slot, code):
    """A latency of an instance: cycles, or evaluated when the instance was made."""
    if code >= 0:
        return code
    latency = m[slot + t[H_SLOT_LATENCIES] - 1 - code]
    program = t[t[m[slot + I_STATIC] + TI_LATENCIES] - 1 - code]
    return latency if latency >= t[program + TC_LEAST] else fail(t, m, program, latency)
