"""Constructors that keep expressions in normal form, and substitution.

Every function takes the ``ranges`` of the variables that are free in its result; forms are simplified under them.
The rules are equations of integer arithmetic modulo 2^32 and of case distinctions; sums of floating-point numbers
are only built, never rearranged.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count

from oracle.affine import Affine
from oracle.taidl.types import element_type
from oracle.xla.expr import (
    ByteOf,
    Carry,
    Const,
    Constraint,
    Element,
    Expr,
    Extreme,
    Fold,
    FromBytes,
    Guarded,
    Index,
    Leaf,
    Let,
    Map,
    Ranges,
    Sum,
    Switch,
    bound_ranges,
    canonical_order,
    carries,
    children,
    forms,
    free,
    is_axis,
    is_heavy,
    is_integer,
    is_number,
    level,
    remake,
    same_kind,
    switched,
    walk,
    width,
)
from oracle.xla.match import Exhausted

_numbers = count()

REWRITINGS = 400_000
"""How many nodes are rewritten before raising is given up (some ten seconds)."""
_work = threading.local()
Work = tuple[Expr, tuple[object, ...]]
"""An expression, and what becomes of its variables."""


@contextmanager
def bounded_work(most: int | None = None) -> Iterator[None]:
    """Within, :func:`substitute` raises Exhausted after ``most`` nodes, by default :data:`REWRITINGS`.

    Inside of another bound, what is left of that is a bound, too. Equal work is done once.
    """
    before, nodes = getattr(_work, "left", None), REWRITINGS if most is None else most
    _work.left = nodes if before is None else min(nodes, before)
    if before is None:
        _work.done = {}
    try:
        yield
    finally:
        if before is None:
            _work.done = None
        _work.left = before if before is None else before - (min(nodes, before) - _work.left)


def _spend() -> None:
    left = getattr(_work, "left", None)
    if left is not None:
        if not left:
            raise Exhausted("its values have too many pieces")
        _work.left = left - 1


def fresh() -> str:
    """A variable name that no expression contains yet."""
    return f"~{next(_numbers)}"


def substitute(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    """``e`` with variables replaced by forms, normalized under ``ranges`` (of the variables of the result)."""
    if isinstance(e, (Const, Carry)):
        return e
    done: dict[Work, Expr] | None = getattr(_work, "done", None)
    if done is None:
        return _substituted(e, mapping, ranges)
    key = _key(e, mapping, ranges)
    found = done.get(key)
    if found is None:
        found = done[key] = _substituted(e, mapping, ranges)
    return found


def _key(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Work:
    """All that the result of :func:`substitute` depends on."""
    parts: list[object] = []
    for name in free(e):
        form = mapping.get(name)
        if form is None:
            parts.append((name, ranges.get(name)))
        else:
            parts.append((name, form, *((v, ranges.get(v)) for v in form.variables())))
    return e, tuple(parts)


def _substituted(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    _spend()
    if isinstance(e, (Leaf, Index)):
        return replace(e, index=_form(e.index, mapping, ranges))
    if isinstance(e, Element):
        return replace(e, index=tuple(_form(form, mapping, ranges) for form in e.index))
    if isinstance(e, Map):
        if getattr(_work, "done", None) is None:
            return _substitute_map(e, mapping, ranges, {})
        operands = tuple(substitute(o, mapping, ranges) for o in e.operands)
        return map_of(e.opcode, operands, e.attributes, e.dtype)
    if isinstance(e, Switch):
        return _substitute_switch(e, mapping, ranges)
    if isinstance(e, ByteOf):
        return byte_of(substitute(e.body, mapping, ranges), _form(e.byte, mapping, ranges))
    if isinstance(e, Guarded):
        constraints = tuple((_form(form, mapping, ranges), low, high) for form, low, high in e.constraints)
        return guard_of(substitute(e.body, mapping, within(constraints, ranges)), constraints, e.fill, ranges)
    if isinstance(e, Let):
        variables = tuple((v, _form(form, mapping, ranges)) for v, form in e.variables)
        inner = {**ranges, **{v: form.range(ranges) for v, form in variables}}
        return let_of(variables, substitute(e.body, mapping, inner), ranges)
    inner = {**ranges, **bound_ranges(e)}
    if isinstance(e, Sum):
        return sum_of(e.variables, substitute(e.body, mapping, inner), ranges)
    if isinstance(e, Fold):
        return fold_of(e.variables, substitute(e.start, mapping, ranges), substitute(e.body, mapping, inner), ranges)
    if isinstance(e, Extreme):
        return replace(e, body=substitute(e.body, mapping, inner))
    assert isinstance(e, FromBytes)
    return from_bytes(e.variable, substitute(e.body, mapping, inner), e.dtype, ranges)


def _substitute_map(e: Map, mapping: Mapping[str, Affine], ranges: Ranges, made: dict[int, Expr]) -> Expr:
    """Operations share operands: each is substituted once, or deep ones would take for ever."""
    operands = []
    for o in e.operands:
        if id(o) not in made:
            made[id(o)] = (_substitute_map(o, mapping, ranges, made) if isinstance(o, Map)
                           else substitute(o, mapping, ranges))
        operands.append(made[id(o)])
    return map_of(e.opcode, tuple(operands), e.attributes, e.dtype)


def _form(form: Affine, mapping: Mapping[str, Affine], ranges: Ranges) -> Affine:
    return form.substitute(mapping).simplify(ranges)


def _substitute_switch(e: Switch, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    form = _form(e.form, mapping, ranges)
    cases = []
    for first, last, body in reach(e.cases, *form.range(ranges)):
        cases.append((first, last, substitute(body, mapping, narrow(form, first, last, ranges))))
    return switch_of(form, tuple(cases), ranges)


Cases = tuple[tuple[int, int, Expr], ...]


def reach(cases: Cases, low: int, high: int) -> Cases:
    """The cases for forms in ``low .. high``; the first and the last case hold beyond their bounds."""
    found = []
    for i, (first, last, body) in enumerate(cases):
        first = low if i == 0 else max(first, low)
        last = high if i == len(cases) - 1 else min(last, high)
        if first <= last:
            found.append((first, last, body))
    return tuple(found)


def within(constraints: tuple[Constraint, ...], ranges: Ranges) -> Ranges:
    """``ranges`` where the constraints hold, as far as they are on single variables."""
    for form, low, high in constraints:
        if is_axis(form):
            first, last = form.range(ranges)
            low, high = first if low is None else max(low, first), last if high is None else min(high, last)
            if low <= high:
                ranges = narrow(form, low, high, ranges)
    return ranges


def narrow(form: Affine, low: int, high: int, ranges: Ranges) -> Ranges:
    """``ranges`` where ``low <= form <= high``: narrower where ``form`` is one variable and a constant."""
    if len(form.terms) != 1 or not isinstance(form.terms[0][0], str) or form.terms[0][1] != 1:
        return ranges
    name = form.terms[0][0]
    first, last = ranges[name]
    return {**ranges, name: (max(first, low - form.constant), min(last, high - form.constant))}


def map_of(opcode: str, operands: tuple[Expr, ...], attributes: tuple[tuple[str, object], ...], dtype: str) -> Expr:
    """An element-wise operation; integer additions of sums are joined by :func:`add_of` instead."""
    if opcode in ("convert", "bitcast_convert") and operands[0].dtype == dtype:
        return operands[0]
    if opcode == "convert" and isinstance(operands[0], Const) and operands[0].value == 0 and is_number(dtype):
        return Const(0, dtype)
    if opcode == "add" and is_integer(dtype):
        for a, b in (operands, operands[::-1]):
            if a == Const(0, dtype):
                return b
    if opcode in ("add", "multiply") and not is_integer(dtype) and isinstance(operands[0], Const):
        # XLA drops 0 + x, which is 0 where x is -0, unless the constant stands second (see carriers.tied)
        operands = operands[::-1]
    if opcode == "multiply" and is_integer(dtype) and Const(0, dtype) in operands:
        return Const(0, dtype)
    if opcode in ("xor", "subtract") and is_integer(dtype) and operands[0] == operands[1]:
        return Const(0, dtype)
    if opcode == "bitcast_convert":
        (x,) = operands
        if isinstance(x, Const) and has_zero(x) and has_zero(Const(0, dtype)) and width(x.dtype) == width(dtype):
            return Const(0, dtype)
        if isinstance(x, Map) and x.opcode == "bitcast_convert" and not _cuts(x.operands[0].dtype, x.dtype):
            x = x.operands[0]
            return x if x.dtype == dtype else Map(opcode, (x,), (), dtype)
    return Map(opcode, operands, attributes, dtype)


def zero(dtype: str) -> Expr:
    """An element without any bit set: in a type of scales that is no zero."""
    plain = Const(0, dtype)
    return plain if has_zero(plain) else Map("bitcast_convert", (Const(0, "u8"),), (), dtype)


def has_zero(e: Const) -> bool:
    """Whether the bits of a constant are zeros: a type of scales has no zero, and -0.0 (a Real) is not 0."""
    return e.value == 0 and element_type(e.dtype).kind != "scale"


def _cuts(source: str, dtype: str) -> bool:
    """Whether a bitcast loses bits: a type of 6 has none for the upper ones of its byte."""
    return element_type(dtype).bits == 6 != element_type(source).bits


def byte_of(body: Expr, byte: Affine) -> Expr:
    """The bytes of zero are zeros."""
    if isinstance(body, Const) and has_zero(body):
        return Const(0, "i8")
    return ByteOf(body, byte)


def from_bytes(variable: str, body: Expr, dtype: str, ranges: Ranges) -> Expr:
    """``from_bytes(b, byte_of(x, b)) = x``; cases that do not depend on the byte go outside."""
    if isinstance(body, ByteOf) and body.byte == Affine.variable(variable) and variable not in free(body.body):
        if body.body.dtype == dtype:
            return body.body
        if width(body.body.dtype) == width(dtype):
            return map_of("bitcast_convert", (body.body,), (), dtype)
    if width(dtype) == 1 and variable not in free(body):
        return body if dtype == body.dtype else map_of("bitcast_convert", (body,), (), dtype)
    if isinstance(body, Const) and body.value == 0 and has_zero(Const(0, dtype)):
        return Const(0, dtype)
    if isinstance(body, Switch) and variable not in body.form.variables():
        cases = tuple((low, high, from_bytes(variable, e, dtype, ranges)) for low, high, e in body.cases)
        return switch_of(body.form, cases, ranges)
    if isinstance(body, Guarded) and body.fill == 0 and has_zero(Const(0, dtype)) and not any(
            variable in f.variables() for f in forms(body)):
        return guard_of(from_bytes(variable, body.body, dtype, ranges), body.constraints, 0, ranges)
    if isinstance(body, Let) and not any(variable in form.variables() for form in forms(body)):
        inner = {**ranges, **{name: form.range(ranges) for name, form in body.variables}}
        return let_of(body.variables, from_bytes(variable, body.body, dtype, inner), ranges)
    return FromBytes(variable, body, dtype)


def switch_of(form: Affine, cases: Cases, ranges: Ranges) -> Expr:
    """Cases out of range are dropped; neighbours that are one function are merged; constant ends become a guard."""
    from oracle.xla.pieces import one_function

    if form.constant:
        shifted = tuple((first - form.constant, last - form.constant, body) for first, last, body in cases)
        return switch_of(form - form.constant, shifted, ranges)
    kept: list[tuple[int, int, Expr]] = []
    for piece in reach(_flat(form, cases), *form.range(ranges)):
        merged = one_function(form, kept[-1], piece, ranges) if kept else None
        if merged is not None:
            kept[-1] = (kept[-1][0], piece[1], merged)
        else:
            kept.append(piece)
    if len(kept) == 1:
        return kept[0][2]
    first, last = kept[0][2], kept[-1][2]
    fill = first if isinstance(first, Const) else last
    if isinstance(fill, Const) and len(kept) > 1 and not (isinstance(first, Const) and isinstance(last, Const)
                                                          and (first != last or len(kept) == 2)):
        low, high = int(first == fill), len(kept) - int(last == fill)
        core = switch_of(form, tuple(kept[low:high]), ranges)
        bounds = (kept[low][0] if low else None, kept[high - 1][1] if high < len(kept) else None)
        return guard_of(core, ((form, *bounds),), fill.value, ranges)
    return Switch(form, tuple(kept), kept[0][2].dtype)


def _flat(form: Affine, cases: Cases) -> Cases:
    """Cases that distinguish by the same form again, or guard it, are cases of this one."""
    found: list[tuple[int, int, Expr]] = []
    for first, last, body in cases:
        if first > last:
            continue
        own = [c for c in body.constraints if c[0] == form] if isinstance(body, Guarded) else []
        if isinstance(body, Switch) and body.form == form:
            found += reach(_flat(form, body.cases), first, last)
        elif isinstance(body, Guarded) and own:
            rest = tuple(c for c in body.constraints if c not in own)
            core = replace(body, constraints=rest) if rest else body.body
            fill = Const(body.fill, body.dtype)
            low, high = (first if own[0][1] is None else own[0][1], last if own[0][2] is None else own[0][2])
            inside = ((first, low - 1, fill), (low, high, core), (high + 1, last, fill))
            found += reach(tuple(c for c in inside if c[0] <= c[1]), first, last)
        else:
            found.append((first, last, body))
    return tuple(found)


def guard_of(body: Expr, constraints: tuple[Constraint, ...], fill: int | float, ranges: Ranges) -> Expr:
    """``body`` within the constraints; those that always hold are dropped."""
    if isinstance(body, Guarded) and body.fill == fill:
        return guard_of(body.body, (*constraints, *body.constraints), fill, ranges)
    kept: list[Constraint] = []
    for form, low, high in conjunction(constraints, ranges):
        smallest, largest = form.range(ranges)
        if (low is not None and largest < low) or (high is not None and smallest > high):
            return Const(fill, body.dtype)
        low = None if low is None or smallest >= low else low
        high = None if high is None or largest <= high else high
        if (low, high) != (None, None):
            kept.append((form, low, high))
    if not kept or (isinstance(body, Const) and body.value == fill):
        return body
    return Guarded(body, tuple(kept), fill, body.dtype)


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


def let_of(variables: tuple[tuple[str, Affine], ...], body: Expr, ranges: Ranges) -> Expr:
    """Substitute each form for its variable, unless that would repeat sums or skew a case distinction."""
    used = tuple(v for v in variables if v[0] in free(body))
    cases = switched(body)
    simple = {v: f for v, f in used if f.is_constant or v not in cases or is_axis(f)}
    if is_heavy(body) and _repeats(used, body, ranges):
        simple = {v: f for v, f in simple.items() if f.is_constant}
    if simple:
        rest = tuple(v for v in used if v[0] not in simple)
        inner = {**ranges, **{v: f.range(ranges) for v, f in rest}}
        return let_of(rest, substitute(body, simple, inner), ranges)
    if not used:
        return body
    new = tuple((f"%{level(body)}_{i}", f) for i, (_, f) in enumerate(used))
    names = {old: Affine.variable(v) for (old, _), (v, _) in zip(used, new, strict=True)}
    return Let(new, substitute(body, names, {**ranges, **{v: f.range(ranges) for v, f in new}}), body.dtype)


def _repeats(variables: tuple[tuple[str, Affine], ...], body: Expr, ranges: Ranges) -> bool:
    """Whether the forms take equal values at indices for which the body is the same otherwise, too."""
    points = values = 1
    others = free(body) - {v for v, _ in variables}
    for name in others.union(*(form.variables() for _, form in variables)):
        points *= ranges[name][1] - ranges[name][0] + 1
    for name in others:
        values *= ranges[name][1] - ranges[name][0] + 1
    for _, form in variables:
        low, high = form.range(ranges)
        values *= high - low + 1
    return points > values


EXTREMES = {"maximum": "max", "minimum": "min"}
"""Operations on two values, and the kind of the reduction by each."""


def extreme_of(kind: str, variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum with canonical names; variables of one value are put in place."""
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    if ones:
        variables = tuple(v for v in variables if v[1] != 1)
        body = substitute(body, ones, {**ranges, **{name: (0, extent - 1) for name, extent in variables}})
    if not variables:
        return body
    if isinstance(body, Extreme) and body.kind == kind:
        both, single = _renamed_apart(variables, body, ranges)
        return extreme_of(kind, both, single, ranges)
    if is_integer(body.dtype):
        within_all = {**ranges, **{name: (0, extent - 1) for name, extent in variables}}
        variables, body = _merge_axes(variables, body, within_all)
    new, names, inner = _canonical(variables, body, ranges)
    return Extreme(kind, new, substitute(body, names, inner), body.dtype)


