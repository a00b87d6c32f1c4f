"""Lowering accesses: where in which storages they lie, and which of them may meet."""

from __future__ import annotations

from functools import partial

from acadl_models.acadl import DataStorage
from acadl_models.acadl.latency import Expression, Num
from acadl_models.timing.engine.accessing import Classes, Entry, Form
from acadl_models.timing.engine.expressions import Expressions, Latencies
from acadl_models.timing.engine.graph_tables import GraphTables
from acadl_models.timing.engine.latencies import Names
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.tables import Tables
from acadl_models.timing.engine.windows import beats, runs, words
from oracle.affine import Affine


class AccessLowering:
    """Makes the records of accesses; the table of ``classes`` lies from ``place`` on."""

    def __init__(
        self, tables: Tables, graph: GraphTables, expressions: Expressions, latencies: Latencies,
        classes: Classes, place: int,
    ) -> None:
        self.tables, self.graph, self.expressions, self.latencies = tables, graph, expressions, latencies
        self.met, self.ranks = [NONE if row == NONE else place + row for row in classes.rows], classes.ranks
        self._templates: dict[Form, list[int]] = {}
        self._patterns: dict[tuple[Form, tuple[int, ...]], int] = {}

    def record(self, e: Entry, names: Names, mnemonic: str) -> list[int]:
        """The TA record of an access."""
        form, place = e.form, self.expressions.place
        template = self._templates.get(form)
        if template is None:
            template = self._template(e, names, mnemonic)
        record = template.copy()
        if record[TA_STORES] == NONE and form.place.banks:
            record[TA_STORES] = self.tables.put(self._banks(e, names, mnemonic))
        record[TA_MET], record[TA_RANK] = self.met[e.order], self.ranks[e.order]
        record[TA_ORDER], record[TA_CLASS] = e.order, e.conflict_class
        if e.axes:
            offsets = [e.offsets[a] for a in e.axes]
            record[TA_AXES] = len(offsets)
            record[TA_EXPRESSIONS] = self.tables.put([place(o) for o in offsets])
            record[TA_PATTERNS] = self._pattern_list(form, e.axes)
            if form.place.banks:
                word = e.word
                record[TA_WORD_AXIS] = next((c for c, o in enumerate(offsets) if o is word or o == word), NONE)
        if form.is_spread:
            record[TA_WORD] = place(e.word)
        if record[TA_PLACE] != NONE:
            record[TA_PLACE] = place(e.word)
            self.tables.header[H_PLACED] += len(form.place.banks)
        return record

    def _template(self, e: Entry, names: Names, mnemonic: str) -> list[int]:
        """A record with what all accesses of a form have in common; the stores are open where they differ."""
        form, banks = e.form, e.form.place.banks
        record = [0] * TA_SIZE
        record[TA_KIND], record[TA_STORE_COUNT] = form.kind, len(banks)
        record[TA_WORD] = record[TA_WORD_AXIS] = record[TA_STORES] = NONE
        record[TA_SPAN], record[TA_WORDS] = form.word_shape.span + 1, words(form.word_shape)
        record[TA_DATA_WIDTH] = form.place.data_width
        placed = self.graph.memories.is_placed(form.place)
        record[TA_PLACE] = 0 if placed else NONE
        if form.is_spread or placed:
            each = runs(form.word_shape)
            record[TA_RUNS], record[TA_RUN_COUNT] = self.tables.put([v for r in each for v in r]), len(each)
        sizes = {(b.stop or 0) - b.start for b in banks}
        size = sizes.pop() if len(sizes) == 1 else 0
        record[TA_BANK_SHIFT] = size.bit_length() - 1 if size and size & (size - 1) == 0 else NONE
        if banks and self._is_fixed(form):
            known = form.kept.get("banks")
            if known is None:
                known = form.kept["banks"] = self._banks(e, names, mnemonic)
            record[TA_STORES] = self.tables.put(known)
        self._templates[form] = record
        return record

    def _pattern_list(self, form: Form, axes: tuple[int, ...]) -> int:
        """The patterns of the axes that decide."""
        position = self._patterns.get((form, axes))
        if position is None:
            found = [self.tables.put(form.patterns[a].flat()) for a in axes]
            position = self._patterns[form, axes] = self.tables.put(found)
        return position

    def _is_fixed(self, form: Form) -> bool:
        """Whether the records of its banks hold numbers alone, whatever the names in latencies stand for."""
        if any(len(path) > 1 for path in form.place.paths):
            return False
        for bank in form.place.banks:
            root = self._latency(form, self.graph.storage_numbers[bank.storage]).root
            if not isinstance(root, Num) or root.value < 1:
                return False
        return True

    def _latency(self, form: Form, storage: int) -> Expression:
        return self.graph.storage_latencies[storage][int(form.kind != READ)]

    def _banks(self, e: Entry, names: Names, mnemonic: str) -> list[int]:
        """The TB records of an access."""
        form, place = e.form, e.form.place
        records: list[int] = []
        known = words(form.word_shape) if len(place.banks) == 1 else None
        for bank, path, base in zip(place.banks, place.paths, place.bases):
            number = self.graph.storage_numbers[bank.storage]
            storage = self.graph.storages[number]
            root = self._latency(form, number).root
            latency = root.value if isinstance(root, Num) else 0
            if latency < 1:
                latency = self._request_latency(e, names, mnemonic, number, known)
            way, _ = self.graph.memories.way(path, self.tables.put, partial(self._code, e, names, mnemonic, known))
            records += [
                number, bank.start, bank.stop or 0, beats(form.word_shape, storage.port_width), latency, base, way,
                self.graph.memories.space(path),
            ]  # fmt: skip
        return records

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
