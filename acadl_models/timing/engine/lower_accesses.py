"""Lowering accesses: where in which storages they lie, and which of them may meet."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from acadl_models.acadl import DataStorage
from acadl_models.timing.engine.accessing import Classes, Entry
from acadl_models.timing.engine.expressions import Expressions, Latencies
from acadl_models.timing.engine.graph_tables import GraphTables
from acadl_models.timing.engine.latencies import Names
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.tables import Array, Tables
from acadl_models.timing.engine.windows import Pattern, beats, runs, words
from oracle.affine import Affine

LARGEST_CLASS = 128
"""Accesses of a class that are compared one by one before the run; in larger ones whatever meets."""


class AccessLowering:
    """Makes the records of accesses; ``met`` and ``ranks`` are those of :func:`whether_met`."""

    def __init__(
        self, tables: Tables, graph: GraphTables, expressions: Expressions, latencies: Latencies,
        met: Sequence[int], ranks: Sequence[int],
    ) -> None:
        self.tables, self.graph, self.expressions, self.latencies = tables, graph, expressions, latencies
        self.met, self.ranks = met, ranks
        self._patterns: dict[int, int] = {}
        self._banks: dict[tuple[int, int, bool], tuple[int, int]] = {}
        self._runs: dict[int, tuple[int, int]] = {}

    def record(self, e: Entry, names: Names, mnemonic: str) -> list[int]:
        """The TA record of an access."""
        banks = e.plan.banks
        record = [0] * TA_SIZE
        record[TA_MET], record[TA_RANK] = self.met[e.order], self.ranks[e.order]
        record[TA_KIND], record[TA_CLASS], record[TA_AXES] = e.kind, e.conflict_class, len(e.axes)
        if e.axes:
            place = self.expressions.place
            record[TA_EXPRESSIONS] = self.tables.put([place(e.offsets[a]) for a in e.axes])
            record[TA_PATTERNS] = self.tables.put([self._pattern(e.shapes[a]) for a in e.axes])
        record[TA_WORD] = record[TA_WORD_AXIS] = NONE
        record[TA_BANK_SHIFT] = NONE
        record[TA_STORES], record[TA_BANK_SHIFT] = self._bank_list(e, names, mnemonic)
        record[TA_STORE_COUNT] = len(banks)
        placed = self.graph.memories.is_placed(e)
        record[TA_PLACE] = self.expressions.place(e.word) if placed else NONE
        self.tables.header[H_PLACED] += len(banks) if placed else 0
        if len(banks) > 1:
            record[TA_WORD] = self.expressions.place(e.word)
        if len(banks) > 1 or placed:
            record[TA_RUNS], record[TA_RUN_COUNT] = self._run_list(e.word_shape)
        if e.conflict_class != NONE:
            word = e.word
            record[TA_WORD_AXIS] = next((c for c, a in enumerate(e.axes) if e.offsets[a] == word), NONE)
        record[TA_SPAN], record[TA_WORDS] = e.word_shape.span + 1, words(e.word_shape)
        record[TA_ORDER], record[TA_DATA_WIDTH] = e.order, e.plan.data_width
        return record

    def _pattern(self, pattern: Pattern) -> int:
        position = self._patterns.get(id(pattern))  # the entries hold them
        if position is None:
            position = self._patterns[id(pattern)] = self.tables.put(pattern.flat())
        return position

    def _run_list(self, shape: Pattern) -> tuple[int, int]:
        found = self._runs.get(id(shape))
        if found is None:
            each = runs(shape)
            found = self._runs[id(shape)] = self.tables.put([v for r in each for v in r]), len(each)
        return found

    def _bank_list(self, e: Entry, names: Names, mnemonic: str) -> tuple[int, int]:
        """Position of the TB records, and the shift from a word to its bank or NONE."""
        banks = e.plan.banks
        key = (id(banks), id(e.word_shape), e.kind == READ)
        found = self._banks.get(key)
        if found is not None:
            return found
        records: list[int] = []
        count = words(e.word_shape)
        varies = False
        for bank, path, base in zip(banks, e.plan.paths, e.plan.bases):
            number = self.graph.storage_numbers[bank.storage]
            storage = self.graph.storages[number]
            expression = self.graph.storage_latencies[number][int(e.kind != READ)]
            latency = expression.root.value if not expression.names else None  # type: ignore[union-attr]
            if latency is None or latency < 1:
                varies = True
                latency = self._request_latency(e, names, mnemonic, number, count if len(banks) == 1 else None)
            known = count if len(banks) == 1 else None
            way, fixed = self.graph.memories.way(path, self.tables.put, partial(self._code, e, names, mnemonic, known))
            varies = varies or not fixed
            records += [
                number, bank.start, bank.stop or 0, beats(e.word_shape, storage.port_width), latency, base, way,
                self.graph.memories.space(path),
            ]  # fmt: skip
        sizes = {(b.stop or 0) - b.start for b in banks}
        size = sizes.pop() if len(sizes) == 1 else 0
        shift = size.bit_length() - 1 if size and size & (size - 1) == 0 else NONE
        found = self.tables.put(records), shift
        if not varies:
            self._banks[key] = found
        return found

    def _request_latency(self, e: Entry, names: Names, mnemonic: str, number: int, count: int | None) -> int:
        """Latency of the requests of an access; ``count``: their words, where all have as many."""
        storage = self.graph.storages[number]
        attribute = "read_latency" if e.kind == READ else "write_latency"
        return self._code(e, names, mnemonic, count, storage, attribute)

    def _code(
        self, e: Entry, names: Names, mnemonic: str, count: int | None, storage: DataStorage, attribute: str
    ) -> int:
        """A latency of a storage for the requests of an access: cycles, or ``-1 - position`` of a program."""
        expression = storage.latencies()[attribute]
        known = {n: v for n, v in names.items() if n not in ("words", "bytes")}
        if count is not None:
            known |= {"words": Affine(count), "bytes": Affine(-(-count * storage.data_width // 8))}
        return self.latencies.code(expression, known, mnemonic, 1, f"{storage}: {attribute}", e.loops)


def whether_met(classes: Classes, entries: Sequence[Entry], place: int) -> tuple[list[int], list[int], Array]:
    """For each access where the row of its class lies, from ``place`` on, and its rank there; and these rows."""
    rows, ranks = [NONE] * len(entries), [0] * len(entries)
    blocks: list[Array] = []
    numbers = np.array([entries[k].conflict_class for k in classes.first.tolist()], np.int64)
    for number, members in enumerate(classes.members):
        size = len(members)
        if size > LARGEST_CLASS:
            continue
        inside = numbers == number
        block = np.zeros((size, size), np.int64)
        a, b = (np.searchsorted(members, x[inside]) for x in (classes.first, classes.second))
        block[a, b] = block[b, a] = 1
        for k, order in enumerate(members.tolist()):
            rows[order], ranks[order] = place + k * size, k
            block[k, k] = int(entries[order].kind == WRITE)
        blocks.append(block.reshape(-1))
        place += size * size
    return rows, ranks, np.concatenate([*blocks, np.zeros(0, np.int64)])
