"""The part of the engine's tables that a graph alone decides, made once for each graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from acadl_models.acadl import (
    ArchitectureGraph,
    CacheInterface,
    DataStorage,
    FunctionalUnit,
    MemoryInterface,
    PipelineStage,
)
from acadl_models.acadl.latency import Expression, parse
from acadl_models.timing.engine.accessing import Form, form
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.lower_memories import MemoryTables, memory_tables
from acadl_models.timing.engine.tables import Array
from acadl_models.timing.machine import AccessPlan, Program, StaticInstruction, fetch_cycles
from acadl_models.timing.program import Place
from oracle.resolved import WindowDim

READS_HOLD = {"finished": READS_UNTIL_FINISH, "started": READS_UNTIL_START, "ignored": READS_NEVER}
"""By the value of ``write_after_read``."""

MOST_KNOWN = 8192
"""So many forms and routes are remembered of a graph."""

RouteKey: TypeAlias = tuple[int, int, str, bool, tuple[tuple[int, int] | None, ...]]
"""Identities of the takers and of the stages on the way, mnemonic, whether requests are made, ranges of arguments."""


@dataclass(frozen=True, eq=False)
class GraphTables:
    """Objects in the tables' order, their numbers, what they take, and the words that follow the header.

    ``most``: instances that all places together hold, the issue buffer included.
    """

    stages: tuple[PipelineStage, ...]
    units: tuple[FunctionalUnit, ...]
    storages: tuple[DataStorage, ...]
    stage_numbers: Mapping[str, int]
    unit_numbers: Mapping[str, int]
    storage_numbers: Mapping[str, int]
    receivers: frozenset[str]
    stage_latencies: tuple[Expression, ...]
    storage_latencies: tuple[tuple[Expression, Expression], ...]
    header: Mapping[int, int]
    words: Array
    most: int
    memories: MemoryTables
    _fetch_cycles: dict[tuple[tuple[str, int], ...], int] = field(default_factory=dict)
    _forms: dict[tuple[Place, str, tuple[WindowDim, ...]], Form] = field(default_factory=dict)

    _routes: dict[RouteKey, tuple[list[int], object, object]] = field(default_factory=dict)

    def known_routes(self, key: RouteKey) -> list[int] | None:
        """The records of instructions like an earlier one."""
        found = self._routes.get(key)
        return None if found is None else found[0]

    def remember_routes(self, key: RouteKey, records: list[int], static: StaticInstruction) -> None:
        """Keep the records of an instruction; ``static`` holds the objects whose identities are in the key."""
        if len(self._routes) >= MOST_KNOWN:
            self._routes.clear()
        self._routes[key] = records, static.takers, static.routed

    def form(self, plan: AccessPlan) -> Form:
        """The form of an access; streams share them."""
        key = plan.place, plan.access.kind, plan.access.window.dims
        found = self._forms.get(key)
        if found is None:
            if len(self._forms) >= MOST_KNOWN:
                self._forms.clear()
            found = self._forms[key] = form(plan)
        return found

    def fetch_cycles(self, program: Program) -> int:
        """Cycles of a fetch, which may depend on the parameters of the ISA."""
        key = tuple(program.stream.parameters)
        if key not in self._fetch_cycles:
            self._fetch_cycles[key] = fetch_cycles(program)
        return self._fetch_cycles[key]


_known: WeakKeyDictionary[ArchitectureGraph, GraphTables] = WeakKeyDictionary()


def graph_tables(program: Program) -> GraphTables:
    """The tables of the program's graph."""
    found = _known.get(program.graph)
    if found is None:
        found = _known[program.graph] = _build(program)
    return found


def _build(program: Program) -> GraphTables:
    graph, fetch = program.graph, program.fetch
    stages = tuple(s for s in program.forwarding_order if s is not fetch)
    units = graph.functional_units
    placed = {bank.storage for banks in graph.buffers.values() for bank in banks}
    storages = tuple(s for s in graph.storages if s.name in placed or isinstance(s, CacheInterface))
    stage_numbers = {s.name: k for k, s in enumerate(stages)}
    unit_numbers = {u.name: k for k, u in enumerate(units)}
    words: list[int] = []

    def put(values: list[int]) -> int:
        words.extend(values)
        return H_SIZE + len(words) - len(values)

    records: list[int] = []
    for stage in stages:
        record = [stage.depth]
        for numbers in (
            [unit_numbers[u.name] for u in graph.units(stage)],
            [stage_numbers.get(p.name, FETCH) for p in graph.predecessors(stage)],
            [stage_numbers[s.name] for s in graph.successors(stage)],
        ):
            record += [put(numbers), len(numbers)]
        records += record
    memories = memory_tables(graph, storages, units, put)
    semantics = graph.semantics
    _, memory = graph.instruction_memory(fetch)
    header = {
        H_STAGES: len(stages), H_UNITS: len(units), H_STORES: len(storages),
        H_ISSUE_SIZE: fetch.issue_buffer_size, H_FETCH_WIDTH: memory.port_width,
        H_IN_ORDER: int(semantics.issue == "in_order"),
        H_LATENCY_ADDED: int(semantics.stage_latency == "added"),
        H_EDGE_ORDER: int(semantics.arbitration == "edge_order"),
        H_READS_HOLD: READS_HOLD[semantics.write_after_read],
        H_STAGE_TABLE: put(records),
        H_UNIT_TABLE: put([
            v for u in units for v in (u.in_flight, int(u.interval is not None), stage_numbers[graph.stage_of(u).name])
        ]),
        H_STORE_TABLE: put([
            v
            for m, state in zip(storages, memories.states)
            for v in (m.max_concurrent_requests, m.port_width, int(m.shared_port), memories.serial(m, state), *state)
        ]),
        **memories.header,
    }  # fmt: skip
    at_once = {"read_latency": parse(1), "write_latency": parse(1)}  # of caches: those of their ways count
    latencies = [m.latencies() if isinstance(m, MemoryInterface) else at_once for m in storages]
    return GraphTables(
        stages, units, storages, stage_numbers, unit_numbers, {s.name: k for k, s in enumerate(storages)},
        frozenset(s.name for s in graph.successors(fetch)),
        tuple(s.latencies()["latency"] for s in stages),
        tuple((each["read_latency"], each["write_latency"]) for each in latencies),
        header, np.array(words, np.int64),
        fetch.issue_buffer_size + sum(s.depth for s in stages) + sum(1 + u.in_flight for u in units), memories,
    )
