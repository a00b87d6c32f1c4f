"""What instructions compute, in index notation.

A tensor inside an instruction is a tuple of axis variables and an expression over them and the loop variables.
Operations that only move elements (reshape, transpose, slice, pad, concatenate, broadcasts) become substitutions of
axes; contractions and reductions bind variables; all others are element-wise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Op, Read, TensorType, Write
from archloom.oracle.windows import linear
from archloom.oracle.xla.lowering.ops import ELEMENTWISE
from archloom.oracle.xla.lowering.wholes import NEST, Operator
from archloom.oracle.xla.notation import expr
from archloom.oracle.xla.notation.build import map_of
from archloom.oracle.xla.notation.expr import Const, Expr, Index, Ranges
from archloom.oracle.xla.notation.fallbacks import How, Record
from archloom.oracle.xla.notation.limits import USUAL, Limits, NoNotation, Unraisable
from archloom.oracle.xla.notation.sums import EXTREMES, add_of, larger_of
from archloom.oracle.xla.notation.variables import OLD_CONTENTS, TensorAxis
from archloom.oracle.xla.raising.cursor import Cursor, Steps
from archloom.oracle.xla.raising.dataflow import Dataflow
from archloom.oracle.xla.raising.moves import MOVES, Move, Tensor, at
from archloom.oracle.xla.raising.query import Query
from archloom.oracle.xla.raising.tree import Block, InstrItem, Tree, WriteItem
from archloom.oracle.xla.raising.updates import Update, old_contents, update


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
    record: Record = field(default_factory=Record)
    """The operators that are computed of whole tensors."""
    _values: dict[tuple[int, str, int | None], Tensor] = field(default_factory=dict)
    _pending: set[tuple[int, str, int | None]] = field(default_factory=set)
    _updates: dict[tuple[int, int], Update | None] = field(default_factory=dict)
    _wholes: dict[expr.Whole, expr.Whole] = field(default_factory=dict)
    _iterations: dict[Block, Dataflow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.steps = self.steps or Steps(self.limits.steps)
        self.dataflow = Dataflow(
            self.tree, self.value_of, self.element, self.update_of, self.reassociate, self.steps,
            self._iteration if self.recurrences else None, self.opened)

    def _iteration(self, loop: Block) -> Dataflow:
        """The search within one iteration of a loop."""
        if loop not in self._iterations:
            inside = replace(self, opened=(*self.opened, loop), _values={}, _pending=set(), _updates={}, _iterations={})
            self._iterations[loop] = inside.dataflow
        return self._iterations[loop]

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
            raise Unraisable(why, carried=True).at(loop or owner)
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
        if s.opcode == "select":
            taken = _taken(s, self.tensor(owner, s.operands[0], old)[1])
            if taken is not None:
                return self.tensor(owner, taken, old)
        axes, ranges = self._axes(s.type.shape)
        kinds = {t.dst: t.type for t in owner.instr.statements if not isinstance(t, Write)}
        operands = [(self.tensor(owner, o, old), kinds[o]) for o in s.operands]
        if s.opcode in ("constant", "iota"):
            return axes, self._nullary(s, tuple(map(Affine.variable, axes)))
        if s.opcode in MOVES:
            try:
                return axes, MOVES[s.opcode](Move(
                    s, tuple(map(Affine.variable, axes)), ranges, [kind for _, kind in operands],
                    lambda number, index, inner: at(operands[number][0], index, inner)))
            except NoNotation as reason:
                return axes, self._whole(owner, s, axes, operands, str(reason))
        if s.opcode not in ELEMENTWISE:
            return axes, self._whole(owner, s, axes, operands, f"{s.opcode} has no index notation")
        own = [value for value, kind in operands if kind.shape]
        if own:  # with the axes of an operand, those that share something go on sharing it
            axes = next((a for a, e in own if not expr.free(e).isdisjoint(a)), own[0][0])
            ranges = expr.over(tuple(zip(axes, s.type.shape, strict=True)), self.tree.ranges)
        values = tuple(at(value, axes if kind.shape else (), ranges) for value, kind in operands)
        return axes, _elementwise(s, values, ranges)

    def element(self, item: WriteItem, index: tuple[Affine, ...], known: Mapping[str, Affine], ranges: Ranges) -> Expr:
        """The value written at an index in an iteration, found for the elements there alone: whole tensors may have
        others, of registers that nothing writes anew, which a loop hands on."""
        if item.write.kind == "accumulate":
            raise Unraisable("it is accumulated")
        return self._element(item.owner, item.write.src, index, known, ranges)

    def _element(
        self, owner: InstrItem, name: str, index: tuple[Affine, ...], known: Mapping[str, Affine], ranges: Ranges
    ) -> Expr:
        number, s = next((n, s) for n, s in enumerate(owner.instr.statements)
                         if not isinstance(s, Write) and s.dst == name)
        if isinstance(s, Read):
            return self._elements_read(owner, number, s, index, known, ranges)
        kinds = {t.dst: t.type for t in owner.instr.statements if not isinstance(t, Write)}
        if s.opcode in ("constant", "iota"):
            return self._nullary(s, index)
        if s.opcode in MOVES:
            return MOVES[s.opcode](Move(s, index, ranges, [kinds[o] for o in s.operands], lambda k, at, inner: (
                self._element(owner, s.operands[k], at, known, inner))))
        if s.opcode not in ELEMENTWISE:
            raise Unraisable(f"{s.opcode} has no index notation")

        def operand(name: str) -> Expr:
            return self._element(owner, name, index if kinds[name].shape else (), known, ranges)

        if s.opcode == "select":
            taken = _taken(s, operand(s.operands[0]))
            if taken is not None:
                return operand(taken)
        return _elementwise(s, tuple(map(operand, s.operands)), ranges)

    def _elements_read(
        self, owner: InstrItem, number: int, s: Read, index: tuple[Affine, ...], known: Mapping[str, Affine],
        ranges: Ranges
    ) -> Expr:
        key = id(owner), s.dst, number
        if key in self._pending:
            raise Unraisable(f"{owner.instr.mnemonic} carries what is asked for", carried=True)
        address = [offset.substitute(known) for offset in s.window.offsets]
        for form, dim in zip(index, s.window.dims, strict=True):
            address[dim.axis] = address[dim.axis] + form * dim.stride
        query = Query(s.window.buffer, tuple(a.simplify(ranges) for a in address), ranges)
        self._pending.add(key)
        try:
            return self.dataflow.find(
                query, Cursor(owner.parent, self.tree.reads[id(owner), number].position, known))
        finally:
            self._pending.discard(key)

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
        points = math.prod(n for _, n in parameters)
        moving = [o for o in made if not expr.free(o.body).isdisjoint(v for v, _ in parameters)]
        sizes = [math.prod(n for _, n in o.axes) for o in moving]
        if points * max([math.prod(s.type.shape), *sizes]) > self.limits.elements:
            raise Unraisable(f"{function.title} in {points} iterations at once would be more than "
                             f"{self.limits.elements} elements")
        if s.opcode != NEST:
            size = points * math.prod(s.type.shape)
            self.record.add(How.WHOLE_TENSORS, f"{function.title} of {owner.instr.mnemonic}", why, size)
        index = tuple(Affine.variable(v) for v in (*(v for v, _ in parameters), *axes))
        # one object for equal ones: what is made of them again is compared by identity
        whole = expr.Whole(function, parameters, tuple(made))
        return expr.Element(self._wholes.setdefault(whole, whole), number, index, s.type.dtype)

    def _nullary(self, s: Op, index: tuple[Affine, ...]) -> Expr:
        if s.opcode == "iota":
            return Index(index[cast(int, s.attribute("dim"))], s.type.dtype)
        value = s.attribute("value")
        if isinstance(value, Affine):
            if not value.is_constant:
                return Index(value, s.type.dtype)
            value = int(value)
        return Const(cast("int | float", value), s.type.dtype)


def _taken(s: Op, predicate: Expr) -> str | None:
    """The operand that a select always takes; None where it depends. The other need not be known."""
    return s.operands[1 if predicate.value else 2] if isinstance(predicate, Const) else None


def _elementwise(s: Op, values: tuple[Expr, ...], ranges: Ranges) -> Expr:
    """An element of an element-wise operation's result, of those of its operands."""
    if s.opcode == "add" and expr.is_number(s.type.dtype):
        return add_of(values[0], values[1], ranges)
    if s.opcode in EXTREMES and expr.is_integer(s.type.dtype):
        return larger_of(s.opcode, values[0], values[1], ranges)
    return map_of(s.opcode, values, s.attributes, s.type.dtype)


def leaf_over(name: str, axes: tuple[str, ...], kind: TensorType, ranges: Ranges) -> expr.Leaf:
    return expr.Leaf(name, linear(tuple(Affine.variable(a) for a in axes), kind.shape).simplify(ranges), kind.dtype)
