"""Jitted: the ranges of values and of expressions during some iterations of a loop."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, AtomSpec, BufferPart, H, LoopSpec, Sum
from archloom.acadl_models.timing.engine.skipping.moving import is_inside
from archloom.acadl_models.timing.engine.state import M


@jit
def value_ranges(t, m, record, begin, end):
    """Ranges of all values in some iterations of a loop: of loops around it the present value, of others every one."""
    low, high = m[M.LOW], m[M.HIGH]
    for other in range(t[H.LOOPS]):
        inner = t[H.LOOP_TABLE] + other * LoopSpec.SIZE
        if is_inside(t, record, inner):
            m[low + other] = m[high + other] = m[m[M.VALUES] + other]
            continue
        first = t[inner + LoopSpec.START]
        last = first + (t[inner + LoopSpec.EXTENT] - 1) * t[inner + LoopSpec.STEP]
        if inner == record:
            last = first + min(end, t[inner + LoopSpec.EXTENT] - 1) * t[inner + LoopSpec.STEP]
            first += begin * t[inner + LoopSpec.STEP]
        m[low + other], m[high + other] = min(first, last), max(first, last)
    for value in range(t[H.LOOPS], t[H.VALUES]):
        atom = t[H.ATOM_TABLE] + (value - t[H.LOOPS]) * AtomSpec.SIZE
        divisor = t[atom + AtomSpec.DIVISOR]
        a, b = range_of(t, m, t[atom + AtomSpec.EXPRESSION])
        if t[atom + AtomSpec.IS_MODULO] == 0:
            m[low + value], m[high + value] = a // divisor, b // divisor
        elif a // divisor == b // divisor:
            m[low + value], m[high + value] = a % divisor, b % divisor
        else:
            m[low + value], m[high + value] = 0, divisor - 1


@jit
def range_of(t, m, expression):
    """Bounds of an expression."""
    low, high = m[M.LOW], m[M.HIGH]
    a = b = t[expression + Sum.CONSTANT]
    at = expression + Sum.LIST
    for _ in range(t[expression + Sum.TERMS]):
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
    """The BufferPart record of the bank that holds all of an access with its first word in a range, or ``NONE``."""
    for k in range(t[access + AccessSpec.STORE_COUNT]):
        bank = t[access + AccessSpec.STORES] + k * BufferPart.SIZE
        if t[bank + BufferPart.FIRST] <= low and high + t[access + AccessSpec.SPAN] <= t[bank + BufferPart.END]:
            return bank
    return NONE
