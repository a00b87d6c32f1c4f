"""Ranges of forms: cases that are reached, constraints that hold, and the ranges of variables where they do."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation.expr import Constraint, Expr, Guarded, Map, Ranges, Switch, free
from archloom.oracle.xla.notation.traits import axis_of

Case = tuple[int, int, Expr]
"""First and last value of a form, and what holds from the one to the other."""

Cases = tuple[Case, ...]


def reach(cases: Cases, low: int, high: int) -> Cases:
    """The cases for forms in ``low .. high``; the first and the last case hold beyond their bounds."""
    found = []
    for i, (first, last, body) in enumerate(cases):
        first = low if i == 0 else max(first, low)
        last = high if i == len(cases) - 1 else min(last, high)
        if first <= last:
            found.append((first, last, body))
    return tuple(found)


def case_begins(e: Expr, name: str) -> Iterator[int]:
    """Where along a variable a case ends and another begins, among operations."""
    waiting, seen = [e], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen or name not in free(found):
            continue
        seen.add(id(found))
        if isinstance(found, Switch) and axis_of(found.form) == name:
            yield from (first - found.form.constant for first, _, _ in found.cases[1:])
        if isinstance(found, Guarded):
            for form, low, high in found.constraints:
                if axis_of(form) == name:
                    yield from ((low,) if low is not None else ())
                    yield from ((high + 1,) if high is not None else ())
        if isinstance(found, (Map, Switch, Guarded)):
            waiting += found.children


def within(constraints: tuple[Constraint, ...], ranges: Ranges) -> Ranges:
    """``ranges`` where the constraints hold, as far as they are on single variables."""
    for form, low, high in constraints:
        if axis_of(form):
            first, last = form.range(ranges)
            low, high = first if low is None else max(low, first), last if high is None else min(high, last)
            if low <= high:
                ranges = narrow(form, low, high, ranges)
    return ranges


def inside(e: Expr, ranges: Ranges) -> Ranges:
    """The ranges under which the sub-expressions of a node are taken."""
    if isinstance(e, Guarded):
        return within(e.constraints, ranges)
    named = e.bound_ranges(ranges)
    return {**ranges, **named} if named else ranges


def narrow(form: Affine, low: int, high: int, ranges: Ranges) -> Ranges:
    """``ranges`` where ``low <= form <= high``: narrower where ``form`` is one variable and a constant."""
    name = axis_of(form)
    if name is None:
        return ranges
    first, last = ranges[name]
    return {**ranges, name: (max(first, low - form.constant), min(last, high - form.constant))}


def conjunction(constraints: tuple[Constraint, ...], ranges: Ranges) -> tuple[Constraint, ...]:
    """The same constraints, one for each form, in normal form and order."""
    kept: dict[Affine, tuple[int | None, int | None]] = {}
    for form, low, high in constraints:
        form, low, high = _normal(form.simplify(ranges), low, high)
        before = kept.get(form, (None, None))
        low = before[0] if low is None else low if before[0] is None else max(low, before[0])
        high = before[1] if high is None else high if before[1] is None else min(high, before[1])
        kept[form] = (low, high)
    return tuple(sorted(((f, *b) for f, b in kept.items()), key=lambda c: str(c[0])))


def _normal(form: Affine, low: int | None, high: int | None) -> Constraint:
    """The constraint on the form without its constant and with a positive first coefficient."""
    low = None if low is None else low - form.constant
    high = None if high is None else high - form.constant
    form = form - form.constant
    if form.terms and form.terms[0][1] < 0:
        return -form, None if high is None else -high, None if low is None else -low
    return form, low, high
