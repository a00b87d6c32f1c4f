"""Lowering accesses: where in which storages they lie, and which of them may meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import DataStorage
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessKind, AccessSpec, H, ReadsHold
from archloom.acadl_models.timing.engine.lowering.accessing import Classes, Entry
from archloom.acadl_models.timing.engine.lowering.expressions import Expressions, Latencies
from archloom.acadl_models.timing.engine.lowering.forms import bank_records, constant_latency
from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables
from archloom.acadl_models.timing.engine.lowering.patterns import words
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.state import Access, Ends
from archloom.acadl_models.timing.program import StaticInstruction
from archloom.oracle.affine import Affine


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
        form = e.form
        count = words(form.word_shape) if len(form.place.banks) == 1 else None

        def code(storage: DataStorage, attribute: str) -> int:
            return self._code(e, static, count, storage, attribute)

        def latency(name: str) -> int:
            storage = self.graph.storages[self.graph.storage_numbers[name]]
            attribute = "read_latency" if e.kind == AccessKind.READ else "write_latency"
            return constant_latency(self.graph, e.kind, name) or code(storage, attribute)

        def way(path: tuple[str, ...]) -> int:
            return self.graph.memories.way(path, self.tables.put, code)

        return bank_records(self.graph, form.place, form.word_shape, latency, way, self.tables.put)

    def _code(
        self, e: Entry, static: StaticInstruction, count: int | None, storage: DataStorage, attribute: str
    ) -> int:
        """A latency of a storage for the requests of an access: cycles, or ``-1 - position`` of a program.

        ``count``: their words, where all have as many.
        """
        expression = storage.latencies()[attribute]
        known = {n: v for n, v in static.names.items() if n not in ("words", "bytes")}
        if count is not None:
            known |= {"words": Affine(count), "bytes": Affine(-(-count * storage.data_width // 8))}
        where = f"{storage}: {attribute}"
        return self.latencies.code(expression, known, static.node.mnemonic, 1, where, e.loops)


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
    ends = (3 * group + kind) * Ends.SIZE
    if d[H.READS_HOLD] == ReadsHold.NEVER:
        ends[kind == AccessKind.READ] = NONE

    tracked = np.flatnonzero(group != NONE)
    nodes = _put(tables, np.stack((node, place, ends), axis=1)[tracked], static[tracked], len(count))
    present = np.zeros((d[H.CLASSES], 3), bool)
    present[group[tracked], kind[tracked]] = True
    opposing = present[group[tracked]]
    alike = np.flatnonzero(kind[tracked] != AccessKind.WRITE)  # two reads do not conflict, nor do two accumulations
    opposing[alike, kind[tracked][alike]] = False
    columns = np.array(records, np.int64).reshape(-1, AccessSpec.SIZE)[:, (AccessSpec.MET, AccessSpec.REACH)]
    row, other = np.nonzero(opposing)
    mine = tracked[row]
    checked = np.stack(((3 * group[mine] + other) * Ends.SIZE, node[mine], *columns[mine].T), axis=1)
    checks = _put(tables, checked, static[mine], len(count))

    asking = np.flatnonzero(banked)
    asking = asking[np.lexsort((kind[asking] != AccessKind.READ, static[asking]))]
    parts = _put(tables, place[asking][:, None], static[asking], len(count))
    return np.stack((*nodes, *checks, *parts), axis=1)


def _put(tables: Tables, records: Array, static: NDArray[np.int64], statics: int) -> tuple[Array, Array]:
    """Put records that come instruction by instruction; returns where those of each begin, and how many it has."""
    counts = np.bincount(static, minlength=statics)
    position = tables.put(records.reshape(-1).tolist())
    return position + records.shape[1] * (np.cumsum(counts) - counts), counts
