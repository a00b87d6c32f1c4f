"""Instances of one instruction told apart by the banks that they touch, over the grid of the loops that decide it."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import ArchitectureGraph, Bank, FunctionalUnit
from archloom.acadl_models.timing.program import word_axes
from archloom.acadl_models.timing.routing import Need, Routing
from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.nests import ranges
from archloom.oracle.resolution.symbolic import grid
from archloom.oracle.resolved import Access, Buffer, ResolvedInstr, ResolvedLoop
from archloom.oracle.windows import linear, positions

Array = NDArray[np.int64]

MOST_INSTANCES = 4_000_000
"""The largest grid of loop values that is looked at for one instruction."""


class TooMany(Exception):
    """More instances than can be told apart; the text says whose."""


@dataclass(frozen=True, eq=False)
class Table:
    """``choice[k]``, ``k`` being indices along the loops ``loops``, numbers the entry of ``takers`` of an instance."""

    loops: tuple[str, ...]
    choice: Array
    takers: tuple[Mapping[str, FunctionalUnit], ...]

    def named(self, given: Sequence[str], wanted: Sequence[str]) -> "Table":
        """With the ``wanted`` names in place of the ``given`` ones."""
        return replace(self, loops=tuple([wanted[given.index(var)] for var in self.loops]))

    def at(self, indices: Mapping[str, int]) -> Mapping[str, FunctionalUnit]:
        """The takers where each loop is at the given index."""
        return self.takers[int(self.choice[tuple(indices[var] for var in self.loops)])]


@dataclass(frozen=True, eq=False)
class Rows:
    """Words of one access: the first as an expression, the others relative to it, and the banks in which they lie.

    ``banks`` ascend without gaps; ``starts`` are their first words.
    """

    first: Affine
    words: Array
    banks: tuple[Bank, ...]
    starts: tuple[int, ...]

    def touched(self, bounds: Bounds, first: Affine | None = None) -> range:
        """The numbers of the banks from the one of the smallest to the one of the largest word, over all loop values;
        ``first``: the first word in one instance."""
        low, high = (self.first if first is None else first).range(bounds)
        begin = bisect_right(self.starts, low + self._ends[0]) - 1
        last = bisect_right(self.starts, high + self._ends[1]) - 1
        return range(max(begin, 0), max(last, 0) + 1)

    @cached_property
    def _ends(self) -> tuple[int, int]:
        return int(self.words[0]), int(self.words[-1])

    def deciding(self, bounds: Bounds) -> Affine:
        """The first word as far as it decides which banks are touched: of many loops, often a few.

        Banks are whole numbers of equal cells. What moves the words within their cells decides nothing, and is left at
        its smallest.
        """
        begin = self.starts[0]
        cell = math.gcd(*[start - begin for start in self.starts])
        whole = tuple([term for term in self.first.terms if term[1] % cell == 0])
        within = Affine(self.first.constant - begin, tuple([t for t in self.first.terms if t[1] % cell]))
        low, high = within.range(bounds)
        if ((self.words + low) // cell != (self.words + high) // cell).any():
            return self.first
        return Affine(begin + low, whole)


def rows(graph: ArchitectureGraph, access: Access, buffer: Buffer) -> Rows | None:
    """The words of an access in the places of its buffer; None where one place holds all of it."""
    banks = graph.buffers.get(buffer.name, ())
    if len(banks) < 2:
        return None
    axes = word_axes(buffer, graph[banks[0].storage].data_width)  # type: ignore[attr-defined]
    if axes is None:
        return None
    window = access.window
    return Rows(
        linear(window.offsets[:axes], buffer.shape[:axes]), positions(window.dims, buffer.shape, axes),
        banks, graph.first_rows[buffer.name],
    )


def told_by(
    node: ResolvedInstr, touched: Sequence[Access], words: Sequence[Rows | None], around: Sequence[ResolvedLoop]
) -> tuple[tuple[object, ...], tuple[str, ...]]:
    """What decides where instances go, and the loops in it, outermost first. Of instructions for which the former is
    equal :func:`tell_apart` finds the same, but for the names of these loops."""
    bounds = ranges(around)
    firsts = [None if place is None else place.deciding(bounds) for place in words]
    names = {var for first in firsts if first is not None for var in first.variables()}
    loops = [loop for loop in around if loop.var in names]
    number = {loop.var: k for k, loop in enumerate(loops)}

    def nameless(first: Affine) -> tuple[object, ...]:
        if not first.is_linear:
            return first, *number
        return first.constant, *sorted((number[str(atom)], factor) for atom, factor in first.terms)

    said = [(access.window.buffer, access.kind,
             *(() if place is None or first is None else (nameless(first), place.words.tobytes())))
            for access, place, first in zip(touched, words, firsts)]
    return (node.mnemonic, *[loop.values for loop in loops], *said), tuple(number)


def tell_apart(
    routing: Routing, node: ResolvedInstr, touched: Sequence[Access], words: Sequence[Rows | None],
    around: Sequence[ResolvedLoop],
) -> tuple[Table, list[str]]:
    """Who takes each instance of ``node``, and why some are taken by none; ``words``: of each access (:func:`rows`)."""
    graph = routing.graph
    bounds = ranges(around)
    constant: set[Need] = set()
    varying: list[tuple[tuple[str, ...], Array, list[frozenset[Need]]]] = []
    loops = {loop.var: loop for loop in around}
    for access, place in zip(touched, words):
        is_read = access.kind == "read"
        banks = graph.buffers.get(access.window.buffer, ())
        if place is not None:
            inside = place.touched(bounds)
            banks = place.banks[inside.start : inside.stop]
        if place is None or len(banks) == 1:
            constant.update((bank.storage, is_read) for bank in banks)
            continue
        names, choice, sets = banks_touched(node, place, loops, bounds)
        if len(sets) == 1:
            constant.update((bank, is_read) for bank in sets[0])
        else:
            varying.append((names, choice, [frozenset((bank, is_read) for bank in s) for s in sets]))
    return _joined(routing, node, constant, varying, loops)


def banks_touched(
    node: ResolvedInstr, place: Rows, loops: Mapping[str, ResolvedLoop], bounds: Bounds
) -> tuple[tuple[str, ...], Array, list[frozenset[str]]]:
    """Over the grid of the loops that decide it: the number of the set of banks that an access touches, and the sets.

    ``bounds`` are those of the loops.
    """
    deciding = place.deciding(bounds)
    names = tuple(var for var in loops if var in deciding.variables())
    _check_size(node, [loops[v].extent for v in names])
    firsts = np.asarray(deciding.evaluate(grid({v: loops[v].values for v in names})), dtype=np.int64)
    firsts = np.broadcast_to(firsts, [loops[v].extent for v in names])
    distinct, inverse = np.unique(firsts, return_inverse=True)
    starts = np.array(place.starts)
    low = np.searchsorted(starts, distinct + place.words[0], side="right") - 1
    high = np.searchsorted(starts, distinct + place.words[-1], side="right") - 1
    sets: dict[frozenset[str], int] = {}
    numbers = np.empty(len(distinct), np.int64)
    for k, (first, a, b) in enumerate(zip(distinct.tolist(), low.tolist(), high.tolist())):
        inside: Iterable[int] = (a,)
        if a != b:
            inside = np.unique(np.searchsorted(starts, first + place.words, side="right") - 1).tolist()
        numbers[k] = sets.setdefault(frozenset(place.banks[max(i, 0)].storage for i in inside), len(sets))
    return *_needed(names, numbers[inverse].reshape(firsts.shape)), list(sets)


def _needed(names: tuple[str, ...], choice: Array) -> tuple[tuple[str, ...], Array]:
    """The table without the axes along which nothing changes."""
    for axis in reversed(range(len(names))):
        first = choice.take([0], axis)
        if (choice == first).all():
            choice, names = first.squeeze(axis), names[:axis] + names[axis + 1 :]
    return names, choice


def _joined(
    routing: Routing, node: ResolvedInstr, constant: Collection[Need],
    varying: Sequence[tuple[tuple[str, ...], Array, list[frozenset[Need]]]], loops: Mapping[str, ResolvedLoop],
) -> tuple[Table, list[str]]:
    names = tuple(var for var in loops if any(var in own for own, _, _ in varying))
    extents = [loops[v].extent for v in names]
    _check_size(node, extents)
    code = np.zeros(extents, np.int64)
    for own, choice, sets in varying:
        shape = [loops[v].extent if v in own else 1 for v in names]
        code = code * len(sets) + choice.reshape(shape)
        _, packed = np.unique(code, return_inverse=True)
        code = packed.reshape(extents)
    takers: list[Mapping[str, FunctionalUnit]] = []
    numbers: dict[int, int] = {}
    faults: list[str] = []
    _, firsts, inverse = np.unique(code, return_index=True, return_inverse=True)
    chosen = np.empty(len(firsts), np.int64)
    for k, first in enumerate(firsts.tolist()):
        index = np.unravel_index(first, extents) if extents else ()
        at = dict(zip(names, map(int, index)))
        met = (sets[int(choice[tuple(at[v] for v in own)])] for own, choice, sets in varying)
        needs = frozenset(constant).union(*met)
        taker = routing.takers(node.mnemonic, needs)
        if not taker:
            where = ", ".join(f"{v}={loops[v].values[k]}" for v, k in at.items())
            why = routing.refusals(node.mnemonic, needs)
            faults.append(f"no unit processes {node.mnemonic!r}{where and f' where {where}'}: {why}")
        if id(taker) not in numbers:
            numbers[id(taker)] = len(takers)
            takers.append(taker)
        chosen[k] = numbers[id(taker)]
    names, choice = _needed(names, chosen[inverse].reshape(extents))
    return Table(names, choice, tuple(takers)), faults


def _check_size(node: ResolvedInstr, extents: Sequence[int]) -> None:
    count = int(np.prod(extents, dtype=object)) if extents else 1
    if count > MOST_INSTANCES:
        raise TooMany(
            f"the unit that takes {node.mnemonic!r} depends on {count} combinations of loop values; at most "
            f"{MOST_INSTANCES} can be told apart: connect its units to all banks, or split the loops"
        )
