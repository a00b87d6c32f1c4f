"""What instructions compute, in index notation.

A tensor inside an instruction is a tuple of axis variables and an expression over them and the loop variables.
Operations that only move elements (reshape, transpose, slice, pad, concatenate, broadcasts) become substitutions of
axes; contractions and reductions bind variables; all others are element-wise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Op, Read, TensorType, Write
from archloom.oracle.taidl.operators.blocked import has_components
from archloom.oracle.taidl.operators.conversion import width as bit_width
from archloom.oracle.windows import linear
from archloom.oracle.xla.lowering.ops import ELEMENTWISE
from archloom.oracle.xla.lowering.wholes import NEST, Operator
from archloom.oracle.xla.notation import expr
from archloom.oracle.xla.notation.build import byte_of, from_bytes, let_of, map_of, switch_of
from archloom.oracle.xla.notation.expr import Const, Expr, Index, Ranges, Variables
from archloom.oracle.xla.notation.fallbacks import How, Record
from archloom.oracle.xla.notation.limits import USUAL, Limits, NoNotation, Unraisable
from archloom.oracle.xla.notation.substitution import substitute
from archloom.oracle.xla.notation.sums import EXTREMES, add_of, extreme_of, fold_of, larger_of, sum_of
from archloom.oracle.xla.notation.variables import OLD_CONTENTS, TensorAxis, axis_range, fresh
from archloom.oracle.xla.raising import unread
from archloom.oracle.xla.raising.dataflow import Cursor, Dataflow, Steps
from archloom.oracle.xla.raising.query import Query
from archloom.oracle.xla.raising.tree import Block, InstrItem, Tree, WriteItem
from archloom.oracle.xla.raising.unread import itself
from archloom.oracle.xla.raising.updates import Update, old_contents, update

Tensor = tuple[tuple[str, ...], Expr]
"""Axis variables (an axis of extent 1 has one too) and the value over them."""


@dataclass
class Raiser:
    """The values of the tensors of a program, each computed once and kept."""

    tree: Tree
    reassociate: bool = False
    limits: Limits = USUAL
    steps: Steps | None = None
    """What the search for values may look at, where several raisers share it; as the limits say by default."""
    recurrences: bool = False
    """Whether values that loops hand on from one iteration to the next are looked for."""
    opened: tuple[Block, ...] = ()
    """Loops of which one iteration is taken by itself: what it finds is :func:`.recurrences.held`."""
    unread: bool = False
    """Whether values that come back to themselves stand for themselves, until it is known whether a result has them."""
    record: Record = field(default_factory=Record)
    """The operators that are computed of whole tensors."""
    _values: dict[tuple[int, str, int | None], Tensor] = field(default_factory=dict)
    _pending: set[tuple[int, str, int | None]] = field(default_factory=set)
    _updates: dict[tuple[int, int], Update | None] = field(default_factory=dict)
    _unread: dict[str, Unraisable] = field(default_factory=dict)
    _wholes: dict[expr.Whole, expr.Whole] = field(default_factory=dict)
    _iterations: dict[Block, Dataflow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = self.steps or Steps(self.limits.steps)
        self.dataflow = Dataflow(
            self.tree, self.value_of, self.update_of, self.reassociate, self.steps,
            self._iteration if self.recurrences else None, self.opened)

    def _iteration(self, loop: Block) -> Dataflow:
        """The search within one iteration of a loop."""
        if loop not in self._iterations:
            inside = replace(self, opened=(*self.opened, loop), _values={}, _pending=set(), _updates={}, _iterations={})
            self._iterations[loop] = inside.dataflow
        return self._iterations[loop]

    def check(self, values: Iterable[Expr]) -> None:
        """Unraisable where values come back to themselves."""
        if self._unread:  # else there are none to look for
            for name in unread.names(values):
                raise self._unread[name]

    def update_of(self, item: WriteItem) -> Update | None:
        """What the write makes of the window's old contents; None where it does not keep to their places."""
        key = (id(item.owner), item.statement)
        if key not in self._updates:
            found = old_contents(item)
            self._updates[key] = None
            if found is not None:
                axes, value = self.tensor(item.owner, item.write.src, found)
                ranges = expr.over(tuple(zip(axes, item.write.window.shape, strict=True)), self.tree.ranges)
                self._updates[key] = update(axes, value, item.write.window, ranges)
        return self._updates[key]

    def value_of(self, item: WriteItem) -> Tensor:
        """The value written; of an accumulating write, what it adds to the old contents."""
        if item.write.kind == "accumulate":
            return self.tensor(item.owner, self._addend(item))
        return self.tensor(item.owner, item.write.src)

    def _addend(self, item: WriteItem) -> str:
        """The operand of the addition that is not the old contents."""
        defined = {s.dst: s for s in item.owner.instr.statements if not isinstance(s, Write)}
        op = defined.get(item.write.src)
        if isinstance(op, Op) and op.opcode == "add":
            for old, other in (op.operands, op.operands[::-1]):
                source = defined.get(old)
                if isinstance(source, Read) and source.window == item.write.window:
                    return other
        name = item.owner.instr.mnemonic
        raise Unraisable(f"{name} accumulates into {item.write.window.buffer} in another way than by add")

    def tensor(self, owner: InstrItem, name: str, old: int | None = None) -> Tensor:
        """The tensor ``name`` of an instruction.

        The read that is statement ``old`` stands for itself: an update makes new values of what it reads.
        """
        key = (id(owner), name, old)
        if key in self._values:
            return self._values[key]
        if key in self._pending:
            loop = owner.parent if owner.parent.parent else None
            of = f" of loop {loop.var}" if loop else ""
            why = f"{owner.instr.mnemonic} carries a value from one iteration{of} to another"
            refused = Unraisable(why, carried=True).at(loop or owner)
            if not self.unread or old is not None:
                raise refused
            kind = next(s.type for s in owner.instr.statements if not isinstance(s, Write) and s.dst == name)
            found = itself(owner, name, kind)
            self._unread[found.name] = refused
            return self._axes(kind.shape)[0], found
        self._pending.add(key)
        try:
            value = self._computed(owner, name, old)
        except Unraisable as error:
            raise error.at(owner) from None
        finally:
            self._pending.discard(key)
        self._values[key] = value
        return value

    def _computed(self, owner: InstrItem, name: str, old: int | None) -> Tensor:
        for number, s in enumerate(owner.instr.statements):
            if isinstance(s, Write) or s.dst != name:
                continue
            if isinstance(s, Op):
                return self._op(owner, s, old)
            if number != old:
                return self._read(owner, number, s)
            axes, ranges = self._axes(s.type.shape)
            return axes, leaf_over(OLD_CONTENTS, axes, s.type, ranges)
        raise Unraisable(f"{owner.instr.mnemonic} has no tensor {name}")

    def _read(self, owner: InstrItem, number: int, s: Read) -> Tensor:
        axes, ranges = self._axes(s.window.shape)
        address = list(s.window.offsets)
        for name, dim in zip(axes, s.window.dims, strict=True):
            if dim.extent > 1:
                address[dim.axis] = address[dim.axis] + Affine.variable(name) * dim.stride
        query = Query(s.window.buffer, tuple(a.simplify(ranges) for a in address), ranges)
        return axes, self.dataflow.find(query, Cursor(owner.parent, self.tree.reads[id(owner), number].position, {}))

    def _axes(self, shape: tuple[int, ...]) -> tuple[tuple[str, ...], dict[str, expr.Range]]:
        # equal names for equal axes, so that a value that is only passed on stays the same expression
        axes = tuple(TensorAxis.of(number, extent) for number, extent in enumerate(shape))
        return axes, expr.over(tuple(zip(axes, shape, strict=True)), self.tree.ranges)

    def _op(self, owner: InstrItem, s: Op, old: int | None) -> Tensor:
        axes, ranges = self._axes(s.type.shape)
        kinds = {t.dst: t.type for t in owner.instr.statements if not isinstance(t, Write)}
        operands = [(self.tensor(owner, o, old), kinds[o]) for o in s.operands]
        if s.opcode in ("constant", "iota"):
            return axes, self._nullary(s, axes)
        if s.opcode in MOVES:
            try:
                return axes, MOVES[s.opcode](Move(s, axes, ranges, operands))
            except NoNotation as reason:
                return axes, self._whole(owner, s, axes, operands, str(reason))
        if s.opcode not in ELEMENTWISE:
            return axes, self._whole(owner, s, axes, operands, f"{s.opcode} has no index notation")
        own = [value for value, kind in operands if kind.shape]
        if own:  # with the axes of an operand, those that share something go on sharing it
            axes = next((a for a, e in own if not expr.free(e).isdisjoint(a)), own[0][0])
            ranges = expr.over(tuple(zip(axes, s.type.shape, strict=True)), self.tree.ranges)
        values = tuple(at(value, axes if kind.shape else (), ranges) for value, kind in operands)
        kept = s.attributes
        if s.opcode == "add" and expr.is_number(s.type.dtype):
            return axes, add_of(values[0], values[1], ranges)
        if s.opcode in EXTREMES and expr.is_integer(s.type.dtype):
            return axes, larger_of(s.opcode, values[0], values[1], ranges)
        return axes, map_of(s.opcode, values, kept, s.type.dtype)

    def _whole(
        self, owner: InstrItem, s: Op, axes: tuple[str, ...], operands: list[tuple[Tensor, TensorType]], why: str
    ) -> Expr:
        """An element of what an operator without index notation makes of whole tensors."""
        made = []
        for value, kind in operands:
            own, ranges = self._axes(kind.shape)
            made.append(expr.Operand(tuple(zip(own, kind.shape, strict=True)), at(value, own, ranges)))
        nest, number = s.attribute("nest"), 0
        if s.opcode == NEST:
            function, number = cast(expr.TensorFunction, nest), cast(int, s.attribute("result"))
        else:
            function = Operator.of(s, tuple(kind.dtype for _, kind in operands))
        named = frozenset(function.variables).union(*(expr.free(o.body) - {a for a, _ in o.axes} for o in made))
        parameters = tuple((v, r[1] + 1) for v, r in self.tree.ranges.items() if v in named)
        points, shapes = math.prod(n for _, n in parameters), [s.type.shape, *(kind.shape for _, kind in operands)]
        if points * max(map(math.prod, shapes)) > self.limits.elements:
            raise Unraisable(f"{function.title} in {points} iterations at once would be more than "
                             f"{self.limits.elements} elements")
        if s.opcode != NEST:
            size = points * math.prod(s.type.shape)
            self.record.add(How.WHOLE_TENSORS, f"{function.title} of {owner.instr.mnemonic}", why, size)
        index = tuple(Affine.variable(v) for v in (*(v for v, _ in parameters), *axes))
        # one object for equal ones: what is made of them again is compared by identity
        whole = expr.Whole(function, parameters, tuple(made))
        return expr.Element(self._wholes.setdefault(whole, whole), number, index, s.type.dtype)

    def _nullary(self, s: Op, axes: tuple[str, ...]) -> Expr:
        if s.opcode == "iota":
            return Index(Affine.variable(axes[cast(int, s.attribute("dim"))]), s.type.dtype)
        value = s.attribute("value")
        if isinstance(value, Affine):
            if not value.is_constant:
                return Index(value, s.type.dtype)
            value = int(value)
        return Const(cast("int | float", value), s.type.dtype)


