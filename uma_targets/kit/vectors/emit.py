"""Loops, strips and scalars around the instructions of a nest's passes.

One axis is spread over the lanes of vectors. Where it is one of the nest's, results of folds are vectors, and folds add
vectors point by point; where it is one of each pass's, a fold adds vectors strip by strip and its lanes at the end, and
its result is a scalar. Strips are as long as registers allow for all vectors that are there at a time; what is left is
a shorter strip of its own. Constants are loaded once.

What is written to a part of a register is merged with the rest, and has to wait for it. So where vectors do not fill
their registers, some iterations stand one after the other, each with registers of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import numpy as np

from archloom.mapper.nests import (
    GATHER,
    HELD,
    ITEMS,
    LOAD,
    NUMBER,
    WHOLE,
    Axis,
    Fold,
    Nest,
    Operation,
    Pass,
    Store,
    joined,
)
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Node
from archloom.uma_targets.kit.nest import Nodes, Piece, pieces, repeat
from archloom.uma_targets.kit.vectors.functions import expanded
from archloom.uma_targets.kit.vectors.lanes import Lane, Ports, axis_along, cost, lanes_of, one_port
from archloom.uma_targets.kit.vectors.scalars import Scalars
from archloom.uma_targets.kit.vectors.select import Placed, Selection, Source, Step, kind_of, masked, place
from archloom.uma_targets.kit.vectors.unit import Operand, Unit

GROUPS = (8, 4, 2, 1)
COPIES = 4
"""Most iterations of a loop that have registers of their own."""
NEUTRAL = {
    "sum": Operation(NUMBER), "maximum": Operation(NUMBER, value=-math.inf),
    "minimum": Operation(NUMBER, value=math.inf),
    "whole_maximum": Operation(WHOLE, value=-1 << 31), "whole_minimum": Operation(WHOLE, value=(1 << 31) - 1)}


@dataclass(frozen=True)
class Words:
    """A tensor in memory: the byte address of its first element, and how many it has."""

    at: Affine
    count: int


def nodes_of(
    nest: Nest, tensors: Mapping[str, Words], unit: Unit, most: int = GROUPS[0], lane: int | None = None
) -> Nodes:
    """The instructions of a nest, with groups of at most so many registers; ``lane``: the number of one of
    :func:`choices_of` (None: the one that costs least). MappingError where registers do not do."""
    prepared = _prepared(nest)
    lanes = lanes_of(prepared)
    chosen = min(lanes, key=lambda each: cost(prepared, each, unit)) if lane is None else lanes[lane]
    return _Writer(prepared, tensors, unit, most, chosen).nodes()


class Choice(NamedTuple):
    """What may be spread over lanes: its number, registers of a group, and about how many cycles it takes."""

    lane: int
    group: int
    cost: float


def choices_of(nest: Nest, unit: Unit, most: int = GROUPS[0], ports: Ports = one_port) -> list[Choice]:
    """Those for which there are registers, the one that costs least first; MappingError where there are none."""
    prepared, found, refused = _prepared(nest), list[Choice](), list[MappingError]()
    for number, lane in enumerate(lanes_of(prepared)):
        try:
            group = _Writer(prepared, {}, unit, most, lane).group
        except MappingError as error:
            refused.append(error)
            continue
        found.append(Choice(number, group, cost(prepared, lane, unit, ports)))
    if not found:
        raise refused[0]
    return sorted(found, key=lambda choice: choice.cost)


def _prepared(nest: Nest) -> Nest:
    nest = joined(nest)
    return replace(nest, passes=tuple(map(expanded, nest.passes)))


def float_bits(value: float) -> int:
    return int(np.float32(value).view(np.int32))


@dataclass
class _Writer:
    nest: Nest
    tensors: Mapping[str, Words]
    unit: Unit
    most: int
    lane: Lane

    def __post_init__(self) -> None:
        self.scalars = Scalars(self.unit)
        self.parts = self._parts()
        self.base = int(any(masked(p.placed.steps) for p in self.parts))
        self.group = self._group()
        self.lanes = self.unit.lanes(self.group)
        self.room = self.unit.registers // self.group - self.base - (self.lane is None)

    # registers -------------------------------------------------------------------------------------------------------

    def _parts(self) -> list["_Part"]:
        """The passes with their registers as numbers of groups."""
        found: list[_Part] = []
        held: dict[str, int] = {}
        at: dict[int, int] = {}
        first = 0
        for number, each in enumerate(self.nest.passes):
            along = self.lane or axis_along(each)
            sums: dict[str, int] = {}
            if each.axes:
                for fold in each.folds:
                    sums[fold.name], first = first, first + 1
                    at[sums[fold.name]] = next(g for g in range(len(at) + 1) if g not in at.values())
            name = None if along is None else along.name
            selected = Selection(self.unit, name, held, sums, first).of(each)
            placed, first = place(selected, at), selected.vectors
            top = 1 + max((at[v] for v in at), default=-1)
            found.append(_Part(each, along, placed, {n: placed.at[v] for n, v in selected.folds.items()}, top))
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
            raise MappingError(f"{needed} vectors at a time need more than the {self.unit.registers} registers")
        return next((g for g in reversed(fitting) if self.unit.lanes(g) >= longest), fitting[0])

    def _register(self, number: int, where: "_Where") -> int:
        shift = where.shift + (where.beside if number >= where.part.top else 0)
        return (self.base + shift + number) * self.group

    def _partial(self, size: int) -> bool:
        """Whether a register of a group is written in part."""
        return size % self.unit.lanes(1) > 0

    def _inner(self, part: "_Part", size: int) -> int:
        """Iterations of the innermost loop of a pass that have registers of their own."""
        own = max(1, part.placed.groups - part.top)
        free = self.room - part.top
        return max(1, min(COPIES, free // own)) if part.each.axes and self._partial(size) else 1

    def _needed(self, part: "_Part", size: int) -> int:
        """Groups of a pass with them."""
        return part.placed.groups + (self._inner(part, size) - 1) * max(1, part.placed.groups - part.top)

    def _outer(self, sizes: Sequence[int]) -> tuple[int, int]:
        """Iterations around the passes that have registers of their own, and how many groups each has."""
        needed = max(self._needed(p, size) for p, size in zip(self.parts, sizes, strict=True))
        wanted = COPIES if any(map(self._partial, sizes)) else 1
        return max(1, min(wanted, self.room // max(needed, 1))), needed

    # loops -----------------------------------------------------------------------------------------------------------

    def nodes(self) -> Nodes:
        """All of it."""
        body = self._inside() if self.lane is None else self._across(self.lane)
        return [*self.scalars.prologue, *body]

    def _across(self, lane: Axis) -> Nodes:
        """Points of the nest along a vector."""
        others = [a for a in self.nest.axes if a is not lane]
        found: Nodes = []
        for run in pieces(lane.extent, self.lanes):
            copies, groups = self._outer([run.size] * len(self.parts))

            def strips(copy: int, at: At, run: Piece = run, groups: int = groups) -> Nodes:
                return repeat(f"{lane.name}_strip", run.count, lambda i: [
                    node for part in self.parts for node in self._accumulated(_Where(
                        part, {**at, lane.name: (i + run.first) * self.lanes}, run.size, copy * groups))])

            found += [self.unit.length(run.size, self.group), *_loops(others, copies, strips)]
        return found

    def _inside(self) -> Nodes:
        """Points of a pass along a vector."""
        sizes = [1 if p.along is None else min(p.along.extent, self.lanes) for p in self.parts]
        copies, groups = self._outer(sizes)
        return _loops(self.nest.axes, copies, lambda copy, at: [
            node for part in self.parts for node in self._alone(_Where(part, at, 1, copy * groups))])

    def _accumulated(self, where: "_Where") -> Nodes:
        return [*self._begun(where), *self._points(where.part.each.axes, where)]

    def _points(self, axes: Sequence[Axis], where: "_Where") -> Nodes:
        """Loops of a pass."""
        own = max(1, where.part.placed.groups - where.part.top)
        return _loops(axes, self._inner(where.part, where.size), lambda copy, at: self._body(
            replace(where, at={**where.at, **at}, beside=copy * own)))

    def _begun(self, where: "_Where") -> Nodes:
        """Accumulators before the first point."""
        part, nodes = where.part, list[Node]()
        for fold in part.each.folds if part.each.axes else ():
            more, operand = self._scalar(NEUTRAL[fold.kind], "splat", where)
            nodes += [*more, self.unit.apply("splat", self._register(part.folds[fold.name], where), (operand,))]
        return nodes

    def _alone(self, where: "_Where") -> Nodes:
        """A pass along a vector, whose folds end as scalars."""
        part, each, lane = where.part, where.part.each, where.part.along
        if lane is None:
            nodes = [self.unit.length(1, self.group), *self._body(where)]
            return nodes + [self.unit.first(self.scalars.held(f.name), self._register(part.folds[f.name], where))
                            for f in each.folds]
        others, longest, body = [a for a in each.axes if a is not lane], min(lane.extent, self.lanes), list[Node]()
        for run in pieces(lane.extent, self.lanes):
            body += [self.unit.length(run.size, self.group), *repeat(
                f"{lane.name}_strip", run.count, lambda i, run=run: self._points(others, replace(  # type: ignore[misc]
                    where, size=run.size, at={**where.at, lane.name: (i + run.first) * self.lanes})))]
        if not each.folds:
            return body
        length = self.unit.length(longest, self.group)
        return [length, *self._begun(where), *body, length, *(n for f in each.folds for n in self._folded(f, where))]

    def _folded(self, fold: Fold, where: "_Where") -> Nodes:
        more, zero = self._scalar(Operation(NUMBER), "add", where)
        scratch = (self.unit.registers // self.group - 1) * self.group
        return [*more, *self.unit.fold(fold.kind, self.scalars.held(fold.name), self._register(
            where.part.folds[fold.name], where), zero.number, scratch)]

    # instructions ----------------------------------------------------------------------------------------------------

    def _body(self, where: "_Where") -> Nodes:
        return [node for step in where.part.placed.steps for node in self._step(step, where)]

    def _step(self, step: Step, where: "_Where") -> Iterator[Node]:
        into = 0 if step.into is None else self._register(step.into, where)
        given = [self._register(s, where) for s in step.sources if isinstance(s, int)]
        if step.name == "store":
            yield self.unit.store(given[0], *self._place(step.operation, where), step.operation.item)
        elif step.name == LOAD:
            yield self.unit.load(into, *self._place(step.operation, where), step.operation.item)
        elif step.name == GATHER:
            yield from self.unit.gather(
                into, self._address(step.operation, where), given[0], self._reach(step.operation, where.part),
                step.operation.item, where.size, self.group)
        elif step.name in ("widen", "narrow"):
            made = self.unit.widen if step.name == "widen" else self.unit.narrow
            yield from made(into, given[0], step.operation.item, where.size, self.group)
        else:
            operands = []
            for source in step.sources:
                more, operand = self._operand(source, step.name, where)
                yield from more
                operands.append(operand)
            yield self.unit.apply(step.name, into, operands)

    def _operand(self, source: Source, name: str, where: "_Where") -> tuple[Nodes, Operand]:
        if isinstance(source, int):
            return [], Operand("v", self._register(source, where))
        return self._scalar(source, name, where)

    def _scalar(self, source: Operation, name: str, where: "_Where") -> tuple[Nodes, Operand]:
        """What is the same for all lanes, where an instruction takes it."""
        kind = kind_of(source, name, self.unit)
        match source.name:
            case "load":
                register = self.scalars.scratch()
                return [self.unit.scalar(register, self._address(source, where))], Operand("f", register)
            case "held":
                return [], Operand("f", self.scalars.held(source.of))
            case "whole" if kind == "i":
                return [], Operand("i", int(source.value))
        bits = int(source.value) if source.name == WHOLE else float_bits(source.value)
        more, register = self.scalars.constant(kind, bits)
        return more, Operand(kind, register)

    def _address(self, word: Operation | Store, where: "_Where") -> Affine:
        return self.tensors[word.of].at + word.at.substitute(where.at) * ITEMS[word.item]

    def _place(self, word: Operation | Store, where: "_Where") -> tuple[Affine, int]:
        """Address and stride, in bytes."""
        along = where.part.along
        step = 1 if along is None else word.at.coefficient(along.name)
        return self._address(word, where), step * ITEMS[word.item]

    def _reach(self, word: Operation, part: "_Part") -> int:
        """How many bytes of a tensor lie behind the address of any lane's first element at least."""
        most = word.at.constant
        for axis in (*self.nest.axes, *part.each.axes):
            last = axis.extent - 1
            last = last // self.lanes * self.lanes if axis is part.along else last
            most += max(0, word.at.coefficient(axis.name)) * last
        return (self.tensors[word.of].count - most) * ITEMS[word.item]


