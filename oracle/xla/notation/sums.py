"""Constructors of what combines many values: sums, extremes, and chains, in normal form.

Integer sums are flattened, distributed over additions and joined where their ranges continue each other; sums of
floating-point numbers are only built, never rearranged. :mod:`archloom.oracle.xla.notation.build` has the other
constructors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from archloom.oracle.affine import Affine
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.build import map_of
from archloom.oracle.xla.notation.constraints import reach
from archloom.oracle.xla.notation.expr import Const, Expr, Extreme, Map, Ranges, Sum, Variables
from archloom.oracle.xla.notation.substitution import NORMAL, substitute
from archloom.oracle.xla.notation.variables import Bound, fresh

EXTREMES = {"maximum": "max", "minimum": "min"}
"""Operations on two values, and the kind of the reduction by each."""


def extreme_of(kind: str, variables: Variables, body: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum with canonical names; variables of one value are put in place."""
    variables, body = _without_ones(variables, body, ranges)
    if not variables:  # of one number it is that number, without what a comparison flushes
        opcode = next(o for o, k in EXTREMES.items() if k == kind)
        return body if expr.is_integer(body.dtype) else map_of(opcode, (body, body), (), body.dtype)
    if isinstance(body, Extreme) and body.kind == kind:
        both, single = _renamed_apart(variables, body, ranges)
        return extreme_of(kind, both, single, ranges)
    if expr.is_integer(body.dtype):
        variables, body = _merge_axes(variables, body, expr.over(variables, ranges))
    order = traits.canonical_order(variables, body)
    return Extreme(kind, *_canonical(order, traits.level(body), body, ranges), body.dtype)


def fold_of(variables: Variables, start: Expr, body: Expr, ranges: Ranges) -> Expr:
    """A chain with canonical names; variables of one value are put in place, and bits of numbers are carried as these:
    what registers hand on."""
    variables, body = _without_ones(variables, body, ranges)
    if not variables:
        return plug(body, start, ranges)
    if isinstance(body, expr.Fold) and isinstance(body.start, expr.Carry):  # the steps of a chain, in each iteration
        return fold_of((*variables, *body.variables), start, body.body, ranges)
    numbers = _carried_as_bits(body, expr.over(variables, ranges))
    if numbers is not None:
        chain = fold_of(variables, map_of("bitcast_convert", (start,), (), numbers.dtype), numbers, ranges)
        return map_of("bitcast_convert", (chain,), (), body.dtype)
    if isinstance(body, Map) and body.opcode in EXTREMES and expr.is_integer(body.dtype):
        mine = [o for o in body.operands if not traits.carries(o)]
        if len(mine) == 1 and any(isinstance(o, expr.Carry) for o in body.operands):
            window = extreme_of(EXTREMES[body.opcode], variables, mine[0], ranges)
            return larger_of(body.opcode, start, window, ranges)
    longer = _with_next_steps(start, variables, body, ranges) if isinstance(start, expr.Fold) else None
    if longer is not None:
        variables, start, body = longer.variables, longer.start, longer.body
    new, step = _canonical(variables, max(traits.level(body), traits.level(start)), body, ranges)
    return expr.Fold(new, start, step, body.dtype)


def _with_next_steps(chain: expr.Fold, variables: Variables, body: Expr, ranges: Ranges) -> expr.Fold | None:
    """A chain with further steps, where these are what its own would be; else None."""
    (first, extent), *rest = chain.variables
    if [x for _, x in rest] != [x for _, x in variables[1:]]:
        return None
    names = {old: Affine.variable(new) for (old, _), (new, _) in zip(chain.variables, variables, strict=True)}
    shifted = {**names, first: names[first] + extent}
    if substitute(chain.body, shifted, expr.over(variables, ranges)) != body:
        return None
    return replace(chain, variables=((first, extent + variables[0][1]), *rest))