def leaf_over(name: str, axes: tuple[str, ...], kind: TensorType, ranges: Ranges) -> expr.Leaf:
    return expr.Leaf(name, linear(tuple(Affine.variable(a) for a in axes), kind.shape).simplify(ranges), kind.dtype)


def at(value: Tensor, index: Sequence[str | Affine], ranges: Ranges) -> Expr:
    """The element of a tensor at ``index`` (one variable or form for each axis)."""
    axes, e = value
    mapping = {a: Affine.variable(i) if isinstance(i, str) else i for a, i in zip(axes, index, strict=True)}
    if all(form == Affine.variable(a) and ranges[a] == axis_range(a) for a, form in mapping.items()):
        return e
    return substitute(e, mapping, ranges)


@dataclass(frozen=True)
class Move:
    """An operation that is no element-wise one: its result's axes, ranges for them, operands with types."""

    op: Op
    axes: tuple[str, ...]
    ranges: Ranges
    operands: list[tuple[Tensor, TensorType]]

    def ints(self, name: str) -> tuple[int, ...]:
        value = self.op.attribute(name, ()) or ()
        return tuple(int(x) for x in cast("tuple[int, ...]", value))

    @property
    def forms(self) -> tuple[Affine, ...]:
        return tuple(Affine.variable(a) for a in self.axes)

    def element(self, index: tuple[Affine, ...], ranges: Ranges | None = None, operand: int = 0) -> Expr:
        return at(self.operands[operand][0], index, ranges or self.ranges)


