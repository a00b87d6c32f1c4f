"""Constructors that keep expressions in normal form, and substitution.

Every function takes the ``ranges`` of the variables that are free in its result; forms are simplified under them.
The rules are equations of integer arithmetic modulo 2^32 and of case distinctions; sums of floating-point numbers
are only built, never rearranged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count

from oracle.affine import Affine
from oracle.xla.expr import (
    ByteOf, Const, Expr, Extreme, FromBytes, Index, Leaf, Let, Map, Ranges, Sum, Switch, bound_ranges, canonical_order, children, forms,
    free, is_heavy, is_integer, level, switched, walk, width,
)

_numbers = count()


def fresh() -> str:
    """A variable name that no expression contains yet."""
    return f"~{next(_numbers)}"


def substitute(e: Expr, mapping: Mapping[str, Affine], ranges: Ranges) -> Expr:
    """``e`` with variables replaced by forms, normalized under ``ranges`` (of the variables of the result)."""
    if isinstance(e, Const):
        return e
    if isinstance(e, (Leaf, Index)):
        return replace(e, index=_form(e.index, mapping, ranges))
    if isinstance(e, Map):
        return map_of(e.opcode, tuple(substitute(o, mapping, ranges) for o in e.operands), e.attributes, e.dtype)
    if isinstance(e, Switch):
        return _substitute_switch(e, mapping, ranges)
    if isinstance(e, ByteOf):
        return byte_of(substitute(e.body, mapping, ranges), _form(e.byte, mapping, ranges))
    if isinstance(e, Let):
        variables = tuple((v, _form(form, mapping, ranges)) for v, form in e.variables)
        inner = {**ranges, **{v: form.range(ranges) for v, form in variables}}
        return let_of(variables, substitute(e.body, mapping, inner), ranges)
    inner = {**ranges, **bound_ranges(e)}
    if isinstance(e, Sum):
        return sum_of(e.variables, substitute(e.body, mapping, inner), ranges)
    if isinstance(e, Extreme):
        return replace(e, body=substitute(e.body, mapping, inner))
    assert isinstance(e, FromBytes)
    return from_bytes(e.variable, substitute(e.body, mapping, inner), e.dtype, ranges)


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


def narrow(form: Affine, low: int, high: int, ranges: Ranges) -> Ranges:
    """``ranges`` where ``low <= form <= high``: narrower where ``form`` is one variable and a constant."""
    if len(form.terms) != 1 or not isinstance(form.terms[0][0], str) or form.terms[0][1] != 1:
        return ranges
    name = form.terms[0][0]
    first, last = ranges[name]
    return {**ranges, name: (max(first, low - form.constant), min(last, high - form.constant))}


def map_of(opcode: str, operands: tuple[Expr, ...], attributes: tuple[tuple[str, object], ...], dtype: str) -> Expr:
    """An element-wise operation; integer additions of sums are joined by :func:`add_of` instead."""
    if opcode == "convert" and operands[0].dtype == dtype:
        return operands[0]
    if opcode == "convert" and isinstance(operands[0], Const) and operands[0].value == 0:
        return Const(0, dtype)
    if opcode == "add" and is_integer(dtype):
        for a, b in (operands, operands[::-1]):
            if a == Const(0, dtype):
                return b
    if opcode == "multiply" and is_integer(dtype) and Const(0, dtype) in operands:
        return Const(0, dtype)
    return Map(opcode, operands, attributes, dtype)


def byte_of(body: Expr, byte: Affine) -> Expr:
    """The bytes of zero are zeros."""
    if isinstance(body, Const) and body.value == 0:
        return Const(0, "i8")
    return ByteOf(body, byte)


def from_bytes(variable: str, body: Expr, dtype: str, ranges: Ranges) -> Expr:
    """``from_bytes(b, byte_of(x, b)) = x``; cases that do not depend on the byte go outside."""
    if isinstance(body, ByteOf) and body.byte == Affine.variable(variable) and variable not in free(body.body):
        if body.body.dtype == dtype:
            return body.body
        return map_of("bitcast_convert", (body.body,), (), dtype)
    if width(dtype) == 1 and variable not in free(body):
        return body if dtype == body.dtype else map_of("bitcast_convert", (body,), (), dtype)
    if isinstance(body, Const) and body.value == 0:
        return Const(0, dtype)
    if isinstance(body, Switch) and variable not in body.form.variables():
        cases = tuple((low, high, from_bytes(variable, e, dtype, ranges)) for low, high, e in body.cases)
        return switch_of(body.form, cases, ranges)
    if isinstance(body, Let) and not any(variable in form.variables() for form in forms(body)):
        return let_of(body.variables, from_bytes(variable, body.body, dtype, ranges), ranges)
    return FromBytes(variable, body, dtype)


def switch_of(form: Affine, cases: Cases, ranges: Ranges) -> Expr:
    """Cases out of range are dropped; neighbours that are one function are merged."""
    kept: list[tuple[int, int, Expr]] = []
    for first, last, body in reach(tuple(c for c in cases if c[0] <= c[1]), *form.range(ranges)):
        merged = _one_function(form, kept[-1], (first, last, body), ranges) if kept else None
        if merged is not None:
            kept[-1] = (kept[-1][0], last, merged)
        else:
            kept.append((first, last, body))
    if len(kept) == 1:
        return kept[0][2]
    return Switch(form, tuple(kept), kept[0][2].dtype)


def _one_function(
    form: Affine, a: tuple[int, int, Expr], b: tuple[int, int, Expr], ranges: Ranges
) -> Expr | None:
    """The expression that is ``a``'s on a's case and ``b``'s on b's, if one of the two is."""
    if a[2] == b[2]:
        return a[2]
    if _is_shift(form) and a[0] == a[1] and b[0] == b[1] == a[0] + 1:
        return _between(a[2], b[2], form - a[0])
    in_b, in_a = narrow(form, b[0], b[1], ranges), narrow(form, a[0], a[1], ranges)
    if in_b is ranges:
        return None
    if substitute(a[2], {}, in_b) == b[2]:
        return a[2]
    return b[2] if substitute(b[2], {}, in_a) == a[2] else None


def _between(a: Expr, b: Expr, x: Affine) -> Expr | None:
    """The expression that is ``a`` for x = 0 and ``b`` for x = 1, where only constants in forms differ."""
    if a == b:
        return a
    if type(a) is not type(b) or bound_ranges(a) != bound_ranges(b) or a.dtype != b.dtype:
        return None
    if isinstance(a, (Switch, Const)) or (isinstance(a, Map) and isinstance(b, Map) and (
            (a.opcode, a.attributes) != (b.opcode, b.attributes))):
        return None
    if (isinstance(a, Leaf) and isinstance(b, Leaf) and a.name != b.name) or getattr(a, "kind", 0) != getattr(b, "kind", 0):
        return None
    differences = [g - f for f, g in zip(forms(a), forms(b), strict=True)]
    if any(not d.is_constant for d in differences):
        return None
    between = [f + x * int(d) for f, d in zip(forms(a), differences, strict=True)]
    inner = [_between(c, d, x) for c, d in zip(children(a), children(b), strict=True)]
    if any(e is None for e in inner):
        return None
    parts = tuple(e for e in inner if e is not None)
    if isinstance(a, (Leaf, Index)):
        return replace(a, index=between[0])
    if isinstance(a, Map):
        return replace(a, operands=parts)
    if isinstance(a, ByteOf):
        return replace(a, body=parts[0], byte=between[0])
    if isinstance(a, Let):
        return replace(a, body=parts[0], variables=tuple(
            (v[0], f) for v, f in zip(a.variables, between, strict=True)))
    assert isinstance(a, (Sum, Extreme, FromBytes))
    return replace(a, body=parts[0])


def let_of(variables: tuple[tuple[str, Affine], ...], body: Expr, ranges: Ranges) -> Expr:
    """Substitute each form for its variable, unless that would repeat sums or skew a case distinction."""
    used = tuple(v for v in variables if v[0] in free(body))
    cases = switched(body)
    simple = {v: f for v, f in used if f.is_constant or v not in cases or _is_shift(f)}
    if is_heavy(body) and _repeats(used, ranges):
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


def _is_shift(form: Affine) -> bool:
    return len(form.terms) == 1 and isinstance(form.terms[0][0], str) and form.terms[0][1] == 1


def _repeats(variables: tuple[tuple[str, Affine], ...], ranges: Ranges) -> bool:
    """Whether the forms take equal values at different indices."""
    points = values = 1
    for name in frozenset().union(*(form.variables() for _, form in variables)):
        points *= ranges[name][1] - ranges[name][0] + 1
    for _, form in variables:
        low, high = form.range(ranges)
        values *= high - low + 1
    return points > values


def extreme_of(kind: str, variables: tuple[tuple[str, int], ...], body: Expr, ranges: Ranges) -> Expr:
    """Maximum or minimum with canonical names."""
    new, names, inner = _canonical(variables, body, ranges)
    return Extreme(kind, new, substitute(body, names, inner), body.dtype)


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
        if isinstance(body, Switch) and _is_shift(body.form) and body.form.terms[0][0] in dict(variables):
            return _sum_cases(variables, body, ranges)
        variables, body = _merge_axes(variables, body, inner)
    new, names, inner = _canonical(variables, body, ranges)
    return Sum(new, substitute(body, names, inner), body.dtype)


def _flatten(variables: tuple[tuple[str, int], ...], body: Sum, ranges: Ranges) -> Expr:
    names = {name: fresh() for name, _ in (*variables, *body.variables)}
    both = tuple((names[name], extent) for name, extent in (*variables, *body.variables))
    inner = {**ranges, **{name: (0, extent - 1) for name, extent in both}}
    return sum_of(both, substitute(body.body, {k: Affine.variable(v) for k, v in names.items()}, inner), ranges)


def _sum_cases(variables: tuple[tuple[str, int], ...], body: Switch, ranges: Ranges) -> Expr:
    """Split the sum where a case distinction runs along one of its variables."""
    name = str(body.form.terms[0][0])
    total: Expr = Const(0, body.dtype)
    shift = body.form.constant
    for low, high, case in reach(body.cases, shift, dict(variables)[name] - 1 + shift):
        first, last = low - shift, high - shift
        part = tuple((n, last - first + 1 if n == name else x) for n, x in variables)
        inner = {**ranges, **{n: (0, x - 1) for n, x in part}}
        shifted = substitute(case, {name: Affine.variable(name) + first}, inner)
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
    for i, old in enumerate(parts):
        for first, second in ((old, new), (new, old)):
            joined = _continue(first, second, ranges)
            if joined is not None:
                del parts[i]
                _absorb(parts, joined, ranges)
                return
    parts.append(new)


def _continue(a: Expr, b: Expr, ranges: Ranges) -> Expr | None:
    """``sum_{v<n} f(v) + sum_{v<m} f(v+n) = sum_{v<n+m} f(v)``, for one of the variables of ``a``."""
    if not isinstance(a, Sum):
        return None
    b_variables, b_body = (b.variables, b.body) if isinstance(b, Sum) else ((), b)
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
            return sum_of(total, a.body, ranges)
    return None
