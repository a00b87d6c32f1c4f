"""Cycles of a nest of loops from what its iterations issue, vectorized over candidates.

A target says which instructions an iteration of each of its loops issues (:class:`Loop`, :class:`Issue`); what they
cost is read off the view of its graph. While some units work on an iteration, others do on the next ones. What stands
``alone`` in an iteration waits for what is before it, and keeps what follows waiting; what is ``first`` the body waits
for, and it lies in one of ``slots`` places until what is ``last`` is done with it::

    load    |==B==|-----L-----|           ==: its unit is busy   --: under way
    body                      |====R====|-tail-|
    store                                      |==S==|
            `------- a place is taken: P * slots ------'

In cycles, for an iteration:

* ``R``: the most of T of the inner loops, one after the other, of the busy cycles of each unit, link and memory in it,
  and of the fetches: what the body takes if all is there. ``M``: the same with what is first and last.
* ``B``: until the last of what is first starts; ``L``: from then until it has ended; ``S``: both for what is last.
* ``F = max(B + L, lead)`` with ``lead = B + max(L, lead of the inner loops)``: from when a unit could begin with what
  is first until the body may begin. What inner loops need first stands in the same queue behind it.
* ``i``: what of R the inner loops wait already; they do not wait for it again.
* ``a``: by how many iterations what is first may be ahead. Instructions are issued in order, so these are the
  iterations whose instructions fit into the window of the fetch stage and the queues, no more than there are places in
  inner loops of the same unit, and no more than ``early``.

An iteration takes no less than its instructions in order (O), than until a place is free (P), and than M::

    O = (F - i + R * (1 - fraction of a)) / (1 + whole part of a)
    P = (max(B + L + (R - i) * occupied, B / n + lead of the inner loops + R - i) + tail + S) / slots
    T = max(M, O, P) + CLOSE * (O + P)
    T(loop) = times * (T + alone + waits)

``n``: how many instructions are first; the second term of P is there where inner loops have something first. A loop
that is entered once and has one iteration takes ``max(M, B + R)``. The first iterations of a nest have nothing before
them: what the loads of the first take longer than T, and the latency L that nothing hides, is added once (``fill``).
What waits for one another in a ring takes at least its latencies, over how many iterations later it closes.

By hand: ten products of tiles on QKV, each of two loads (16 busy cycles and 83 until the tile is there), a product (16
busy cycles, then 32 until its sums are written), and four places. R = 16; B = 16, the first load; L = 83; M = 32, both
loads; S = 0. 32 products fit the window: O = (99 + 16) / 33 = 3.5. P = (99 + 16 + 32) / 4 = 36.75 is the most, so the
loop takes 10 * (36.75 + 0.003 * (3.48 + 36.75)) = 368.7. At the start 83 cycles of latency are not hidden, but what the
first loads take is 4.9 less than T: fill = 83 + 32 - 36.9 = 78.1, and the estimate 446.8. With eight places the unit of
the loads would be the bound (P = 18.4, T = M = 32), with one place each product would wait for its own loads (T = 147).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias, Union

import numpy as np

from archloom.mapper.hardware import Hardware, Way

Number: TypeAlias = "int | float | np.ndarray"
"""One figure for all candidates, or a column."""

MOST_PLACES = 16
"""More than the loads that can be under way have no use."""

FAR = 1 << 20
"""As good as no bound to how many iterations something may be ahead."""

CLOSE = 0.003
"""How much of what is no bound of an iteration is added to its cycles: of plans that are equal but for it, the one that
is further from the bound."""


@dataclass(frozen=True, eq=False)
class Issue:
    """``times`` instructions, dealt out evenly to ``units`` that process ``mnemonic`` (by default all that do).

    ``moves``: bytes between the memories of tensors and the unit for each of so many ``pieces``; ``role``: of what
    tensors, where these memories have roles (by default those of the slowest way); ``words``: what each reads and
    writes of other memories; ``ahead``: how many may be under way, where places for what they bring are fewer than what
    the unit can do at a time; ``values``: attributes and registers on which its latency depends; ``beats``: cycles in
    which each reads its operands and writes its result on chip, before and after its own latency; ``links``: for how
    many of them it keeps what else is on chip, such as a bus.
    """

    mnemonic: str
    times: Number = 1
    moves: Number = 0
    pieces: Number = 1
    words: Mapping[str, Number] = field(default_factory=dict)
    units: Number = 0
    ahead: Number = 1 << 30
    values: Mapping[str, Number] = field(default_factory=dict)
    beats: Number = 0
    links: Mapping[str, Number] = field(default_factory=dict)
    role: str = ""


@dataclass(frozen=True, eq=False)
class Loop:
    """``times`` iterations of ``body``; ``alone``: instructions of an iteration that nothing else overlaps;
    ``waits``: cycles of an iteration in which nothing happens; ``first``: what the body waits for; ``last``: what
    frees the place of that, of which there are ``slots``, each taken for the share ``occupied`` of the body. ``whole``:
    the share of what comes first with which the body begins; it takes the rest of it up as it arrives. ``taken``: pairs
    of shares, of what comes first and of the body: so much of the former is needed before more of the latter is done.
    ``early``: by how many iterations what comes first may be ahead at most: none where the body waits for it in the
    queue of its unit. ``rings``: what waits for one another, one after the other, until the first of it can be done for so many
    iterations later; what they are is counted elsewhere."""

    times: Number
    body: "tuple[Union[Loop, Issue], ...]"
    alone: tuple[Issue, ...] = ()
    waits: Number = 0
    first: tuple[Issue, ...] = ()
    last: tuple[Issue, ...] = ()
    slots: Number = 1 << 30
    occupied: Number = 1
    whole: Number = 0
    taken: tuple[tuple[Number, Number], ...] = ()
    early: Number = FAR
    rings: tuple[tuple[tuple[Issue, ...], Number], ...] = ()


@dataclass(eq=False)
class _Use:
    """What an iteration, or all of a nest, does with one unit, link or memory.

    ``busy``: cycles for which it is kept busy. ``issued``: instructions that a unit processes. ``ahead``: by how many
    iterations what comes first may be ahead on a unit at most, as its places are no more. ``lead``: cycles from when a
    unit could begin with what comes first until the iteration may. Both None where the unit has nothing that does.
    """

    busy: Number = 0
    issued: Number = 0
    ahead: Number | None = None
    lead: Number | None = None

    def times(self, count: Number) -> "_Use":
        """That of ``count`` iterations."""
        return _Use(count * self.busy, count * self.issued, self.ahead, self.lead)


@dataclass(frozen=True, eq=False)
class _Cost:
    """Cycles of a nest, and what it does with each unit, link and memory.

    ``tail``: from when the last of its instructions leaves its unit to the next one until it has ended. ``waits``:
    whether it begins with something ``first``. ``fill``: by how much the first iterations take longer, as nothing comes
    before them. ``start``: what of the time lies before the first of them has all that it waits for, but for the
    latency of that. ``idle``: what an iteration takes more than it would if all that it waits for were there.
    """

    time: Number
    uses: Mapping[str, _Use]
    tail: Number
    waits: Any
    fill: Number
    start: Number
    idle: Number = 0


EMPTY = Loop(1, ())


class Rates:
    """What instructions cost on one hardware, as parts of ``nest``, whose units wait for one another at memories."""

    def __init__(self, hardware: Hardware, nest: Loop = EMPTY) -> None:
        self.hardware = hardware
        self.known: dict[tuple[Loop, bytes], _Cost] = {}
        self.spent: dict[Issue, tuple[tuple[str, Number], ...]] = {}
        self.latencies: dict[Issue, Number] = {}
        self.bursts: dict[str, dict[str, Number]] = {}
        """The longest request of each mnemonic at each memory whose port all share: others wait behind it."""
        for issue in _issues(nest):
            for name, words in issue.words.items():
                memory = hardware.memory(name)
                if memory.shared_port:
                    longest = self.bursts.setdefault(name, {})
                    longest[issue.mnemonic] = np.maximum(longest.get(issue.mnemonic, 0), words / memory.words_per_cycle)

    def latency(self, issue: Issue) -> Number:
        """Cycles from the start of one of the instructions to its end."""
        if issue not in self.latencies:
            self.latencies[issue] = self._latency(issue)
        return self.latencies[issue]

    def _latency(self, issue: Issue) -> Number:
        own = self.hardware.latency_columns(issue.mnemonic, issue.values)
        first = self.hardware.first_latency_columns(issue.mnemonic, issue.values)
        way = self.hardware.way(issue.mnemonic, issue.role)
        moved = np.maximum(self._beats(issue, way), self._passing(issue, way))
        away = np.where(moved > 0, way.latency, 0)
        if first is not None:  # it moves and works at a time
            return away + np.maximum(own, first + np.maximum(moved, issue.beats))
        return own + issue.beats + away + moved

    def tail(self, issue: Issue) -> np.ndarray:
        """Cycles from when the unit takes the next instruction until one has ended."""
        latency, interval = self.latency(issue), self.hardware.interval_columns(issue.mnemonic, issue.values)
        ahead = np.minimum(issue.ahead, self.hardware.unit(issue.mnemonic).in_flight)
        return np.asarray(latency - np.minimum(latency, np.maximum(interval, latency / ahead)))

    def busy(self, issue: Issue) -> tuple[tuple[str, Number], ...]:
        """The unit, the link and the memories that the instructions keep busy, each with its cycles."""
        if issue not in self.spent:
            self.spent[issue] = tuple(self._busy(issue))
        return self.spent[issue]

    def _busy(self, issue: Issue) -> Iterator[tuple[str, Number]]:
        unit = self.hardware.unit(issue.mnemonic)
        interval = self.hardware.interval_columns(issue.mnemonic, issue.values)
        units = self._units(issue)
        latency = self.latency(issue)
        ahead = np.minimum(issue.ahead, unit.in_flight)
        yield unit.name, issue.times * (np.maximum(interval, latency / ahead) / units)
        if isinstance(issue.moves, np.ndarray) or issue.moves:
            way = self.hardware.way(issue.mnemonic, issue.role)
            memory, beats, passing = way.memory, self._beats(issue, way), self._passing(issue, way)
            transfer = np.maximum(beats, passing)
            moving = issue.times * transfer
            if way.link:  # one request after the other; else each has a stream of memory's of its own
                yield way.link, issue.times * passing / units
            yield memory.storage, issue.times * beats / (1 if memory.shared_port else memory.slots)
            pause = np.where(transfer > 0, way.latency, 0)
            yield f"requests to {memory.storage}", (pause * issue.times + moving) / memory.slots
        for name, spent in issue.links.items():
            yield name, issue.times * spent / units
        for name, words in issue.words.items():
            memory = self.hardware.memory(name)
            ports = memory.words_per_cycle * (1 if memory.shared_port else memory.slots)
            yield name, issue.times * words / (ports * np.minimum(units, memory.banks))

    def delays(self, issue: Issue) -> Iterator[tuple[str, str, Number]]:
        """For each memory whose port all share: the unit, the memory, and how long the unit waits for it if each of the
        instructions meets the longest request of others there."""
        unit = self.hardware.unit(issue.mnemonic)
        ahead = np.minimum(issue.ahead, unit.in_flight) * self._units(issue)
        for name in issue.words:
            for other, words in self.bursts.get(name, {}).items():
                if other != issue.mnemonic:
                    yield unit.name, name, issue.times * words / ahead

    def _units(self, issue: Issue) -> Number:
        every = sum(issue.mnemonic in unit.mnemonics for unit in self.hardware.units)
        if isinstance(issue.units, np.ndarray):
            return np.where(issue.units > 0, issue.units, every)
        return issue.units if issue.units > 0 else every

    def pace(self, issue: Issue) -> np.ndarray:
        """Cycles for which all of the instructions keep busy what they keep busy longest."""
        found: np.ndarray = np.max(np.broadcast_arrays(*(spent for _, spent in self.busy(issue))), axis=0)
        return found

    def alone(self, issue: Issue) -> np.ndarray:
        """Cycles from the start of the first to the end of the last, each as early as the unit takes it."""
        times, most = np.asarray(issue.times), self.pace(issue)
        return np.where(times > 0, self.latency(issue) + most * np.maximum(times - 1, 0) / np.maximum(times, 1), 0)

    def wait(self, issues: tuple[Issue, ...], whole: Number = 0, followed: Any = False) -> tuple[Number, Number]:
        """Cycles for which what follows ``issues`` waits for them, from the start of the last to its end and before
        that: until all have ended, but where nothing like them is ``followed`` those of the last of them that may still
        wait or be under way and do not belong to the share that is needed as a ``whole``."""
        latency: Number = 0
        before: dict[str, Number] = {"": 0}
        behind: dict[str, Any] = {}
        for issue in reversed(issues):
            times = np.asarray(issue.times)
            unit = self.hardware.unit(issue.mnemonic)
            # what is issued after it starts when it has left the unit
            passed = np.where(behind.get(unit.name, followed), self.latency(issue) - self.tail(issue), 0)
            latency = np.maximum(latency, np.where(times > 0, self.latency(issue) - passed, 0))
            waiting = np.minimum(self.hardware.issue_entries + unit.queue + unit.in_flight, (1 - whole) * times)
            ended = np.where(behind.get(unit.name, followed), times, np.maximum(times - 1 - waiting, 0))
            _add(before, [(name, spent * ended / np.maximum(times, 1)) for name, spent in self.busy(issue)])
            behind[unit.name] = (times > 0) | behind.get(unit.name, followed)
        return latency, reduce(np.maximum, before.values())

    def ahead(self, loop: Loop, body: Mapping[str, Number]) -> Number:
        """How many iterations' instructions of the ``body`` may wait while what comes first of the next one starts.

        They wait in the fetch stage and in the queue of the unit that has most of them; in the fetch stage with what
        comes first of each but the first of them, as far as that finds no place in its own queue.
        """
        total = np.maximum(sum(body.values()), 1e-9)
        room = self._room(body)
        between = self._excess(loop.last)
        return np.minimum(np.maximum(room - between, 0) / total,
                          np.maximum((room - self._excess((*loop.first, *loop.last))) / total, 1))

    def held_up(self, loop: Loop, body: Mapping[str, Number]) -> Number:
        """Cycles for which what is last keeps all that follows from being fetched, as it finds no place to wait in."""
        count = np.maximum(sum(np.asarray(issue.times) for issue in loop.last), 1e-9)
        over = np.maximum(self._excess(loop.last) - self._room(body), 0)
        return over / count * sum(self.pace(issue) for issue in loop.last)

    def _room(self, body: Mapping[str, Number]) -> Number:
        """How many instructions the fetch stage holds but for one, with the queue that most of a ``body`` are in."""
        queues = {unit.name: unit.queue for unit in self.hardware.units}
        return self.hardware.issue_entries - 1 + reduce(
            np.maximum, (np.minimum(queues[name], count) for name, count in body.items()), 0)

    def _excess(self, issues: tuple[Issue, ...]) -> Number:
        """How many of some instructions find no place in the queues of their units."""
        excess: Number = 0
        for unit in {self.hardware.unit(issue.mnemonic) for issue in issues}:
            count = sum(issue.times for issue in issues if issue.mnemonic in unit.mnemonics)
            excess = excess + np.maximum(count - unit.queue, 0)
        return excess

    @staticmethod
    def _beats(issue: Issue, way: Way) -> np.ndarray:
        """Cycles for which memory moves what one of the instructions asks for, piece by piece."""
        return np.asarray(issue.pieces * np.ceil(way.whole(np.asarray(issue.moves)) / way.memory.bytes_per_cycle))

    @staticmethod
    def _passing(issue: Issue, way: Way) -> np.ndarray:
        """Cycles for which that passes a link, as a whole."""
        return np.ceil(np.asarray(issue.pieces * way.whole(np.asarray(issue.moves))) / way.link_bytes)


def cycles(nest: Loop, hardware: Hardware) -> np.ndarray:
    """Estimated cycles of every candidate."""
    found = _cost(nest, Rates(hardware, nest), True)
    return np.asarray(found.time + found.fill, float)


def places(latency: Number, work: np.ndarray) -> np.ndarray:
    """How many places what is loaded for so many cycles of ``work`` needs to hide a load's ``latency``: two at least,
    a power of two. With more nothing is faster."""
    found: np.ndarray = np.clip(2 ** np.ceil(np.log2(1 + latency / work)).astype(np.int64), 2, MOST_PLACES)
    return found


def _issues(loop: Loop) -> Iterator[Issue]:
    for part in (*loop.body, *loop.first, *loop.last):
        yield from _issues(part) if isinstance(part, Loop) else (part,)


def _cost(loop: Loop, rates: Rates, once: Any) -> _Cost:
    """The cost of a loop, which is entered but ``once`` or more often; one that stands in several places is looked at
    once."""
    once = np.asarray(once & (np.asarray(loop.times) == 1))
    key = loop, once.tobytes()
    if key not in rates.known:
        rates.known[key] = _found(loop, rates, once)
    return rates.known[key]


def _found(loop: Loop, rates: Rates, once: np.ndarray) -> _Cost:
    iteration = _Iteration(rates)
    for part in loop.body:
        if isinstance(part, Loop):
            iteration.add_loop(part, _cost(part, rates, once))
        else:
            iteration.tail = rates.tail(part)
            iteration.add_issue(part)
    time = iteration.settled()
    if loop.first or loop.last:
        time = _overlapped(loop, iteration, once, time)
    for ring, later in loop.rings:
        time = np.maximum(time, sum(rates.alone(issue) for issue in ring) / later)
    alone = sum(rates.alone(issue) for issue in loop.alone)
    time, uses = time + alone + loop.waits, iteration.uses
    if not (isinstance(loop.times, int) and loop.times == 1):
        time, uses = loop.times * time, {name: use.times(loop.times) for name, use in uses.items()}
    return _Cost(time, uses, iteration.tail, iteration.waits, iteration.fill, iteration.start, iteration.idle)


class _Iteration:
    """One iteration of a loop as its parts are added up: what it does with each resource, and the figures of
    :class:`_Cost`; ``inner``: cycles of the inner loops, one after the other."""

    def __init__(self, rates: Rates) -> None:
        self.rates = rates
        self.uses: dict[str, _Use] = {}
        self.inner: Number = 0
        self.tail: Number = 0
        self.waits: Any = np.False_
        self.fill: Number = 0
        self.start: Number = 0
        self.idle: Number = 0
        self.delays: list[tuple[str, str, Number]] = []
        """units, memories, and cycles for which the one waits if it always meets the longest request at the other"""

    def use(self, name: str) -> _Use:
        return self.uses.setdefault(name, _Use())

    def add_loop(self, loop: Loop, cost: _Cost) -> None:
        """An inner loop; the first that waits for something decides what the iteration finds when it begins."""
        there = np.asarray(loop.times) > 0
        begins = there & ~self.waits
        for name, other in cost.uses.items():
            use = self.use(name)
            use.busy, use.issued = use.busy + other.busy, use.issued + other.issued
            if other.ahead is not None:
                count = other.ahead / np.maximum(loop.times, 1e-9)
                use.ahead = np.where(there, count, _or(use.ahead, FAR))
            if other.lead is not None:
                use.lead = np.where(begins, other.lead, _or(use.lead, 0))
        self.idle = np.where(begins, cost.idle, self.idle)
        self.inner, self.tail = self.inner + cost.time, cost.tail
        self.fill = np.maximum(self.fill, np.where(there, cost.fill, 0))
        self.start = np.maximum(self.start, np.where(there, cost.start, 0))
        self.waits = self.waits | (cost.waits & there)

    def add_issue(self, issue: Issue) -> None:
        """Instructions of the iteration itself."""
        for name, cycles_busy in self.rates.busy(issue):
            self.use(name).busy = self.use(name).busy + cycles_busy
        unit = self.use(self.rates.hardware.unit(issue.mnemonic).name)
        unit.issued = unit.issued + issue.times
        self.delays.extend(self.rates.delays(issue))

    def issued(self) -> dict[str, Number]:
        """Instructions by unit."""
        units = {unit.name for unit in self.rates.hardware.units}
        return {name: use.issued for name, use in self.uses.items() if name in units}

    def most(self, rest: Number | None = None) -> Number:
        """The most of cycles: of the inner loops (or of the ``rest``), of a unit or a memory, or of the fetches."""
        fetches = sum(use.issued for use in self.uses.values()) / self.rates.hardware.fetched_per_cycle
        busy = (use.busy for use in self.uses.values())
        return reduce(np.maximum, [*busy, fetches], self.inner if rest is None else rest)

    def settled(self, rest: Number | None = None) -> Number:
        """The most of cycles once units wait for memories as often as these are at work."""
        most = self.most(rest)
        if not self.delays:
            return most
        self.contend(most)
        return self.most(rest)

    def contend(self, most: Number) -> None:
        """Let units wait for memories, as often as these are at work in ``most`` cycles; the delays are taken up."""
        often = {memory: self.use(memory).busy / np.maximum(most, 1e-9) for _, memory, _ in self.delays}
        for unit, memory, cycles_waiting in self.delays:
            self.use(unit).busy = self.use(unit).busy + cycles_waiting * often[memory]
        self.delays = []


def _or(number: "Number | None", default: Number) -> Number:
    return default if number is None else number


def _overlapped(loop: Loop, iteration: _Iteration, once: np.ndarray, rest: Number) -> Number:
    """T of an iteration with what its body needs ``first`` and what is ``last``; the terms are those of the module.

    ``rest``: R, the cycles of the body. The iteration's ``lead``, ``idle``, ``fill``, ``start`` and places become those
    seen from outside the loop.
    """
    rates, body = iteration.rates, iteration.issued()
    for issue in (*loop.first, *loop.last):
        iteration.add_issue(issue)
    latency, before = rates.wait(loop.first, loop.whole, iteration.waits)
    loads: dict[str, Number] = {}
    for issue in loop.first:
        _add(loads, rates.busy(issue))
    before = _taken(loop, before, reduce(np.maximum, loads.values(), 0), rest)
    own, last = latency + before, sum(rates.wait(loop.last))
    units = [iteration.use(name) for name in _units(loop.first, rates)]
    # what inner loops need first stands in the same queue behind it
    inner_lead: Number = np.asarray(0)
    lead = own
    for unit in units:
        inner_lead = np.maximum(inner_lead, _or(unit.lead, 0))
        unit.lead = before + np.maximum(latency, _or(unit.lead, 0))
        lead = np.where(own > 0, np.maximum(lead, unit.lead), 0)
    most = iteration.settled(rest)

    ahead = np.minimum(rates.ahead(loop, body), loop.early)
    for unit in units:
        ahead = np.minimum(ahead, _or(unit.ahead, FAR))
    ordered = _in_order(lead - iteration.idle, rest, ahead) + rates.held_up(loop, body)
    placed = _placed(loop, iteration, rest, (latency, before, last), inner_lead)
    for issue in loop.first:
        unit = iteration.use(rates.hardware.unit(issue.mnemonic).name)
        unit.ahead = np.minimum(_or(unit.ahead, FAR), np.where(np.asarray(issue.times) > 0, loop.slots, FAR))
    steady = np.maximum(most, np.maximum(ordered, placed))
    # where there is but one iteration, what it waits for at the start is no part of it
    time = np.where(once, np.maximum(most, before + rest), steady + CLOSE * (ordered + placed))
    iteration.idle = np.where(lead > 0, np.maximum(time - rest + iteration.idle, 0), iteration.idle)

    # at the very start all that comes first is on its way at the same time, and nothing hides the latency of the last
    more = np.maximum(before + rest, reduce(np.maximum, loads.values(), 0)) - time
    late = latency + np.minimum(more, 0) - np.where(once, iteration.start, 0)
    iteration.fill = np.maximum(iteration.fill, late) + np.maximum(more, 0)
    iteration.waits, iteration.start = iteration.waits | (lead > 0), iteration.start + before
    return time


def _taken(loop: Loop, before: Number, loads: Number, rest: Number) -> Number:
    """B where the body takes up what comes first within a share of its cycles: it begins no earlier than that the last
    of the ``loads`` that it takes up there, each of which keeps its unit busy as long as the others, is in time."""
    count = np.maximum(sum(np.asarray(issue.times) for issue in loop.first), 1)
    for first, body in loop.taken:
        before = np.maximum(before, first * loads * (1 - 1 / count) - body * rest)
    return before


def _placed(
    loop: Loop, iteration: _Iteration, rest: Number, waits: tuple[Number, Number, Number], inner_lead: Number
) -> Number:
    """P: cycles after which a place for what comes first is free again, for each of the ``slots``.

    The first of what comes first finds a place when that of the first before it is free; what stands behind all of it
    waits for the last of the places, too, and then for the last of the loads. ``waits``: latency of what comes first,
    cycles before its last, cycles until what is ``last`` has ended.
    """
    latency, before, last = waits
    own, work = latency + before, rest - iteration.idle
    single = before / np.maximum(sum(np.asarray(issue.times) for issue in loop.first), 1)
    behind = np.where(inner_lead > 0, single + inner_lead + rest - iteration.idle, 0)
    taken = np.maximum(own + work * loop.occupied, behind)
    return np.where(own + last > 0, taken + iteration.tail + last, 0) / loop.slots


def _units(issues: Iterable[Issue], rates: Rates) -> set[str]:
    return {rates.hardware.unit(issue.mnemonic).name for issue in issues}


def _in_order(first: Number, rest: Number, ahead: Number) -> Number:
    """Cycles of an iteration whose ``first`` cycles may lie in those of the ``rest`` of as many ``ahead``."""
    ahead = np.where(np.asarray(first) > 0, ahead, FAR)
    whole = np.floor(ahead)
    return (first + rest * (1 - (ahead - whole))) / (1 + whole)


def _add(total: dict[str, Number], more: Iterable[tuple[str, Number]]) -> None:
    for name, number in more:
        total[name] = total.get(name, 0) + number
