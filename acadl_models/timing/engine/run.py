"""Running the jitted engine on lowered tables, and reading the result out of the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine import core
from archloom.acadl_models.timing.engine.deadlock import deadlock_faults
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.lowering.program import Lowered, bad_latency
from archloom.acadl_models.timing.engine.memory_results import (
    cache_timings,
    dram_timings,
    link_timings,
    memory_sizes,
    memory_work_sizes,
    start_memories,
)
from archloom.acadl_models.timing.engine.skipping.snapshot import state_words
from archloom.acadl_models.timing.result import (
    LoopTiming,
    PortTiming,
    StageTiming,
    StorageTiming,
    TimingResult,
    UnitTiming,
)
from archloom.acadl_models.timing.tally import fetch_port
from archloom.oracle.errors import GraphError

Array = NDArray[np.int64]

LARGEST_FIRST_POOL = 1 << 17
"""Instances that fit into the machine at first at most; where more are in flight, the run starts again with more."""


def run(lowered: Lowered, *, skip: bool) -> TimingResult:
    """Simulate lowered tables; raises GraphError for a deadlock and for latencies that get too small on the way."""
    most = most_in_flight(lowered)
    pool = min(most, LARGEST_FIRST_POOL)
    while True:
        lowered.tables[H_POOL] = pool
        machine = new_machine(lowered.tables)
        core.run(lowered.tables, machine, new_memory(lowered.tables, machine, skip))
        if machine[M_STATUS] != POOL_FULL:
            break
        pool = min(8 * pool, most)
    raise_faults(lowered, machine)
    return _result(lowered, machine)


def raise_faults(lowered: Lowered, machine: Array) -> None:
    """Raise the GraphError for which a run has stopped, if any."""
    if machine[M_STATUS] == BAD_LATENCY:
        value = int(machine[M_VALUE])
        found = "divides by zero" if value == DIVIDES_BY_ZERO else f"is {value}"
        raise bad_latency(lowered.program, lowered.owners[machine[M_OBJECT]], found)
    if machine[M_STATUS] == DEADLOCK:
        raise GraphError(lowered.program.graph.name, deadlock_faults(lowered, machine))


def most_in_flight(lowered: Lowered) -> int:
    """A bound of the instances that are fetched and not finished: what all places together hold."""
    return max(1, min(lowered.graph.most, int(lowered.tables[H_TOTAL])))


def new_machine(t: Array, log: int = 0) -> Array:
    """The state before the first cycle; ``log``: records for which the log has room."""
    words = -(-int(t[H_STAGES]) // 64)
    sizes = {
        M_STAGES: t[H_STAGES] * S_SIZE,
        M_UNITS: t[H_UNITS] * U_SIZE,
        M_STORES: t[H_STORES] * D_SIZE,
        M_LOOPS: t[H_LOOPS] * L_SIZE,
        M_SPENT: t[H_SITES] + 1,
        M_ITERATED: t[H_SITES],
        **memory_sizes(t),
        M_REST: 0,
        M_FLIGHTS: t[H_FETCH_FLIGHTS] * F_SIZE,
        M_VALUES: t[H_VALUES],
        M_EVENTS: t[H_LOOPS],
        M_CLASSES: 3 * t[H_CLASSES] * C_SIZE,
        M_QUEUES: t[H_SIGNATURES] * Q_SIZE,
        M_WHEEL: WHEEL,
        M_MARKS: words,
        M_SUMMARY: -(-words // 64),
        M_SLOTS: t[H_POOL] * t[H_SLOT_SIZE],
        M_STACK: STACK,
        M_WORK: 5 * MAX_DIMS,
        M_MOVING: t[H_POOL],
        M_JUDGED: t[H_UNITS],
        M_FREED: t[H_STORES],
        **memory_work_sizes(t),
        M_LOW: t[H_VALUES],
        M_HIGH: t[H_VALUES],
        M_SHIFTS: t[H_CLASSES] * t[H_MAX_AXES],
        M_SHIFTED: t[H_CLASSES],
        M_LOG: log * G_SIZE,
    }
    m = np.zeros(M_SIZE + sum(int(s) for s in sizes.values()), np.int64)
    position = M_SIZE
    for part, size in sizes.items():
        m[part] = position
        position += int(size)
    _fill(m, sizes, M_STAGES, S_SIZE, t[H_STAGE_TABLE], S_RECORD, TS_SIZE)[:, S_NUMBER] = np.arange(t[H_STAGES])
    units = _fill(m, sizes, M_UNITS, U_SIZE, t[H_UNIT_TABLE], U_RECORD, TU_SIZE)
    units[:, (U_WAITING, U_NEXT, U_LAST)] = NONE
    units[:, U_DOING] = U_IDLE
    stages = t[t[H_UNIT_TABLE] : t[H_UNIT_TABLE] + t[H_UNITS] * TU_SIZE].reshape(-1, TU_SIZE)[:, TU_STAGE]
    units[:, U_STAGE] = m[M_STAGES] + S_SIZE * stages
    _fill(m, sizes, M_STORES, D_SIZE, t[H_STORE_TABLE], D_RECORD, TM_SIZE)
    for part in (M_CLASSES, M_QUEUES, M_WHEEL):
        m[m[part] : m[part] + sizes[part]] = NONE
    m[[M_FREE, M_OLDEST, M_YOUNGEST, M_FAR]] = NONE
    start_memories(t, m)
    m[M_FRONT] = t[H_SITES]
    m[[M_PAUSE, M_LOG_ROOM, M_FETCH_END]] = FOREVER
    m[M_ROOM], m[M_WIDE] = t[H_ISSUE_SIZE], t[H_STAGES] > 64
    m[M_LEFT], m[M_FAR_TIME], m[M_HORIZON] = t[H_TOTAL], FOREVER, WHEEL
    return m


def _fill(m: Array, sizes: dict[int, Any], part: int, size: int, table: Any, field: int, step: int) -> Array:
    """The records of a part, each with the position of its record in the tables."""
    view = m[m[part] : m[part] + sizes[part]].reshape(-1, size)
    view[:, field] = table + step * np.arange(len(view))
    return view


def new_memory(t: Array, m: Array, skip: bool) -> Array:
    """Room for what is remembered of a run; none without skipping."""
    if not skip:
        return np.empty(0, np.int64)
    state = min(max(int(state_words.py_func(t, int(t[H_POOL]))), LEAST_STATE_WORDS), MOST_STATE_WORDS)
    snapshots = max(SNAPSHOT_WORDS, 4 * (state + int(m[M_REST])))
    sizes = {
        HM_LOOPS: int(t[H_LOOPS]) * HL_SIZE,
        HM_INDEX: TRANSITIONS * HT_SIZE,
        HM_SCRATCH: state,
        HM_MACHINE: int(m[M_REST]),
        HM_RINGS: int(t[H_HISTORIES]) * SNAPSHOTS * K_SIZE,
        HM_SNAPSHOTS: snapshots,
        HM_TRANSITIONS: TRANSITION_WORDS,
    }
    h = _room(HM_SIZE + sum(sizes.values()))
    h[:HM_SIZE] = 0
    h[HM_STATE_SIZE], h[HM_SNAPSHOTS_SIZE], h[HM_TRANSITIONS_SIZE] = state, snapshots, TRANSITION_WORDS
    position = HM_SIZE
    for part, size in sizes.items():
        h[part] = position
        position += size
    h[h[HM_LOOPS] : h[HM_SCRATCH]] = 0
    h[h[HM_LOOPS] : h[HM_INDEX]].reshape(-1, HL_SIZE)[:, HL_PENDING] = NONE
    return h


_rooms = threading.local()
"""Each thread keeps its room between runs: fresh pages would cost as much as a short run."""


def _room(words: int) -> Array:
    room: Array | None = getattr(_rooms, "room", None)
    if room is None or len(room) < words:
        room = _rooms.room = np.empty(words, np.int64)
    return room


def _records(m: Array, part: int, count: int, size: int) -> list[list[int]]:
    records: list[list[int]] = m[m[part] : m[part] + count * size].reshape(-1, size).tolist()
    return records


def _result(lowered: Lowered, m: Array) -> TimingResult:
    program = lowered.program
    graph = program.graph
    cycles, total = int(m[M_LATEST]), int(lowered.tables[H_TOTAL])
    stages = dict(zip((s.name for s in lowered.graph.stages), _records(m, M_STAGES, len(lowered.graph.stages), S_SIZE)))
    units = tuple(
        _unit(unit.name, record, cycles)
        for unit, record in zip(lowered.graph.units, _records(m, M_UNITS, len(lowered.graph.units), U_SIZE))
    )
    return TimingResult(
        graph.name,
        program.stream.name,
        graph.clock_hz,
        cycles,
        total,
        units,
        tuple(
            _fetch(s.name, m, total, cycles) if s is program.fetch else _stage(s.name, stages[s.name], cycles)
            for s in graph.stages
        ),
        tuple(_storages(lowered, m)),
        exact=True,
        links=tuple(link_timings(graph, lowered.tables, m)),
        caches=tuple(cache_timings(graph, lowered.tables, m)),
        drams=tuple(dram_timings(graph, lowered.tables, m)),
        loops=_loops(lowered, m),
        stepped_instructions=int(m[M_STEPPED]),
        skipped_share=1 - int(m[M_STEPPED]) / total if total else 0.0,
    )


def _unit(name: str, record: list[int], cycles: int) -> UnitTiming:
    busy, dependency, storage, starved = record[U_BUSY], record[U_DEPENDENCY], record[U_STORAGE], record[U_STARVED]
    idle = cycles - busy - dependency - storage - starved
    return UnitTiming(name, record[U_TAKEN], busy, dependency, storage, idle, starved)


def _stage(name: str, record: list[int], cycles: int) -> StageTiming:
    stall, busy = record[S_STALL], record[S_BUSY]
    return StageTiming(name, record[S_HELD], stall, busy, cycles - stall - busy)


def _fetch(name: str, m: Array, total: int, cycles: int) -> StageTiming:
    """Until the last fetch has ended, the fetch stage is busy or stalled."""
    busy = int(m[M_FETCH_BUSY])
    stall = int(m[M_LAST_FETCH]) - busy
    return StageTiming(name, total, stall, busy, cycles - stall - busy)


def _loops(lowered: Lowered, m: Array) -> tuple[LoopTiming, ...]:
    count = len(lowered.sites.sites)
    spent, iterated = (m[m[part] : m[part] + count].tolist() for part in (M_SPENT, M_ITERATED))
    return lowered.sites.timings(spent, iterated)


def _storages(lowered: Lowered, m: Array) -> Iterator[StorageTiming]:
    program = lowered.program
    _, memory = program.graph.instruction_memory(program.fetch)
    storages = lowered.graph.storages
    records = dict(zip((s.name for s in storages), _records(m, M_STORES, len(storages), D_SIZE)))
    for storage in program.graph.storages:
        if storage is memory:
            fetches, total = int(m[M_FETCHES]), int(lowered.tables[H_TOTAL])
            port = fetch_port(total, memory.port_width, memory.data_width)
            yield StorageTiming(storage.name, fetches, 0, port.bytes, 0, fetches, 0, total, 0, port)
        elif storage.name in records:
            r = records[storage.name]
            traffic = r[D_READS], r[D_WRITES], r[D_BYTES_READ], r[D_BYTES_WRITTEN]
            words = r[D_WORDS_READ], r[D_WORDS_WRITTEN]
            write, read = (r[D_PORTS + k * P_SIZE :][:P_SIZE] for k in (0, 1))
            yield StorageTiming(
                storage.name, *traffic, r[D_BEATS], r[D_QUEUE_CYCLES], *words,
                _port(r[D_BYTES_READ], read), _port(r[D_BYTES_WRITTEN], write),
            )


def _port(size: int, record: list[int]) -> PortTiming:
    return PortTiming(size, record[P_BUSY], record[P_PEAK], record[P_PEAK_CYCLES])