def _carried_as_bits(body: Expr, ranges: Ranges) -> Expr | None:
    """The body over the numbers whose bits it carries from step to step; None where it carries something else."""
    if not isinstance(body, Map) or body.opcode != "bitcast_convert":
        return None
    (step,) = body.operands
    if expr.width(step.dtype) != expr.width(body.dtype) or not traits.carries(step):
        return None
    bits = map_of("bitcast_convert", (expr.Carry(step.dtype),), (), body.dtype)
    found = plug(step, bits, ranges)
    return None if _has_operand(found, bits) else found


def _has_operand(e: Expr, sought: Expr) -> bool:
    """Whether element-wise expressions, or a chain that begins with one, are made of that one."""
    parts = e.operands if isinstance(e, Map) else (e.start,) if isinstance(e, expr.Fold) else ()
    return e == sought or any(_has_operand(o, sought) for o in parts)


def _without_ones(variables: Variables, body: Expr, ranges: Ranges) -> tuple[Variables, Expr]:
    """The variables of more than one value, and the body with 0 for the others."""
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    if not ones:
        return variables, body
    rest = tuple(v for v in variables if v[1] != 1)
    return rest, substitute(body, ones, expr.over(rest, ranges))


def _canonical(variables: Variables, depth: int, body: Expr, ranges: Ranges) -> tuple[Variables, Expr]:
    """The variables under their canonical names, and the body over these."""
    new = tuple((Bound.of(depth, i), extent) for i, (_, extent) in enumerate(variables))
    names = {old: Affine.variable(name) for (old, _), (name, _) in zip(variables, new, strict=True)}
    return new, substitute(body, names, expr.over(new, ranges))