At: TypeAlias = Mapping[str, Affine]
"""Values of axes in a part of the program."""


@dataclass(frozen=True)
class _Part:
    """A pass, the axis along its vectors, its steps, and the groups in which its folds end."""

    each: Pass
    along: Axis | None
    placed: Placed
    folds: Mapping[str, int]
    top: int
    """the groups before it are of what is held and of accumulators"""


@dataclass(frozen=True)
class _Where:
    """A copy of a pass: values of axes, elements of a vector, and how much higher its groups are than those of the
    first, and those behind accumulators once more."""

    part: _Part
    at: At
    size: int
    shift: int = 0
    beside: int = 0


def _loops(axes: Sequence[Axis], copies: int, body: Callable[[int, At], Nodes]) -> Nodes:
    """Loops over axes, by their names; of the innermost one so many iterations at a time, which ``body`` is told."""
    if not axes:
        return body(0, {})
    axis, *inner = axes
    if inner:
        return repeat(axis.name, axis.extent, lambda i: _loops(inner, copies, lambda copy, at: body(
            copy, {**at, axis.name: i})))
    found: Nodes = []
    for run in pieces(axis.extent, copies):
        found += repeat(axis.name, run.count, lambda i, run=run: [  # type: ignore[misc]
            node for copy in range(run.size)
            for node in body(copy, {axis.name: (i + run.first) * copies + copy})])
    return found
