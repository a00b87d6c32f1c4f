"""Lowering accesses: where in which storages they lie, axes that decide about conflicts, and which may meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.acadl import DataStorage
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessKind, AccessSpec, BucketSpec, H, Holds
from archloom.acadl_models.timing.engine.lowering.expressions import Expressions, Latencies
from archloom.acadl_models.timing.engine.lowering.forms import Form, bank_records, constant_latency
from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables
from archloom.acadl_models.timing.engine.lowering.patterns import runs
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.phases.meeting import connect, list_pairs
from archloom.acadl_models.timing.engine.state import Access, Ends
from archloom.acadl_models.timing.program import StaticInstruction
from archloom.oracle.affine import Affine, Bounds

_ZERO = Affine(0)


class Entry:
    """One access of one instruction of the program text.

    ``offsets`` has one expression for each axis, of the smallest element that is touched; ``word`` is the first word
    address, where it is needed. ``low`` and ``high``: the smallest and the largest element that is touched along each
    axis, over all iterations. ``conflict_class`` and ``axes`` (those that decide) are found by :func:`classify`.
    """

    __slots__ = ("axes", "conflict_class", "form", "high", "kind", "loops", "low", "offsets", "order", "word")

    def __init__(self, form: Form, offsets: tuple[Affine, ...], bounds: Bounds, loops: tuple[str, ...], order: int):
        self.form, self.kind, self.order, self.loops = form, form.kind, order, loops
        if form.is_moved:
            offsets = tuple([o + s.origin for o, s in zip(offsets, form.patterns)])
        self.offsets = offsets
        self.word = _ZERO
        if form.needs_word:
            whole = form.strides == (1,)
            self.word = offsets[0] if whole else sum((o * s for o, s in zip(offsets, form.strides)), _ZERO)
        ranges = [(o.constant, o.constant) if not o.terms else o.range(bounds) for o in offsets]
        self.low = [low for low, _ in ranges]
        self.high = [high + span for (_, high), span in zip(ranges, form.spans)]
        self.conflict_class = NONE
        self.axes: tuple[int, ...] = ()


LARGEST_CLASS = 128
"""Accesses of a class that are compared one by one before the run; in larger ones whatever meets."""


@dataclass(frozen=True, eq=False)
class Classes:
    """Which accesses may meet; those that meet nothing have no class.

    ``count`` classes; ``met``: for each class of at most ``LARGEST_CLASS`` members a square table, by their ranks,
    whether two of them may meet; ``rows`` and ``ranks`` by order: where the row of an access lies in ``met`` (NONE in
    larger classes), and its rank. All int64.
    """

    count: int
    met: Array
    rows: list[int]
    ranks: list[int]
    _columns: tuple[Array, ...]
    _orders: list[int]
    _pairs: int

    def pairs(self) -> tuple[Array, Array]:
        """The pairs of accesses that may meet, by their orders, int64 [pairs]: the smaller first and ascending."""
        first, second = np.empty(self._pairs, np.int64), np.empty(self._pairs, np.int64)
        nowhere = np.full(len(self._orders), NONE)
        list_pairs(*self._columns, nowhere, nowhere, _NOTHING, first, second)
        orders = np.array(self._orders, np.int64)
        a, b = orders[first], orders[second]
        ascending = np.argsort(np.minimum(a, b), kind="stable")
        return np.minimum(a, b)[ascending], np.maximum(a, b)[ascending]


_NOTHING = np.zeros(0, np.int64)


def classify(entries: list[Entry]) -> Classes:
    """Find the accesses that may meet, and give each connected part of them a conflict class."""
    groups: dict[str, list[Entry]] = {}
    for e in entries:
        if e.form.place.tracked:
            groups.setdefault(e.form.place.buffer, []).append(e)
    flat: list[Entry] = []
    ends: list[int] = []
    sweeps: list[int] = []
    for group in groups.values():
        if group[0].kind != AccessKind.WRITE and len({e.kind for e in group}) == 1:
            continue
        distinct = [len({e.low[axis] for e in group}) for axis in range(len(group[0].low))]
        sweep = distinct.index(max(distinct))
        flat += sorted(group, key=lambda e: e.low[sweep])
        ends += [len(flat)] * len(group)
        sweeps += [sweep] * len(group)
    columns = _columns(flat, ends, sweeps)
    label, related = np.empty(len(flat), np.int64), np.empty(len(flat), np.int64)
    pairs = connect(*columns, label, related)
    parts: dict[int, list[Entry]] = {}
    for e, number, meets in zip(flat, label.tolist(), related.tolist()):
        if meets:
            parts.setdefault(number, []).append(e)
    rows, ranks, size = [NONE] * len(entries), [0] * len(entries), 0
    for number, part in enumerate(parts.values()):
        # axes along which all start at one fixed place decide nothing: any two of them have it in common
        axes = tuple([
            a for a, low in enumerate(part[0].low) if any(e.offsets[a].terms or e.low[a] != low for e in part)
        ])
        for e in part:
            e.conflict_class, e.axes = number, axes
        if len(part) <= LARGEST_CLASS:
            for rank, e in enumerate(part):
                rows[e.order], ranks[e.order] = size, rank
                size += len(part)
    met = np.zeros(size, np.int64)
    orders = [e.order for e in flat]
    mine = np.array([rows[k] for k in orders], np.int64), np.array([ranks[k] for k in orders], np.int64)
    list_pairs(*columns, *mine, met, _NOTHING, _NOTHING)
    met[[rows[e.order] + ranks[e.order] for e in flat if e.kind == AccessKind.WRITE and rows[e.order] != NONE]] = 1
    return Classes(len(parts), met, rows, ranks, columns, orders, int(pairs))


def _columns(flat: list[Entry], ends: list[int], sweeps: list[int]) -> tuple[Array, ...]:
    """What :mod:`.meeting` is told about accesses; axes that a buffer does not have are the same for all."""
    axes = max([len(e.low) for e in flat], default=1)
    low, high = np.zeros((len(flat), axes), np.int64), np.zeros((len(flat), axes), np.int64)
    by_axes: dict[int, list[int]] = {}
    for k, e in enumerate(flat):
        by_axes.setdefault(len(e.low), []).append(k)
    for count, where in by_axes.items():
        low[where, :count] = [flat[k].low for k in where]
        high[where, :count] = [flat[k].high for k in where]
    kinds = np.array([e.kind for e in flat], np.int64)
    return kinds, low.ravel(), high.ravel(), np.array(ends, np.int64), np.array(sweeps, np.int64)


# --- records ---------------------------------------------------------------------------------------------------
class AccessLowering:
    """Makes the records of accesses; the table of ``classes`` lies from ``place`` on."""

    def __init__(
        self, tables: Tables, graph: GraphTables, expressions: Expressions, latencies: Latencies, classes: Classes,
        place: int,
    ) -> None:
        self.tables, self.graph, self.expressions, self.latencies = tables, graph, expressions, latencies
        self.met, self.ranks = [NONE if row == NONE else place + row for row in classes.rows], classes.ranks

    def record(self, e: Entry, number: int, static: StaticInstruction) -> list[int]:
        """The AccessSpec record of an access of an instruction, which has that number there."""
        form, order, axes = e.form, e.order, e.axes
        record = form.template.copy()
        if form.is_open:
            record[AccessSpec.STORES] = self.tables.put(self._banks(e, static))
        record[AccessSpec.MET], record[AccessSpec.RANK] = self.met[order], self.ranks[order]
        record[AccessSpec.ORDER], record[AccessSpec.CLASS] = order, e.conflict_class
        if axes:
            place, word, offsets = self.expressions.place, e.word, e.offsets
            record[AccessSpec.AXES] = len(axes)
            record[AccessSpec.EXPRESSIONS] = self.tables.put([place(offsets[a]) for a in axes])
            record[AccessSpec.PATTERNS], record[AccessSpec.DENSE], record[AccessSpec.REACH] = form.lists[axes]
            if form.is_spread:
                column = next((c for c, a in enumerate(axes) if offsets[a] is word), NONE)
                d = self.tables.header
                node = d[H.SLOT_ACCESSES] + number * d[H.ACCESS_SIZE]
                record[AccessSpec.WORD_NODE] = NONE if column == NONE else node + Access.OFFSETS + column
        if form.is_spread:
            record[AccessSpec.WORD] = self.expressions.place(e.word)
        if record[AccessSpec.PLACE] != NONE:
            record[AccessSpec.PLACE] = self.expressions.place(e.word)
            self.tables.header[H.PLACED] += len(form.place.banks)
        return record

    def _banks(self, e: Entry, static: StaticInstruction) -> list[int]:
        """The BufferPart records of an access for which names decide latencies."""
        form, graph, put = e.form, self.graph, self.tables.put
        count = form.template[AccessSpec.WORDS]
        names = {n: v for n, v in static.names.items() if n not in ("words", "bytes")}

        def code(storage: DataStorage, attribute: str) -> int:
            """A latency of a storage for the requests: cycles, or ``-1 - position`` of a program."""
            size = Affine(-(-count * storage.data_width // 8))
            known = names | {"words": Affine(count), "bytes": size} if form.requests == 1 and form.moved else names
            expression, where = storage.latencies()[attribute], f"{storage}: {attribute}"
            return self.latencies.code(expression, known, static.mnemonic, 1, where, e.loops)

        def latency(name: str) -> int:
            storage = graph.storages[graph.storage_numbers[name]]
            attribute = "read_latency" if e.kind == AccessKind.READ else "write_latency"
            return constant_latency(graph, e.kind, name) or code(storage, attribute)

        def way(path: tuple[str, ...]) -> int:
            return graph.memories.way(path, put, code)

        return bank_records(graph, form.place, form.moved, runs(form.word_shape), latency, way, put)


# --- lists of conflicts and requests ---------------------------------------------------------------------------
def access_lists(
    tables: Tables, entries: Sequence[Entry], counts: Sequence[int], first: int, records: Sequence[int]
) -> Array:
    """Put the lists of all instructions; returns the fields from ``Instruction.NODES`` on, int64 [instruction, field].

    ``counts``: accesses of each instruction; ``records``: the AccessSpec records of all, which lie at ``first``.
    """
    d = tables.header
    kind = np.array([e.kind for e in entries], np.int64)
    group = np.array([e.conflict_class for e in entries], np.int64)
    banked = np.array([bool(e.form.place.banks) for e in entries], bool)
    count = np.array(counts, np.int64)
    static = np.repeat(np.arange(len(count)), count)
    node = d[H.SLOT_ACCESSES] + d[H.ACCESS_SIZE] * (np.arange(len(kind)) - (np.cumsum(count) - count)[static])
    place = first + AccessSpec.SIZE * np.arange(len(kind))
    buckets = _buckets(entries, d[H.CLASSES])
    lists = 1 + buckets[:, BucketSpec.COUNT]
    d[H.ENDS], d[H.BUCKETED] = 3 * int(lists.sum()), int((lists > 1).any())
    begin = 3 * (np.cumsum(lists) - lists)
    table = tables.put(buckets.reshape(-1).tolist()) + BucketSpec.SIZE * group

    def first_list(of: Array, kinds: Array) -> Array:
        return (begin[of] + kinds * lists[of]) * Ends.SIZE

    ends = np.full(len(kind), NONE)
    ends[group != NONE] = first_list(group[group != NONE], kind[group != NONE])
    holds = np.array([e.form.holds for e in entries], np.int64)
    ends[holds == Holds.NEVER] = NONE

    tracked = np.flatnonzero(group != NONE)
    d[H.LATCHED] = int((holds[tracked] == Holds.UNTIL_START).any())
    nodes = _put(tables, np.stack((node, place, ends, table, holds), axis=1)[tracked], static[tracked], len(count))
    present = np.zeros((d[H.CLASSES], 3), bool)
    present[group[tracked], kind[tracked]] = True
    opposing = present[group[tracked]]
    alike = np.flatnonzero(kind[tracked] != AccessKind.WRITE)  # two reads do not conflict, nor do two accumulations
    opposing[alike, kind[tracked][alike]] = False
    columns = np.array(records, np.int64).reshape(-1, AccessSpec.SIZE)[:, (AccessSpec.MET, AccessSpec.REACH)]
    row, other = np.nonzero(opposing)
    mine = tracked[row]
    checked = np.stack((first_list(group[mine], other), node[mine], *columns[mine].T, table[mine]), axis=1)
    checks = _put(tables, checked, static[mine], len(count))

    asking = np.flatnonzero(banked)
    asking = asking[np.lexsort((kind[asking] != AccessKind.READ, static[asking]))]
    parts = _put(tables, place[asking][:, None], static[asking], len(count))
    return np.stack((*nodes, *checks, *parts), axis=1)


MOST_BUCKETS = 64
"""Lists of a class and a kind beside the first."""


def _buckets(entries: Sequence[Entry], classes: int) -> Array:
    """The BucketSpec records of all classes: where loops decide in which bank an access lies, as many as banks."""
    found = np.zeros((classes, BucketSpec.SIZE), np.int64)
    members: dict[int, list[Entry]] = {}
    for e in entries:
        if e.conflict_class != NONE and e.axes:
            members.setdefault(e.conflict_class, []).append(e)
    for number, part in members.items():
        axis = part[0].axes[0]
        banks = max((len(e.form.place.banks) for e in part if e.form.is_spread), default=1)
        if banks > 1:
            base, last = min(e.low[axis] for e in part), max(e.high[axis] for e in part)
            shift = max(0, ((last - base) // min(banks, MOST_BUCKETS)).bit_length())
            found[number] = base, shift, ((last - base) >> shift) + 1
    return found


def _put(tables: Tables, records: Array, static: Array, statics: int) -> tuple[Array, Array]:
    """Put records that come instruction by instruction; returns where those of each begin, and how many it has."""
    counts = np.bincount(static, minlength=statics)
    position = tables.put(records.reshape(-1).tolist())
    return position + records.shape[1] * (np.cumsum(counts) - counts), counts
