"""Forms of accesses and routes of instructions: what the tables of all streams on a graph have in common.

These words lie behind those of the graph, in the tables of every stream at the same place.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, TypeAlias

import numpy as np

from archloom.acadl_models.acadl import FunctionalUnit
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.layout import AccessKind, AccessSpec, H, Holds
from archloom.acadl_models.timing.engine.lowering.patterns import Pattern, beats, pattern, patterns, pieces, runs
from archloom.acadl_models.timing.engine.lowering.tables import Array
from archloom.acadl_models.timing.program import AccessPlan, Place, whole_bursts, word_axes
from archloom.oracle.memory import Remembered
from archloom.oracle.resolved import Buffer, WindowDim
from archloom.oracle.taidl import ast

if TYPE_CHECKING:
    from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables

_KEPT = 256
"""Ranges of which is kept what latencies these decide."""

_KEPT_BY_IDENTITY = 1 << 16
"""Forms that are found by the identity of what they are about."""

KINDS = {"read": AccessKind.READ, "write": AccessKind.WRITE, "accumulate": AccessKind.ACCUMULATE}

READS_HOLD = {"finished": Holds.UNTIL_FINISH, "started": Holds.UNTIL_START, "ignored": Holds.NEVER}
"""By the value of ``write_after_read``."""

Runs: TypeAlias = Sequence[tuple[int, int]]
"""First word and number of words of each maximal run, ascending."""

Ranges: TypeAlias = tuple[tuple[int, int] | None, ...]
"""The smallest and the largest value of each name; None where there is none."""


@dataclass(eq=False)
class Form:
    """What accesses have in common that go to one place with windows of one shape: all but where they lie.

    ``patterns`` has one entry for each axis of the buffer; ``strides``: how many words a step along each leading axis
    is, none where nothing takes requests; ``word_shape`` is the pattern of words; ``moved``: the runs that a request
    asks for, or None where loops decide which bursts these are. ``template``: their AccessSpec, the stores open (NONE)
    where latencies decide these; ``lists``: what :meth:`Shared.list_patterns` finds.
    """

    place: Place
    kind: int
    patterns: tuple[Pattern, ...]
    strides: tuple[int, ...]
    word_shape: Pattern
    moved: Runs | None
    template: list[int]
    lists: dict[tuple[int, ...], tuple[int, int, int]] = field(default_factory=dict)

    FACTS: ClassVar = ("kind", "holds", "banks", "requests", "axes", "is moved", "needs a word")
    """What accesses take from their form as columns (:class:`.accesses.Accesses`)."""

    def __post_init__(self) -> None:
        self.spans = tuple(s.span for s in self.patterns)
        self.is_moved = any(s.origin for s in self.patterns)
        self.requests = sum(pieces(self.word_shape, line) if line else 1 for line in self.place.lines)
        """That an access makes at most."""
        self.is_spread = len(self.place.banks) > 1
        """Over several banks."""
        self.is_placed = self.template[AccessSpec.PLACE] != NONE
        """Whether it must be known where they lie in a memory."""
        self.needs_word = self.is_spread or self.is_placed
        self.is_open = self.template[AccessSpec.STORES] == NONE and len(self.place.banks) > 0
        holds = READS_HOLD[self.place.write_after_read] if self.kind == AccessKind.READ else Holds.UNTIL_FINISH
        self.facts = (self.kind, holds, len(self.place.banks), self.requests, len(self.patterns), int(self.is_moved),
                      int(self.needs_word))
        """The ``FACTS`` of its accesses."""


@dataclass(eq=False)
class Way:
    """How instructions with one mnemonic go that the same units take: what ``names`` stand for decides latencies.

    ``routes``: positions and numbers of the records and ``Instruction.FIRST`` by the ranges of names; None where these
    leave a latency open.
    """

    takers: Mapping[str, FunctionalUnit]
    routed: frozenset[str]
    names: tuple[str, ...]
    routes: Remembered[Ranges, tuple[int, int, int] | None] = field(default_factory=lambda: Remembered(_KEPT))


class Shared:
    """Words that follow those of a graph, and what they are about."""

    def __init__(self, graph: GraphTables) -> None:
        self.graph = graph
        self.start = H.SIZE + len(graph.words)
        self._words = array("q")
        self._lock = threading.Lock()
        self._forms: dict[tuple[Place, str, tuple[WindowDim, ...], int | None], Form] = {}
        self._by_identity: Remembered[tuple[int, str, int, int | None], tuple[Form, Place, tuple[WindowDim, ...]]]
        self._by_identity = Remembered(_KEPT_BY_IDENTITY)
        """The same by the identities of place and dimensions, which it holds: accesses of instances of one template
        have the same ones."""
        self._ways: dict[tuple[int, int, str, bool], Way] = {}
        self.latencies: Remembered[tuple[str, int, Ranges], int] = Remembered(_KEPT)
        """Latencies of stages and units by expression, least value and the ranges of what it names."""

    def __len__(self) -> int:
        return len(self._words)

    def put(self, values: Sequence[int]) -> int:
        """Append words; returns their position."""
        return self.place(lambda _: values)

    def place(self, make: Callable[[int], Sequence[int]]) -> int:
        """Append what is made for a position; returns that."""
        with self._lock:
            position = self.start + len(self._words)
            self._words.extend(make(position))
            return position

    def words(self) -> Array:
        """All words so far."""
        with self._lock:
            return np.array(self._words, dtype=np.int64)

    def form(self, plan: AccessPlan) -> Form:
        """The form of an access."""
        place, dims = plan.place, plan.access.window.dims
        kind, word = plan.kind, _place_in_burst(plan) if place.has_bursts else 0
        short = id(place), kind, id(dims), word
        known = self._by_identity.get(short)
        if known is not None:
            return known[0]
        key = place, kind, dims, word
        found = self._forms.get(key)
        if found is None:
            found = self._forms[key] = self._new_form(plan, word)
        self._by_identity[short] = found, place, dims
        return found

    def list_patterns(self, form: Form, axes: tuple[int, ...]) -> tuple[int, int, int]:
        """The position of the patterns of some axes of a form, whether all are dense, and the span of the first."""
        found = form.lists.get(axes)
        if found is None:
            shapes = [form.patterns[a] for a in axes]
            place = self.put([*[self.put(s.flat()) for s in shapes], *[s.span for s in shapes]])
            found = form.lists[axes] = place, int(all(s.dense for s in shapes)), shapes[0].span
        return found

    def way(self, takers: Mapping[str, FunctionalUnit], routed: frozenset[str], mnemonic: str, requests: bool) -> Way:
        """How an instruction goes; the identities of both collections stand for them, and the way holds them."""
        key = id(takers), id(routed), mnemonic, requests
        found = self._ways.get(key)
        if found is None:
            found = self._ways[key] = Way(takers, routed, self._names(takers, routed, mnemonic))
        return found

    def _names(self, takers: Mapping[str, FunctionalUnit], routed: Iterable[str], mnemonic: str) -> tuple[str, ...]:
        """What the latencies on the way of an instruction name."""
        graph, found = self.graph, set[str]()
        for name in routed:
            if name in graph.stage_numbers:
                found |= graph.stage_latencies[graph.stage_numbers[name]].names
        for unit in takers.values():
            found = found.union(*(expression.names for expression in unit.cycles_of(mnemonic).values()))
        return tuple(sorted(found))

    # --- forms -------------------------------------------------------------------------------------------------
    def _new_form(self, plan: AccessPlan, begin: int | None) -> Form:
        window, place = plan.access.window, plan.place
        shapes = patterns(window.dims, len(window.offsets))
        strides: tuple[int, ...] = ()
        word_shape = pattern(())
        if place.banks:
            strides = _word_strides(plan.buffer.shape, plan.buffer.dtype, place.data_width)
            progressions = tuple((stride * s, n) for stride, shape in zip(strides, shapes) for s, n in shape.dims)
            word_shape = shapes[0] if strides == (1,) else pattern(progressions)
        kind, moved = KINDS[plan.kind], None
        if begin is not None:
            burst = max(place.bursts, default=1)
            first = (begin + word_shape.origin) % burst
            moved = whole_bursts([(first + at, n) for at, n in runs(word_shape)], burst)
        template = self._template(place, kind, word_shape, moved)
        return Form(place, kind, shapes, strides, word_shape, moved, template)

    def _template(self, place: Place, kind: int, word_shape: Pattern, moved: Runs | None) -> list[int]:
        banks, each = place.banks, runs(word_shape)
        record = [0] * AccessSpec.SIZE
        record[AccessSpec.KIND], record[AccessSpec.STORE_COUNT] = kind, len(banks)
        record[AccessSpec.REACH] = FOREVER
        record[AccessSpec.WORD] = record[AccessSpec.WORD_NODE] = record[AccessSpec.STORES] = NONE
        record[AccessSpec.SPAN], record[AccessSpec.WORDS] = word_shape.span + 1, _words(moved or each)
        record[AccessSpec.DATA_WIDTH] = place.data_width
        placed = moved is None or self.graph.memories.is_placed(place)
        record[AccessSpec.PLACE] = 0 if placed else NONE
        if len(banks) > 1 or placed:
            record[AccessSpec.RUNS], record[AccessSpec.RUN_COUNT] = self.put([v for r in each for v in r]), len(each)
        sizes = {(b.stop or 0) - b.start for b in banks}
        size = sizes.pop() if len(sizes) == 1 else 0
        record[AccessSpec.BANK_SHIFT] = size.bit_length() - 1 if size and size & (size - 1) == 0 else NONE
        latencies = [constant_latency(self.graph, kind, bank.storage) for bank in banks]
        if banks and 0 not in latencies and all(len(path) == 1 for path in place.paths):
            known = iter(latencies)
            record[AccessSpec.STORES] = self.put(
                bank_records(self.graph, place, moved, each, lambda _: next(known), lambda _: NONE, self.put)
            )
        return record


def constant_latency(graph: GraphTables, kind: int, storage: str) -> int:
    """The latency of requests to a storage if it is a number that is legal, else 0."""
    root = graph.storage_latencies[graph.storage_numbers[storage]][int(kind != AccessKind.READ)].root
    return max(0, int(root.value)) if isinstance(root, ast.Number) else 0


def _place_in_burst(plan: AccessPlan) -> int | None:
    """The word of a burst with which an access begins, where there are bursts; None where loops or banks decide it."""
    place = plan.place
    burst, offset = place.bursts[0], plan.word_offset
    if len(place.banks) > 1 or any(coefficient % burst for _, coefficient in offset.terms):
        return None
    return (offset.constant + place.bases[0]) % burst


def _words(each: Runs) -> int:
    return sum(count for _, count in each)


def bank_records(
    graph: GraphTables, place: Place, moved: Runs | None, each: Runs, latency: Callable[[str], int],
    way: Callable[[tuple[str, ...]], int], put: Callable[[list[int]], int],
) -> list[int]:
    """The BufferPart records of accesses; ``latency`` by storage and ``way`` by path code what names may decide.

    ``moved``: the runs that a request asks for, if known; ``each``: those of the words of an access. ``put`` appends
    words to the tables and returns their position.
    """
    records: list[int] = []
    asked = moved or each
    size = -(-_words(asked) * place.data_width // 8)
    parts = zip(place.banks, place.paths, place.bases, place.channels, place.lines, place.bursts)
    for bank, path, base, channels, line, burst in parts:
        number, lanes = graph.storage_numbers[bank.storage], NONE
        if channels is None:
            moves = beats(asked, graph.storages[number].port_width)
        else:
            on_each = channels.beats(asked)
            lanes, moves = put(on_each), max(on_each)
        records += [
            number, bank.start, bank.stop or 0, moves, size, size // moves,
            latency(bank.storage), base, way(path), graph.memories.spaces.get(path[-1], NONE), lanes, line,
            burst if moved is None else 1,
        ]  # fmt: skip
    return records


@lru_cache(maxsize=1024)
def _word_strides(shape: tuple[int, ...], dtype: str, data_width: int) -> tuple[int, ...]:
    """How many words a step along each leading axis of a buffer is; the axes after them make up one word."""
    axes = word_axes(Buffer("", shape, dtype), data_width)
    assert axes is not None
    return tuple(math.prod(shape[axis + 1 : axes]) for axis in range(axes))
