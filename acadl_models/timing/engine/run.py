"""Running the jitted engine on lowered tables, and reading the result out of the machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from acadl_models.timing.engine import core
from acadl_models.timing.engine.deadlock import deadlock_faults
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.lower import Lowered, bad_latency
from acadl_models.timing.result import StageTiming, StorageTiming, TimingResult, UnitTiming
from oracle.errors import GraphError

Array = NDArray[np.int64]

FIRST_POOL = 256
"""Instances that fit into the machine at first; where more are in flight, the run starts again with a larger pool."""


def run(lowered: Lowered, *, skip: bool) -> TimingResult:
    """Simulate lowered tables; raises GraphError for a deadlock and for latencies that get too small on the way."""
    pool = FIRST_POOL
    while True:
        lowered.tables[H_POOL] = pool
        machine = new_machine(lowered.tables)
        core.run(lowered.tables, machine, new_memory(lowered.tables, machine, skip))
        if machine[M_STATUS] != POOL_FULL:
            break
        pool *= 8
    if machine[M_STATUS] == BAD_LATENCY:
        value = int(machine[M_VALUE])
        found = "divides by zero" if value == DIVIDES_BY_ZERO else f"is {value}"
        raise bad_latency(lowered.program, lowered.owners[machine[M_OBJECT]], found)
    if machine[M_STATUS] == DEADLOCK:
        raise GraphError(lowered.program.graph.name, deadlock_faults(lowered, machine))
    return _result(lowered, machine)


def new_machine(t: Array) -> Array:
    """The state before the first cycle."""
    sizes = {
        M_STAGES: t[H_STAGES] * S_SIZE,
        M_UNITS: t[H_UNITS] * U_SIZE,
        M_STORES: t[H_STORES] * D_SIZE,
        M_VALUES: t[H_VALUES],
        M_LOOPS: t[H_LOOPS] * L_SIZE,
        M_CLASSES: 3 * t[H_CLASSES] * C_SIZE,
        M_QUEUES: t[H_SIGNATURES] * Q_SIZE,
        M_STACK: STACK,
        M_WORK: 5 * MAX_DIMS,
        M_LOW: t[H_VALUES],
        M_HIGH: t[H_VALUES],
        M_SHIFTS: t[H_CLASSES] * t[H_MAX_AXES],
        M_SHIFTED: t[H_CLASSES],
        M_MOVING: t[H_POOL],
        M_SLOTS: t[H_POOL] * t[H_SLOT_SIZE],
    }
    m = np.zeros(M_SIZE + sum(int(s) for s in sizes.values()), np.int64)
    position = M_SIZE
    for part, size in sizes.items():
        m[part] = position
        position += int(size)
    for part, empty, record in (
        (M_STAGES, (S_HEAD, S_TAIL), S_SIZE),
        (M_UNITS, (U_WAITING, U_BLOCKER, U_HEAD, U_LAST), U_SIZE),
        (M_STORES, (D_HEAD, D_TAIL, D_QUEUE_HEAD, D_QUEUE_TAIL), D_SIZE),
        (M_CLASSES, (C_FIRST, C_LAST), C_SIZE),
        (M_QUEUES, (Q_HEAD, Q_TAIL), Q_SIZE),
    ):
        view = m[m[part] : m[part] + sizes[part]].reshape(-1, record)
        view[:, empty] = NONE
    units = m[m[M_UNITS] : m[M_UNITS] + sizes[M_UNITS]].reshape(-1, U_SIZE)
    units[:, U_NEXT] = FOREVER
    units[:, U_DOING] = U_IDLE
    stores = m[m[M_STORES] : m[M_STORES] + sizes[M_STORES]].reshape(-1, D_SIZE)
    stores[:, D_NEXT] = FOREVER
    m[[M_FETCH_END, M_FREE, M_OLDEST, M_YOUNGEST]] = NONE
    m[M_LEFT], m[M_MOVE_TIME] = t[H_TOTAL], FOREVER
    return m


def new_memory(t: Array, m: Array, skip: bool) -> Array:
    """Room for what is remembered of a run; none without skipping."""
    if not skip:
        return np.empty(0, np.int64)
    sizes = {
        HM_LOOPS: int(t[H_LOOPS]) * HL_SIZE,
        HM_INDEX: TRANSITIONS * HT_SIZE,
        HM_SCRATCH: STATE_WORDS,
        HM_MACHINE: int(m[M_SLOTS]),
        HM_RINGS: int(t[H_HISTORIES]) * SNAPSHOTS * K_SIZE,
        HM_SNAPSHOTS: SNAPSHOT_WORDS,
        HM_TRANSITIONS: TRANSITION_WORDS,
    }
    h = _room(HM_SIZE + sum(sizes.values()))
    h[:HM_SIZE] = 0
    h[HM_SNAPSHOTS_SIZE], h[HM_TRANSITIONS_SIZE] = SNAPSHOT_WORDS, TRANSITION_WORDS
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


def _records(m: Array, part: int, count: int, size: int) -> Array:
    return m[m[part] : m[part] + count * size].reshape(-1, size)


def _result(lowered: Lowered, m: Array) -> TimingResult:
    program = lowered.program
    graph = program.graph
    cycles, total = int(m[M_LATEST]), program.count
    stages = dict(zip((s.name for s in lowered.stages), _records(m, M_STAGES, len(lowered.stages), S_SIZE)))
    units = tuple(
        _unit(unit.name, record, cycles)
        for unit, record in zip(lowered.units, _records(m, M_UNITS, len(lowered.units), U_SIZE))
    )
    return TimingResult(
        graph.name,
        program.stream.name,
        graph.clock_hz,
        cycles,
        total,
        units,
        tuple(
            StageTiming(s.name, total, int(m[M_FETCH_STALL]))
            if s is program.fetch
            else StageTiming(s.name, int(stages[s.name][S_HELD]), int(stages[s.name][S_STALL]))
            for s in graph.stages
        ),
        tuple(_storages(lowered, m)),
        exact=True,
        stepped_instructions=int(m[M_STEPPED]),
        skipped_share=1 - int(m[M_STEPPED]) / total if total else 0.0,
    )


def _unit(name: str, record: Array, cycles: int) -> UnitTiming:
    busy, dependency, storage = int(record[U_BUSY]), int(record[U_DEPENDENCY]), int(record[U_STORAGE])
    return UnitTiming(name, int(record[U_TAKEN]), busy, dependency, storage, cycles - busy - dependency - storage)


def _storages(lowered: Lowered, m: Array) -> Iterator[StorageTiming]:
    program = lowered.program
    _, memory = program.graph.instruction_memory(program.fetch)
    records = dict(zip((s.name for s in lowered.storages), _records(m, M_STORES, len(lowered.storages), D_SIZE)))
    for storage in program.graph.storages:
        if storage is memory:
            fetches, size = int(m[M_FETCHES]), -(-program.count * memory.data_width // 8)
            yield StorageTiming(storage.name, fetches, 0, size, 0, fetches, 0)
        elif storage.name in records:
            r = [int(v) for v in records[storage.name]]
            traffic = r[D_READS], r[D_WRITES], r[D_BYTES_READ], r[D_BYTES_WRITTEN]
            yield StorageTiming(storage.name, *traffic, r[D_BEATS], r[D_QUEUE_CYCLES])
