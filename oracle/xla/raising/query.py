"""Questions for elements of a buffer, and how they are divided where a condition holds for some of the elements."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine, Div, Mod
from archloom.oracle.xla.notation.build import let_of, switch_of
from archloom.oracle.xla.notation.expr import Expr, Ranges
from archloom.oracle.xla.notation.limits import Unraisable
from archloom.oracle.xla.notation.variables import fresh
from archloom.oracle.xla.raising.match import Condition

COUNTED = 256
"""Up to how many values of a variable are tried for where a condition turns."""

TURNS = 8
"""Into how many pieces a variable is cut where a condition turns."""


@dataclass(frozen=True)
class Query:
    """Elements of a buffer: an address for each of its axes, over variables with ``ranges``."""

    buffer: str
    address: tuple[Affine, ...]
    ranges: Ranges


Find = Callable[[Query, Mapping[str, Affine]], Expr]
"""The value of part of a query; the mapping says how variables that the part has no more are written now."""


def split(q: Query, c: Condition, find: Find) -> Expr:
    """Distinguish the elements for which ``c`` holds from the others."""
    c = _of_leading(c, q.ranges)
    names = sorted(c.form.variables())
    if len(names) == 1:
        return _split_variable(q, c, names[0], find)
    cuts = _leading_cuts(c, q.ranges)
    if cuts is not None:
        return _split_at(q, *cuts, find)
    return _split_digit(q, c.form, find)


def _of_leading(c: Condition, ranges: Ranges) -> Condition:
    """The condition on what its largest coefficient multiplies, where the other terms cannot decide it."""
    step = max(abs(n) for _, n in c.form.terms)
    leading = Affine(0, tuple((a, n // step) for a, n in c.form.terms if n % step == 0))
    least, most = (c.form - leading * step).range(ranges)
    low, high = -(-(c.low - least) // step), (c.high - most) // step
    if (low, high) != (-(-(c.low - most) // step), (c.high - least) // step):
        return c
    return Condition(leading, low, high)


def _split_variable(q: Query, c: Condition, name: str, find: Find) -> Expr:
    low, high = q.ranges[name]
    if _is_monotone(c.form):
        first = _bisect(lambda x: c.form.evaluate({name: x}) >= c.low, low, high + 1)
        last = _bisect(lambda x: c.form.evaluate({name: x}) > c.high, low, high + 1) - 1
        cuts = sorted({low, first, last + 1, high + 1})
        if len(cuts) == 2:
            raise Unraisable(f"cannot bound {c.form}")
        return _split_at(q, name, cuts, find)
    found = _divisor(c.form)
    if found is not None:
        divisor, shift = found
        whole_low = -(-(low + shift) // divisor) * divisor - shift
        whole_high = (high + 1 + shift) // divisor * divisor - shift
        if (whole_low, whole_high) == (low, high + 1) and high + 1 - low > divisor:
            return _split_axis(q, name, divisor, shift, find)
        cuts = sorted({low, whole_low, whole_high, high + 1})
        if len(cuts) > 2 and cuts[0] == low and cuts[-1] == high + 1:
            return _split_at(q, name, cuts, find)
    return _split_at(q, name, _turns(c, name, low, high), find)


def _turns(c: Condition, name: str, low: int, high: int) -> list[int]:
    """Where ``c`` turns from true to false or back along a variable of few values; Unraisable where that is often."""
    cuts = [low]
    if high - low < COUNTED:
        holds = [c.low <= c.form.evaluate({name: x}) <= c.high for x in range(low, high + 1)]
        cuts += [low + n + 1 for n, (a, b) in enumerate(itertools.pairwise(holds)) if a != b]
    if not 1 < len(cuts) <= TURNS:
        raise Unraisable(f"cannot bound {c.form}")
    return [*cuts, high + 1]


def _split_at(q: Query, name: str, cuts: list[int], find: Find) -> Expr:
    """The ranges between the cuts (first value of each, and the end) one by one."""
    cases = []
    for a, b in itertools.pairwise(cuts):
        part = replace(q, ranges={**q.ranges, name: (a, b - 1)})
        cases.append((a, b - 1, find(replace(
            part, address=tuple(form.simplify(part.ranges) for form in part.address)), {})))
    return switch_of(Affine.variable(name), tuple(cases), q.ranges)


def _split_axis(q: Query, name: str, divisor: int, shift: int, find: Find) -> Expr:
    """Make ``divisor*t + y - shift`` of a variable, so that conditions on ``y`` are conditions on a variable."""
    low, high = q.ranges[name]
    x, t, y = Affine.variable(name) + shift, fresh(), fresh()
    new = {t: ((low + shift) // divisor, (high + shift) // divisor), y: (0, divisor - 1)}
    ranges = {**{k: v for k, v in q.ranges.items() if k != name}, **new}
    form = Affine.variable(t) * divisor + Affine.variable(y) - shift
    address = tuple(a.substitute({name: form}).simplify(ranges) for a in q.address)
    e = find(Query(q.buffer, address, ranges), {name: form})
    return let_of(((t, x // divisor), (y, x % divisor)), e, q.ranges)


def _split_digit(q: Query, condition: Affine, find: Find) -> Expr:
    """Name what the address makes of several variables by a new one, so that a condition follows an axis."""
    names = condition.variables()
    touched = [a for a in q.address if not names.isdisjoint(a.variables())]
    ring = None if condition.is_linear else q.buffer
    refused = Unraisable(f"the condition on {condition} does not follow an axis of the read of {q.buffer}", ring)
    if len(touched) != 1:
        raise refused
    part = Affine(0, tuple(t for t in touched[0].terms if t[0] in names))
    rest = touched[0] - part
    if part.variables() != names or not rest.variables().isdisjoint(names):
        raise refused
    name, factor = fresh(), math.gcd(*(c for _, c in part.terms))
    form = Affine(0, tuple((a, c // factor) for a, c in part.terms))
    short = _short_of(form, q.ranges)
    if short is not None:
        low, high = q.ranges[short]
        return _split_at(q, short, list(range(low, high + 2)), find)
    digit = rest + Affine.variable(name) * factor
    ranges = {**q.ranges, name: form.range(q.ranges)}
    e = find(replace(q, address=tuple(digit if a is touched[0] else a for a in q.address), ranges=ranges), {})
    return let_of(((name, form),), e, q.ranges)


def _short_of(form: Affine, ranges: Ranges) -> str | None:
    """The variable of few values that do not fill the steps of the next one, so that the form leaves numbers out.

    A variable in place of the form would stand for those, too: for elements that nobody asks for, and perhaps nobody
    writes.
    """
    span = 0
    last: str | None = None
    for size, name in sorted((abs(c), a) for a, c in form.terms if isinstance(a, str)):
        low, high = ranges[name]
        if last is not None and size > span + 1:
            return last if ranges[last][1] - ranges[last][0] < TURNS else None
        span, last = span + size * (high - low), name
    return None


def _is_monotone(form: Affine) -> bool:
    """Whether the value does not fall as the variable rises."""
    for atom, coefficient in form.terms:
        if coefficient < 0 or isinstance(atom, Mod) or (isinstance(atom, Div) and not _is_monotone(atom.numerator)):
            return False
    return True


def _leading_cuts(c: Condition, ranges: Ranges) -> tuple[str, list[int]] | None:
    """Where ``c`` turns from false to undecided to true along the variable that leads its form, if one does."""
    linear = [(abs(n), n, a) for a, n in c.form.terms if isinstance(a, str)]
    if not linear:
        return None
    step, factor, name = max(linear)
    rest = c.form - Affine.variable(name) * factor
    if factor < 0 or name in rest.variables():
        return None
    a, b = rest.range(ranges)
    if b - a >= step:
        return None
    low, high = ranges[name]
    # undecided from the first value that can hold to the first that must, and so at the other end
    edges = [-(-(c.low - b) // step), -(-(c.low - a) // step), (c.high - b) // step + 1, (c.high - a) // step + 1]
    cuts = sorted({low, high + 1, *(e for e in edges if low < e <= high)})
    return (name, cuts) if len(cuts) > 2 else None


def _bisect(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The smallest x in ``low .. high`` from which ``holds`` is true (``high`` where it never is)."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _divisor(form: Affine) -> tuple[int, int] | None:
    """Divisor and shift of an innermost ``(x + shift) // divisor`` (or ``%``) of the form's variable, if it has one; of
    another multiple of the variable, the period in which its remainders repeat."""
    for atom, _ in form.terms:
        if isinstance(atom, str):
            continue
        if not atom.numerator.is_linear:
            return _divisor(atom.numerator)
        ((_, factor),) = atom.numerator.terms
        if factor > 0 and atom.divisor % factor == 0:
            return atom.divisor // factor, atom.numerator.constant // factor
        period = atom.divisor // math.gcd(factor, atom.divisor)
        return (period, 0) if period > 1 else None
    return None