def fold_of(variables: tuple[tuple[str, int], ...], start: Expr, body: Expr, ranges: Ranges) -> Expr:
    """A chain with canonical names; variables of one value are put in place."""
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    inner = {**ranges, **{name: (0, extent - 1) for name, extent in variables}}
    if ones:
        body = substitute(body, ones, inner)
        variables = tuple(v for v in variables if v[1] != 1)
    if not variables:
        return plug(body, start)
    if isinstance(body, Map) and body.opcode in EXTREMES and is_integer(body.dtype):
        mine = [o for o in body.operands if not carries(o)]
        if len(mine) == 1 and any(isinstance(o, Carry) for o in body.operands):
            window = extreme_of(EXTREMES[body.opcode], variables, mine[0], ranges)
            return larger_of(body.opcode, start, window, ranges)
    depth = max(level(body), level(start))
    new = tuple((f"%{depth}_{i}", extent) for i, (_, extent) in enumerate(variables))
    names = {old: Affine.variable(name) for (old, _), (name, _) in zip(variables, new, strict=True)}
    within = {**ranges, **{name: (0, extent - 1) for name, extent in new}}
    return Fold(new, start, substitute(body, names, within), body.dtype)


def larger_of(opcode: str, a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum of two integers; of windows that continue each other as one window."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Extreme) and one.kind == EXTREMES[opcode]:
            joined = _continue(one, other, ranges)
            if joined is not None:
                return joined
    return map_of(opcode, (a, b), (), a.dtype)


def plug(body: Expr, start: Expr) -> Expr:
    """The body of a chain with ``start`` for the carried value."""
    if isinstance(body, Carry):
        return start
    if not isinstance(body, Map):
        return body
    return map_of(body.opcode, tuple(plug(o, start) for o in body.operands), body.attributes, body.dtype)


def _canonical(
    variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges
) -> tuple[tuple[tuple[str, int], ...], dict[str, Affine], Ranges]:
    ordered = canonical_order(list(variables), body)
    depth = level(body)
    new = tuple((f"%{depth}_{i}", extent) for i, (_, extent) in enumerate(ordered))
    names = {old: Affine.variable(name) for (old, _), (name, _) in zip(ordered, new)}
    return new, names, {**ranges, **{name: (0, extent - 1) for name, extent in new}}


def sum_of(variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges) -> Expr:
    """``sum over variables of body``, flattened, distributed over additions and with mixed-radix axes merged."""
    variables = tuple(v for v in variables if v[1] != 1 or v[0] in free(body))
    ones = {name: Affine(0) for name, extent in variables if extent == 1}
    if ones:
        variables = tuple(v for v in variables if v[1] != 1)
        body = substitute(body, ones, {**ranges, **{n: (0, x - 1) for n, x in variables}})
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
    return Sum(new, substitute(body, names, within), body.dtype)


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
    return both, substitute(e.body, {k: Affine.variable(v) for k, v in names.items()}, inner)


def _switch_along(body: Expr, variables: Mapping[str, int]) -> Switch | None:
    """A case distinction along one of the variables, in the body or in a factor of it."""
    if isinstance(body, Switch) and is_axis(body.form) and body.form.terms[0][0] in variables:
        return body
    if isinstance(body, Guarded) or (isinstance(body, Map) and body.opcode in ("multiply", "convert")):
        return next((s for s in (_switch_along(c, variables) for c in children(body)) if s is not None), None)
    return None


def _sum_cases(variables: tuple[tuple[str, int], ...], body: Expr, switch: Switch, ranges: Ranges) -> Expr:
    """Split the sum where a case distinction runs along one of its variables."""
    name, shift = str(switch.form.terms[0][0]), switch.form.constant
    total: Expr = Const(0, body.dtype)
    for low, high, _ in reach(switch.cases, shift, dict(variables)[name] - 1 + shift):
        first, last = low - shift, high - shift
        part = tuple((n, last - first + 1 if n == name else x) for n, x in variables)
        inner = {**ranges, **{n: (0, x - 1) for n, x in part}}
        shifted = substitute(body, {name: Affine.variable(name) + first}, inner)
        total = add_of(total, sum_of(part, shifted, ranges), ranges)
    return total


def _merge_axes(
    variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges
) -> tuple[tuple[tuple[str, int], ...], Expr]:
    """Make one variable ``w = E*u + v`` of two (E the extent of v) wherever only ``E*u + v`` occurs."""
    items = dict(variables)
    every = [form for node in walk(body) for form in forms(node) if not form.is_constant]
    for u in items:
        for v in items:
            if u != v and all(_together(form, u, v, items[v]) for form in every):
                w = fresh()
                merged = tuple((n, x) for n, x in variables if n not in (u, v)) + ((w, items[u] * items[v]),)
                inner = {**ranges, w: (0, items[u] * items[v] - 1)}
                return _merge_axes(merged, substitute(body, {u: Affine(0), v: Affine.variable(w)}, inner), inner)
    return variables, body


def _together(form: Affine, u: str, v: str, extent: int) -> bool:
    if form.coefficient(u) != extent * form.coefficient(v):
        return False
    return all(isinstance(atom, str) or _together(atom.numerator, u, v, extent) for atom, _ in form.terms)


def terms(e: Expr) -> list[Expr]:
    """The summands of an integer sum."""
    if isinstance(e, Map) and e.opcode == "add" and is_integer(e.dtype):
        return [*terms(e.operands[0]), *terms(e.operands[1])]
    return [e]


def add_of(a: Expr, b: Expr, ranges: Ranges) -> Expr:
    """``a + b``; integer sums whose ranges continue each other become one sum."""
    if not is_integer(a.dtype):
        return map_of("add", (a, b), (), a.dtype)
    parts = terms(a)
    for new in terms(b):
        _absorb(parts, new, ranges)
    parts.sort(key=lambda e: not is_heavy(e))
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
    if body is None or v not in free(body):
        return None
    return _flatten(((v, 2),), replace(a, body=body), ranges)


def _line(a: Expr, b: Expr, x: Affine) -> Expr | None:
    """The expression that is ``a`` for x = 0 and ``b`` for x = 1, where forms differ by constants not below 0."""
    if isinstance(a, (Switch, Guarded)) or not same_kind(a, b):
        return a if a == b else None
    own = []
    for f, g in zip(forms(a), forms(b), strict=True):
        step = g - f
        if not step.is_constant or step.constant < 0:
            return None
        own.append(f + x * step)
    parts = [_line(c, d, x) for c, d in zip(children(a), children(b), strict=True)]
    return None if None in parts else remake(a, own, [p for p in parts if p is not None])


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
        if substitute(a.body, shift, inner) == b_body:
            total = tuple((n, x + more if n == name else x) for n, x in a.variables)
            return sum_of(total, a.body, ranges) if isinstance(a, Sum) else extreme_of(a.kind, total, a.body, ranges)
    return None
