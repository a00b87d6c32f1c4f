"""Which iteration and which element of a write hits the element that a read asks for.

``write offset(known, u) + strides * y = address(z)`` is solved for the unknown loop variables ``u`` and local axes
``y`` as digits of a mixed-radix number: the largest stride first, quotient and remainder, each digit an expression
of the reader's variables. The solution is unique where the write never hits an element twice, which is what
non-overlapping strides mean, and where overlapping ones can be told apart by remainders or sums; loop variables that do
not occur in the address stay free.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Window
from archloom.oracle.windows import reach
from archloom.oracle.xla.notation.expr import Range, Ranges
from archloom.oracle.xla.notation.limits import Unraisable

_LARGEST = 1 << 62
"""Larger values are not counted out in int64."""

_COUNTED = 4096
"""Up to how many values of a variable the range of a form is counted out; beyond, it is one that may be too wide."""


FEW = 16
"""Up to how many values of a variable are taken one by one where a digit is no linear form of it."""


Unknown = Union[str, int]
"""What a write determines of an element that it hits: a loop variable, or the place along a dim of its window."""

Digits = dict[Unknown, Affine]
Progressions = dict[Unknown, tuple[int, int]]
"""Extent and stride of unknowns, each from 0."""


@dataclass(frozen=True)
class Condition:
    """``low <= form <= high``, true for some elements of the query and false for others."""

    form: Affine
    low: int
    high: int

    def rank(self) -> tuple[int, bool]:
        """The order in which conditions are best met: those on few variables first."""
        return len(self.form.variables()), not self.form.is_linear


@dataclass(frozen=True)
class Match:
    """Where the read's element comes from.

    ``digits`` has a form for every unknown that the address determines; where ``partial`` is not None, that tells apart
    elements that are to be matched by themselves (there may be further conditions behind).
    """

    digits: Digits
    partial: Condition | None

    @property
    def loops(self) -> dict[str, Affine]:
        """The loop variables that the address determines."""
        return {name: form for name, form in self.digits.items() if isinstance(name, str)}


def match(
    window: Window, known: Mapping[str, Affine], unknown: Mapping[str, Range],
    address: tuple[Affine, ...], ranges: Ranges,
) -> Match | None:
    """Solve for ``unknown`` loop variables and the window's axes; None where no element is hit.

    ``known`` substitutes loop variables whose value is given; all others mean the same iteration as the reader's.
    """
    only = {name: Affine(low) for name, (low, high) in unknown.items() if low == high}
    if only:
        known, unknown = {**known, **only}, {n: r for n, r in unknown.items() if n not in only}
    digits: Digits = dict(only.items())
    constraints: list[Condition] = []
    for axis, (offset, target) in enumerate(zip(window.offsets, address)):
        free: Progressions = {}
        for atom, coefficient in offset.terms:
            if isinstance(atom, str) and atom in unknown:
                free[atom] = (unknown[atom][1] + 1, coefficient)
            elif not isinstance(atom, str) and not atom.numerator.variables().isdisjoint(unknown):
                _opaque(window, known, unknown, axis, target, ranges)
                return None
        fixed = [t for t in offset.terms if not isinstance(t[0], str) or t[0] not in free]
        rest = (target - Affine(offset.constant, tuple(fixed)).substitute(known)).simplify(ranges)
        for number, dim in enumerate(window.dims):
            if dim.axis == axis and dim.extent > 1:
                free[number] = (dim.extent, dim.stride)
        span = reach(free.values())
        if not _overlap(rest, span, ranges):
            return None
        bound = _leading_bound(rest, span, ranges)
        if bound is not None:
            return None if _clear_of(rest, free, ranges) else Match(digits, bound)
        for name in [n for n in free if n in digits]:
            rest = (rest - digits[name] * free.pop(name)[1]).simplify(ranges)
        falling = {n: extent - 1 for n, (extent, stride) in free.items() if stride < 0}
        for name, last in falling.items():
            extent, stride = free[name]
            rest, free[name] = rest - stride * last, (extent, -stride)
        found = _digits(rest.simplify(ranges), free, ranges)
        if found is None:
            return None
        if isinstance(found, Condition):
            return Match(digits, found)
        digits.update({n: Affine(falling[n]) - d if n in falling else d for n, d in found[0].items()})
        constraints += found[1]
    for number, dim in enumerate(window.dims):
        if dim.extent == 1:
            digits[number] = Affine(0)
    return _judge(digits, constraints, ranges)


def _overlap(rest: Affine, span: Range, ranges: Ranges) -> bool:
    """Whether the ranges of the two sides meet."""
    a, b = rest.range(ranges)
    return a <= span[1] and b >= span[0]


def _leading_bound(rest: Affine, span: Range, ranges: Ranges) -> Condition | None:
    """What the variable with the largest coefficient must satisfy, if it is the leading digit of ``rest``.

    A necessary condition for a hit; outside of it the write is out of reach, and inside the digits have small ranges.
    """
    linear = [(abs(c), c, a) for a, c in rest.terms if isinstance(a, str)]
    if not linear:
        return None
    _, coefficient, name = max(linear)
    others = rest - Affine.variable(name) * coefficient
    a, b = others.range(ranges)
    if b - a >= abs(coefficient):
        return None
    low, high = span[0] - b, span[1] - a
    if coefficient < 0:
        low, high = -high, -low
    first, last = -(-low // abs(coefficient)), high // abs(coefficient)
    lowest, highest = ranges[name]
    if first <= lowest and last >= highest:
        return None
    return Condition(Affine.variable(name), max(first, lowest), min(last, highest))


def _opaque(
    window: Window, known: Mapping[str, Affine], unknown: Mapping[str, Range], axis: int, target: Affine,
    ranges: Ranges,
) -> None:
    """A write whose address has ``//`` or ``%`` of an unknown loop variable: none, if its range stays clear."""
    everywhere = {**ranges, **unknown}
    difference = target - window.offsets[axis].substitute(known)
    spans: Progressions = {n: (d.extent, d.stride) for n, d in enumerate(window.dims) if d.axis == axis}
    difference = difference.simplify(everywhere)
    if _overlap(difference, reach(spans.values()), everywhere) and not _clear_of(difference, spans, everywhere):
        offset = window.offsets[axis]
        raise Unraisable(f"the address {offset} of a write to {window.buffer} is not affine in its loop", window.buffer)


