"""The step-by-step simulator: docs/timing_semantics.md, one clock cycle at a time.

This is the definition against which the fast engine is tested. It enumerates instruction instances, compares element
sets, and does nothing cleverly; use :func:`acadl_models.timing.simulate` for real streams.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from acadl_models.acadl import ArchitectureGraph, DataStorage, FunctionalUnit, Link, PipelineStage
from acadl_models.acadl.latency import Expression
from acadl_models.timing.log import (
    CARRIED,
    ENTERED,
    FETCH,
    FETCHED,
    GRANTED,
    QUEUED,
    RECEIVED,
    STARTED,
    TRANSFER,
    Event,
    RunLog,
)
from acadl_models.timing.machine import (
    MOST_LISTED,
    AccessPlan,
    Program,
    Request,
    StaticInstruction,
    bind,
    evaluate_latency,
    fetch_cycles,
    more_faults,
)
from acadl_models.timing.memories.serving import Load, Memories
from acadl_models.timing.result import StageTiming, StorageTiming, TimingResult, UnitTiming
from acadl_models.timing.tally import Tally, fetch_port
from oracle.errors import GraphError
from oracle.resolved import ResolvedStream

WAITING, READING, PROCESSING, WRITING, FINISHED = "waiting", "reading", "processing", "writing", "finished"


@dataclass(frozen=True)
class InstanceLog:
    """When an instruction instance passed each step, in cycles: for traces and tests."""

    number: int
    mnemonic: str
    values: Mapping[str, int]
    unit: str
    fetched: int
    received: int
    started: int
    processing: int
    written: int
    finished: int


@dataclass(eq=False)
class _Issued:
    """A request on its way: ``finish`` is the time of its next step once it has a slot, the last one of its end.

    ``exclusive``: it comes over a windowed link; ``passage`` has the times that are left after ``finish``.
    """

    request: Request
    owner: "_Instance"
    number: int
    finish: int = -1
    exclusive: bool = False
    passage: Iterator[int] = field(default_factory=lambda: iter(()))


@dataclass(eq=False)
class _Instance:
    number: int
    static: StaticInstruction
    values: Mapping[str, int]
    environment: Mapping[str, int]
    fetched: int
    reads: list[Request] = field(default_factory=list)
    writes: list[Request] = field(default_factory=list)
    pending: list[_Issued] = field(default_factory=list)
    state: str = "buffered"
    leave: int = 0
    unit: "_Unit | None" = None
    end: int = 0
    received: int = 0
    started: int = 0
    processing: int = 0
    written: int = 0

    @property
    def mnemonic(self) -> str:
        return self.static.node.mnemonic

    def __str__(self) -> str:
        where = ", ".join(f"{k}={v}" for k, v in self.values.items())
        return f"instruction {self.number} {self.mnemonic}" + (f" ({where})" if where else "")


@dataclass(eq=False)
class _Unit:
    unit: FunctionalUnit
    waiting: _Instance | None = None
    inside: list[_Instance] = field(default_factory=list)
    last: _Instance | None = None
    ready_from: int = 0
    taken: int = 0
    busy: int = 0
    dependency: int = 0
    storage: int = 0
    starved: int = 0

    def queued(self) -> bool:
        """Whether a request of an instruction in the unit waits for a slot."""
        return any(p.finish < 0 for i in self.inside for p in i.pending)

    def ready(self, now: int) -> bool:
        """Phase 1c."""
        if self.waiting is not None:
            return False
        if self.unit.interval is None:
            return not self.inside
        reading = self.last is not None and self.last.state == READING and any(p.finish < 0 for p in self.last.pending)
        return now >= self.ready_from and not reading and len(self.inside) < self.unit.in_flight


@dataclass(eq=False)
class _Stage:
    stage: PipelineStage
    units: list[_Unit]
    held: deque[_Instance] = field(default_factory=deque)
    incoming: _Instance | None = None  # held before a unit takes it, where latencies are added
    entered: int = 0
    stall: int = 0
    busy: int = 0

    def room(self, now: int) -> bool:
        free = len(self.held) < self.stage.depth and self.incoming is None
        return free and all(u.ready(now) for u in self.units)


@dataclass(eq=False)
class _Storage:
    storage: DataStorage
    slots: list[_Issued] = field(default_factory=list)
    fifo: deque[_Issued] = field(default_factory=deque)
    port_free: int = 0
    reads: int = 0
    writes: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    words_read: int = 0
    words_written: int = 0
    beats: int = 0
    queue_cycles: int = 0


def simulate_reference(
    graph: ArchitectureGraph, resolved: ResolvedStream, log: list[InstanceLog] | None = None
) -> TimingResult:
    """Simulate ``resolved`` on ``graph`` cycle by cycle; appends one entry per finished instance to ``log``.

    Raises GraphError for a stream that the graph cannot process, a latency below its least value, or a deadlock.
    """
    return _Simulator(bind(graph, resolved), log).run()


def log_reference(graph: ArchitectureGraph, resolved: ResolvedStream) -> RunLog:
    """The log of the whole run, step by step; raises as :func:`simulate_reference`."""
    simulator = _Simulator(bind(graph, resolved), None)
    simulator.events = []
    cycles = simulator.run().cycles
    return RunLog(simulator.program, 0, cycles, tuple(simulator.events), 0, cycles)


class _Simulator:
    def __init__(self, program: Program, log: list[InstanceLog] | None) -> None:
        self.graph = program.graph
        self.semantics = program.graph.semantics
        self.program = program
        self.log = log
        self.total = program.count
        self.tally = Tally(program)
        self.stream: Iterator[tuple[StaticInstruction, dict[str, int]]] = program.instances()
        self.upcoming = next(self.stream, None)
        self.units = {u.name: _Unit(u) for u in self.graph.functional_units}
        self.stages = {
            s.name: _Stage(s, [self.units[u.name] for u in self.graph.units(s) if u.name in self.units])
            for s in self.graph.stages
            if s is not program.fetch
        }
        self.order = [self.stages[s.name] for s in program.forwarding_order if s is not program.fetch]
        self.storages = {s.name: _Storage(s) for s in self.graph.storages}
        self.memories = Memories(self.graph)
        self.memory = self.graph.instruction_memory(program.fetch)[1]
        self.fetch_cycles = fetch_cycles(program)
        self.issue_buffer: list[_Instance] = []
        self.alive: list[_Instance] = []  # fetched and not finished, in program order
        self.now = 0
        self.fetching: deque[tuple[int, int]] = deque()  # end and instructions of each fetch under way
        self.requested = self.fetched = self.finished = 0
        self.fetches = self.fetch_stall = self.fetch_busy = 0
        self.changed = False
        self.events: list[Event] | None = None

    def _note(
        self, step: str, place: str, number: int, finish: int = -1, size: int = 0, issued: "_Issued | None" = None
    ) -> None:
        """Log what happens now; ``issued``: the request that it is about."""
        if self.events is None:
            return
        if issued is None:
            self.events.append(Event(self.now, step, place, number, finish=finish, size=size))
            return
        r = issued.request
        self.events.append(Event(self.now, step, place, number, issued.number, finish, r.bytes, r.beats, r.is_read))

    def _note_carried(self, link: Link, issued: _Issued, start: int, waited: int) -> None:
        if self.events is not None:
            r = issued.request
            number = issued.owner.number
            event = Event(self.now, CARRIED, link.name, number, waited, start, r.bytes, link.bandwidth, r.is_read)
            self.events.append(event)

    # --- the clock ------------------------------------------------------------------------------------------
    def run(self) -> TimingResult:
        while self.finished < self.total:
            self.changed = False
            self._complete()
            if self.finished == self.total:
                break
            self._forward()
            self._start()
            self._fetch()
            if not self.changed and not self._timers():
                raise GraphError(self.graph.name, self._deadlock())
            self._count_cycle()
            self.now += 1
        return self._result()

    def _timers(self) -> bool:
        """Whether a time lies ahead at which something changes by itself."""
        return (
            bool(self.fetching)
            or any(s.slots for s in self.storages.values())
            or any(u.ready_from > self.now or any(i.state == PROCESSING for i in u.inside) for u in self.units.values())
            or any(s.incoming or (s.held and s.held[0].leave > self.now) for s in self.stages.values())
        )

    # --- phase 1 --------------------------------------------------------------------------------------------
    def _complete(self) -> None:
        for storage in self.storages.values():
            self._end_requests(storage)
        for storage in self.storages.values():
            self._fill_slots(storage)
        for instance in list(self.alive):
            self._progress(instance)
        if self.fetching and self.fetching[0][0] == self.now:
            self._append_fetched(self.fetching.popleft()[1])

    def _end_requests(self, storage: _Storage) -> None:
        """Phase 1a: requests end, or go on with what they look for next, in the order in which they got their slots."""
        for issued in list(storage.slots):
            while issued.finish == self.now:
                self.changed = True
                after = next(issued.passage, None)
                if after is None:
                    storage.slots.remove(issued)
                    issued.owner.pending.remove(issued)
                    break
                issued.finish = after

    def _fill_slots(self, storage: _Storage) -> None:
        while storage.fifo and self._has_slot(storage, storage.fifo[0]):
            self._grant(storage, storage.fifo.popleft())

    def _has_slot(self, storage: _Storage, issued: _Issued) -> bool:
        """Whether a request may be granted: over a windowed link it has the storage to itself."""
        if storage.slots and (issued.exclusive or any(s.exclusive for s in storage.slots)):
            return False
        return len(storage.slots) < storage.storage.max_concurrent_requests

    def _progress(self, instance: _Instance) -> None:
        """Phase 1b: from step to step, through steps of zero cycles."""
        if instance.state == READING and not instance.pending:
            self._process(instance)
        elif instance.state == PROCESSING and instance.end == self.now:
            self._write(instance)
        elif instance.state == WRITING and not instance.pending:
            self._finish(instance)

    def _process(self, instance: _Instance) -> None:
        unit = self._unit(instance)
        least = 0 if instance.static.makes_requests else 1
        latency = self._latency(f"{unit}: latency", unit.latency_of(instance.mnemonic), instance, least)
        instance.state, instance.processing, instance.end = PROCESSING, self.now, self.now + latency
        self._note(PROCESSING, unit.name, instance.number)
        self.changed = True
        if latency == 0:
            self._write(instance)

    def _write(self, instance: _Instance) -> None:
        instance.state, instance.written = WRITING, self.now
        self._note(WRITING, self._unit(instance).name, instance.number)
        self._issue(instance, instance.writes)
        if not instance.pending:
            self._finish(instance)

    def _finish(self, instance: _Instance) -> None:
        assert instance.unit is not None
        instance.state = FINISHED
        self._note(FINISHED, instance.unit.unit.name, instance.number)
        instance.unit.inside.remove(instance)
        self.alive.remove(instance)
        self.finished += 1
        self.changed = True
        if self.log is not None:
            i = instance
            self.log.append(
                InstanceLog(i.number, i.mnemonic, i.values, self._unit(i).name, i.fetched, i.received, i.started,
                            i.processing, i.written, self.now)
            )

    def _append_fetched(self, count: int) -> None:
        for _ in range(count):
            assert self.upcoming is not None
            static, values = self.upcoming
            self.upcoming = next(self.stream, None)
            environment = static.environment(self.program.parameters, values)
            instance = _Instance(self.fetched, static, values, environment, self.now)
            for plan in static.plans:
                (instance.reads if plan.is_read else instance.writes).extend(plan.requests(values))
            self._note(FETCHED, self.program.fetch.name, self.fetched)
            self.fetched += 1
            self.issue_buffer.append(instance)
            self.alive.append(instance)
        self.changed = True

    # --- requests -------------------------------------------------------------------------------------------
    def _issue(self, instance: _Instance, requests: list[Request]) -> None:
        first = 0 if requests is instance.reads else len(instance.reads)
        for number, request in enumerate(requests, first):
            storage = self.storages[request.storage]
            link = self.memories.link(storage.storage, self._unit(instance), request.is_read)
            issued = _Issued(request, instance, number, exclusive=link is not None and link.exclusive)
            issued.passage = self._passage(storage, issued, link)
            instance.pending.append(issued)
            if not storage.fifo and self._has_slot(storage, issued):
                self._grant(storage, issued)
            else:
                storage.fifo.append(issued)
                self._note(QUEUED, request.storage, instance.number, issued=issued)
            self._count_request(storage, request)

    def _grant(self, storage: _Storage, issued: _Issued) -> None:
        storage.slots.append(issued)
        issued.finish = next(issued.passage)
        self.changed = True

    def _passage(self, storage: _Storage, issued: _Issued, link: Link | None) -> Iterator[int]:
        """The times until which a request waits from its grant on: for its lines, if any, and for its end."""
        request = issued.request
        self._note(GRANTED, request.storage, issued.owner.number, issued=issued)
        runs = tuple((at, at + count) for at, count in request.runs)
        load = Load(runs, request.is_read, request.beats, request.bytes)
        ready = first = yield from self.memories.ready(
            storage.storage, load, lambda s, attribute: self._storage_latency(s, attribute, issued), self.now
        )
        if storage.storage.shared_port:
            first = max(first, storage.port_free)
            storage.port_free = first + request.beats
        finish = first + request.beats - 1
        if link is not None:
            start, arrival = self.memories.channels[link.name].send(request.bytes, request.is_read, ready)
            self.tally.link(link.name, request.is_read, start, request.bytes, link.bandwidth, start - ready)
            finish = max(finish, arrival)
            self._note_carried(link, issued, start, start - ready)
        issued.finish = finish
        self._note(TRANSFER, request.storage, issued.owner.number, finish, issued=issued)
        # a miss that ends without the latency of a hit has moved its words before its end was known
        alone = self.graph.semantics.cache_miss_end == "after_miss" and storage.storage.name in self.memories.caches
        self.tally.transfer(request.storage, request.is_read, finish, request.beats, request.bytes, alone)
        yield finish

    def _storage_latency(self, storage: DataStorage, attribute: str, issued: _Issued) -> int:
        expression = storage.latencies()[attribute]
        values = {**issued.owner.environment, "words": issued.request.words, "bytes": issued.request.bytes}
        where = f"{storage}: {attribute}"
        return evaluate_latency(self.graph, where, expression, values, 1, issued.owner.mnemonic)

    def _latency(self, where: str, expression: Expression, instance: _Instance, least: int) -> int:
        return evaluate_latency(self.graph, where, expression, instance.environment, least, instance.mnemonic)

    # --- phase 2 --------------------------------------------------------------------------------------------
    def _forward(self) -> None:
        for stage in self.order:
            if stage.incoming is not None and stage.incoming.leave <= self.now:
                self._hand_over(stage, stage.incoming)
                stage.incoming = None
            while stage.room(self.now):
                found = self._offer(stage)
                if found is None:
                    break
                instance, source = found
                source.remove(instance)
                self._receive(stage, instance)
        while self.semantics.issue == "in_order" and self._issue_next():
            pass

    def _offer(self, stage: _Stage) -> tuple[_Instance, list[_Instance] | deque[_Instance]] | None:
        """The instruction that ``stage`` receives next, and where it is."""
        offers = []
        for sender in self.graph.predecessors(stage.stage):
            routed = [offer for offer in self._offered(sender) if stage.stage.name in offer[0].static.routed]
            if routed and self.semantics.arbitration == "edge_order":
                return min(routed, key=lambda offer: offer[0].number)
            offers += routed
        return min(offers, key=lambda offer: offer[0].number, default=None)

    def _offered(self, sender: PipelineStage) -> list[tuple[_Instance, list[_Instance] | deque[_Instance]]]:
        if sender is self.program.fetch:
            window = self.issue_buffer if self.semantics.issue == "out_of_order" else self.issue_buffer[:1]
            return [(i, self.issue_buffer) for i in window]
        held = self.stages[sender.name].held
        return [(held[0], held)] if held and held[0].leave <= self.now else []

    def _issue_next(self) -> bool:
        """In order: pass on the oldest instruction, which another one hid from its stage when that had its turn."""
        for instance in self.issue_buffer[:1]:
            after = {s.name for s in self.graph.successors(self.program.fetch)} & instance.static.routed
            for stage in self.order:
                if stage.stage.name in after and stage.room(self.now):
                    self.issue_buffer.remove(instance)
                    self._receive(stage, instance)
                    return True
        return False

    def _receive(self, stage: _Stage, instance: _Instance) -> None:
        self.changed = True
        stage.entered += 1
        taken = stage.stage.name in instance.static.takers
        if taken and self.semantics.stage_latency == "replaced":
            self._hand_over(stage, instance)
            return
        expression = stage.stage.latencies()["latency"]
        instance.leave = self.now + self._latency(f"{stage.stage}: latency", expression, instance, 1)
        self._note(ENTERED, stage.stage.name, instance.number, instance.leave)
        if taken:
            stage.incoming = instance
        else:
            stage.held.append(instance)

    def _hand_over(self, stage: _Stage, instance: _Instance) -> None:
        unit = self.units[instance.static.takers[stage.stage.name].name]
        unit.waiting = instance
        unit.taken += 1
        instance.state, instance.unit, instance.received = WAITING, unit, self.now
        self._note(RECEIVED, unit.unit.name, instance.number)
        self.changed = True

    # --- phase 3 --------------------------------------------------------------------------------------------
    def _start(self) -> None:
        waiting = [u for u in self.units.values() if u.waiting is not None]
        for unit in sorted(waiting, key=lambda u: u.waiting.number if u.waiting else 0):
            instance = unit.waiting
            if instance is None or self._blocker(instance) is not None:
                continue
            unit.waiting = None
            unit.inside.append(instance)
            unit.last = instance
            interval = unit.unit.interval_of(instance.mnemonic)
            if interval is not None:
                unit.ready_from = self.now + self._latency(f"{unit.unit}: interval", interval, instance, 1)
            instance.state, instance.started = READING, self.now
            self._note(STARTED, unit.unit.name, instance.number)
            self._issue(instance, instance.reads)
            self.changed = True
            if not instance.reads:
                self._process(instance)

    def _blocker(self, instance: _Instance) -> _Instance | None:
        """The first earlier instruction that ``instance`` has to wait for."""
        earlier = (other for other in self.alive if other.number < instance.number)
        return next((other for other in earlier if self._holds_back(other, instance)), None)

    def _holds_back(self, earlier: _Instance, later: _Instance) -> bool:
        """Whether a conflict with an ``earlier``, unfinished instruction keeps ``later`` from starting."""
        only_modifying = self.semantics.write_after_read == "ignored" or (
            self.semantics.write_after_read == "started" and earlier.state in (READING, PROCESSING, WRITING)
        )
        return _conflict(earlier, later, only_modifying)

    # --- phase 4 --------------------------------------------------------------------------------------------
    def _fetch(self) -> None:
        count = min(self.memory.port_width, self.total - self.requested)
        reserved = sum(under_way for _, under_way in self.fetching)
        room = self.program.fetch.issue_buffer_size - len(self.issue_buffer) - reserved
        if len(self.fetching) < self.semantics.fetches_in_flight and 0 < count <= room:
            self.fetching.append((self.now + self.fetch_cycles, count))
            self._note(FETCH, self.program.fetch.name, -1, self.now + self.fetch_cycles, count)
            self.requested += count
            self.fetches += 1
            self.changed = True

    # --- what is reported -----------------------------------------------------------------------------------
    def _count_request(self, storage: _Storage, request: Request) -> None:
        storage.beats += request.beats
        if request.is_read:
            storage.reads += 1
            storage.bytes_read += request.bytes
            storage.words_read += request.words
        else:
            storage.writes += 1
            storage.bytes_written += request.bytes
            storage.words_written += request.words

    def _count_cycle(self) -> None:
        self.tally.cycle(self.alive[0].static if self.alive else self.upcoming[0] if self.upcoming else None)
        if self.fetching:
            self.fetch_busy += 1
        elif self.requested < self.total:
            self.fetch_stall += 1
        for storage in self.storages.values():
            storage.queue_cycles += len(storage.fifo)
        for stage in self.stages.values():
            stage.busy += stage.incoming is not None
            if stage.held:
                stage.stall += stage.held[0].leave <= self.now
                stage.busy += stage.held[0].leave > self.now
        for unit in self.units.values():
            self._count_unit(unit)

    def _count_unit(self, unit: _Unit) -> None:
        if unit.waiting is not None:
            unit.dependency += 1
        elif unit.unit.interval is not None:
            if self.now < unit.ready_from:
                unit.busy += 1
            elif not unit.ready(self.now):
                unit.storage += 1
        elif unit.inside:
            if unit.queued():
                unit.storage += 1
            else:
                unit.busy += 1
        if unit.ready(self.now) and not self.issue_buffer and self.fetched < self.total:
            unit.starved += 1

    def _result(self) -> TimingResult:
        return TimingResult(
            self.graph.name, self.program.stream.name, self.graph.clock_hz, self.now, self.total,
            tuple(self._unit_timing(u) for u in self.units.values()), tuple(map(self._stage_timing, self.graph.stages)),
            tuple(self._storage_timings()), exact=True, links=self.tally.links([k.name for k in self.graph.links]),
            loops=self.tally.loops(), caches=self.memories.cache_figures(), drams=self.memories.dram_figures(),
            stepped_instructions=self.total,
        )

    def _unit_timing(self, u: _Unit) -> UnitTiming:
        idle = self.now - u.busy - u.dependency - u.storage - u.starved
        return UnitTiming(u.unit.name, u.taken, u.busy, u.dependency, u.storage, idle, u.starved)

    def _stage_timing(self, stage: PipelineStage) -> StageTiming:
        if stage is self.program.fetch:
            entered, stall, busy = self.fetched, self.fetch_stall, self.fetch_busy
        else:
            s = self.stages[stage.name]
            entered, stall, busy = s.entered, s.stall, s.busy
        return StageTiming(stage.name, entered, stall, busy, self.now - stall - busy)

    def _storage_timings(self) -> Iterator[StorageTiming]:
        placed = {bank.storage for banks in self.graph.buffers.values() for bank in banks} | set(self.memories.caches)
        for name, s in self.storages.items():
            if s.storage is self.memory:
                port = fetch_port(self.fetched, self.memory.port_width, self.memory.data_width)
                yield StorageTiming(name, self.fetches, 0, port.bytes, 0, self.fetches, 0, self.fetched, 0, port)
            elif name in placed:
                ports = self.tally.port(name, True), self.tally.port(name, False)
                yield StorageTiming(name, s.reads, s.writes, s.bytes_read, s.bytes_written, s.beats, s.queue_cycles,
                                    s.words_read, s.words_written, *ports)

    def _unit(self, instance: _Instance) -> FunctionalUnit:
        assert instance.unit is not None
        return instance.unit.unit

    def _deadlock(self) -> list[str]:
        faults = [f"deadlock in cycle {self.now}: {self.total - self.finished} of {self.total} instructions are left"]
        for instance in self.alive[:MOST_LISTED]:
            faults.append(f"{instance} waits for {self._waits_for(instance)}")
        return faults + more_faults(len(self.alive))

    def _waits_for(self, instance: _Instance) -> str:
        if instance.state == WAITING:
            return f"{self._blocker(instance)} to finish, in {self._unit(instance)}"
        if instance.unit is not None:
            return f"{instance.state} to end, in {self._unit(instance)}"
        stage = next((s.stage for s in self.stages.values() if instance in s.held), self.program.fetch)
        if stage is self.program.fetch and self.semantics.issue == "in_order" and instance is not self.issue_buffer[0]:
            return f"{self.issue_buffer[0]} to be issued, in {stage}"
        after = [s for s in self.graph.successors(stage) if s.name in instance.static.routed]
        return f"room in {' or '.join(str(s) for s in after) or 'no stage at all'}, in {stage}"


def _conflict(first: _Instance, second: _Instance, only_modifying: bool = False) -> bool:
    return any(
        _meet(a, first.values, b, second.values)
        for a in first.static.plans
        if not (only_modifying and a.is_read)
        for b in second.static.plans
        if _ordered(a, b)
    )


def _ordered(a: AccessPlan, b: AccessPlan) -> bool:
    """Whether accesses of these kinds must keep their order where they meet."""
    if not (a.tracked and b.tracked and a.buffer.name == b.buffer.name):
        return False
    return a.access.kind != b.access.kind or a.access.kind == "write"


def _meet(a: AccessPlan, a_values: Mapping[str, int], b: AccessPlan, b_values: Mapping[str, int]) -> bool:
    """Whether the two windows have an element in common."""
    shift = b.element_offset.evaluate(b_values) - a.element_offset.evaluate(a_values)
    mine, theirs = a.elements, b.elements
    if mine[-1] < theirs[0] + shift or theirs[-1] + shift < mine[0]:
        return False
    return bool(np.isin(mine, theirs + shift, assume_unique=True).any())
