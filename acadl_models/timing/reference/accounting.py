"""The statistics: what each object did in a cycle, and the result ("Statistics")."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.acadl_models.acadl import PipelineStage
from archloom.acadl_models.timing.reference.state import Machine, Unit
from archloom.acadl_models.timing.result import StageTiming, StorageTiming, TimingResult, UnitTiming
from archloom.acadl_models.timing.tally import fetch_port


def count_cycle(m: Machine) -> None:
    """Count the state at the end of a cycle."""
    f = m.fetcher
    m.tally.cycle(m.alive[0].static if m.alive else f.upcoming[0] if f.upcoming else None)
    if f.under_way:
        f.busy += 1
    elif f.requested < m.total:
        f.stall += 1
    for storage in m.storages.values():
        storage.queue_cycles += len(storage.fifo)
    for stage in m.stages.values():
        stage.busy += stage.incoming is not None
        if stage.held:
            stage.stall += stage.held[0].leave <= m.now
            stage.busy += stage.held[0].leave > m.now
    for unit in m.units.values():
        _count_unit(m, unit)


def _count_unit(m: Machine, unit: Unit) -> None:
    if unit.waiting is not None:
        unit.dependency += 1
    elif unit.spec.interval is not None:
        if m.now < unit.ready_from:
            unit.busy += 1
        elif not unit.ready(m.now):
            unit.storage += 1
    elif unit.inside:
        if unit.queued():
            unit.storage += 1
        else:
            unit.busy += 1
    if unit.ready(m.now) and not m.fetcher.buffer and m.fetcher.fetched < m.total:
        unit.starved += 1


def result(m: Machine) -> TimingResult:
    """The statistics of the whole run."""
    return TimingResult(
        m.graph.name, m.program.stream.name, m.graph.clock_hz, m.now, m.total,
        tuple(_unit_timing(m, u) for u in m.units.values()), tuple(_stage_timing(m, s) for s in m.graph.stages),
        tuple(_storage_timings(m)), exact=True, links=m.tally.links([k.name for k in m.graph.links]),
        loops=m.tally.loops(), caches=tuple(m.memories.caches[c.name].figures() for c in m.graph.caches),
        drams=tuple(banks.figures() for banks in m.memories.banks.values()), stepped_instructions=m.total,
    )


def _unit_timing(m: Machine, u: Unit) -> UnitTiming:
    idle = m.now - u.busy - u.dependency - u.storage - u.starved
    return UnitTiming(u.spec.name, u.taken, u.busy, u.dependency, u.storage, idle, u.starved)


def _stage_timing(m: Machine, stage: PipelineStage) -> StageTiming:
    if stage is m.program.fetch:
        entered, stall, busy = m.fetcher.fetched, m.fetcher.stall, m.fetcher.busy
    else:
        s = m.stages[stage.name]
        entered, stall, busy = s.entered, s.stall, s.busy
    return StageTiming(stage.name, entered, stall, busy, m.now - stall - busy)


def _storage_timings(m: Machine) -> Iterator[StorageTiming]:
    """Of the instruction memory, and of the storages that hold a buffer or a part of one."""
    f = m.fetcher
    placed = {bank.storage for banks in m.graph.buffers.values() for bank in banks} | set(m.memories.caches)
    for name, s in m.storages.items():
        if s.spec is f.memory:
            port = fetch_port(f.fetched, f.memory.port_width, f.memory.data_width)
            yield StorageTiming(name, f.fetches, 0, port.bytes, 0, f.fetches, 0, f.fetched, 0, port)
        elif name in placed:
            ports = (m.tally.ports[name, is_read].timing() for is_read in (True, False))
            requests, words, sizes = ((s.read[of], s.written[of]) for of in ("requests", "words", "bytes"))
            yield StorageTiming(name, *requests, *sizes, s.beats, s.queue_cycles, *words, *ports)