def _reshape(m: Move) -> Expr:
    source, target = m.operands[0][1].shape, m.op.type.shape
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
    shape = m.operands[0][1].shape
    return m.element(tuple(Affine(0) if n == 1 else m.forms[d] for n, d in zip(shape, m.ints("dims"), strict=True)))


def _slice(m: Move) -> Expr:
    start = m.ints("start")
    stride = m.ints("stride") or (1,) * len(start)
    return m.element(tuple(a * s + b for a, b, s in zip(m.forms, start, stride, strict=True)))


def _pad(m: Move) -> Expr:
    """A case distinction along each padded axis."""
    if any(m.ints("interior")):
        raise NoNotation("pad between neighbours has no index notation")
    low, shape = m.ints("low"), m.operands[0][1].shape
    fill = Const(cast("int | float", m.op.attribute("value", 0)), m.op.type.dtype)

    def along(axis: int, index: tuple[Affine, ...], ranges: Ranges) -> Expr:
        if axis == len(shape):
            return m.element(index, ranges)
        name = m.axes[axis]
        first, last = low[axis], low[axis] + shape[axis] - 1
        end = m.op.type.shape[axis] - 1
        first, last = max(first, 0), min(last, end)
        if first > last:
            return fill
        inside = along(axis + 1, (*index, m.forms[axis] - low[axis]), {**ranges, name: (first, last)})
        return switch_of(m.forms[axis], ((0, first - 1, fill), (first, last, inside), (last + 1, end, fill)), ranges)

    return along(0, (), m.ranges)


