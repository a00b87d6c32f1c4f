"""Loops, strips and scalars around the instructions of a nest's passes.

One axis is spread over the lanes of vectors. Where it is one of the nest's, results of folds are vectors, and folds add
vectors point by point; where it is one of each pass's, a fold adds vectors strip by strip and its lanes at the end, and
its result is a scalar. Strips are as long as registers allow for all vectors that are there at a time; what is left is a
shorter strip of its own. Constants are loaded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from archloom.mapper.nests import HELD, LOAD, NUMBER, WHOLE, Axis, Fold, Nest, Operation, Pass, Store, addresses, joined
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Node
from archloom.uma_targets.kit.nest import Nodes, Piece, pieces, repeat
from archloom.uma_targets.kit.vectors.functions import expanded
from archloom.uma_targets.kit.vectors.select import Placed, Selection, Source, Step, kind_of, masked, place
from archloom.uma_targets.kit.vectors.unit import Kind, Operand, Unit

WORD = 4
GROUPS = (8, 4, 2, 1)
SCRATCH = 4
"""Scalar registers of each kind for what is used at once."""
RESERVED = 8
"""The first integer registers, which the unit may use itself."""
NEUTRAL = {"sum": 0.0, "maximum": -math.inf, "minimum": math.inf}


@dataclass(frozen=True)
class Words:
    """A tensor in memory: the byte address of its first word, and how many it has."""

    at: Affine
    count: int


def nodes_of(nest: Nest, tensors: Mapping[str, Words], unit: Unit, most: int = GROUPS[0]) -> Nodes:
    """The instructions of a nest, with groups of at most so many registers. MappingError where registers do not do."""
    return _Writer(_prepared(nest), tensors, unit, most).nodes()


def group_of(nest: Nest, unit: Unit, most: int = GROUPS[0]) -> int:
    """Registers of a group."""
    return _Writer(_prepared(nest), {}, unit, most).group


def _prepared(nest: Nest) -> Nest:
    nest = joined(nest)
    return replace(nest, passes=tuple(map(expanded, nest.passes)))


@dataclass
class _Scalars:
    """Scalar registers: what is held first, then constants, which are loaded at the beginning as long as there are
    registers; the last ones are for what is used at once."""

    unit: Unit
    prologue: Nodes = field(default_factory=list)
    known: dict[tuple[Kind, int | str], int] = field(default_factory=dict)
    used: dict[Kind, int] = field(default_factory=lambda: {"f": 0, "x": RESERVED})
    turn: int = 0

    def held(self, name: str) -> int:
        """The register of what a pass has found."""
        if ("f", name) not in self.known:
            self.known["f", name] = self._new("f")
        return self.known["f", name]

    def constant(self, kind: Kind, bits: int) -> tuple[Nodes, int]:
        """A register with 32 bits, and what loads it now."""
        if (kind, bits) in self.known:
            return [], self.known[kind, bits]
        if self.used[kind] >= self.unit.scalars - SCRATCH:
            register = self.scratch()
            return list(self.unit.number(kind, register, bits)), register
        self.known[kind, bits] = register = self._new(kind)
        self.prologue += self.unit.number(kind, register, bits)
        return [], register

    def _new(self, kind: Kind) -> int:
        if self.used[kind] >= self.unit.scalars - SCRATCH:
            raise MappingError("more results of passes are held than there are scalar registers")
        self.used[kind] += 1
        return self.used[kind] - 1

    def scratch(self) -> int:
        self.turn = (self.turn + 1) % SCRATCH
        return self.unit.scalars - 1 - self.turn


def float_bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


@dataclass
class _Writer:
    nest: Nest
    tensors: Mapping[str, Words]
    unit: Unit
    most: int

    def __post_init__(self) -> None:
        self.scalars = _Scalars(self.unit)
        self.lane = self._lane()
        self.parts = self._parts()
        self.base = int(any(masked(p.placed.steps) for p in self.parts))
        self.group = self._group()
        self.lanes = self.unit.lanes(self.group)

    # which axis --------------------------------------------------------------------------------------------------------

    def _lane(self) -> Axis | None:
        """The nest's axis that is spread over lanes; None: one of each pass's."""
        inside = [None] if any(p.axes for p in self.nest.passes) else []
        candidates = [*reversed(self.nest.axes), *inside]
        return min(candidates, key=self._cost, default=None)

    def _cost(self, lane: Axis | None) -> float:
        total = 0.0
        for each in self.nest.passes:
            along = lane if lane is not None else _along(each)
            extent = 1 if along is None else along.extent
            points = math.prod(a.extent for a in (*self.nest.axes, *each.axes)) // extent
            strips = -(-extent // self.unit.lanes(1))
            width = extent / strips
            work = sum(max(1.0, width / (4 * self.unit.access_words)) for o in each.code if o.args) + sum(
                self._passing(0 if along is None else at.coefficient(along.name), width) for at in addresses(each))
            total += points * strips * (work + len(each.folds) * (8 if lane is None else 1))
        return total

    def _passing(self, step: int, width: float) -> float:
        return 1.0 if step == 0 else max(1.0, width / self.unit.access_words) if step == 1 else width

    # registers -------------------------------------------------------------------------------------------------------

    def _parts(self) -> list["_Part"]:
        """The passes with their registers as numbers of groups."""
        found: list[_Part] = []
        held: dict[str, int] = {}
        at: dict[int, int] = {}
        first = 0
        for number, each in enumerate(self.nest.passes):
            along = self.lane or _along(each)
            sums: dict[str, int] = {}
            if each.axes:
                for fold in each.folds:
                    sums[fold.name], first = first, first + 1
                    at[sums[fold.name]] = next(g for g in range(len(at) + 1) if g not in at.values())
            name = None if along is None else along.name
            selected = Selection(self.unit, name, held, sums, first).of(each)
            placed, first = place(selected, at), selected.vectors
            found.append(_Part(each, along, placed, {n: placed.at[v] for n, v in selected.folds.items()}))
            if self.lane is None:
                at = {}
                continue
            held |= selected.folds
            later = {o.of for p in self.nest.passes[number + 1:] for o in p.code if o.name == HELD}
            held = {n: v for n, v in held.items() if n in later}
            at = {v: placed.at[v] for v in held.values()}
        return found

    def _group(self) -> int:
        needed = max(p.placed.groups for p in self.parts) + self.base + (self.lane is None)
        longest = max((p.along.extent for p in self.parts if p.along is not None), default=1)
        fitting = [g for g in GROUPS if g <= self.most and g * needed <= self.unit.registers]
        if not fitting:
            raise MappingError(f"{needed} vectors at a time need more than the {self.unit.registers} registers there are")
        return next((g for g in reversed(fitting) if self.unit.lanes(g) >= longest), fitting[0])

    def _register(self, number: int) -> int:
        return (self.base + number) * self.group

    # loops -----------------------------------------------------------------------------------------------------------

    def nodes(self) -> Nodes:
        body = self._inside() if self.lane is None else self._across(self.lane)
        return [*self.scalars.prologue, *body]

    def _across(self, lane: Axis) -> Nodes:
        """Points of the nest along a vector."""
        others = [a for a in self.nest.axes if a is not lane]

        def strip(start: Affine) -> Nodes:
            return [node for part in self.parts for node in self._accumulated(part, {lane.name: start})]

        return self._strips(lane, lambda at: _loops(others, lambda: at(strip)))

    def _inside(self) -> Nodes:
        """Points of a pass along a vector."""
        return _loops(self.nest.axes, lambda: [node for part in self.parts for node in self._alone(part)])

    def _strips(self, lane: Axis, around: Callable[[Callable[[Callable[[Affine], Nodes]], Nodes]], Nodes]) -> Nodes:
        """Strips along an axis, those of one length together: ``around`` writes loops around them."""
        found: Nodes = []
        for run in pieces(lane.extent, self.lanes):
            def at(body: Callable[[Affine], Nodes], run: Piece = run) -> Nodes:
                return repeat(f"{lane.name}_strip", run.count, lambda i: body((i + run.first) * self.lanes))

            found += [self.unit.length(run.size, self.group), *around(at)]
        return found

    def _accumulated(self, part: "_Part", at: Mapping[str, Affine]) -> Nodes:
        return [*self._begun(part), *_loops(part.each.axes, lambda: self._body(part, at))]

    def _begun(self, part: "_Part") -> Nodes:
        """Accumulators before the first point."""
        nodes: Nodes = []
        for fold in part.each.folds if part.each.axes else ():
            nodes += self._spread(part.folds[fold.name], NEUTRAL[fold.kind])
        return nodes

    def _spread(self, into: int, value: float) -> Nodes:
        more, operand = self._scalar(Operation(NUMBER, value=value), "splat", {})
        return [*more, self.unit.apply("splat", self._register(into), (operand,))]

    def _alone(self, part: "_Part") -> Nodes:
        """A pass along a vector, whose folds end as scalars."""
        each, lane = part.each, part.along
        if lane is None:
            nodes = [self.unit.length(1, self.group), *self._body(part, {})]
            return nodes + [self.unit.first(self.scalars.held(f.name), self._register(part.folds[f.name]))
                            for f in each.folds]
        others, longest = [a for a in each.axes if a is not lane], min(lane.extent, self.lanes)
        body = self._strips(lane, lambda at: _loops(others, lambda: at(lambda s: self._body(part, {lane.name: s}))))
        if not each.folds:
            return body
        length = self.unit.length(longest, self.group)
        return [length, *self._begun(part), *body, length, *(n for f in each.folds for n in self._folded(part, f))]

    def _folded(self, part: "_Part", fold: Fold) -> Nodes:
        more, zero = self._scalar(Operation(NUMBER), "add", {})
        scratch = self._register(part.placed.groups)
        return [*more, *self.unit.fold(
            fold.kind, self.scalars.held(fold.name), self._register(part.folds[fold.name]), zero.number, scratch)]

    # instructions ----------------------------------------------------------------------------------------------------

    def _body(self, part: "_Part", at: Mapping[str, Affine]) -> Nodes:
        return [node for step in part.placed.steps for node in self._step(step, part, at)]

    def _step(self, step: Step, part: "_Part", at: Mapping[str, Affine]) -> Iterator[Node]:
        into = 0 if step.into is None else self._register(step.into)
        place_of = step.operation
        if step.name == "store":
            yield self.unit.store(self._register(step.sources[0]), *self._place(place_of, part, at))  # type: ignore[arg-type]
        elif step.name == LOAD:
            yield self.unit.load(into, *self._place(place_of, part, at))
        elif step.name == "gather":
            first, reach = self._reach(place_of, at)
            yield self.unit.gather(into, first, self._register(step.sources[0]), reach)  # type: ignore[arg-type]
        else:
            operands = []
            for source in step.sources:
                more, operand = self._operand(source, step.name, at)
                yield from more
                operands.append(operand)
            yield self.unit.apply(step.name, into, operands)

    def _operand(self, source: Source, name: str, at: Mapping[str, Affine]) -> tuple[Nodes, Operand]:
        return ([], Operand("v", self._register(source))) if isinstance(source, int) else self._scalar(source, name, at)

    def _scalar(self, source: Operation, name: str, at: Mapping[str, Affine]) -> tuple[Nodes, Operand]:
        """What is the same for all lanes, where an instruction takes it."""
        kind = kind_of(source, name, self.unit)
        match source.name:
            case "load":
                register = self.scalars.scratch()
                return [self.unit.scalar(register, self._address(source, at))], Operand("f", register)
            case "held":
                return [], Operand("f", self.scalars.held(source.of))
            case "whole" if kind == "i":
                return [], Operand("i", int(source.value))
        bits = int(source.value) if source.name == WHOLE else float_bits(source.value)
        more, register = self.scalars.constant(kind, bits)
        return more, Operand(kind, register)

    def _address(self, word: Operation | Store, at: Mapping[str, Affine]) -> Affine:
        return self.tensors[word.of].at + word.at.substitute(at) * WORD

    def _place(self, word: Operation | Store, part: "_Part", at: Mapping[str, Affine]) -> tuple[Affine, int]:
        """Address and stride, in bytes."""
        step = 0 if part.along is None else word.at.coefficient(part.along.name)
        return self._address(word, at), step * WORD if part.along is not None else WORD

    def _reach(self, word: Operation, at: Mapping[str, Affine]) -> tuple[Affine, int]:
        """The address that offsets are added to, and how many bytes of the tensor lie behind it at least."""
        extents = {a.name: a.extent for p in self.nest.passes for a in (*self.nest.axes, *p.axes)}
        most = word.at.constant + sum(c * (extents[str(a)] - 1) for a, c in word.at.terms if str(a) not in at and c > 0)
        first = self._address(word, at)
        strips = sum(word.at.coefficient(n) * (extents[n] - 1) // self.lanes * self.lanes for n in at)
        return first, (self.tensors[word.of].count - most - strips) * WORD


@dataclass(frozen=True)
class _Part:
    """A pass, the axis along its vectors, its steps, and the groups in which its folds end."""

    each: Pass
    along: Axis | None
    placed: Placed
    folds: Mapping[str, int]


def _along(each: Pass) -> Axis | None:
    """The axis of a pass along which most of its words lie together; the last of them."""
    def together(axis: Axis) -> tuple[int, int]:
        steps = [at.coefficient(axis.name) for at in addresses(each)]
        return sum(s in (0, 1) for s in steps), axis.extent

    return max(reversed(each.axes), key=together, default=None)


def _loops(axes: Sequence[Axis], body: Callable[[], Nodes]) -> Nodes:
    """Loops over axes, by their names."""
    if not axes:
        return body()
    return repeat(axes[0].name, axes[0].extent, lambda _: _loops(axes[1:], body))
