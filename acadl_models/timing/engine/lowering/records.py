"""The records of accesses in the engine's tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.acadl import DataStorage
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import AccessKind, AccessSpec, H
from archloom.acadl_models.timing.engine.lowering.accesses import Accesses, Placed
from archloom.acadl_models.timing.engine.lowering.conflicts import Classes
from archloom.acadl_models.timing.engine.lowering.expressions import Latencies
from archloom.acadl_models.timing.engine.lowering.forms import Form, Shared, bank_records, constant_latency
from archloom.acadl_models.timing.engine.lowering.graph_tables import GraphTables
from archloom.acadl_models.timing.engine.lowering.patterns import runs
from archloom.acadl_models.timing.engine.lowering.tables import Array, Tables
from archloom.acadl_models.timing.engine.state import Access
from archloom.acadl_models.timing.program import StaticInstruction
from archloom.oracle.affine import Affine


def deciding_lists(accesses: Accesses, classes: Classes, shared: Shared) -> Array:
    """For each access the position of the patterns along the axes that decide, whether all are dense, and the span of
    the first, int64 [access, 3]; zeros where none decide. They lie among the words that streams share."""
    found = np.zeros((len(accesses), 3), np.int64)
    some = np.flatnonzero(classes.axes.any(axis=1))
    if not len(some):
        return found
    width = classes.axes.shape[1]
    bits = classes.axes[some] @ (1 << np.arange(width))
    distinct, number = np.unique(accesses.form[some] << width | bits, return_inverse=True)
    lists = []
    for key in distinct.tolist():
        axes = tuple([axis for axis in range(width) if key >> axis & 1])
        lists.append(shared.list_patterns(accesses.forms[key >> width], axes))
    found[some] = np.array(lists, np.int64)[number]
    return found


@dataclass(frozen=True, eq=False)
class RecordLowering:
    """Makes the records of accesses; ``lists`` are the :func:`deciding_lists`, ``around`` has the variables of the
    loops around each instruction, and the table of the classes lies from ``met`` on."""

    tables: Tables
    graph: GraphTables
    latencies: Latencies
    accesses: Accesses
    classes: Classes
    placed: Placed
    statics: Sequence[StaticInstruction]
    around: Sequence[tuple[str, ...]]

    def records(self, lists: Array, met: int) -> Array:
        """The AccessSpec records of all accesses, int64 [access, field]."""
        accesses, classes = self.accesses, self.classes
        templates = np.array([form.template for form in accesses.forms], np.int64).reshape(-1, AccessSpec.SIZE)
        found: Array = templates[accesses.form]
        for k in self._of(lambda form: form.is_open).tolist():
            found[k, AccessSpec.STORES] = self.tables.put(self._banks(k))
        found[:, AccessSpec.MET] = np.where(classes.rows == NONE, NONE, met + classes.rows)
        found[:, AccessSpec.RANK], found[:, AccessSpec.CLASS] = classes.ranks, classes.of
        found[:, AccessSpec.ORDER] = np.arange(len(accesses))
        self._decide(found, lists)
        self._place(found)
        return found

    def _decide(self, found: Array, lists: Array) -> None:
        """Fill in what decides about conflicts."""
        accesses, axes = self.accesses, self.classes.axes
        counts = axes.sum(axis=1)
        position = self.tables.put_array(self.placed(accesses.offsets[axes]))
        some = counts > 0
        found[some, AccessSpec.AXES] = counts[some]
        found[some, AccessSpec.EXPRESSIONS] = (position + np.cumsum(counts) - counts)[some]
        for column, field in enumerate((AccessSpec.PATTERNS, AccessSpec.DENSE, AccessSpec.REACH)):
            found[some, field] = lists[some, column]

    def _place(self, found: Array) -> None:
        """Fill in the words of accesses that lie in several banks, or must be known in a memory."""
        accesses, axes, d = self.accesses, self.classes.axes, self.tables.header
        spread = self._of(lambda form: form.is_spread)
        found[spread, AccessSpec.WORD] = self.placed(accesses.word[spread])
        same = (accesses.offsets[spread] == accesses.word[spread, None]) & axes[spread]
        column = np.argmax(same, axis=1)
        rank = np.take_along_axis(np.cumsum(axes[spread], axis=1), column[:, None], axis=1)[:, 0] - 1
        node = d[H.SLOT_ACCESSES] + accesses.place[spread] * d[H.ACCESS_SIZE] + Access.OFFSETS + rank
        found[spread, AccessSpec.WORD_NODE] = np.where(same.any(axis=1), node, NONE)
        memory = self._of(lambda form: form.is_placed)
        found[memory, AccessSpec.PLACE] = self.placed(accesses.word[memory])
        d[H.PLACED] += int(accesses.banks[memory].sum())

    def _of(self, has: Callable[[Form], bool]) -> Array:
        """The accesses whose forms have something."""
        return np.flatnonzero(np.array([has(form) for form in self.accesses.forms], bool)[self.accesses.form])

    def _banks(self, number: int) -> list[int]:
        """The BufferPart records of an access for which names decide latencies."""
        form, static = self.accesses.forms[self.accesses.form[number]], self.statics[self.accesses.static[number]]
        around = self.around[self.accesses.static[number]]
        graph, put = self.graph, self.tables.put
        count = form.template[AccessSpec.WORDS]
        names = {n: v for n, v in static.names.items() if n not in ("words", "bytes")}

        def code(storage: DataStorage, attribute: str) -> int:
            """A latency of a storage for the requests: cycles, or ``-1 - position`` of a program."""
            size = Affine(-(-count * storage.data_width // 8))
            known = names | {"words": Affine(count), "bytes": size} if form.requests == 1 and form.moved else names
            expression, where = storage.latencies()[attribute], f"{storage}: {attribute}"
            return self.latencies.code(expression, known, static.mnemonic, 1, where, around)

        def latency(name: str) -> int:
            storage = graph.storages[graph.storage_numbers[name]]
            attribute = "read_latency" if form.kind == AccessKind.READ else "write_latency"
            return constant_latency(graph, form.kind, name) or code(storage, attribute)

        def way(path: tuple[str, ...]) -> int:
            return graph.memories.way(path, put, code)

        return bank_records(graph, form.place, form.moved, runs(form.word_shape), latency, way, put)
