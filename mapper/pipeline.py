"""Cycles of a nest of loops from what its iterations issue, vectorized over candidates.

A target says which instructions an iteration of each of its loops issues (:class:`Loop`, :class:`Issue`); what they
cost is read off the view of its graph. While some units work on an iteration, others do on the next ones, so a loop
takes as long as the unit that has most to do, or as its inner loops one after the other; what stands ``alone`` in an
iteration waits for what is before it, and keeps what follows waiting:

    T(loop) = times * (max(sum of T(inner loops), busy cycles of each unit, of memory) + latencies of what is alone)

Instructions are issued in order, so what the rest of an iteration needs ``first`` comes early only as far as the
instructions before it wait elsewhere: those of ``ahead`` iterations fit into the window of the fetch stage and the
queues, and as what inner loops need first, which waits for places in the queue of the same unit, lets it through. What
``first`` brings lies in one of ``slots`` places until what is ``last`` is done with it. What the first inner iterations
need stands behind it in the queue: the lead of an iteration is from the start of the one to the end of the other, and
what it finds there it does not wait for again. An iteration takes no less than

    T(iteration) >= (lead + T(inner) * (1 - fraction of ahead) - waiting of an inner iteration) / (1 + whole ahead)
    T(iteration) >= (lead + T(inner) - waiting of an inner iteration + latency of last) / slots

and no less than the latencies of what waits for one another in a ring, over how many iterations later it closes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    from archloom.mapper.hardware import Hardware

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

    ``moves``: bytes between HBM and the unit for each of so many ``pieces`` of memory; ``words``: what each reads and
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


@dataclass(frozen=True, eq=False)
class Loop:
    """``times`` iterations of ``body``; ``alone``: instructions of an iteration that nothing else overlaps;
    ``waits``: cycles of an iteration in which nothing happens; ``first``: what the body waits for; ``last``: what
    frees the place of that, of which there are ``slots``, each taken for the share ``held`` of the body. ``whole``:
    the share of what comes first with which the body begins; it takes the rest of it up as it arrives. ``early``: by
    how many iterations what comes first may be ahead at most: none where the body waits for it in the queue of its
    unit. ``rings``: what waits for one another, one after the other, until the first of it can be done for so many
    iterations later; what they are is counted elsewhere."""

    times: Number
    body: "tuple[Union[Loop, Issue], ...]"
    alone: tuple[Issue, ...] = ()
    waits: Number = 0
    first: tuple[Issue, ...] = ()
    last: tuple[Issue, ...] = ()
    slots: Number = 1 << 30
    held: Number = 1
    whole: Number = 0
    early: Number = FAR
    rings: tuple[tuple[tuple[Issue, ...], Number], ...] = ()


@dataclass(frozen=True, eq=False)
class _Cost:
    """Cycles of a nest, and of each unit and of memory in it; how many instructions that are, by unit; ``tail``: from
    when the last of them leaves its unit to the next one until it has ended; ``waits``: whether it begins with
    something ``first``; ``fill``: by how much the first iterations take longer, as nothing comes before them, and
    ``start``: what of the time lies before the first of them has all that it waits for, but for the latency of that;
    ``ahead``: by how many iterations what comes first is ahead at most on each unit, as its places are no more;
    ``lead``: from when each unit could begin with that until an iteration may; ``idle``: what an iteration takes more
    than it would if it were there."""

    time: Number
    busy: Mapping[str, Number]
    issued: Mapping[str, Number]
    tail: Number
    waits: Any
    fill: Number
    start: Number
    ahead: Mapping[str, Number] = field(default_factory=dict)
    lead: Mapping[str, Number] = field(default_factory=dict)
    idle: Number = 0


class Rates:
    """What instructions cost on one hardware."""

    def __init__(self, hardware: "Hardware", nest: Loop) -> None:
        self.hardware, self.hbm = hardware, hardware.memory("hbm")
        self.known: dict[tuple[Loop, bytes], _Cost] = {}
        self.spent: dict[Issue, tuple[tuple[str, Number], ...]] = {}
        self.streams = 1 if self.hbm.shared_port else self.hbm.slots
        self.bursts: dict[str, dict[str, Number]] = {}
        """The longest request of each mnemonic at each memory whose port all share: others wait behind it."""
        for issue in _issues(nest):
            for name, words in issue.words.items():
                memory = hardware.memory(name)
                if memory.shared_port:
                    longest = self.bursts.setdefault(name, {})
                    longest[issue.mnemonic] = np.maximum(
                        longest.get(issue.mnemonic, 0), words / memory.words_per_cycle)

    def latency(self, issue: Issue) -> Number:
        """Cycles from the start of one of the instructions to its end."""
        own = self.hardware.latency_columns(issue.mnemonic, issue.values) + issue.beats
        _, port, width, more = self.hardware.way(issue.mnemonic)
        moved = np.maximum(self._beats(issue, port), self._passing(issue, width))
        return own + np.where(moved > 0, self.hbm.read_latency_cycles + more + moved, 0)

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
        link, port, width, more = self.hardware.way(issue.mnemonic)
        units = self._units(issue)
        latency = self.latency(issue)
        ahead = np.minimum(issue.ahead, unit.in_flight)
        yield unit.name, issue.times * (np.maximum(interval, latency / ahead) / units)
        if isinstance(issue.moves, np.ndarray) or issue.moves:
            beats, passing = self._beats(issue, port), self._passing(issue, width)
            transfer = np.maximum(beats, passing)
            moving = issue.times * transfer
            if link:  # one request after the other; else each has a stream of memory's of its own
                yield link, issue.times * passing / units
            yield "hbm", issue.times * beats / self.streams
            pause = np.where(transfer > 0, self.hbm.read_latency_cycles + more, 0)
            yield "requests to hbm", (pause * issue.times + moving) / self.hbm.slots
        for name, spent in issue.links.items():
            yield name, issue.times * spent / units
        for name, words in issue.words.items():
            memory = self.hardware.memory(name)
            ports = memory.words_per_cycle * (1 if memory.shared_port else memory.slots)
            yield name, issue.times * words / (ports * np.minimum(units, memory.banks))

    def behind(self, issue: Issue) -> Iterator[tuple[str, str, Number]]:
        """For each memory whose port all share: the unit, the memory, and how long the unit waits for it if each of the
        instructions meets the longest request of others there."""
        unit = self.hardware.unit(issue.mnemonic)
        ahead = np.minimum(issue.ahead, unit.in_flight) * self._units(issue)
        for name in issue.words:
            for other, words in self.bursts.get(name, {}).items():
                if other != issue.mnemonic:
                    yield unit.name, name, issue.times * words / ahead

    def _units(self, issue: Issue) -> Number:
        """How many units share the instructions."""
        every = sum(issue.mnemonic in unit.mnemonics for unit in self.hardware.units)
        if isinstance(issue.units, np.ndarray):
            return np.where(issue.units > 0, issue.units, every)
        return issue.units if issue.units > 0 else every

    def alone(self, issue: Issue) -> np.ndarray:
        """Cycles from the start of the first to the end of the last, each as early as the unit takes it."""
        times = np.asarray(issue.times)
        most = np.max(np.broadcast_arrays(*(spent for _, spent in self.busy(issue))), axis=0)
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
        excess: Number = 0
        others = (*loop.first, *loop.last)
        for unit in {self.hardware.unit(issue.mnemonic) for issue in others}:
            count = sum(issue.times for issue in others if issue.mnemonic in unit.mnemonics)
            excess = excess + np.maximum(count - unit.queue, 0)
        queues = {unit.name: unit.queue for unit in self.hardware.units}
        total = np.maximum(sum(body.values()), 1e-9)
        queued: Number = 0
        for name, count in body.items():
            queued = np.maximum(queued, np.minimum(queues[name], count))
        room = self.hardware.issue_entries - 1 + queued
        return np.minimum(room / total, np.maximum((room - excess) / total, 1))

    @staticmethod
    def _beats(issue: Issue, port: float) -> np.ndarray:
        """Cycles for which memory moves what one of the instructions asks for, piece by piece."""
        return np.asarray(issue.pieces * np.ceil(np.asarray(issue.moves) / port))

    @staticmethod
    def _passing(issue: Issue, width: float) -> np.ndarray:
        """Cycles for which that passes a link, as a whole."""
        return np.ceil(np.asarray(issue.pieces * np.asarray(issue.moves)) / width)


def cycles(nest: Loop, hardware: "Hardware") -> np.ndarray:
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
    busy: dict[str, Number] = {}
    issued: dict[str, Number] = {}
    inner: Number = 0
    tail: Number = 0
    fill: Number = 0
    start: Number = 0
    waits: Any = np.False_
    early: dict[str, Number] = {}
    lead: dict[str, Number] = {}
    idle: Number = 0
    behind: list[tuple[str, str, Number]] = []
    for part in loop.body:
        if isinstance(part, Loop):
            found = _cost(part, rates, once)
            early.update({name: np.where(np.asarray(part.times) > 0, count / np.maximum(part.times, 1e-9), early.get(
                name, FAR)) for name, count in found.ahead.items()})
            there = np.asarray(part.times) > 0
            first_here = there & ~waits
            lead.update({name: np.where(first_here, most, lead.get(name, 0)) for name, most in found.lead.items()})
            idle = np.where(first_here, found.idle, idle)
            inner, tail = inner + found.time, found.tail
            fill, waits = np.maximum(fill, np.where(there, found.fill, 0)), waits | (found.waits & there)
            start = np.maximum(start, np.where(there, found.start, 0))
            _add(busy, found.busy.items())
            _add(issued, found.issued.items())
        else:
            tail = rates.tail(part)
            _count(busy, issued, part, rates)
            behind.extend(rates.behind(part))
    _crowd(behind, busy, _most(inner, busy, issued, rates))
    rest = time = _most(inner, busy, issued, rates)
    if loop.first or loop.last:
        body, behind = dict(issued), []
        for issue in (*loop.first, *loop.last):
            _count(busy, issued, issue, rates)
            behind.extend(rates.behind(issue))
        latency, before = rates.wait(loop.first, loop.whole, waits)
        own, last = latency + before, sum(rates.wait(loop.last))
        first, next_in = own, np.asarray(0)
        for name in _units(loop.first, rates):  # what inner loops need first stands behind it
            next_in = np.maximum(next_in, lead.get(name, 0))
            lead[name] = before + np.maximum(latency, lead.get(name, 0))
            first = np.where(own > 0, np.maximum(first, lead[name]), 0)
        _crowd(behind, busy, _most(rest, busy, issued, rates))
        most = _most(rest, busy, issued, rates)
        ahead = np.minimum(rates.ahead(loop, body), loop.early)
        for name in _units(loop.first, rates):
            ahead = np.minimum(ahead, early.get(name, FAR))
        ordered = _in_order(first - idle, rest, ahead)
        # the first of what comes first finds a place when that of the first before it is free; what stands behind all
        # of it waits for the last of the places, too, and then for the last of the loads
        single = before / np.maximum(sum(np.asarray(issue.times) for issue in loop.first), 1)
        behind_all = np.where(next_in > 0, single + next_in + rest - idle, 0)
        taken = np.maximum(own + (rest - idle) * loop.held, behind_all)
        taken = np.where(own + last > 0, taken + tail + last, 0) / loop.slots
        for issue in loop.first:
            name = rates.hardware.unit(issue.mnemonic).name
            early[name] = np.minimum(early.get(name, FAR), np.where(np.asarray(issue.times) > 0, loop.slots, FAR))
        steady = np.maximum(most, np.maximum(ordered, taken))
        # where there is but one iteration, what it waits for at the start is no part of it
        time = np.where(once, np.maximum(most, before + rest), steady + CLOSE * (ordered + taken))
        idle = np.where(first > 0, np.maximum(time - rest + idle, 0), idle)
        # all that comes first is on its way at the same time, and nothing hides the latency of the last of it
        nothing: Number = 0
        loads: dict[str, Number] = {}
        _add(loads, (spent for issue in loop.first for spent in rates.busy(issue)))
        more = np.maximum(before + rest, reduce(np.maximum, loads.values(), nothing)) - time
        fill = np.maximum(fill, latency + np.minimum(more, 0) - np.where(once, start, 0)) + np.maximum(more, 0)
        waits, start = waits | (first > 0), start + before
    for ring, later in loop.rings:
        time = np.maximum(time, sum(rates.alone(issue) for issue in ring) / later)
    alone = sum(rates.alone(issue) for issue in loop.alone)
    time = time + alone + loop.waits
    if isinstance(loop.times, int) and loop.times == 1:
        return _Cost(time, busy, issued, tail, waits, fill, start, early, lead, idle)
    return _Cost(loop.times * time, {name: loop.times * spent for name, spent in busy.items()},
                 {name: loop.times * count for name, count in issued.items()}, tail, waits, fill,
                 start, early, lead, idle)


def _crowd(behind: Iterable[tuple[str, str, Number]], busy: dict[str, Number], most: Number) -> None:
    """Let units wait for memories, as often as these are at work in ``most`` cycles."""
    often = {memory: busy.get(memory, 0) / np.maximum(most, 1e-9) for _, memory, _ in behind}
    _add(busy, [(unit, spent * often[memory]) for unit, memory, spent in behind])


def _units(issues: Iterable[Issue], rates: Rates) -> set[str]:
    """Names of the units that process them."""
    return {rates.hardware.unit(issue.mnemonic).name for issue in issues}


def _in_order(first: Number, rest: Number, ahead: Number) -> Number:
    """Cycles of an iteration whose ``first`` cycles may lie in those of the ``rest`` of as many ``ahead``."""
    ahead = np.where(np.asarray(first) > 0, ahead, FAR)
    whole = np.floor(ahead)
    return (first + rest * (1 - (ahead - whole))) / (1 + whole)


def _count(busy: dict[str, Number], issued: dict[str, Number], issue: Issue, rates: Rates) -> None:
    """Add what instructions keep busy, and how many they are."""
    _add(busy, rates.busy(issue))
    _add(issued, [(rates.hardware.unit(issue.mnemonic).name, issue.times)])


def _most(inner: Number, busy: Mapping[str, Number], issued: Mapping[str, Number], rates: Rates) -> Number:
    """Cycles of the inner loops, of the busiest unit or memory, or of the fetches: whichever are most."""
    fetches = sum(issued.values()) / rates.hardware.fetched_per_cycle
    most: Number = reduce(np.maximum, [*busy.values(), fetches], inner)
    return most


def _add(total: dict[str, Number], more: Iterable[tuple[str, Number]]) -> None:
    for name, number in more:
        total[name] = total.get(name, 0) + number