def _concatenate(m: Move) -> Expr:
    dim, first = cast(int, m.op.attribute("dim")), 0
    cases = []
    for number, (_, kind) in enumerate(m.operands):
        last = first + kind.shape[dim] - 1
        index = tuple(f - first if axis == dim else f for axis, f in enumerate(m.forms))
        cases.append((first, last, m.element(index, {**m.ranges, m.axes[dim]: (first, last)}, number)))
        first = last + 1
    return switch_of(m.forms[dim], tuple(cases), m.ranges)


def _reverse(m: Move) -> Expr:
    dims = m.ints("dim")
    return m.element(tuple(
        Affine(extent - 1) - form if axis in dims else form
        for axis, (form, extent) in enumerate(zip(m.forms, m.op.type.shape, strict=True))))


def _bitcast_convert(m: Move) -> Expr:
    kinds = m.operands[0][1].dtype, m.op.type.dtype
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
    low = map_of("shift_right_logical", (whole, Index(m.forms[-1] * part, plain)), (), plain)
    if part == 1:
        return map_of("convert", (map_of("and", (low, Const(1, plain)), (), plain),), (), "i1")
    return map_of("bitcast_convert", (map_of("convert", (low,), (), f"u{part}"),), (), m.op.type.dtype)


def _join(m: Move, part: int, bits: int) -> Expr:
    """Elements of less than a byte, each shifted to its place."""
    if bits < 8:
        raise NoNotation(f"bitcast_convert from {part} to {bits} bits has no index notation")
    plain, total = f"u{bits}", None
    for place in range(bits // part):
        e = m.element((*m.forms, Affine(place)))
        if part > 1:
            e = map_of("bitcast_convert", (e,), (), f"u{part}")
        e = map_of("convert", (e,), (), plain)
        e = map_of("shift_left", (e, Const(place * part, plain)), (), plain) if place else e
        total = e if total is None else map_of("or", (total, e), (), plain)
    assert total is not None
    return map_of("bitcast_convert", (total,), (), m.op.type.dtype)


def _dot_general(m: Move) -> Expr:
    if has_components(dict(m.op.attributes)):
        raise NoNotation("dot_general of components has no index notation")
    (lhs_batch, lhs_sum), (rhs_batch, rhs_sum) = (
        (m.ints(f"{side}_batch"), m.ints(f"{side}_contracting")) for side in ("lhs", "rhs"))
    (_, lhs), (_, rhs) = m.operands
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
    shape = m.operands[0][1].shape
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
    axes, e = m.operands[0][0]
    inner = expr.over(bound, m.ranges)
    variables = tuple(
        (fresh(), form * step + (Affine.variable(name) if n > 1 else Affine(0)))
        for form, step, (name, n) in zip(m.forms, stride, bound, strict=True))
    ranges = {**inner, **{v: form.range(inner) for v, form in variables}}
    named = substitute(e, {a: Affine.variable(v[0]) for a, v in zip(axes, variables, strict=True)}, ranges)
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
