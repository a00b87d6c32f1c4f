"""The part of the engine's tables that a graph alone decides, made once for each graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.acadl.latency import Expression, parse
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.layout import FETCH, H, StoreKind
from archloom.acadl_models.timing.engine.lowering.forms import Shared
from archloom.acadl_models.timing.engine.lowering.memories import MemoryTables, memory_tables
from archloom.acadl_models.timing.engine.lowering.tables import Array
from archloom.acadl_models.timing.engine.machine_parts import group_words
from archloom.acadl_models.timing.machine import forwarding_order

MOST_SHARED = 1 << 18
"""When streams share so many words, a lowering begins again with none."""


@dataclass(eq=False)
class GraphTables:
    """Objects in the tables' order, their numbers, what they take, and the words that follow the header.

    ``receivers``, ``first_stages``: the successors of the fetch stage, ``followers``: those of each stage.
    ``most``: instances that all places together hold, the issue buffer included.
    """

    stages: tuple[acadl.PipelineStage, ...]
    units: tuple[acadl.FunctionalUnit, ...]
    storages: tuple[acadl.DataStorage, ...]
    stage_numbers: Mapping[str, int]
    unit_numbers: Mapping[str, int]
    storage_numbers: Mapping[str, int]
    receivers: frozenset[str]
    first_stages: frozenset[int]
    followers: tuple[frozenset[int], ...]
    stage_latencies: tuple[Expression, ...]
    storage_latencies: tuple[tuple[Expression, Expression], ...]
    header: Mapping[int, int]
    words: Array
    most: int
    memories: MemoryTables
    _shared: Shared | None = None

    def shared(self) -> Shared:
        """The words that streams share at present."""
        found = self._shared
        if found is None or len(found) > MOST_SHARED:
            found = self._shared = Shared(self)
        return found


@per_graph
def graph_tables(graph: acadl.ArchitectureGraph) -> GraphTables:
    """The tables of a graph."""
    fetch = graph.fetch_stages[0]
    stages = tuple(s for s in forwarding_order(graph) if s is not fetch)
    units = graph.functional_units
    placed = {bank.storage for banks in graph.buffers.values() for bank in banks}
    storages = tuple(s for s in graph.storages if s.name in placed or isinstance(s, acadl.CacheInterface))
    stage_numbers = {s.name: k for k, s in enumerate(stages)}
    unit_numbers = {u.name: k for k, u in enumerate(units)}
    followers = tuple(frozenset(stage_numbers[s.name] for s in graph.successors(stage)) for stage in stages)
    words: list[int] = []

    def put(values: list[int]) -> int:
        words.extend(values)
        return H.SIZE + len(words) - len(values)

    records: list[int] = []
    for stage in stages:
        senders = [stage_numbers.get(p.name, FETCH) for p in graph.predecessors(stage)]
        receivers = sorted(followers[stage_numbers[stage.name]])
        records += stage.depth, put(senders), len(senders), put(receivers), len(receivers)
    memories = memory_tables(graph, storages, units, put)
    semantics = graph.semantics
    _, memory = graph.instruction_memory(fetch)
    header = {
        H.STAGES: len(stages), H.UNITS: len(units), H.STORES: len(storages),
        H.ISSUE_SIZE: fetch.issue_buffer_size, H.FETCH_WIDTH: memory.port_width,
        H.IN_ORDER: int(semantics.issue == "in_order"),
        H.LATENCY_ADDED: int(semantics.stage_latency == "added"),
        H.EDGE_ORDER: int(semantics.arbitration == "edge_order"),
        H.REORDER_ENTRIES: fetch.reorder_entries or 0,
        H.DECODE_WIDTH: fetch.decode_width or FOREVER, H.COMMIT_WIDTH: fetch.commit_width or FOREVER,
        H.STAGE_TABLE: put(records),
        H.UNIT_TABLE: put([
            v for u in units for v in (
                u.in_flight, int(u.interval is not None), stage_numbers[graph.stage_of(u).name],
                int(isinstance(u, acadl.MemoryAccessUnit) and u.prefetches))
        ]),
        H.STORE_TABLE: put([
            v
            for m, state in zip(storages, memories.states)
            for v in (m.max_concurrent_requests, m.port_width, int(m.shared_port), memories.serial(m, state), *state,
                      int(state[0] == StoreKind.PLAIN and state[2] == NONE))
        ]),
        **memories.header,
        H.GROUPS: put(group_words()), H.HEADERS: 1,
    }  # fmt: skip
    at_once = {"read_latency": parse(1), "write_latency": parse(1)}  # of caches: those of their ways count
    latencies = [m.latencies() if isinstance(m, acadl.MemoryInterface) else at_once for m in storages]
    held = sum(s.depth for s in stages) + sum(1 + u.in_flight for u in units)
    prefetched = {s for u in units if isinstance(u, acadl.MemoryAccessUnit) and u.prefetches for s in graph.reads(u)}
    lingering = sum(s.max_concurrent_requests for s in prefetched if isinstance(s, acadl.DataStorage))
    return GraphTables(
        stages, units, storages, stage_numbers, unit_numbers, {s.name: k for k, s in enumerate(storages)},
        frozenset(s.name for s in graph.successors(fetch)),
        frozenset(stage_numbers[s.name] for s in graph.successors(fetch)), followers,
        tuple(s.latencies()["latency"] for s in stages),
        tuple((each["read_latency"], each["write_latency"]) for each in latencies), header, np.array(words, np.int64),
        fetch.issue_buffer_size + (fetch.reorder_entries or held) + lingering, memories,
    )
