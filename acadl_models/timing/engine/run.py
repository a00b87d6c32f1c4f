"""Running the engine on lowered tables, and reading the result out of the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple

from archloom.acadl_models.acadl.latency import BAD_DIVISOR
from archloom.acadl_models.timing import result
from archloom.acadl_models.timing.engine import core, state
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import H, Instruction
from archloom.acadl_models.timing.engine.lowering.memories import stateful_drams
from archloom.acadl_models.timing.engine.lowering.program import Lowered
from archloom.acadl_models.timing.engine.machine import alive, held, new_machine, new_memory, records_of
from archloom.acadl_models.timing.engine.memory_state import Cache, Dram
from archloom.acadl_models.timing.engine.state import Array, Link, M, Operand, Port, Stage, Status, Store, Unit
from archloom.acadl_models.timing.machine import MOST_LISTED, more_faults
from archloom.acadl_models.timing.tally import fetch_port
from archloom.oracle.errors import GraphError

LARGEST_FIRST_POOL, FIRST_WORDS = 1 << 17, 1 << 25
"""Instances that fit into the machine at first at most, and the words of them all: some ask for thousands of lines.
The second, 256 MiB, is a free choice. Where more are in flight, the run starts again with more."""


HEARD_EVERY = 1 << 20
"""Instructions that are stepped through between two reports of how far a run is."""


def run(
    lowered: Lowered, *, skip: bool, heard: result.Heard | None = None, patience: result.Patience | None = None
) -> result.TimingResult:
    """Simulate lowered tables; raises GraphError for a deadlock and for latencies that get too small on the way.

    ``heard`` is told now and then how far the run is; what it raises ends the run. ``patience``: loops that take longer
    are taken in proportion to what was stepped of them (:mod:`.skipping.proportion`), and the result is not exact.
    """
    most = most_in_flight(lowered)
    pool = min(most, LARGEST_FIRST_POOL, max(1, FIRST_WORDS // int(lowered.tables[H.SLOT_SIZE])))
    while True:
        lowered.tables[H.POOL] = pool
        machine = new_machine(lowered.tables, lasts=False)
        if patience is not None:
            machine[M.PROPORTION] = state.Proportion.ALLOWED
            machine[M.WHOLE : M.LATE + 1] = astuple(patience)  # in their order
        _run_heard(lowered, machine, new_memory(lowered.tables, machine, skip), heard)
        if machine[M.STATUS] != Status.POOL_FULL:
            break
        pool = min(2 * pool, most)
    raise_faults(lowered, machine)
    return _result(lowered, machine)


def _run_heard(lowered: Lowered, machine: Array, memory: Array, heard: result.Heard | None) -> None:
    """Run to the end, or until it cannot go on."""
    while True:
        if heard is not None:
            machine[M.MOST_STEPPED] = machine[M.STEPPED] + HEARD_EVERY
        core.run(lowered.tables, machine, memory)
        if machine[M.STATUS] != Status.PAUSED or heard is None:
            return
        heard(int(machine[M.STEPPED]), int(machine[M.FINISHED]), int(lowered.tables[H.TOTAL]))


def raise_faults(lowered: Lowered, machine: Array) -> None:
    """Raise the GraphError for which a run has stopped, if any."""
    if machine[M.STATUS] == Status.BAD_LATENCY:
        value = int(machine[M.VALUE])
        found = BAD_DIVISOR if value == state.NO_DIVISOR else f"is {value}"
        raise GraphError(lowered.program.graph.name, [lowered.owners[machine[M.OBJECT]].fault(found)])
    if machine[M.STATUS] == Status.DEADLOCK:
        raise GraphError(lowered.program.graph.name, deadlock_faults(lowered, machine))


def most_in_flight(lowered: Lowered) -> int:
    """A bound of the instances that are fetched and not finished: what all places together hold."""
    return max(1, min(lowered.graph.most, int(lowered.tables[H.TOTAL])))


def _result(lowered: Lowered, m: Array) -> result.TimingResult:
    program = lowered.program
    graph = program.graph
    cycles, total = int(m[M.LATEST]), int(lowered.tables[H.TOTAL])
    stages = dict(
        zip((s.name for s in lowered.graph.stages), records_of(m, M.STAGES, len(lowered.graph.stages), Stage).tolist())
    )
    units = tuple(
        _unit(unit.name, record, cycles)
        for unit, record in zip(lowered.graph.units, records_of(m, M.UNITS, len(lowered.graph.units), Unit).tolist())
    )
    return result.TimingResult(
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
        exact=bool(m[M.PROPORTION] != state.Proportion.TAKEN),
        links=tuple(_links(lowered, m)),
        caches=tuple(_caches(lowered, m)),
        drams=tuple(_drams(lowered, m)),
        loops=_loops(lowered, m),
        stepped_instructions=int(m[M.STEPPED]),
        skipped_share=1 - int(m[M.STEPPED]) / total if total else 0.0,
    )


def _unit(name: str, record: list[int], cycles: int) -> result.UnitTiming:
    spent = (Unit.BUSY, Unit.DEPENDENCY, Unit.STORAGE, Unit.STARVED)
    busy, dependency, storage, starved = (record[field] for field in spent)
    idle = cycles - busy - dependency - storage - starved
    return result.UnitTiming(name, record[Unit.TAKEN], busy, dependency, storage, idle, starved)


def _stage(name: str, record: list[int], cycles: int) -> result.StageTiming:
    stall, busy = record[Stage.STALL], record[Stage.BUSY]
    return result.StageTiming(name, record[Stage.HELD], stall, busy, cycles - stall - busy)


def _fetch(name: str, m: Array, total: int, cycles: int) -> result.StageTiming:
    """Until the last fetch has ended, the fetch stage is busy or stalled."""
    busy = int(m[M.FETCH_BUSY])
    stall = int(m[M.LAST_FETCH]) - busy
    return result.StageTiming(name, total, stall, busy, cycles - stall - busy)


def _loops(lowered: Lowered, m: Array) -> tuple[result.LoopTiming, ...]:
    count = len(lowered.sites.sites)
    spent, iterated = (m[m[part] : m[part] + count].tolist() for part in (M.SPENT, M.ITERATED))
    return lowered.sites.timings(spent, iterated)


def _storages(lowered: Lowered, m: Array) -> Iterator[result.StorageTiming]:
    program = lowered.program
    _, memory = program.graph.instruction_memory(program.fetch)
    storages = lowered.graph.storages
    records = dict(zip((s.name for s in storages), records_of(m, M.STORES, len(storages), Store).tolist()))
    for storage in program.graph.storages:
        if storage is memory:
            fetches, total = int(m[M.FETCHES]), int(lowered.tables[H.TOTAL])
            port = fetch_port(total, memory.port_width, memory.data_width)
            yield result.StorageTiming(storage.name, fetches, 0, port.bytes, 0, fetches, 0, total, 0, port)
        elif storage.name in records:
            r = records[storage.name]
            traffic = r[Store.READS], r[Store.WRITES], r[Store.BYTES_READ], r[Store.BYTES_WRITTEN]
            words = r[Store.WORDS_READ], r[Store.WORDS_WRITTEN]
            write, read = (r[Store.PORTS + k * Port.SIZE :][: Port.SIZE] for k in (0, 1))
            yield result.StorageTiming(
                storage.name, *traffic, r[Store.BEATS], r[Store.QUEUE_CYCLES], *words, _port(r[Store.BYTES_READ], read),
                _port(r[Store.BYTES_WRITTEN], write),
            )


def _port(size: int, record: Sequence[int]) -> result.PortTiming:
    return result.PortTiming(int(size), int(record[Port.BUSY]), int(record[Port.PEAK]), int(record[Port.PEAK_CYCLES]))


def _caches(lowered: Lowered, m: Array) -> Iterator[result.CacheTiming]:
    caches = lowered.program.graph.caches
    for cache, record in zip(caches, records_of(m, M.CACHES, len(caches), Cache).tolist()):
        yield result.CacheTiming(cache.name, *record[: Cache.GENERATOR])


def _drams(lowered: Lowered, m: Array) -> Iterator[result.DramTiming]:
    drams = stateful_drams(lowered.program.graph)
    for dram, record in zip(drams, records_of(m, M.DRAMS, len(drams), Dram).tolist()):
        if dram.has_bank_state:
            yield result.DramTiming(dram.name, *record)


def _links(lowered: Lowered, m: Array) -> Iterator[result.LinkTiming]:
    links = lowered.program.graph.links
    for link, record in zip(links, records_of(m, M.LINKS, len(links), Link).tolist()):
        write, read = (_port(record[Link.BYTES + k], record[Link.PORTS + k * Port.SIZE :]) for k in (0, 1))
        yield result.LinkTiming(link.name, read, write, record[Link.WAIT])


# --- what a machine that can do nothing more is waiting for, in words ------------------------------------------------
def deadlock_faults(lowered: Lowered, m: Array) -> list[str]:
    """The cycle, how many instructions are left, and what each instruction in flight waits for."""
    total = lowered.program.count
    left = total - int(m[M.FINISHED])
    idle = int(m[M.TIME]) + int(m[M.CHANGED] == m[M.TIME])
    faults = [f"deadlock in cycle {idle}: {left} of {total} instructions are left"]
    in_flight = [slot for slot in alive(m) if m[slot + state.Instance.PHASE] != state.Phase.LINGERING]
    blockers = {unit: slot for slot in in_flight for unit in _waiters(m, slot)}
    for slot in in_flight[:MOST_LISTED]:
        faults.append(f"{_name(lowered, m, slot)} waits for {_waits_for(lowered, m, slot, blockers)}")
    return faults + more_faults(len(in_flight))


def _waiters(m: Array, slot: int) -> Iterator[int]:
    """The units whose instances wait for this one."""
    unit = int(m[slot + state.Instance.WAITERS])
    while unit != NONE:
        yield unit
        unit = int(m[unit + Unit.NEXT])


def _name(lowered: Lowered, m: Array, slot: int) -> str:
    number = int(m[slot + state.Instance.SEQ])
    static, values = lowered.program.names.walk(number)
    where = ", ".join(f"{k}={v}" for k, v in values.items())
    return f"instruction {number} {static.mnemonic}" + (f" ({where})" if where else "")


def _waits_for(lowered: Lowered, m: Array, slot: int, blockers: dict[int, int]) -> str:
    phase, unit = int(m[slot + state.Instance.PHASE]), int(m[slot + state.Instance.UNIT])
    if phase == state.Phase.FINISHED:
        return f"{_name(lowered, m, int(m[M.OLDEST_LEFT]))} to commit, in {lowered.program.fetch}"
    if unit != NONE:
        steps = "buffered", "waiting", "reading", "processing", "writing"  # by phase
        waiting = phase == state.Phase.WAITING
        what = f"{_name(lowered, m, blockers[unit])} to finish" if waiting else f"{steps[phase]} to end"
        return f"{what}, in {lowered.graph.units[(unit - int(m[M.UNITS])) // Unit.SIZE]}"
    if m[slot + state.Instance.SEQ] >= m[M.SEQ] - m[M.UNDECODED]:
        return f"{_missing(lowered, m, slot)}, in {lowered.program.fetch}"
    stage = next((s for k, s in enumerate(lowered.graph.stages) if slot in held(m, k)), lowered.program.fetch)
    number = (int(m[slot + state.Instance.STATIC]) - int(lowered.tables[H.STATIC_TABLE])) // Instruction.SIZE
    routed = lowered.program.instructions[number].routed
    after = [s for s in lowered.program.graph.successors(stage) if s.name in routed]
    return f"room in {' or '.join(map(str, after)) or 'no stage at all'}, in {stage}"


def _missing(lowered: Lowered, m: Array, slot: int) -> str:
    """What an instruction that is not decoded waits for."""
    oldest = int(m[M.DECODING])
    if slot != oldest:
        return f"{_name(lowered, m, oldest)} to be decoded"
    operands = int(m[slot + state.Instance.STATIC]) + Instruction.OPERAND_COUNT
    begin = slot + int(lowered.tables[H.SLOT_OPERANDS])
    taken = Counter(int(m[begin + k * Operand.SIZE + Operand.FILE]) for k in range(int(lowered.tables[operands])))
    files = [f for f in lowered.program.graph.register_files if f.is_renamed]
    lacking = [(files[at - int(m[M.FILES])], n) for at, n in taken.items() if at != NONE and n > m[at]]
    registers = [f"{n} physical registers of {file}" for file, n in lacking]
    return " and ".join(registers) or "an entry of the reorder buffer"
