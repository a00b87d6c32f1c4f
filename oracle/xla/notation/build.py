"""Constructors that keep expressions in normal form.

Every function takes the ``ranges`` of the variables that are free in its result; forms are simplified under them.
The rules are equations of integer arithmetic modulo 2^32 and of case distinctions; sums, and what else combines many
values, are those of :mod:`archloom.oracle.xla.notation.sums`.
"""

from __future__ import annotations

from dataclasses import replace

from archloom.oracle.affine import Affine, Div, Mod
from archloom.oracle.taidl.types import element_type
from archloom.oracle.xla.notation import expr, traits
from archloom.oracle.xla.notation.constraints import Cases, conjunction, inside, reach
from archloom.oracle.xla.notation.expr import Const, Constraint, Expr, Guarded, Let, Map, Ranges, Switch
from archloom.oracle.xla.notation.merging import one_function
from archloom.oracle.xla.notation.substitution import NORMAL, substitute
from archloom.oracle.xla.notation.variables import Bound, fresh


def map_of(opcode: str, operands: tuple[Expr, ...], attributes: tuple[tuple[str, object], ...], dtype: str) -> Expr:
    """An element-wise operation; integer additions of sums are joined by :func:`add_of` instead."""
    if opcode in ("convert", "bitcast_convert") and operands[0].dtype == dtype:
        return operands[0]
    if opcode == "convert" and isinstance(operands[0], Const) and operands[0].value == 0 and expr.is_number(dtype):
        return Const(0, dtype)
    if opcode == "add" and expr.is_integer(dtype):
        for a, b in (operands, operands[::-1]):
            if a == Const(0, dtype):
                return b
    if opcode in ("add", "multiply") and not expr.is_integer(dtype) and isinstance(operands[0], Const):
        # XLA drops 0 + x, which is 0 where x is -0, unless the constant stands second (see carriers.tied)
        operands = operands[::-1]
    if opcode == "multiply" and expr.is_integer(dtype) and Const(0, dtype) in operands:
        return Const(0, dtype)
    if opcode in ("xor", "subtract") and expr.is_integer(dtype) and operands[0] == operands[1]:
        return Const(0, dtype)
    if opcode == "bitcast_convert":
        (x,) = operands
        new = Const(0, dtype)
        if isinstance(x, Const) and has_zero(x) and has_zero(new) and expr.width(x.dtype) == expr.width(dtype):
            return new
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
    return expr.ByteOf(body, byte)


def from_bytes(variable: str, body: Expr, dtype: str, ranges: Ranges) -> Expr:
    """``from_bytes(b, byte_of(x, b)) = x``; cases that do not depend on the byte go outside."""
    byte = Affine.variable(variable)
    if isinstance(body, expr.ByteOf) and body.byte == byte and variable not in expr.free(body.body):
        if body.body.dtype == dtype:
            return body.body
        if expr.width(body.body.dtype) == expr.width(dtype):
            return map_of("bitcast_convert", (body.body,), (), dtype)
    if expr.width(dtype) == 1 and variable not in expr.free(body):
        return body if dtype == body.dtype else map_of("bitcast_convert", (body,), (), dtype)
    if isinstance(body, Const) and body.value == 0 and has_zero(Const(0, dtype)):
        return Const(0, dtype)
    if isinstance(body, Switch) and variable not in body.form.variables():
        cases = tuple((low, high, from_bytes(variable, e, dtype, ranges)) for low, high, e in body.cases)
        return switch_of(body.form, cases, ranges)
    if isinstance(body, Guarded) and body.fill == 0 and has_zero(Const(0, dtype)) and not any(
            variable in f.variables() for f in body.forms):
        return guard_of(from_bytes(variable, body.body, dtype, ranges), body.constraints, 0, ranges)
    if isinstance(body, Let) and not any(variable in form.variables() for form in body.forms):
        return let_of(body.variables, from_bytes(variable, body.body, dtype, inside(body, ranges)), ranges)
    return expr.FromBytes(variable, body, dtype)


