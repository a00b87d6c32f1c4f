"""What the step-by-step simulator keeps: objects of the graph, instructions and requests, with their state."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from archloom.acadl_models.acadl import DataStorage, FunctionalUnit, PipelineStage
from archloom.acadl_models.acadl.latency import Expression
from archloom.acadl_models.timing.log import Event
from archloom.acadl_models.timing.machine import evaluate_latency, fetch_cycles, forwarding_order
from archloom.acadl_models.timing.memories.serving import Memories, Pause
from archloom.acadl_models.timing.program import Program, Request, StaticInstruction
from archloom.acadl_models.timing.tally import Tally

NEVER = sys.maxsize
"""The time of a step that depends on other requests."""


class State(StrEnum):
    """How far an instruction instance has come."""

    BUFFERED = "buffered"
    WAITING = "waiting"
    READING = "reading"
    PROCESSING = "processing"
    WRITING = "writing"
    FINISHED = "finished"


Register: TypeAlias = tuple[str, int]
"""A renamed register: its buffer and its number."""


@dataclass(eq=False)
class Issued:
    """A request on its way: ``finish`` is the time of its next step, the last one of its end; -1 until it has a slot.

    ``number`` counts the requests of its instruction, reads first. ``exclusive``: it comes over a windowed link.
    ``passage`` has what it waits for after ``finish``; ``looks_on``: until its end is known.
    """

    request: Request
    owner: Instance
    number: int
    exclusive: bool
    finish: int = -1
    looks_on: bool = True
    passage: Iterator[Pause] = field(default_factory=lambda: iter(()))


@dataclass(eq=False)
class Stream:
    """What an instruction takes that streams, and of its reads of which the end is known, by number: when their first
    word is there, and when they end."""

    latency: int
    first_latency: int
    reads: dict[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(eq=False)
class Instance:
    """An instruction instance from its fetch on; ``environment`` has what latencies may name."""

    number: int
    static: StaticInstruction
    values: Mapping[str, int]
    environment: Mapping[str, int]
    reads: list[Request] = field(default_factory=list)
    writes: list[Request] = field(default_factory=list)
    pending: list[Issued] = field(default_factory=list)
    state: State = State.BUFFERED
    leave: int = 0  # when it may leave the stage that buffers it
    taken_by: Unit | None = None
    end: int = 0  # of its processing; where it streams, when its writes are issued
    stream: Stream | None = None  # where its unit streams it, from its start on
    needs: dict[Register, bool] = field(default_factory=dict)  # whether accumulations since the last write count
    targets: dict[Register, bool] = field(default_factory=dict)  # whether it writes, and does not accumulate alone

    @property
    def mnemonic(self) -> str:
        return self.static.mnemonic

    @property
    def waits_for_requests(self) -> bool:
        """Whether a step of it has requests that are not done with; those of a prefetch are when they have slots."""
        if getattr(self.unit.spec, "prefetches", False):
            return any(p.finish < 0 for p in self.pending)
        return bool(self.pending)

    @property
    def unit(self) -> Unit:
        """The unit that has taken it."""
        assert self.taken_by is not None
        return self.taken_by

    def __str__(self) -> str:
        where = ", ".join(f"{k}={v}" for k, v in self.values.items())
        return f"instruction {self.number} {self.mnemonic}" + (f" ({where})" if where else "")


@dataclass(eq=False)
class Unit:
    """A functional unit: at most one instruction waiting, and those that it processes."""

    spec: FunctionalUnit
    waiting: Instance | None = None
    inside: list[Instance] = field(default_factory=list)
    last: Instance | None = None  # the one that started last
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
        """Whether the unit can take an instruction (phase 1c)."""
        if self.waiting is not None:
            return False
        if self.spec.interval is None:
            return not self.inside
        last = self.last
        reading = last is not None and last.state is State.READING and any(p.finish < 0 for p in last.pending)
        return now >= self.ready_from and not reading and len(self.inside) < self.spec.in_flight


@dataclass(eq=False)
class Stage:
    """A pipeline stage with the units that it contains."""

    spec: PipelineStage
    units: list[Unit]
    held: deque[Instance] = field(default_factory=deque)
    incoming: Instance | None = None  # held before a unit takes it, where latencies are added
    entered: int = 0
    stall: int = 0
    busy: int = 0

    def room(self, now: int) -> bool:
        """Whether the stage can receive an instruction (phase 2)."""
        free = len(self.held) < self.spec.depth and self.incoming is None
        return free and all(u.ready(now) for u in self.units)


@dataclass(eq=False)
class Storage:
    """A storage: requests in slots, those that wait for one, and the time at which its port is free.

    ``refills``: requests to caches before it, for lines that they miss, in slots of this storage.
    """

    spec: DataStorage
    slots: list[Issued] = field(default_factory=list)
    refills: list[Issued] = field(default_factory=list)
    fifo: deque[Issued] = field(default_factory=deque)
    port_free: int = 0
    read: Counter[str] = field(default_factory=Counter)  # requests, words and bytes
    written: Counter[str] = field(default_factory=Counter)
    beats: int = 0
    queue_cycles: int = 0

    def has_slot(self, issued: Issued) -> bool:
        """Whether a request may be granted: over a windowed link it has the storage to itself."""
        alone = issued.exclusive and not self.is_refill(issued)
        taken = len(self.slots) + len(self.refills)
        if taken and (alone or any(s.exclusive for s in self.slots)):
            return False
        return taken < self.spec.max_concurrent_requests

    def is_refill(self, issued: Issued) -> bool:
        """Whether a request asks for a line on behalf of a cache before this storage."""
        return issued.request.storage != self.spec.name


class Fetcher:
    """The fetch stage: the program that is left, fetches under way and the issue buffer."""

    def __init__(self, program: Program) -> None:
        self.stage = program.fetch
        self.memory = program.graph.instruction_memory(program.fetch)[1]
        self.cycles = fetch_cycles(program.graph, program.stream.parameters)
        self.left: Iterator[tuple[StaticInstruction, dict[str, int]]] = program.instances()
        self.upcoming = next(self.left, None)
        self.under_way: deque[tuple[int, int]] = deque()  # end and instructions of each fetch
        self.buffer: list[Instance] = []
        self.requested = self.fetched = 0
        self.fetches = self.stall = self.busy = 0


class Machine:
    """A graph that runs a program, at the time ``now``."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.graph = program.graph
        self.semantics = program.graph.semantics
        self.total = program.count
        self.now = 0
        self.changed = False  # whether anything has happened in this cycle
        self.units = {u.name: Unit(u) for u in self.graph.functional_units}
        self.stages = {
            s.name: Stage(s, [self.units[u.name] for u in self.graph.units(s) if u.name in self.units])
            for s in self.graph.stages
            if s is not program.fetch
        }
        self.forwarding_order = [self.stages[s.name] for s in forwarding_order(self.graph) if s is not program.fetch]
        self.storages = {s.name: Storage(s) for s in self.graph.storages}
        self.memories = Memories(self.graph)
        self.waiting: defaultdict[str, list[Issued]] = defaultdict(list)  # for registers, by cache
        self.woken: deque[Issued] = deque()  # those that look again in this cycle
        self.fetcher = Fetcher(program)
        self.alive: list[Instance] = []  # fetched and not done, in program order
        self.decoded = self.done = 0  # done: finished or, with a reorder buffer, committed
        self.free = {f.name: (f.physical_registers or 0) - len(f.registers) for f in self.graph.register_files}
        self.tally = Tally(program)
        self.events: list[Event] | None = None

    def latency(self, where: str, expression: Expression, instance: Instance, least: int) -> int:
        """The value of a latency of an object for an instruction; GraphError if it is below ``least``."""
        return evaluate_latency(self.graph, where, expression, instance.environment, least, instance.mnemonic)

    def note(self, step: str, place: str, number: int, finish: int = -1, **more: Any) -> None:
        """An instruction, or a request of it, passes a step now: written down for traces, if they are asked for."""
        if self.events is not None:
            self.events.append(Event(self.now, step, place, number, finish=finish, **more))
