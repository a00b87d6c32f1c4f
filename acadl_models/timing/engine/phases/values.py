"""Jitted: the values of affine expressions, and latencies that vary along loops."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import H, Instruction, LatencySpec, Operation, Sum
from archloom.acadl_models.timing.engine.state import NO_DIVISOR, Instance, M, Status


@jit
def value_of(t, m, expression):
    """The value of an affine expression at the present values of loop variables and atoms."""
    values = m[M.VALUES]
    total = t[expression + Sum.CONSTANT]
    at = expression + Sum.LIST
    for _ in range(t[expression + Sum.TERMS]):
        total += m[values + t[at]] * t[at + 1]
        at += 2
    return total


@jit
def stands_for(latency):
    """The position or the number of the program that a latency below zero stands for, and the other way round."""
    return -1 - latency


@jit
def latency_program(t, m, program, words, size):
    """Run the program of a latency."""
    at = program + LatencySpec.CODE
    end = at + 2 * t[program + LatencySpec.LENGTH]
    top = m[M.STACK] - 1
    while at < end:
        operation, operand = t[at], t[at + 1]
        at += 2
        if operation <= Operation.BYTES:
            top += 1
            if operation == Operation.NUMBER:
                m[top] = operand
            elif operation == Operation.EXPRESSION:
                m[top] = value_of(t, m, operand)
            else:
                m[top] = words if operation == Operation.WORDS else size
        elif operation == Operation.JUMP:
            at = program + LatencySpec.CODE + 2 * operand
        elif operation == Operation.JUMP_IF_ZERO:
            top -= 1
            if m[top + 1] == 0:
                at = program + LatencySpec.CODE + 2 * operand
        elif operation >= Operation.LT:
            m[top] = compare(operation, m[top])
        else:
            top -= 1
            if (operation == Operation.FLOORDIV or operation == Operation.MOD) and m[top + 1] <= 0:
                return NO_DIVISOR
            m[top] = binary(operation, m[top], m[top + 1])
    return m[top]


@jit
def binary(operation, a, b):
    if operation == Operation.ADD:
        return a + b
    if operation == Operation.MUL:
        return a * b
    if operation == Operation.FLOORDIV:
        return a // b
    if operation == Operation.MOD:
        return a - (a // b) * b
    return min(a, b) if operation == Operation.MIN else max(a, b)


@jit
def compare(operation, a):
    if operation == Operation.LT:
        return int(a < 0)
    if operation == Operation.LE:
        return int(a <= 0)
    return int(a == 0) if operation == Operation.EQ else int(a != 0)


@jit
def fail(t, m, program, value):
    """Stop the run: a latency has no legal value. Returns one, for the rest of the cycle."""
    if m[M.STATUS] == Status.RUNNING:
        m[M.STATUS] = Status.BAD_LATENCY
        m[M.OBJECT] = t[program + LatencySpec.OBJECT]
        m[M.VALUE] = value
    return 1


@jit
def latency_of(t, m, slot, code):
    """A latency of an instance: cycles, or evaluated when the instance was made."""
    if code >= 0:
        return code
    latency = m[slot + t[H.SLOT_LATENCIES] + stands_for(code)]
    program = t[t[m[slot + Instance.STATIC] + Instruction.LATENCIES] + stands_for(code)]
    return latency if latency >= t[program + LatencySpec.LEAST] else fail(t, m, program, latency)
