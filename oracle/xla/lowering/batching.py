"""Case distinctions whose cases are the same contraction of different operands, as one contraction of more rows.

XLA compiles each product, and what lays out its operands, for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation.build import substitute
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import (
    Expr,
    Fold,
    Leaf,
    Map,
    Ranges,
    Sum,
    Switch,
    is_heavy,
    is_integer,
    same_kind,
    walk,
)
from archloom.oracle.xla.notation.variables import fresh

Batched = tuple[Expr, str, int, str, int]
"""The one expression, the variable that counts the cases and their number, that within a case and its extent."""


def one_contraction(e: Switch, name: str, ranges: Ranges) -> Batched | None:
    """A distinction along the axis ``name`` whose cases are of one extent and differ in the operands of sums only."""
    shift, (low, high) = e.form.constant, ranges[name]
    cases = list(reach(e.cases, low + shift, high + shift))
    extent = cases[0][1] - cases[0][0] + 1
    if len(cases) < 2 or any(b - a + 1 != extent for a, b, _ in cases) or not all(is_heavy(x) for _, _, x in cases):
        return None
    number, inside = fresh(), fresh()
    inner = {**{n: r for n, r in ranges.items() if n != name}, number: (0, len(cases) - 1), inside: (0, extent - 1)}
    point = Affine.variable(inside) if extent > 1 else Affine(0)
    bodies = [substitute(body, {name: point + (a - shift)}, inner) for a, _, body in cases]
    made = _batched(bodies, number)
    return None if made is None else (made, number, len(cases), inside, extent)


def _batched(parts: Sequence[Expr], number: str) -> Expr | None:
    """One expression that is ``parts[i]`` where the variable is i; None where sums would be told apart."""
    first = parts[0]
    if all(p == first for p in parts):
        return first
    if all(isinstance(p, Leaf) for p in parts):
        return _leaf(parts, number)
    if isinstance(first, Sum) and all(_same_sum(p, first) for p in parts):
        body = _batched([p.children[0] for p in parts], number)
        return None if body is None else replace(first, body=body)
    if isinstance(first, Map) and all(same_kind(p, replace(first, operands=p.children)) for p in parts):
        operands = [_batched([p.children[i] for p in parts], number) for i in range(len(first.operands))]
        return None if None in operands else replace(first, operands=tuple(o for o in operands if o is not None))
    return _told_apart(parts, number)


def _same_sum(e: Expr, first: Sum) -> bool:
    return isinstance(e, Sum) and e.variables == first.variables and e.dtype == first.dtype and is_integer(e.dtype)


def _leaf(parts: Sequence[Expr], number: str) -> Expr | None:
    first = parts[0]
    assert isinstance(first, Leaf)
    step = next((p.index - first.index for p in parts[1:2] if isinstance(p, Leaf)), Affine(0))
    if not step.terms and all(p == replace(first, index=first.index + step * i) for i, p in enumerate(parts)):
        return replace(first, index=first.index + Affine.variable(number) * step.constant)
    return _told_apart(parts, number)


def _told_apart(parts: Sequence[Expr], number: str) -> Expr | None:
    if any(isinstance(node, (Sum, Fold)) for p in parts for node in walk(p)):
        return None
    return Switch(Affine.variable(number), tuple((i, i, p) for i, p in enumerate(parts)), parts[0].dtype)
