"""Operators that move or combine elements, in index notation: substitutions of axes, and variables that are bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Op, TensorType
from archloom.oracle.taidl.operators.blocked import has_components
from archloom.oracle.taidl.operators.conversion import width as bit_width
from archloom.oracle.windows import linear
from archloom.oracle.xla.notation import expr
from archloom.oracle.xla.notation.build import byte_of, from_bytes, let_of, map_of, switch_of
from archloom.oracle.xla.notation.constraints import narrow
from archloom.oracle.xla.notation.expr import Const, Expr, Index, Ranges, Variables
from archloom.oracle.xla.notation.limits import NoNotation
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.sums import extreme_of, fold_of, sum_of
from archloom.oracle.xla.notation.variables import axis_range, fresh

Tensor = tuple[tuple[str, ...], Expr]
"""Axis variables (an axis of extent 1 has one too) and the value over them."""


def at(value: Tensor, index: Sequence[str | Affine], ranges: Ranges) -> Expr:
    """The element of a tensor at ``index`` (one variable or form for each axis)."""
    axes, e = value
    mapping = {a: Affine.variable(i) if isinstance(i, str) else i for a, i in zip(axes, index, strict=True)}
    if all(form == Affine.variable(a) and ranges[a] == axis_range(a) for a, form in mapping.items()):
        return e
    return substitute(e, mapping, ranges)


@dataclass(frozen=True)
class Move:
    """An operation that is no element-wise one: where in its result an element is asked for, the ranges of the
    variables there, the types of its operands, and what gives an element of one of them."""

    op: Op
    forms: tuple[Affine, ...]
    ranges: Ranges
    kinds: Sequence[TensorType]
    given: Callable[[int, tuple[Affine, ...], Ranges], Expr]

    def ints(self, name: str) -> tuple[int, ...]:
        value = self.op.attribute(name, ()) or ()
        return tuple(int(x) for x in cast("tuple[int, ...]", value))

    def element(self, index: tuple[Affine, ...], ranges: Ranges | None = None, operand: int = 0) -> Expr:
        return self.given(operand, index, ranges or self.ranges)


def _reshape(m: Move) -> Expr:
    source, target = m.kinds[0].shape, m.op.type.shape
    flat = linear(m.forms, target)
    index: list[Affine] = []
    for extent in reversed(source):
        index.append((flat % extent).simplify(m.ranges))
        flat = (flat // extent).simplify(m.ranges)
    return m.element(tuple(reversed(index)))


def _transpose(m: Move) -> Expr:
    dims = m.ints("dim")
    return m.element(tuple(m.forms[dims.index(i)] for i in range(len(dims))))


def _broadcast_in_dim(m: Move) -> Expr:
    shape = m.kinds[0].shape
    return m.element(tuple(Affine(0) if n == 1 else m.forms[d] for n, d in zip(shape, m.ints("dims"), strict=True)))


def _slice(m: Move) -> Expr:
    start = m.ints("start")
    stride = m.ints("stride") or (1,) * len(start)
    return m.element(tuple(a * s + b for a, b, s in zip(m.forms, start, stride, strict=True)))


def _pad(m: Move) -> Expr:
    """A case distinction along each padded axis."""
    if any(m.ints("interior")):
        raise NoNotation("pad between neighbours has no index notation")
    low, shape = m.ints("low"), m.kinds[0].shape
    fill = Const(cast("int | float", m.op.attribute("value", 0)), m.op.type.dtype)

    def along(axis: int, index: tuple[Affine, ...], ranges: Ranges) -> Expr:
        if axis == len(shape):
            return m.element(index, ranges)
        first, last = low[axis], low[axis] + shape[axis] - 1
        end = m.op.type.shape[axis] - 1
        first, last = max(first, 0), min(last, end)
        if first > last:
            return fill
        inside = along(axis + 1, (*index, m.forms[axis] - low[axis]), narrow(m.forms[axis], first, last, ranges))
        return switch_of(m.forms[axis], ((0, first - 1, fill), (first, last, inside), (last + 1, end, fill)), ranges)

    return along(0, (), m.ranges)


def _concatenate(m: Move) -> Expr:
    dim, first = cast(int, m.op.attribute("dim")), 0
    cases = []
    for number, kind in enumerate(m.kinds):
        last = first + kind.shape[dim] - 1
        index = tuple(f - first if axis == dim else f for axis, f in enumerate(m.forms))
        cases.append((first, last, m.element(index, narrow(m.forms[dim], first, last, m.ranges), number)))
        first = last + 1
    return switch_of(m.forms[dim], tuple(cases), m.ranges)


def _reverse(m: Move) -> Expr:
    dims = m.ints("dim")
    return m.element(tuple(
        Affine(extent - 1) - form if axis in dims else form
        for axis, (form, extent) in enumerate(zip(m.forms, m.op.type.shape, strict=True))))


def _bitcast_convert(m: Move) -> Expr:
    kinds = m.kinds[0].dtype, m.op.type.dtype
    bits = [bit_width(dtype) for dtype in kinds]
    if bits[0] == bits[1]:
        return map_of("bitcast_convert", (m.element(m.forms),), (), m.op.type.dtype)
    if min(bits) < 8:
        return _split(m, bits[0], bits[1]) if bits[0] > bits[1] else _join(m, bits[0], bits[1])
    source, target = bits[0] // 8, bits[1] // 8
    if source == 1:
        byte = fresh()
        inner = {**m.ranges, byte: (0, target - 1)}
        return from_bytes(byte, m.element((*m.forms, Affine.variable(byte)), inner), m.op.type.dtype, m.ranges)
    if target == 1:
        return map_of("bitcast_convert", (byte_of(m.element(m.forms[:-1]), m.forms[-1]),), (), m.op.type.dtype)
    raise NoNotation(f"bitcast_convert from {source} to {target} bytes has no index notation")


def _split(m: Move, bits: int, part: int) -> Expr:
    """Elements of less than a byte: shifted down, and cut by the conversion."""
    if bits < 8:
        raise NoNotation(f"bitcast_convert from {bits} to {part} bits has no index notation")
    plain = f"u{bits}"
    whole = map_of("bitcast_convert", (m.element(m.forms[:-1]),), (), plain)
    joined = _part_of(whole, part, m.forms[-1], m.ranges)
    if joined is not None:
        return map_of("bitcast_convert", (joined,), (), m.op.type.dtype)
    low = map_of("shift_right_logical", (whole, Index(m.forms[-1] * part, plain)), (), plain)
    if part == 1:
        return map_of("convert", (map_of("and", (low, Const(1, plain)), (), plain),), (), "i1")
    return map_of("bitcast_convert", (map_of("convert", (low,), (), f"u{part}"),), (), m.op.type.dtype)


def _join(m: Move, part: int, bits: int) -> Expr:
    """Elements of less than a byte, each shifted to its place."""
    if bits < 8:
        raise NoNotation(f"bitcast_convert from {part} to {bits} bits has no index notation")
    plain, place = f"u{bits}", fresh()
    variables = (place, bits // part),
    e = m.element((*m.forms, Affine.variable(place)), expr.over(variables, m.ranges))
    if part > 1:
        e = map_of("bitcast_convert", (e,), (), f"u{part}")
    e = map_of("convert", (e,), (), plain)
    e = map_of("shift_left", (e, Index(Affine.variable(place) * part, plain)), (), plain)
    return map_of("bitcast_convert", (sum_of(variables, e, m.ranges),), (), m.op.type.dtype)


def _part_of(whole: Expr, bits: int, place: Affine, ranges: Ranges) -> Expr | None:
    """The element at a place of those that :func:`_join` has made one of; None of what it has not made."""
    if isinstance(whole, expr.Switch):
        parts = [(low, high, _part_of(e, bits, place, narrow(whole.form, low, high, ranges)))
                 for low, high, e in whole.cases]
        kept = tuple([(low, high, e) for low, high, e in parts if e is not None])
        return switch_of(whole.form, kept, ranges) if len(kept) == len(parts) else None
    if not isinstance(whole, expr.Sum) or len(whole.variables) != 1:
        return None
    ((name, _),), body = whole.variables, whole.body
    if not isinstance(body, expr.Map) or body.opcode != "shift_left":
        return None
    e, by = body.operands
    if not isinstance(by, Index) or by.index != Affine.variable(name) * bits:
        return None
    if not isinstance(e, expr.Map) or e.opcode != "convert":
        return None
    return substitute(e.operands[0], {name: place}, ranges)


def _dot_general(m: Move) -> Expr:
    if has_components(dict(m.op.attributes)):
        raise NoNotation("dot_general of components has no index notation")
    (lhs_batch, lhs_sum), (rhs_batch, rhs_sum) = (
        (m.ints(f"{side}_batch"), m.ints(f"{side}_contracting")) for side in ("lhs", "rhs"))
    lhs, rhs = m.kinds
    bound = [(fresh(), lhs.shape[axis]) for axis in lhs_sum]
    rest = list(m.forms)
    batch = [rest.pop(0) for _ in lhs_batch]
    inner = expr.over(tuple(bound), m.ranges)
    factors = []
    for number, (kind, batches, contracted) in enumerate(((lhs, lhs_batch, lhs_sum), (rhs, rhs_batch, rhs_sum))):
        index = [
            batch[batches.index(axis)] if axis in batches
            else Affine.variable(bound[contracted.index(axis)][0]) if axis in contracted else rest.pop(0)
            for axis in range(len(kind.shape))
        ]
        factors.append(map_of("convert", (m.element(tuple(index), inner, number),), (), m.op.type.dtype))
    if m.op.attribute("rounding", "each") == "fused":
        subnormals = m.op.attribute("subnormals", "keep")
        step = map_of("fma", (*factors, expr.Carry("f32")), (("subnormals", subnormals),), "f32")
        return fold_of(tuple(bound), Const(0, "f32"), step, m.ranges)
    return sum_of(tuple(bound), map_of("multiply", tuple(factors), (), m.op.type.dtype), m.ranges)


def _reduce(m: Move) -> Expr:
    dims, kind = m.ints("dim"), m.op.attribute("kind")
    shape = m.kinds[0].shape
    bound = {axis: (fresh(), shape[axis]) for axis in dims}
    rest = list(m.forms)
    index = tuple(Affine.variable(bound[axis][0]) if axis in bound else rest.pop(0) for axis in range(len(shape)))
    variables = tuple(bound.values())
    return _combine(m, str(kind), variables, m.element(index, expr.over(variables, m.ranges)))


def _reduce_window(m: Move) -> Expr:
    if any(m.ints(name) for name in ("low", "high", "base_dilation", "window_dilation")):
        raise NoNotation("reduce_window with edges or dilation has no index notation")
    size, stride, kind = m.ints("size"), m.ints("stride"), m.op.attribute("kind")
    bound = tuple((fresh(), extent) for extent in size)
    inner = expr.over(bound, m.ranges)
    variables = tuple(
        (fresh(), form * step + (Affine.variable(name) if n > 1 else Affine(0)))
        for form, step, (name, n) in zip(m.forms, stride, bound, strict=True))
    ranges = {**inner, **{v: form.range(inner) for v, form in variables}}
    named = m.element(tuple(Affine.variable(v) for v, _ in variables), ranges)
    kept = tuple(b for b in bound if b[1] > 1)
    return _combine(m, str(kind), kept, let_of(variables, named, inner))


def _combine(m: Move, kind: str, bound: Variables, body: Expr) -> Expr:
    if kind == "add":
        if not expr.is_integer(body.dtype):
            raise NoNotation("a sum of floating-point numbers over a window has an order of its own")
        return sum_of(bound, body, m.ranges)
    if kind not in ("max", "min"):
        raise NoNotation(f"a reduction of kind {kind} has no index notation")
    return extreme_of(kind, bound, body, m.ranges)


MOVES: dict[str, Callable[[Move], Expr]] = {
    "broadcast": lambda m: m.element(()),
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": _reshape,
    "transpose": _transpose,
    "reverse": _reverse,
    "slice": _slice,
    "pad": _pad,
    "concatenate": _concatenate,
    "bitcast_convert": _bitcast_convert,
    "dot_general": _dot_general,
    "reduce": _reduce,
    "reduce_window": _reduce_window,
}
"""Operations that move or combine elements."""