def switch_of(form: Affine, cases: Cases, ranges: Ranges) -> Expr:
    """Cases out of range are dropped; neighbours that are one function are merged; constant ends become a guard."""
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


def let_of(variables: tuple[tuple[str, Affine], ...], body: Expr, ranges: Ranges) -> Expr:
    """Substitute each form for its variable, unless that would repeat sums or skew a case distinction."""
    used = tuple(v for v in variables if v[0] in expr.free(body))
    cases = traits.switched(body)
    simple = {v: f for v, f in used if f.is_constant or v not in cases or traits.axis_of(f)}
    if traits.is_heavy(body) and _repeats(used, body, ranges):
        simple = {v: f for v, f in simple.items() if f.is_constant}
    if simple:
        rest = tuple(v for v in used if v[0] not in simple)
        inner = {**ranges, **{v: f.range(ranges) for v, f in rest}}
        return let_of(rest, substitute(body, simple, inner), ranges)
    if not used:
        return body
    used, body = _with_quotients(used, body)
    new = tuple((Bound.of(traits.level(body), i), f) for i, (_, f) in enumerate(used))
    names = {old: Affine.variable(v) for (old, _), (v, _) in zip(used, new, strict=True)}
    return Let(new, substitute(body, names, {**ranges, **{v: f.range(ranges) for v, f in new}}), body.dtype)


def _with_quotients(
    variables: tuple[tuple[str, Affine], ...], body: Expr
) -> tuple[tuple[tuple[str, Affine], ...], Expr]:
    """Where a variable is ``x % d``, and the body uses ``x`` in ``x // d`` alone, that is a variable, too.

    The body is an array over rows and places in a row then, and not over ``x`` and all places in a row for each.
    """
    for _, form in variables:
        atom = form.terms[0][0] if len(form.terms) == 1 else ""
        if not isinstance(atom, Mod):
            continue
        name, quotient = fresh(), Div(atom.numerator, atom.divisor)
        found = _renamed(body, quotient, name)
        if found != body and expr.free(found).isdisjoint(form.variables()):
            variables, body = (*variables, (name, Affine(0, ((quotient, 1),)))), found
    return variables, body


def _renamed(e: Expr, atom: Div, name: str) -> Expr:
    """The expression with a variable for a division of variables that are free in it."""
    if expr.free(e).isdisjoint(atom.numerator.variables()):
        return e
    return e.rebuilt([_form_renamed(form, atom, name) for form in e.forms],
                     [_renamed(child, atom, name) for child in e.children])


def _form_renamed(form: Affine, atom: Div, name: str) -> Affine:
    found = Affine(form.constant)
    for each, coefficient in form.terms:
        if each == atom:
            found += Affine(0, ((name, coefficient),))
        elif isinstance(each, str):
            found += Affine(0, ((each, coefficient),))
        else:
            inner = _form_renamed(each.numerator, atom, name)
            found += (inner // each.divisor if isinstance(each, Div) else inner % each.divisor) * coefficient
    return found


def _repeats(variables: tuple[tuple[str, Affine], ...], body: Expr, ranges: Ranges) -> bool:
    """Whether the forms take equal values at indices for which the body is the same otherwise, too."""
    points = values = 1
    others = expr.free(body) - {v for v, _ in variables}
    for name in others.union(*(form.variables() for _, form in variables)):
        points *= ranges[name][1] - ranges[name][0] + 1
    for name in others:
        values *= ranges[name][1] - ranges[name][0] + 1
    for _, form in variables:
        low, high = form.range(ranges)
        values *= high - low + 1
    return points > values


NORMAL.update({
    Map: lambda e, ranges: map_of(e.opcode, e.operands, e.attributes, e.dtype),
    Switch: lambda e, ranges: switch_of(e.form, e.cases, ranges),
    Guarded: lambda e, ranges: guard_of(e.body, e.constraints, e.fill, ranges),
    Let: lambda e, ranges: let_of(e.variables, e.body, ranges),
    expr.ByteOf: lambda e, ranges: byte_of(e.body, e.byte),
    expr.FromBytes: lambda e, ranges: from_bytes(e.variable, e.body, e.dtype, ranges),
})
