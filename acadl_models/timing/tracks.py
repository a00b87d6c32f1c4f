"""What each object did in a window of a run: slices of time for instructions, requests and stalls, and counters.

A track belongs to one object. Slices of a track may overlap (a pipelined unit, a storage with several slots); a slice
contains its ``parts``, which do not overlap one another.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from archloom.acadl_models.timing import log as steps

INSTRUCTION, REQUEST, STEP, FETCHING, QUEUE = "instruction", "request", "step", "fetch", "queue"
"""Kinds of slices that are no stalls."""

DEPENDENCY, STORAGE, STRUCTURAL, LINK = "dependency", "storage", "structural", "link"
"""Causes of stalls: earlier instructions, the FIFO of a storage, no room downstream, the channel of a link."""


@dataclass(frozen=True)
class Slice:
    """An object did something in the cycles ``begin .. end - 1``, for the instruction ``number`` (-1: for none).

    ``stall`` is the cause, or empty; ``details`` are figures of a request or a fetch.
    """

    begin: int
    end: int
    name: str
    kind: str
    number: int = -1
    stall: str = ""
    details: tuple[tuple[str, int], ...] = ()
    parts: tuple["Slice", ...] = ()


@dataclass(frozen=True)
class Counter:
    """A value over time: ``points`` are (cycle, value) where it changes, the first at the begin of the window."""

    name: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Tracks:
    """Slices by object (in the graph's order) and counters by object, within ``begin .. end - 1``."""

    begin: int
    end: int
    slices: Mapping[str, tuple[Slice, ...]]
    counters: Mapping[str, tuple[Counter, ...]]


def tracks(log: steps.RunLog, begin: int | None = None, end: int | None = None) -> Tracks:
    """The tracks of a log, or of a part of it."""
    begin = log.begin if begin is None else begin
    end = log.end if end is None else min(end, log.end)
    return _Builder(log, begin, end).tracks()


@dataclass
class _Life:
    """When an instruction did what, as far as the log tells."""

    unit: str = ""
    received: int = -1
    started: int = -1
    processing: int = -1
    writing: int = -1
    finished: int = -1


class _Builder:
    def __init__(self, log: steps.RunLog, begin: int, end: int) -> None:
        self.log, self.begin, self.end = log, begin, end
        self.slices: dict[str, list[Slice]] = defaultdict(list)
        self.lives: dict[int, _Life] = defaultdict(_Life)
        self.waits: dict[int, list[tuple[int, int, str]]] = defaultdict(list)
        self.counts: dict[str, dict[str, dict[int, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
        self.mnemonics: dict[int, str] = {}
        self.left: dict[str, int] = {}

    def tracks(self) -> Tracks:
        self._follow_stages()
        self._follow_requests()
        self._follow_units()
        self._follow_fetches()
        graph = self.log.program.graph
        ordered = {name: self._sorted(self.slices[name]) for name in graph.objects if self.slices.get(name)}
        counters = {name: self._counters(self.counts[name]) for name in graph.objects if name in self.counts}
        return Tracks(self.begin, self.end, ordered, {name: found for name, found in counters.items() if found})

    def _counters(self, changes: Mapping[str, Mapping[int, int]]) -> tuple[Counter, ...]:
        """Those that are not 0 throughout."""
        found = (Counter(what, self._points(changes[what])) for what in sorted(changes))
        return tuple(c for c in found if any(value for _, value in c.points))

    # --- helpers -----------------------------------------------------------------------------------------------
    def _mnemonic(self, number: int) -> str:
        if number not in self.mnemonics:
            self.mnemonics[number] = self.log.program.names.find(number)[0].mnemonic
        return self.mnemonics[number]

    def _add(self, place: str, found: Slice) -> None:
        clipped = self._clip(found)
        if clipped is not None:
            self.slices[place].append(clipped)

    def _clip(self, found: Slice) -> Slice | None:
        begin, end = max(found.begin, self.begin), min(found.end, self.end)
        if begin >= end:
            return None
        parts = tuple(p for part in found.parts if (p := self._clip(part)) is not None)
        return replace(found, begin=begin, end=end, parts=parts)

    @staticmethod
    def _sorted(found: Iterable[Slice]) -> tuple[Slice, ...]:
        return tuple(sorted(found, key=lambda s: (s.begin, s.number, s.end, s.name, s.details)))

    def _points(self, changes: Mapping[int, int]) -> tuple[tuple[int, int], ...]:
        """The values of a counter within the window, from its changes."""
        value = sum(change for time, change in changes.items() if time <= self.begin)
        points = [(self.begin, value)]
        for time in sorted(t for t in changes if self.begin < t < self.end):
            value += changes[time]
            if changes[time]:
                points.append((time, value))
        return tuple(points)

    def _count(self, place: str, what: str, first: int, last: int, change: int) -> None:
        """A counter is higher by ``change`` in the cycles ``first .. last - 1``."""
        changes = self.counts[place][what]
        changes[first] += change
        changes[last] -= change

    # --- stages ------------------------------------------------------------------------------------------------
    def _follow_stages(self) -> None:
        """Buffered instructions: held for the latency, then, at the head, stalled until something takes them."""
        where: dict[int, steps.Event] = {}
        for event in self.log.events:
            if event.step not in (steps.FETCHED, steps.ENTERED, steps.RECEIVED):
                continue
            before = where.pop(event.number, None)
            if before is not None:
                self._leave(before, event.time)
            if event.step != steps.RECEIVED:
                where[event.number] = event
        for event in where.values():
            self._leave(event, self.end)

    def _leave(self, event: steps.Event, time: int) -> None:
        if event.step == steps.FETCHED:
            self._count(event.place, "issue buffer", event.time, time, 1)
            return
        head = self.left.get(event.place, event.time)  # a stage is a queue: others may have been before it
        self.left[event.place] = time
        held = min(event.finish, time)
        self._add(event.place, Slice(event.time, held, self._mnemonic(event.number), INSTRUCTION, event.number))
        if held < head:
            self._add(event.place, Slice(held, head, "queued", QUEUE, event.number))
            held = head
        self._add(event.place, Slice(held, time, "stall: no room downstream", STRUCTURAL, event.number, STRUCTURAL))

    # --- storages ----------------------------------------------------------------------------------------------
    def _follow_requests(self) -> None:
        queued: dict[tuple[int, int], steps.Event] = {}
        looking_on: dict[tuple[int, int], steps.Event] = {}
        for event in self.log.events:
            key = (event.number, event.request)
            if event.step == steps.QUEUED:
                queued[key] = event
            elif event.step == steps.GRANTED:
                looking_on[key] = event
                if key in queued:
                    self._waited(queued.pop(key), event.time)
            elif event.step == steps.TRANSFER:
                self._transfer(event, looking_on.pop(key).time)
            elif event.step == steps.CARRIED:
                self._carry(event)
        for event in queued.values():
            self._waited(event, self.end)
        for event in looking_on.values():
            self._serve(event, event.time, self.end)

    def _waited(self, event: steps.Event, time: int) -> None:
        self.waits[event.number].append((event.time, time, event.place))
        self._count(event.place, "queued requests", event.time, time, 1)

    def _transfer(self, event: steps.Event, granted: int) -> None:
        self._serve(event, granted, event.finish)
        first = event.finish - event.beats
        each, more = divmod(event.size, event.beats)
        what = f"{_kind(event)} bytes per cycle"
        self._count(event.place, what, first, event.finish, each)
        self._count(event.place, what, first, first + more, 1)

    def _serve(self, event: steps.Event, begin: int, end: int) -> None:
        """A request has a slot of its storage."""
        figures = (("bytes", event.size), ("beats", event.beats))
        name = f"{_kind(event)} {self._mnemonic(event.number)}"
        self._add(event.place, Slice(begin, end, name, REQUEST, event.number, details=figures))

    def _carry(self, event: steps.Event) -> None:
        """A link carries a request: ``bandwidth`` bytes in each cycle, the rest in the last."""
        start, bandwidth = event.begin, event.bandwidth
        whole, rest = divmod(event.size, bandwidth)
        end = start + whole + (rest > 0)
        waiting = Slice(start - event.waited, start, "stall: waits for the link", LINK, event.number, LINK)
        self._add(event.place, waiting)
        name, figures = f"{_kind(event)} {self._mnemonic(event.number)}", (("bytes", event.size),)
        self._add(event.place, Slice(start, end, name, REQUEST, event.number, details=figures))
        what = f"{_kind(event)} bytes per cycle"
        self._count(event.place, what, start, start + whole, bandwidth)
        self._count(event.place, what, start + whole, end, rest)

    # --- units -------------------------------------------------------------------------------------------------
    def _follow_units(self) -> None:
        for event in self.log.events:
            if event.step in (steps.RECEIVED, steps.STARTED, steps.PROCESSING, steps.WRITING, steps.FINISHED):
                life = self.lives[event.number]
                life.unit = event.place
                setattr(life, event.step, event.time)
        for number, life in self.lives.items():
            if life.received >= 0:
                until = life.started if life.started >= 0 else self.end
                name = "stall: waits for earlier instructions"
                self._add(life.unit, Slice(life.received, until, name, DEPENDENCY, number, DEPENDENCY))
            if life.started >= 0:
                until = life.finished if life.finished >= 0 else self.end
                parts = tuple(self._steps(number, life, until))
                found = Slice(life.started, until, self._mnemonic(number), INSTRUCTION, number, parts=parts)
                self._add(life.unit, found)

    def _steps(self, number: int, life: _Life, until: int) -> Iterator[Slice]:
        """Reading, processing and writing, with the times in which requests wait in a FIFO."""
        bounds = [life.started, life.processing, life.writing, until]
        for k in (2, 1):
            if bounds[k] < 0:
                bounds[k] = bounds[k + 1]
        waits = list(_union(self.waits.get(number, ())))
        for name, begin, end in zip(("read", "process", "write"), bounds, bounds[1:]):
            stalls = tuple(
                Slice(max(b, begin), min(e, end), "stall: waits for " + ", ".join(places), STORAGE, number, STORAGE)
                for b, e, places in waits
                if b < end and begin < e
            )
            if begin < end:
                yield Slice(begin, end, name, STEP, number, parts=stalls)

    # --- fetches -----------------------------------------------------------------------------------------------
    def _follow_fetches(self) -> None:
        total, requested, free = self.log.program.count, self.log.fetched, self.log.begin
        place = self.log.program.fetch.name
        for event in self.log.events:
            if event.step != steps.FETCH:
                continue
            self._starve(place, free, event.time, requested < total)
            figures = (("instructions", event.instructions),)
            self._add(place, Slice(event.time, event.finish, "fetch", FETCHING, details=figures))
            requested += event.instructions
            free = max(free, event.finish)
        self._starve(place, free, self.end, requested < total)

    def _starve(self, place: str, begin: int, end: int, left: bool) -> None:
        if left:
            self._add(place, Slice(begin, end, "stall: issue buffer full", STRUCTURAL, stall=STRUCTURAL))


def _kind(event: steps.Event) -> str:
    return "read" if event.is_read else "write"


def _union(waits: Iterable[tuple[int, int, str]]) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Merge times that overlap or touch, with the storages that are waited for."""
    begin, end, places = 0, -1, set[str]()
    for first, last, place in sorted(waits):
        if first > end:
            if begin < end:
                yield begin, end, tuple(sorted(places))
            begin, end, places = first, last, {place}
        else:
            end = max(end, last)
            places.add(place)
    if begin < end:
        yield begin, end, tuple(sorted(places))
