"""Looking at a window of a run: skip to its begin as far as that is proven, step through it with a log, and stop."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import log as steps
from archloom.acadl_models.timing.engine import core, state
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.layout import H, LinkSpec, StoreKind, StoreSpec
from archloom.acadl_models.timing.engine.lowering.program import Lowered, lower
from archloom.acadl_models.timing.engine.lowering.tables import Array
from archloom.acadl_models.timing.engine.machine import alive, held, new_machine, new_memory
from archloom.acadl_models.timing.engine.memory_state import Tail
from archloom.acadl_models.timing.engine.run import most_in_flight, raise_faults
from archloom.acadl_models.timing.engine.state import BEATS_ROOM, Instance, Log, Logged, M, Phase, Request, Status
from archloom.acadl_models.timing.log import Event, RunLog
from archloom.acadl_models.timing.machine import bind
from archloom.oracle.errors import InputError
from archloom.oracle.resolved import ResolvedStream

_STEPS = (
    steps.FETCH, steps.FETCHED, steps.ENTERED, steps.RECEIVED, steps.STARTED, steps.PROCESSING, steps.WRITING,
    steps.FINISHED, steps.QUEUED, steps.GRANTED, steps.TRANSFER, steps.CARRIED,
)
"""By the kind of a record."""

MOST_STEPS = 4_000_000
"""Steps that a log may hold. Every step is an object: what is longer fills the memory before anyone can look at it."""

_PHASES: dict[int, tuple[str, ...]] = {
    Phase.WAITING: (steps.RECEIVED,),
    Phase.READING: (steps.STARTED,),
    Phase.PROCESSING: (steps.STARTED, steps.PROCESSING),
    Phase.WRITING: (steps.STARTED, steps.PROCESSING, steps.WRITING),
    Phase.FINISHED: (),
    Phase.LINGERING: (),
}
"""The steps that an instance in a unit has made, by its phase."""


def log_window(graph: ArchitectureGraph, resolved: ResolvedStream, begin: int, cycles: int) -> RunLog:
    """The log of ``cycles`` cycles from ``begin`` on (fewer where the run ends before), exact to the cycle.

    InputError for a window that is empty, begins where the run has ended or has more than ``MOST_STEPS`` steps;
    GraphError as for :func:`simulate`.
    """
    if begin < 0:
        raise InputError(f"a window of the run begins at cycle 0 or later, not at {begin}")
    if cycles < 1:
        raise InputError(f"a window of the run has at least 1 cycle, not {cycles}")
    if begin >= FOREVER:
        raise InputError(f"a window of the run begins before cycle {FOREVER}, not at {begin}")
    return _Watcher(lower(bind(graph, resolved)), begin, min(begin + cycles, FOREVER)).log()


class _Watcher:
    def __init__(self, lowered: Lowered, begin: int, end: int) -> None:
        self.lowered = lowered
        self.t = lowered.tables
        self.begin, self.end = begin, end
        self.fetch = lowered.program.fetch.name
        self.stages = [s.name for s in lowered.graph.stages]
        self.units = [u.name for u in lowered.graph.units]
        self.links = [k.name for k in lowered.program.graph.links]
        self.stores = [s.name for s in lowered.graph.storages]

    def log(self) -> RunLog:
        m = self._at_begin()
        if m[M.STATUS] != Status.PAUSED:
            raise self._too_late(m)
        fetched = int(m[M.FETCHED])
        events = list(self._state(m))
        # what has begun in the last cycle may only be known in the next one, such as a cache's transfer
        m[M.LOGGING], m[M.PAUSE] = 1, self.end + 1
        m[M.LOG_ROOM] = (len(m) - m[M.LOG]) // Log.SIZE - self._most_in_a_cycle()
        nothing = np.empty(0, np.int64)
        while m[M.STATUS] == Status.PAUSED and m[M.TIME] <= self.end:
            core.run(self.t, m, nothing)
            raise_faults(self.lowered, m)
            events += self._drain(m)
            if len(events) > MOST_STEPS:
                raise InputError(
                    f"the window from cycle {self.begin} to {self.end} has more than {MOST_STEPS:,} steps, "
                    f"the first {int(m[M.TIME]) - self.begin:,} cycles alone: look at fewer cycles"
                )
        cycles = int(m[M.LATEST]) if m[M.STATUS] == Status.DONE else None
        if cycles is not None and cycles <= self.begin:
            raise self._too_late(m)
        end = self.end if cycles is None else min(self.end, cycles)
        return RunLog(self.lowered.program, self.begin, end, tuple(events), fetched, cycles)

    def _too_late(self, m: Array) -> InputError:
        last = int(m[M.LATEST]) - 1
        return InputError(f"the window begins at cycle {self.begin}, but the last cycle of the run is {last}")

    def _at_begin(self) -> Array:
        """The machine before the first cycle of the window, or at the end of a run that ends before."""
        self.t[H.POOL] = most_in_flight(self.lowered)
        m = new_machine(self.t, log=2 * self._most_in_a_cycle())
        m[M.PAUSE] = self.begin
        core.run(self.t, m, new_memory(self.t, m, skip=True))
        raise_faults(self.lowered, m)
        return m

    def _most_in_a_cycle(self) -> int:
        """A bound of the records of one cycle."""
        return int(self.t[H.POOL]) * (8 + 3 * int(self.t[H.MAX_REQUESTS])) + 1

    # --- the state at the begin --------------------------------------------------------------------------------
    def _state(self, m: Array) -> Iterator[Event]:
        """Events at the begin of the window that stand for the state of everything in flight."""
        if self.begin == 0:
            return
        for k in range(int(m[M.FETCHING])):
            flight = int(m[M.FLIGHTS] + (m[M.FETCH_FIRST] + k) % self.t[H.FETCH_FLIGHTS] * state.Flight.SIZE)
            end, count = int(m[flight + state.Flight.END]), int(m[flight + state.Flight.COUNT])
            yield Event(self.begin, steps.FETCH, self.fetch, -1, finish=end, instructions=count)
        stage_of = {slot: name for k, name in enumerate(self.stages) for slot in held(m, k)}
        for slot in alive(m):
            yield from self._instance(m, slot, stage_of.get(slot))

    def _instance(self, m: Array, slot: int, stage: str | None) -> Iterator[Event]:
        number, phase = int(m[slot + Instance.SEQ]), int(m[slot + Instance.PHASE])
        if stage is not None:
            yield Event(self.begin, steps.ENTERED, stage, number, finish=int(m[slot + Instance.LEAVE]))
        elif phase == Phase.BUFFERED:
            yield Event(self.begin, steps.FETCHED, self.fetch, number)
        else:
            unit = self.units[(int(m[slot + Instance.UNIT]) - int(m[M.UNITS])) // state.Unit.SIZE]
            for step in _PHASES[phase]:
                yield Event(self.begin, step, unit, number)
            yield from self._requests(m, slot)

    def _requests(self, m: Array, slot: int) -> Iterator[Event]:
        """The requests of an instance that wait for a slot or have one."""
        for k in range(int(m[slot + Instance.REQUESTS])):
            request = slot + int(self.t[H.SLOT_REQUESTS]) + k * Request.SIZE
            finish = int(m[request + Request.FINISH])
            if finish < self.begin:
                continue  # it has ended, or is not issued
            store = self.stores[(int(m[request + Request.STORE]) - int(m[M.STORES])) // state.Store.SIZE]
            what = (
                int(m[request + Request.BYTES]), int(m[request + Request.BEATS]), bool(m[request + Request.IS_READ])
            )
            number = int(m[slot + Instance.SEQ])
            looks_on = self._looks_on(m, slot, k, request)
            if finish == FOREVER and not looks_on:
                yield Event(self.begin, steps.QUEUED, store, number, k, -1, *what)
            else:
                yield Event(self.begin, steps.GRANTED, store, number, k, -1, *what)
                if not looks_on:
                    yield Event(self.begin, steps.TRANSFER, store, number, k, finish, *what)
                    yield from self._carried(m, request, number)

    def _looks_on(self, m: Array, slot: int, k: int, request: int) -> bool:
        """Whether a request with a slot is still at the lines of a cache, so that its end is not known."""
        if self.t[m[m[request + Request.STORE] + state.Store.SPEC] + StoreSpec.KIND] != StoreKind.CACHED:
            return False
        return bool(m[slot + self.t[H.SLOT_TAILS] + k * self.t[H.TAIL_SIZE] + Tail.DEPTH] > 0)

    def _carried(self, m: Array, request: int, number: int) -> Iterator[Event]:
        """The passage of a request over a link, if it comes over one."""
        table = int(self.t[m[m[request + Request.STORE] + state.Store.SPEC] + StoreSpec.LINKS])
        if table == NONE:
            return
        unit = (int(m[m[request + Request.OWNER] + Instance.UNIT]) - int(m[M.UNITS])) // state.Unit.SIZE
        link = int(self.t[table + 2 * unit + m[request + Request.IS_READ]])
        if link == NONE:
            return
        bandwidth = int(self.t[self.t[H.LINK_TABLE] + link * LinkSpec.SIZE + LinkSpec.BANDWIDTH])
        start, waited, size = (int(m[request + field]) for field in (Request.SENT, Request.SEND_WAIT, Request.BYTES))
        yield Event(self.begin, steps.CARRIED, self.links[link], number, size=size, begin=start, waited=waited,
                    is_read=bool(m[request + Request.IS_READ]), bandwidth=bandwidth)

    # --- the log -----------------------------------------------------------------------------------------------
    def _drain(self, m: Array) -> list[Event]:
        """Take the records out of the log."""
        count = int(m[M.LOGGED])
        m[M.LOGGED] = 0
        begin = int(m[M.LOG])
        return [self._event(*r) for r in m[begin : begin + count * Log.SIZE].reshape(-1, Log.SIZE).tolist()]

    def _event(self, kind: int, time: int, number: int, seq: int, a: int, b: int, c: int) -> Event:
        step = _STEPS[kind]
        if kind == Logged.CARRIED:
            rest, size = c % BEATS_ROOM, c // BEATS_ROOM
            return Event(time, step, self.links[number], seq, size=size, is_read=bool(rest % 2), begin=b,
                         bandwidth=rest // 2, waited=a)
        if kind >= Logged.QUEUED:
            beats = c % BEATS_ROOM
            finish = b if kind == Logged.TRANSFER else -1
            return Event(time, step, self.stores[number], seq, a, finish, c // BEATS_ROOM, beats // 2, bool(beats % 2))
        if kind == Logged.FETCH:
            return Event(time, step, self.fetch, -1, finish=a, instructions=b)
        if kind == Logged.FETCHED:
            return Event(time, step, self.fetch, seq)
        if kind == Logged.ENTERED:
            return Event(time, step, self.stages[number], seq, finish=a)
        return Event(time, step, self.units[number], seq)
