"""Constructors of what combines many values: sums, extremes, and chains, in normal form.

Integer sums are flattened, distributed over additions and joined where their ranges continue each other; sums of
floating-point numbers are only built, never rearranged. :mod:`archloom.oracle.xla.notation.build` has the other
constructors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation import build
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import (
    Carry,
    Const,
    Expr,
    Extreme,
    Fold,
    Guarded,
    Map,
    Ranges,
    Sum,
    Switch,
    axis_of,
    canonical_order,
    carries,
    free,
    is_heavy,
    is_integer,
    level,
    same_kind,
    walk,
)
from archloom.oracle.xla.notation.variables import Bound, fresh

EXTREMES = {"maximum": "max", "minimum": "min"}
"""Operations on two values, and the kind of the reduction by each."""


def extreme_of(kind: str, variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum with canonical names; variables of one value are put in place."""
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    if ones:
        variables = tuple(v for v in variables if v[1] != 1)
        body = build.substitute(body, ones, {**ranges, **{name: (0, extent - 1) for name, extent in variables}})
    if not variables:  # of one number it is that number, without what a comparison flushes
        opcode = next(o for o, k in EXTREMES.items() if k == kind)
        return body if is_integer(body.dtype) else build.map_of(opcode, (body, body), (), body.dtype)
    if isinstance(body, Extreme) and body.kind == kind:
        both, single = _renamed_apart(variables, body, ranges)
        return extreme_of(kind, both, single, ranges)
    if is_integer(body.dtype):
        within_all = {**ranges, **{name: (0, extent - 1) for name, extent in variables}}
        variables, body = _merge_axes(variables, body, within_all)
    new, names, inner = _canonical(variables, body, ranges)
    return Extreme(kind, new, build.substitute(body, names, inner), body.dtype)


def fold_of(variables: tuple[tuple[str, int], ...], start: Expr, body: Expr, ranges: Ranges) -> Expr:
    """A chain with canonical names; variables of one value are put in place."""
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    inner = {**ranges, **{name: (0, extent - 1) for name, extent in variables}}
    if ones:
        body = build.substitute(body, ones, inner)
        variables = tuple(v for v in variables if v[1] != 1)
    if not variables:
        return plug(body, start)
    if isinstance(body, Map) and body.opcode in EXTREMES and is_integer(body.dtype):
        mine = [o for o in body.operands if not carries(o)]
        if len(mine) == 1 and any(isinstance(o, Carry) for o in body.operands):
            window = extreme_of(EXTREMES[body.opcode], variables, mine[0], ranges)
            return larger_of(body.opcode, start, window, ranges)
    depth = max(level(body), level(start))
    new = tuple((Bound.of(depth, i), extent) for i, (_, extent) in enumerate(variables))
    names = {old: Affine.variable(name) for (old, _), (name, _) in zip(variables, new, strict=True)}
    within = {**ranges, **{name: (0, extent - 1) for name, extent in new}}
    return Fold(new, start, build.substitute(body, names, within), body.dtype)


