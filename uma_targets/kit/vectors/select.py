"""Instructions of a pass: which operands are scalars and which vectors, and in which registers vectors are.

A number is the same for all lanes, or a vector. What is the same and comes from memory, a register or the program is an
operand of an instruction where it takes one, else it is spread over a vector. Vectors get groups of registers by
number, each as long as it is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from archloom.mapper.nests import COMPARISONS, FOLDS, GATHER, ITEMS, WHOLE, Fold, Operation, Pass
from archloom.oracle.errors import MappingError
from archloom.uma_targets.kit.vectors.unit import Unit

INTEGER = frozenset({"to_float", "whole_add", "whole_subtract", "whole_multiply", "whole_minimum", "whole_maximum",
                     "whole_and", "whole_or", "shift_left", "shift_right", "unsigned_shift_right", "multiply_high",
                     "whole_less", "whole_equal", "unsigned_less"})
"""Operations of which operands are int32."""
ACCUMULATED = {"sum": "add", **{kind: kind for kind in FOLDS if kind != "sum"}}

Source: TypeAlias = "int | Operation"
"""A vector by its number, or an operation that is the same for all lanes."""


@dataclass(frozen=True)
class Step:
    """An instruction on vectors by number: ``name`` is that of the unit, or load, store, widen, narrow or gather of
    ``operation``.

    ``into`` is None for comparisons and stores. ``tied``: the vector that ``into`` takes the place of; ``apart``: it
    may not take that of a source.
    """

    name: str
    into: int | None
    sources: tuple[Source, ...] = ()
    operation: Any = None
    tied: int | None = None
    apart: bool = False


@dataclass
class Selected:
    """The steps of a pass; ``folds`` gives for each fold the vector that holds it at the end, ``kept`` the vectors that
    stay: those of folds, and of what is held in vectors."""

    steps: list[Step]
    folds: dict[str, int]
    vectors: int
    kept: frozenset[int]


@dataclass
class Selection:
    """Of one pass; ``held``: numbers of vectors of what earlier passes have found, where these are vectors, and
    ``accumulators`` those of its folds, where these go on from point to point."""

    unit: Unit
    lane: str | None
    held: Mapping[str, int]
    accumulators: Mapping[str, int]
    first: int
    """number of the first vector that is free"""
    steps: list[Step] = field(default_factory=list)
    places: dict[int, Source] = field(default_factory=dict)
    spread: dict[Operation, int] = field(default_factory=dict)
    count: int = 0

    def of(self, each: Pass) -> Selected:
        self.count, self.code = self.first, each.code
        self.whole, self.moved = _read_as_whole(each.code), _only_moved(each)
        products = _only_summed(each) if self.accumulators else frozenset()
        for place, operation in enumerate(each.code):
            if operation.name not in COMPARISONS and place not in products:
                self.places[place] = self._number(place, operation)
        for store in each.stores:
            vector = self._vector(self.places[store.value])
            if store.item and store.value not in self.moved:
                vector = self._new("narrow", (vector,), store)
            self.steps.append(Step("store", None, (vector,), store))
        folds = {f.name: self._folded(f, each.code, f.value in products) for f in each.folds}
        kept = frozenset({*self.held.values(), *self.accumulators.values(), *folds.values()})
        return Selected(self.steps, folds, self.count, kept)

    # numbers ----------------------------------------------------------------------------------------------------------

    def _number(self, place: int, operation: Operation) -> Source:
        match operation.name:
            case "number" | "whole":
                return operation
            case "held":
                return self.held.get(operation.of, operation)
            case "load":
                same = self.lane is None or operation.at.coefficient(self.lane) == 0
                if same and place not in self.whole and not operation.item:
                    return operation
                return self._widened(place, self._new("load", (), operation), operation)
            case "gather":
                return self._gathered(place, operation)
        return self._applied(operation.name, tuple(self.places.get(a, a) for a in operation.args), operation)

    def _gathered(self, place: int, operation: Operation) -> int:
        words = self._vector(self.places[operation.args[0]])
        step = 0 if self.lane is None else operation.at.coefficient(self.lane)
        if step:
            lanes = self._new("lane")
            if step != 1:
                lanes = self._applied("whole_multiply", (lanes, Operation(WHOLE, value=step)))
            words = self._applied("whole_add", (words, lanes))
        size = ITEMS[operation.item].bit_length() - 1
        offsets = self._applied("shift_left", (words, Operation(WHOLE, value=size))) if size else words
        return self._widened(place, self._new(GATHER, (offsets,), operation), operation)

    def _widened(self, place: int, elements: int, operation: Operation) -> int:
        """Numbers that are narrower in memory, unless they are stored as they were."""
        if not operation.item or place in self.moved:
            return elements
        return self._new("widen", (elements,), operation, apart=True)

    def _applied(self, name: str, sources: tuple[Source, ...], operation: Operation | None = None) -> int:
        if name == "select":
            assert operation is not None
            return self._chosen(operation)
        if name == "multiply_add":
            return self._fused(*sources)
        return self._new(name, self._operands(name, sources))

    def _chosen(self, operation: Operation) -> int:
        """One of two, by a comparison right before."""
        condition, *others = operation.args
        compared = self.code[condition]
        if compared.name not in COMPARISONS:
            raise MappingError(f"select expects a comparison, found {compared.name}")
        sources = self._operands("select", tuple(self.places[a] for a in others))
        given = self._operands(compared.name, tuple(self.places[a] for a in compared.args))
        self.steps.append(Step(compared.name, None, given))
        return self._new("select", sources)

    def _fused(self, a: Source, b: Source, c: Source) -> int:
        """``a * b + c`` in the place of ``c``."""
        if isinstance(c, Operation):
            c = self._new("splat", (c,))  # a place of its own, which is not shared
        factors = self._operands("multiply_add", (a, b))
        return self._new("multiply_add", (*factors, c), tied=c)

    def _operands(self, name: str, sources: tuple[Source, ...]) -> tuple[Source, ...]:
        """With scalars spread until there is an instruction."""
        given = sources
        scalars = [i for i, s in enumerate(sources) if isinstance(s, Operation)]
        for place in reversed(scalars) if name == "select" else scalars:
            if self.unit.has(name, [kind_of(s, name, self.unit) for s in given]):
                break
            given = (*given[:place], self._vector(given[place]), *given[place + 1:])
        if not self.unit.has(name, kinds := [kind_of(s, name, self.unit) for s in given]):
            raise MappingError(f"the vector unit has no {name} of {' '.join(kinds)}")
        return given

    def _vector(self, source: Source) -> int:
        if isinstance(source, int):
            return source
        if source.name == WHOLE:  # anew, so that it is no vector that stays
            return self._new("splat", (source,))
        if source not in self.spread:
            self.spread[source] = self._new("splat", (source,))
        return self.spread[source]

    def _new(self, name: str, sources: tuple[Source, ...] = (), operation: Any = None, tied: int | None = None,
             apart: bool = False) -> int:
        self.count += 1
        self.steps.append(Step(name, self.count - 1, sources, operation, tied, apart))
        return self.count - 1

    # folds ------------------------------------------------------------------------------------------------------------

    def _folded(self, fold: Fold, code: Sequence[Operation], product: bool) -> int:
        """A point's number is taken into the accumulator, or is the fold itself where there is one point."""
        if fold.name not in self.accumulators:
            return self._vector(self.places[fold.value])
        sums = self.accumulators[fold.name]
        if product:
            factors = tuple(self.places[a] for a in code[fold.value].args)
            self.steps.append(Step("multiply_add", sums, (*self._operands("multiply_add", factors), sums), tied=sums))
        else:
            name = ACCUMULATED[fold.kind]
            given = self._operands(name, (sums, self.places[fold.value]))
            self.steps.append(Step(name, sums, given))
        return sums


