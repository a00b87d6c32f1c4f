"""Expressions over two axes in place of one, where that is what XLA compiles to less.

Of some variables only quotient and remainder by a constant matter: with an axis for each, indices are linear. Case
distinctions whose cases are the same contraction of different operands are one contraction of more rows, with an axis
that counts the cases; XLA would compile each product, and what lays out its operands, for itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import Expr, Fold, Leaf, Map, Range, Ranges, Sum, Switch
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.variables import fresh


@dataclass(frozen=True)
class Divided:
    """``e`` under ``ranges``, in which ``outer`` and ``inner``, the faster one, stand for ``variable``."""

    e: Expr
    ranges: Ranges
    variable: str
    outer: str
    inner: str


def _divided(ranges: Ranges, variable: str, outer: Range, inner: Range) -> tuple[str, str, Ranges]:
    """Two new variables, and the ranges with them in the place of another: the order of axes stays."""
    names = fresh(), fresh()
    made: dict[str, Range] = {}
    for name, r in ranges.items():
        made.update(zip(names, (outer, inner), strict=True) if name == variable else [(name, r)])
    return *names, made


def by_digits(e: Expr, ranges: Ranges) -> Divided | None:
    """A free variable of ``e`` that occurs divided (``//`` or ``%``) alone, by one divisor that its range is cut by.

    In a product it is enough that it does so in one of the factors: of that, a digit is left, and the other digit is no
    axis that both share. (A head's rows times a head's columns: the columns' number is that of the head and one in it.)
    """
    factors = e.body.operands if isinstance(e, Sum) and isinstance(e.body, Map) and e.body.opcode == "multiply" else ()
    for name in sorted(expr.free(e)):
        low, high = ranges[name]
        for part in (e, *factors):
            found = {d for form in _forms(part) if name in form.variables() for d in _divisors(form, name)}
            divisor = found.pop() if len(found) == 1 else 0
            if divisor and low % divisor == 0 and (high + 1) % divisor == 0 and high + 1 - low > divisor:
                t, y, inner = _divided(ranges, name, (low // divisor, high // divisor), (0, divisor - 1))
                form = Affine.variable(t) * divisor + Affine.variable(y)
                return Divided(substitute(e, {name: form}, inner), inner, name, t, y)
    return None


@expr.once
def _forms(e: Expr) -> frozenset[Affine]:
    """All forms in an expression; operations share operands, and so do sets."""
    made = frozenset(e.forms)
    for child in e.children:
        made |= _forms(child)
    return made


def _divisors(form: Affine, name: str) -> Iterator[int]:
    """By what the variable is divided where it occurs; 0 where it is not, or not by itself."""
    for atom, _ in form.terms:
        if isinstance(atom, str):
            if atom == name:
                yield 0
        elif name in atom.numerator.variables():
            yield atom.divisor if atom.numerator == Affine.variable(name) else 0


def one_contraction(e: Switch, name: str, ranges: Ranges) -> Divided | None:
    """A distinction along the axis ``name`` whose cases are of one extent and differ in the operands of sums only."""
    shift, (low, high) = e.form.constant, ranges[name]
    cases = reach(e.cases, low + shift, high + shift)
    extent = cases[0][1] - cases[0][0] + 1
    if len(cases) < 2 or not all(b - a + 1 == extent and traits.is_heavy(x) for a, b, x in cases):
        return None
    number, inside, inner = _divided(ranges, name, (0, len(cases) - 1), (0, extent - 1))
    point = Affine.variable(inside) if extent > 1 else Affine(0)
    made = _batched([substitute(body, {name: point + (a - shift)}, inner) for a, _, body in cases], number)
    return None if made is None else Divided(made, inner, name, number, inside)


def _batched(parts: Sequence[Expr], number: str) -> Expr | None:
    """One expression that is ``parts[i]`` where the variable is i; None where sums would be told apart."""
    first = parts[0]
    if all(p == first for p in parts):
        return first
    if all(isinstance(p, Leaf) for p in parts):
        return _leaf(parts, number)
    if isinstance(first, Sum) and expr.is_integer(first.dtype) and all(
            isinstance(p, Sum) and (p.variables, p.dtype) == (first.variables, first.dtype) for p in parts):
        body = _batched([p.children[0] for p in parts], number)
        return None if body is None else replace(first, body=body)
    if isinstance(first, Fold) and all(
            isinstance(p, Fold) and (p.variables, p.dtype) == (first.variables, first.dtype) for p in parts):
        start, body = (_batched([p.children[i] for p in parts], number) for i in range(2))
        return None if start is None or body is None else replace(first, start=start, body=body)
    if isinstance(first, Map) and all(traits.same_kind(p, replace(first, operands=p.children)) for p in parts):
        operands = [_batched([p.children[i] for p in parts], number) for i in range(len(first.operands))]
        return None if None in operands else replace(first, operands=tuple(o for o in operands if o is not None))
    return _switch_over(parts, number)


def _leaf(parts: Sequence[Expr], number: str) -> Expr | None:
    first = parts[0]
    assert isinstance(first, Leaf)
    step = next((p.index - first.index for p in parts[1:2] if isinstance(p, Leaf)), Affine(0))
    if not step.terms and all(p == replace(first, index=first.index + step * i) for i, p in enumerate(parts)):
        return replace(first, index=first.index + Affine.variable(number) * step.constant)
    return _switch_over(parts, number)


def _switch_over(parts: Sequence[Expr], number: str) -> Expr | None:
    if any(isinstance(node, (Sum, Fold)) for p in parts for node in traits.walk(p)):
        return None
    return Switch(Affine.variable(number), tuple((i, i, p) for i, p in enumerate(parts)), parts[0].dtype)