def larger_of(opcode: str, a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum of two integers; of windows that continue each other as one window."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Extreme) and one.kind == EXTREMES[opcode]:
            joined = _continue(one, other, ranges)
            if joined is not None:
                return joined
    return build.map_of(opcode, (a, b), (), a.dtype)


def plug(body: Expr, start: Expr) -> Expr:
    """The body of a chain with ``start`` for the carried value."""
    if isinstance(body, Carry):
        return start
    if not isinstance(body, Map):
        return body
    return build.map_of(body.opcode, tuple(plug(o, start) for o in body.operands), body.attributes, body.dtype)


def _canonical(
    variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges
) -> tuple[tuple[tuple[str, int], ...], dict[str, Affine], Ranges]:
    ordered = canonical_order(list(variables), body)
    depth = level(body)
    new = tuple((Bound.of(depth, i), extent) for i, (_, extent) in enumerate(ordered))
    names = {old: Affine.variable(name) for (old, _), (name, _) in zip(ordered, new)}
    return new, names, {**ranges, **{name: (0, extent - 1) for name, extent in new}}


def sum_of(variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges) -> Expr:
    """``sum over variables of body``, flattened, distributed over additions and with mixed-radix axes merged."""
    variables = tuple(v for v in variables if v[1] != 1 or v[0] in free(body))
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    if ones:
        variables = tuple(v for v in variables if v[1] != 1)
        body = build.substitute(body, ones, {**ranges, **{n: (0, x - 1) for n, x in variables}})
    if not variables or (isinstance(body, Const) and body.value == 0):
        return body
    inner = {**ranges, **{name: (0, extent - 1) for name, extent in variables}}
    if is_integer(body.dtype):
        if isinstance(body, Map) and body.opcode == "add":
            a, b = (sum_of(variables, o, ranges) for o in body.operands)
            return add_of(a, b, ranges)
        if isinstance(body, Sum):
            return _flatten(variables, body, ranges)
        found = _switch_along(body, dict(variables))
        if found is not None:
            return _sum_cases(variables, body, found, ranges)
        variables, body = _merge_axes(variables, body, inner)
    new, names, within = _canonical(variables, body, ranges)
    return Sum(new, build.substitute(body, names, within), body.dtype)


def _flatten(variables: tuple[tuple[str, int], ...], body: Sum, ranges: Ranges) -> Expr:
    both, inner = _renamed_apart(variables, body, ranges)
    return sum_of(both, inner, ranges)


def _renamed_apart(
    variables: tuple[tuple[str, int], ...], e: Sum | Extreme, ranges: Ranges
) -> tuple[tuple[tuple[str, int], ...], Expr]:
    """The variables and those that ``e`` binds, under new names, and the body of ``e`` over them."""
    names = {name: fresh() for name, _ in (*variables, *e.variables)}
    both = tuple((names[name], extent) for name, extent in (*variables, *e.variables))
    inner = {**ranges, **{name: (0, extent - 1) for name, extent in both}}
    return both, build.substitute(e.body, {k: Affine.variable(v) for k, v in names.items()}, inner)


def _switch_along(body: Expr, variables: Mapping[str, int]) -> Switch | None:
    """A case distinction along one of the variables, in the body or in a factor of it."""
    if isinstance(body, Switch) and axis_of(body.form) in variables:
        return body
    if isinstance(body, Guarded) or (isinstance(body, Map) and body.opcode in ("multiply", "convert")):
        return next((s for s in (_switch_along(c, variables) for c in body.children) if s is not None), None)
    return None


def _sum_cases(variables: tuple[tuple[str, int], ...], body: Expr, switch: Switch, ranges: Ranges) -> Expr:
    """Split the sum where a case distinction runs along one of its variables."""
    name, shift = axis_of(switch.form), switch.form.constant
    assert name is not None
    total: Expr = Const(0, body.dtype)
    for low, high, _ in reach(switch.cases, shift, dict(variables)[name] - 1 + shift):
        first, last = low - shift, high - shift
        part = tuple((n, last - first + 1 if n == name else x) for n, x in variables)
        inner = {**ranges, **{n: (0, x - 1) for n, x in part}}
        shifted = build.substitute(body, {name: Affine.variable(name) + first}, inner)
        total = add_of(total, sum_of(part, shifted, ranges), ranges)
    return total


def _merge_axes(
    variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges
) -> tuple[tuple[tuple[str, int], ...], Expr]:
    """Make one variable ``w = E*u + v`` of two (E the extent of v) wherever only ``E*u + v`` occurs."""
    items = dict(variables)
    every = [form for node in walk(body) for form in node.forms if not form.is_constant]
    for u in items:
        for v in items:
            if u != v and all(_mixed_radix(form, u, v, items[v]) for form in every):
                w = fresh()
                merged = tuple((n, x) for n, x in variables if n not in (u, v)) + ((w, items[u] * items[v]),)
                inner = {**ranges, w: (0, items[u] * items[v] - 1)}
                return _merge_axes(merged, build.substitute(body, {u: Affine(0), v: Affine.variable(w)}, inner), inner)
    return variables, body


def _mixed_radix(form: Affine, u: str, v: str, extent: int) -> bool:
    if form.coefficient(u) != extent * form.coefficient(v):
        return False
    return all(isinstance(atom, str) or _mixed_radix(atom.numerator, u, v, extent) for atom, _ in form.terms)


def terms(e: Expr) -> list[Expr]:
    """The summands of an integer sum."""
    if isinstance(e, Map) and e.opcode == "add" and is_integer(e.dtype):
        return [*terms(e.operands[0]), *terms(e.operands[1])]
    return [e]


def add_of(a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """``a + b``; integer sums whose ranges continue each other become one sum."""
    if not is_integer(a.dtype):
        return build.map_of("add", (a, b), (), a.dtype)
    parts = terms(a)
    for new in terms(b):
        _absorb(parts, new, ranges)
    parts.sort(key=lambda e: not is_heavy(e))
    total = parts[0]
    for part in parts[1:]:
        total = build.map_of("add", (total, part), (), a.dtype)
    return total


def _absorb(parts: list[Expr], new: Expr, ranges: Ranges) -> None:
    for rule in (_continue, _side_by_side):
        for i, old in enumerate(parts):
            joined = rule(old, new, ranges) or rule(new, old, ranges)
            if joined is not None:
                del parts[i]
                _absorb(parts, joined, ranges)
                return
    parts.append(new)


def _side_by_side(a: Expr, b: Expr, ranges: Ranges) -> Expr | None:
    """``f(c) + f(c + d) = sum_{v<2} f(c + d*v)`` for two sums that differ in constants of forms only."""
    if not (isinstance(a, Sum) and isinstance(b, Sum) and a.variables == b.variables):
        return None
    v = fresh()
    body = _line(a.body, b.body, Affine.variable(v))
    if body is None or v not in free(body):
        return None
    return _flatten(((v, 2),), replace(a, body=body), ranges)


def _line(a: Expr, b: Expr, x: Affine) -> Expr | None:
    """The expression that is ``a`` for x = 0 and ``b`` for x = 1, where forms differ by constants not below 0."""
    if isinstance(a, (Switch, Guarded)) or not same_kind(a, b):
        return a if a == b else None
    own = []
    for f, g in zip(a.forms, b.forms, strict=True):
        step = g - f
        if not step.is_constant or step.constant < 0:
            return None
        own.append(f + x * step)
    parts = [_line(c, d, x) for c, d in zip(a.children, b.children, strict=True)]
    return None if None in parts else a.rebuilt(own, [p for p in parts if p is not None])


def _continue(a: Expr, b: Expr, ranges: Ranges) -> Expr | None:
    """``sum_{v<n} f(v) + sum_{v<m} f(v+n) = sum_{v<n+m} f(v)``, for one of the variables of ``a``; extremes alike."""
    if not isinstance(a, (Sum, Extreme)):
        return None
    b_variables: tuple[tuple[str, int], ...] = ()
    b_body = b
    if (isinstance(a, Sum) and isinstance(b, Sum)) or (
            isinstance(a, Extreme) and isinstance(b, Extreme) and a.kind == b.kind):
        b_variables, b_body = b.variables, b.body
    for i, (name, extent) in enumerate(a.variables):
        rest = a.variables[:i] + a.variables[i + 1:]
        if len(b_variables) == len(a.variables):
            if tuple(x for _, x in b_variables[:i] + b_variables[i + 1:]) != tuple(x for _, x in rest):
                continue
            more, mine = b_variables[i][1], dict(zip((n for n, _ in a.variables), (n for n, _ in b_variables)))
        elif len(b_variables) == len(rest) and tuple(x for _, x in b_variables) == tuple(x for _, x in rest):
            more, mine = 1, dict(zip((n for n, _ in rest), (n for n, _ in b_variables)))
        else:
            continue
        shift = {old: Affine.variable(new) for old, new in mine.items()}
        shift[name] = (Affine.variable(mine[name]) if name in mine else Affine(0)) + extent
        inner = {**ranges, **{n: (0, x - 1) for n, x in b_variables}}
        if build.substitute(a.body, shift, inner) == b_body:
            total = tuple((n, x + more if n == name else x) for n, x in a.variables)
            return sum_of(total, a.body, ranges) if isinstance(a, Sum) else extreme_of(a.kind, total, a.body, ranges)
    return None
