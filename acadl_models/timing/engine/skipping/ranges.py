"""Jitted: the ranges of values and of expressions during some iterations of a loop."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.skipping.moving import is_inside


@jit
def value_ranges(t, m, record, begin, end):
    """Ranges of all values in some iterations of a loop: of loops around it the present value, of others every one."""
    low, high = m[M_LOW], m[M_HIGH]
    for other in range(t[H_LOOPS]):
        inner = t[H_LOOP_TABLE] + other * TL_SIZE
        if is_inside(t, record, inner):
            m[low + other] = m[high + other] = m[m[M_VALUES] + other]
            continue
        first, last = t[inner + TL_START], t[inner + TL_START] + (t[inner + TL_EXTENT] - 1) * t[inner + TL_STEP]
        if inner == record:
            last = first + min(end, t[inner + TL_EXTENT] - 1) * t[inner + TL_STEP]
            first += begin * t[inner + TL_STEP]
        m[low + other], m[high + other] = min(first, last), max(first, last)
    for value in range(t[H_LOOPS], t[H_VALUES]):
        atom = t[H_ATOM_TABLE] + (value - t[H_LOOPS]) * TQ_SIZE
        divisor = t[atom + TQ_DIVISOR]
        a, b = range_of(t, m, t[atom + TQ_EXPRESSION])
        if t[atom + TQ_IS_MODULO] == 0:
            m[low + value], m[high + value] = a // divisor, b // divisor
        elif a // divisor == b // divisor:
            m[low + value], m[high + value] = a % divisor, b % divisor
        else:
            m[low + value], m[high + value] = 0, divisor - 1


@jit
def range_of(t, m, expression):
    """Bounds of an expression."""
    low, high = m[M_LOW], m[M_HIGH]
    a = b = t[expression + TX_CONSTANT]
    at = expression + TX_LIST
    for _ in range(t[expression + TX_TERMS]):
        value, coefficient = t[at], t[at + 1]
        if coefficient > 0:
            a += coefficient * m[low + value]
            b += coefficient * m[high + value]
        else:
            a += coefficient * m[high + value]
            b += coefficient * m[low + value]
        at += 2
    return a, b


@jit
def bank_of(t, access, low, high):
    """The TB record of the bank that holds all of an access with its first word in a range, or ``NONE``."""
    for k in range(t[access + TA_STORE_COUNT]):
        bank = t[access + TA_STORES] + k * TB_SIZE
        if t[bank + TB_FIRST] <= low and high + t[access + TA_SPAN] <= t[bank + TB_END]:
            return bank
    return NONE