def larger_of(opcode: str, a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum of two integers; of windows that continue each other as one window."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Extreme) and one.kind == EXTREMES[opcode]:
            joined = _continue(one, other, ranges)
            if joined is not None:
                return joined
    return map_of(opcode, (a, b), (), a.dtype)


def plug(body: Expr, start: Expr, ranges: Ranges) -> Expr:
    """The body of a chain with ``start`` for the carried value. What stands in several places is made once."""
    made: dict[int, Expr] = {}

    def plugged(e: Expr) -> Expr:
        if isinstance(e, expr.Carry):
            return start
        if isinstance(e, expr.Fold):
            return fold_of(e.variables, plugged(e.start), e.body, ranges)
        if not isinstance(e, Map):
            return e
        found = made.get(id(e))
        if found is None:
            found = made[id(e)] = map_of(e.opcode, tuple(map(plugged, e.operands)), e.attributes, e.dtype)
        return found

    return plugged(body)


def sum_of(variables: Variables, body: Expr, ranges: Ranges) -> Expr:
    """``sum over variables of body``, flattened, distributed over additions and with mixed-radix axes merged."""
    variables = tuple(v for v in variables if v[1] != 1 or v[0] in expr.free(body))
    variables, body = _without_ones(variables, body, ranges)
    if not variables or (isinstance(body, Const) and body.value == 0):
        return body
    if expr.is_integer(body.dtype):
        if isinstance(body, Map) and body.opcode == "add":
            a, b = (sum_of(variables, o, ranges) for o in body.operands)
            return add_of(a, b, ranges)
        if isinstance(body, Sum):
            return _flatten(variables, body, ranges)
        found = _switch_along(body, dict(variables))
        if found is not None:
            return _sum_cases(variables, body, found, ranges)
        variables, body = _merge_axes(variables, body, expr.over(variables, ranges))
    return Sum(*_canonical(traits.canonical_order(variables, body), traits.level(body), body, ranges), body.dtype)


def _flatten(variables: Variables, body: Sum, ranges: Ranges) -> Expr:
    both, inner = _renamed_apart(variables, body, ranges)
    return sum_of(both, inner, ranges)


def _renamed_apart(variables: Variables, e: Sum | Extreme, ranges: Ranges) -> tuple[Variables, Expr]:
    """The variables and those that ``e`` binds, under new names, and the body of ``e`` over them."""
    names = {name: fresh() for name, _ in (*variables, *e.variables)}
    both = tuple((names[name], extent) for name, extent in (*variables, *e.variables))
    return both, substitute(e.body, {k: Affine.variable(v) for k, v in names.items()}, expr.over(both, ranges))


def _switch_along(body: Expr, variables: Mapping[str, int]) -> expr.Switch | None:
    """A case distinction along one of the variables, in the body or in a factor of it."""
    if isinstance(body, expr.Switch) and traits.axis_of(body.form) in variables:
        return body
    if isinstance(body, expr.Guarded) or (isinstance(body, Map) and body.opcode in ("multiply", "convert")):
        return next((s for s in (_switch_along(c, variables) for c in body.children) if s is not None), None)
    return None


def _sum_cases(variables: Variables, body: Expr, switch: expr.Switch, ranges: Ranges) -> Expr:
    """Split the sum where a case distinction runs along one of its variables."""
    name, shift = traits.axis_of(switch.form), switch.form.constant
    assert name is not None
    total: Expr = Const(0, body.dtype)
    for low, high, _ in reach(switch.cases, shift, dict(variables)[name] - 1 + shift):
        first, last = low - shift, high - shift
        part = tuple((n, last - first + 1 if n == name else x) for n, x in variables)
        shifted = substitute(body, {name: Affine.variable(name) + first}, expr.over(part, ranges))
        total = add_of(total, sum_of(part, shifted, ranges), ranges)
    return total


def _merge_axes(variables: Variables, body: Expr, ranges: Ranges) -> tuple[Variables, Expr]:
    """Make one variable ``w = E*u + v`` of two (E the extent of v) wherever only ``E*u + v`` occurs."""
    items = dict(variables)
    every = [form for node in traits.walk(body) for form in node.forms if not form.is_constant]
    for u in items:
        for v in items:
            if u != v and all(_mixed_radix(form, u, v, items[v]) for form in every):
                w = fresh()
                merged = tuple((n, x) for n, x in variables if n not in (u, v)) + ((w, items[u] * items[v]),)
                inner = {**ranges, w: (0, items[u] * items[v] - 1)}
                return _merge_axes(merged, substitute(body, {u: Affine(0), v: Affine.variable(w)}, inner), inner)
    return variables, body


def _mixed_radix(form: Affine, u: str, v: str, extent: int) -> bool:
    if form.coefficient(u) != extent * form.coefficient(v):
        return False
    return all(isinstance(atom, str) or _mixed_radix(atom.numerator, u, v, extent) for atom, _ in form.terms)


def terms(e: Expr) -> list[Expr]:
    """The summands of an integer sum."""
    if isinstance(e, Map) and e.opcode == "add" and expr.is_integer(e.dtype):
        return [*terms(e.operands[0]), *terms(e.operands[1])]
    return [e]


def add_of(a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """``a + b``; integer sums whose ranges continue each other become one sum."""
    if not expr.is_integer(a.dtype):
        return map_of("add", (a, b), (), a.dtype)
    parts = terms(a)
    for new in terms(b):
        _absorb(parts, new, ranges)
    parts.sort(key=lambda e: not traits.is_heavy(e))
    total = parts[0]
    for part in parts[1:]:
        total = map_of("add", (total, part), (), a.dtype)
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
    if body is None or v not in expr.free(body):
        return None
    return _flatten(((v, 2),), replace(a, body=body), ranges)


def _line(a: Expr, b: Expr, x: Affine) -> Expr | None:
    """The expression that is ``a`` for x = 0 and ``b`` for x = 1, where forms differ by constants not below 0."""
    if isinstance(a, (expr.Switch, expr.Guarded)) or not traits.same_kind(a, b):
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
    b_variables: Variables = ()
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
        if substitute(a.body, shift, expr.over(b_variables, ranges)) == b_body:
            total = tuple((n, x + more if n == name else x) for n, x in a.variables)
            return sum_of(total, a.body, ranges) if isinstance(a, Sum) else extreme_of(a.kind, total, a.body, ranges)
    return None


NORMAL.update({
    Sum: lambda e, ranges: sum_of(e.variables, e.body, ranges),
    expr.Fold: lambda e, ranges: fold_of(e.variables, e.start, e.body, ranges),
    Extreme: lambda e, ranges: e,  # it stays one, whatever its variables become
})