def _clear_of(rest: Affine, free: Progressions, ranges: Ranges) -> bool:
    """Whether the two sides never meet because, but for multiples of a coefficient, they lie too close to each other.

    So do different parts of the same piece of a buffer that is cut into equal pieces, whichever pieces are meant.
    """
    for step in {abs(c) for c in (*(c for _, c in rest.terms), *(c for _, c in free.values())) if abs(c) > 1}:
        fine = Affine(rest.constant, tuple(t for t in rest.terms if t[1] % step))
        least, most = reach(p for p in free.values() if p[1] % step)
        low, high = fine.range(ranges)
        if -(-(low - most) // step) * step > high - least:
            return True
    return False


Found = tuple[Digits, list[Condition]]
"""Digits, and what must hold for them."""


def _digits(rest: Affine, free: Progressions, ranges: Ranges) -> Found | Condition | None:
    """Digits of ``rest`` to the strides of ``free`` and what must hold for them; None where no element is hit.

    A condition by itself where only part of the elements has digits of one form.
    """
    order, why = _radix(free)
    if why:
        found = _by_remainders(rest, free, ranges) or _by_sums(rest, free, ranges)
        if found is None:
            raise Unraisable(f"a write hits elements more than once ({why})")
        return found.digits
    digits: Digits = {}
    constraints: list[Condition] = []
    for cut in range(len(order), 0, -1):
        split = _separate(rest, order[:cut], order[cut:], free, ranges)
        if split is None:
            return None
        if isinstance(split, tuple):
            rest, low = split
            _descend(low, order[cut:], free, ranges, digits, constraints)
            order = order[:cut]
    _descend(rest, order, free, ranges, digits, constraints)
    return digits, constraints


def _radix(free: Progressions) -> tuple[list[Unknown], str]:
    """The unknowns by their strides, the largest first; and why they are no digits in this order, if they are none."""
    order = sorted(free, key=lambda n: -free[n][1])
    span = 0
    for name in reversed(order):
        extent, stride = free[name]
        if stride <= span:
            return order, f"stride {stride} within a span of {span}"
        span += stride * (extent - 1)
    return order, ""


@dataclass(frozen=True)
class _Solved:
    """What :func:`_digits` gives."""

    digits: Found | Condition | None


def _by_remainders(rest: Affine, free: Progressions, ranges: Ranges) -> _Solved | None:
    """The digits where strides overlap, but one of them is told from the others by remainders; None where none is.

    With g the gcd of all strides but c, ``rest % g`` is ``c * n % g``, which determines n where there are no more than
    g / gcd(c, g) values of it. So a row that goes along the diagonal of an array is told by the column.
    """
    for name, (extent, stride) in sorted(free.items(), key=lambda item: -item[1][1]):
        others = {n: p for n, p in free.items() if n != name}
        g = math.gcd(*(s for _, s in others.values()))
        step = math.gcd(stride, g)
        if not step or extent > g // step:
            continue
        inverse = pow(stride // step, -1, g // step)
        digit = ((rest // step).simplify(ranges) * inverse % (g // step)).simplify(ranges)
        if not digit.is_linear and len(digit.variables()) == 1:
            (variable,) = digit.variables()
            low, high = ranges[variable]
            if 0 < high - low < FEW:  # for each of its values the digit is a number
                return _Solved(Condition(Affine.variable(variable), low, low))
        try:
            found = _digits((rest - digit * stride).simplify(ranges), others, ranges)
        except Unraisable:
            continue
        if not isinstance(found, tuple):
            return _Solved(found)
        bounds = [Condition(digit, 0, extent - 1), Condition((rest % step).simplify(ranges), 0, 0)]
        return _Solved(({name: digit, **found[0]}, [*bounds, *found[1]]))
    return None


def _by_sums(rest: Affine, free: Progressions, ranges: Ranges) -> _Solved | None:
    """The digits where one stride is a little more than a multiple of another; None where that does not help.

    ``(k*b + r) * x + b * y`` is ``b * (k*x + y) + r * x``: of places along diagonals, rows and columns.
    """
    for large, small in itertools.permutations(free, 2):
        (extent, a), (count, b) = free[large], free[small]
        times, left = divmod(a, b) if b else (0, 0)
        if not times or not left:
            continue
        total = "%sum"
        other: Progressions = {n: p for n, p in free.items() if n != small}
        other.update({large: (extent, left), total: (times * (extent - 1) + count, b)})
        if _radix(other)[1]:
            continue
        found = _digits(rest, other, ranges)
        if not isinstance(found, tuple):
            return _Solved(found)
        digits = dict(found[0])
        digits[small] = (digits.pop(total) - digits[large] * times).simplify(ranges)
        return _Solved((digits, [*found[1], Condition(digits[small], 0, count - 1)]))
    return None


def _separate(
    rest: Affine, upper: list[Unknown], lower: list[Unknown], free: Progressions, ranges: Ranges
) -> tuple[Affine, Affine] | bool | None:
    """One equation as two: multiples of the gcd g of the upper strides, and what the lower ones must make up.

    With ``rest = g*x + fine``, an element that is hit has ``fine - g*k`` in the span of the lower digits. Where only
    one k can be, the equations are independent. False where several can, None where none can.
    """
    g = math.gcd(*(free[n][1] for n in upper))
    span = reach(free[n] for n in lower)[1]
    if g <= span:
        return False
    coarse = Affine(0, tuple(t for t in rest.terms if t[1] % g == 0))
    fine = rest - coarse
    low, high = fine.range(ranges)
    first, last = -(-(low - span) // g), high // g
    if first > last:
        return None
    if first < last:
        return False
    return coarse + first * g, fine - first * g


def _descend(
    rest: Affine, order: list[Unknown], free: Progressions, ranges: Ranges,
    digits: Digits, constraints: list[Condition],
) -> None:
    """Quotients and remainders, the largest stride first; the last remainder must be 0.

    A bound on the leading variable comes with them: of conditions on as many variables the others are met first.
    """
    bound = _leading_bound(rest, reach(free[name] for name in order), ranges)
    for name in order:
        extent, stride = free[name]
        digits[name] = (rest // stride).simplify(ranges)
        constraints.append(Condition(digits[name], 0, extent - 1))
        rest = (rest % stride).simplify(ranges)
    constraints.append(Condition(rest.simplify(ranges), 0, 0))
    if bound is not None:
        constraints.append(bound)


def _judge(digits: Digits, constraints: list[Condition], ranges: Ranges) -> Match | None:
    partial: list[Condition] = []
    for c in constraints:
        low, high = exact_range(c.form, ranges)
        if high < c.low or low > c.high:
            return None
        if low < c.low or high > c.high:
            partial.append(c)
    return Match(digits, min(partial, key=Condition.rank, default=None))


def exact_range(form: Affine, ranges: Ranges) -> Range:
    """The smallest and the largest value; exact for linear forms and for forms of one variable with few values."""
    low, high = form.range(ranges)
    names = form.variables()
    if form.is_linear or len(names) != 1:
        return low, high
    (name,) = names
    first, last = ranges[name]
    if last - first > _COUNTED:
        return low, high
    if max(-low, high) > _LARGEST:
        return low, high
    values: Any = form.evaluate({name: np.arange(first, last + 1)})
    return int(values.min()), int(values.max())