def kind_of(source: Source, name: str, unit: Unit) -> Any:
    """Where an operand of an operation would be."""
    if isinstance(source, int):
        return "v"
    if source.name != WHOLE:
        return "f"
    return "i" if unit.fits(name, int(source.value)) and unit.has(name, ["v", "i"]) else "x"


def _read_as_whole(code: Sequence[Operation]) -> frozenset[int]:
    """Numbers that are read as int32: those are no scalars of floats."""
    return frozenset(a for o in code if o.name in INTEGER or o.name == GATHER for a in o.args)


def _only_moved(each: Pass) -> frozenset[int]:
    """What is narrower in memory, and only stored as what it was there."""
    computed = {a for o in each.code for a in o.args} | {f.value for f in each.folds}
    other = {s.value for s in each.stores if s.item != each.code[s.value].item}
    return frozenset({s.value for s in each.stores if s.item} - computed - other)


def _only_summed(each: Pass) -> frozenset[int]:
    """Products that nothing reads but a sum, which are added to it at once."""
    read = [a for o in each.code for a in o.args] + [s.value for s in each.stores] + [f.value for f in each.folds]
    return frozenset(f.value for f in each.folds
                     if f.kind == "sum" and each.code[f.value].name == "multiply" and read.count(f.value) == 1)


# --- registers -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Placed:
    """Steps whose vectors are numbers of groups, of which they need ``groups``; ``at`` has those that stay."""

    steps: tuple[Step, ...]
    groups: int
    at: Mapping[int, int]


def place(selected: Selected, at: Mapping[int, int]) -> Placed:
    """Groups for all vectors; ``at`` has those of vectors that were there before."""
    last: dict[int, int] = {}
    for number, step in enumerate(selected.steps):
        last |= dict.fromkeys((s for s in step.sources if isinstance(s, int)), number)
    last |= dict.fromkeys(selected.kept, len(selected.steps))
    where, busy, most = dict(at), set(at.values()), len(at)
    steps: list[Step] = []

    def taken() -> int:
        free = next(g for g in range(len(busy) + 1) if g not in busy)
        busy.add(free)
        return free

    for number, step in enumerate(selected.steps):
        dead = {s for s in step.sources if isinstance(s, int) and last[s] == number and s not in at}
        sources = tuple(where[s] if isinstance(s, int) else s for s in step.sources)
        if step.tied is not None and step.into != step.tied:
            if step.tied in dead:
                where[step.into] = where[step.tied]  # type: ignore[index]
                dead.discard(step.tied)
            else:
                where[step.into] = taken()  # type: ignore[index]
                steps.append(Step("copy", where[step.into], (where[step.tied],)))  # type: ignore[index]
        busy -= set() if step.apart else {where[s] for s in dead}
        if step.into is not None and step.into not in where:
            where[step.into] = taken()
            most = max(most, where[step.into] + 1)
            if step.into not in last:  # read by nothing
                busy.discard(where[step.into])
        most = max(most, len(busy), *(g + 1 for g in busy), 0)
        into = None if step.into is None else where[step.into]
        busy -= {where[s] for s in dead} if step.apart else set()
        kept = sources[:-1] if step.tied is not None else sources
        steps.append(replace(step, into=into, sources=kept))
    return Placed(tuple(steps), most, {v: where[v] for v in selected.kept if v in where})


def masked(steps: Iterable[Step]) -> bool:
    """Whether there are masks, so that the first register is not free."""
    return any(s.name in COMPARISONS for s in steps)
