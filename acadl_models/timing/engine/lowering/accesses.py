"""Lowering accesses: where in which storages they lie, and which of them may meet."""

from __future__ import annotations

from archloom.acadl_models.acadl import DataStorage
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.lowering.accessing import Classes, Entry
from archloom.acadl_models.timing.engine.lowering.expressions import Expressions, Latencies
from archloom.acadl_models.timing.engine.lowering.forms import bank_records, constant_latency
from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables
from archloom.acadl_models.timing.engine.lowering.patterns import words
from archloom.acadl_models.timing.engine.lowering.tables import Tables
from archloom.acadl_models.timing.program import StaticInstruction
from archloom.oracle.affine import Affine


class AccessLowering:
    """Makes the records of accesses; the table of ``classes`` lies from ``place`` on."""

    def __init__(
        self, tables: Tables, graph: GraphTables, expressions: Expressions, latencies: Latencies,
        classes: Classes, place: int,
    ) -> None:
        self.tables, self.graph, self.expressions, self.latencies = tables, graph, expressions, latencies
        self.met, self.ranks = [NONE if row == NONE else place + row for row in classes.rows], classes.ranks

    def record(self, e: Entry, number: int, static: StaticInstruction) -> list[int]:
        """The TA record of an access of an instruction, which has that number there."""
        form, order, axes = e.form, e.order, e.axes
        record = form.template.copy()
        if form.is_open:
            record[TA_STORES] = self.tables.put(self._banks(e, static))
        record[TA_MET], record[TA_RANK] = self.met[order], self.ranks[order]
        record[TA_ORDER], record[TA_CLASS] = order, e.conflict_class
        if axes:
            place, word, offsets = self.expressions.place, e.word, e.offsets
            record[TA_AXES] = len(axes)
            record[TA_EXPRESSIONS] = self.tables.put([place(offsets[a]) for a in axes])
            record[TA_PATTERNS], record[TA_DENSE], record[TA_REACH] = form.lists[axes]
            if form.is_spread:
                column = next((c for c, a in enumerate(axes) if offsets[a] is word), NONE)
                d = self.tables.header
                node = d[H_SLOT_ACCESSES] + number * d[H_ACCESS_SIZE]
                record[TA_WORD_NODE] = NONE if column == NONE else node + A_OFFSETS + column
        if form.is_spread:
            record[TA_WORD] = self.expressions.place(e.word)
        if record[TA_PLACE] != NONE:
            record[TA_PLACE] = self.expressions.place(e.word)
            self.tables.header[H_PLACED] += len(form.place.banks)
        return record

    def _banks(self, e: Entry, static: StaticInstruction) -> list[int]:
        """The TB records of an access for which names decide latencies."""
        form = e.form
        count = words(form.word_shape) if len(form.place.banks) == 1 else None

        def code(storage: DataStorage, attribute: str) -> int:
            return self._code(e, static, count, storage, attribute)

        def latency(name: str) -> int:
            storage = self.graph.storages[self.graph.storage_numbers[name]]
            attribute = "read_latency" if e.kind == READ else "write_latency"
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
