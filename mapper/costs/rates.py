"""What instructions of nests of loops cost on a machine by themselves: busy cycles, latencies, places to wait in.

:mod:`.pipeline` puts them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, TypeAlias, Union

import numpy as np

from archloom.mapper.hardware import Hardware, Way

Number: TypeAlias = "int | float | np.ndarray"
"""One figure for all candidates, or a column."""

FAR = 1 << 20
"""As good as no bound to how many iterations something may be ahead."""


@dataclass(frozen=True, eq=False)
class Issue:
    """``times`` instructions, dealt out evenly to ``units`` that process ``mnemonic`` (by default all that do).

    ``moves``: bytes between the memories of tensors and the unit for each of so many ``pieces``; ``role``: of what
    tensors, where these memories have roles (by default those of the slowest way); ``words``: what each reads and
    writes of other memories; ``ahead``: how many may be under way, where places for what they bring are fewer than what
    the unit can do at a time; ``values``: attributes and registers on which its latency depends; ``beats``: cycles in
    which each reads its operands and writes its result on chip, before and after its own latency; ``links``: for how
    many of them it keeps what else is on chip, such as a bus. ``like``: another, of which they are :meth:`many`.
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
    like: "Issue | None" = None

    def many(self, times: Number, units: Number = 0) -> "Issue":
        """So many of them: what one costs is found once for all."""
        return replace(self, times=times, units=units, like=self.one)

    @property
    def one(self) -> "Issue":
        """What instructions have in common that differ in ``times`` and ``units`` alone."""
        return self.like or self


@dataclass(frozen=True, eq=False)
class Loop:
    """``times`` iterations of ``body``; ``alone``: instructions of an iteration that nothing else overlaps;
    ``waits``: cycles of an iteration in which nothing happens; ``first``: what the body waits for; ``last``: what
    frees the place of that, of which there are ``slots``, each taken for the share ``occupied`` of the body. ``whole``:
    the share of what comes first with which the body begins; it takes the rest of it up as it arrives. ``taken``:
    pairs of shares, of what comes first and of the body: with so much of the latter done all of the former was needed.
    ``early``: by how many iterations what comes first may be ahead at most: none where the body waits for it in the
    queue of its unit. ``rings``: what waits for one another, one after the other, until the first of it can be done for
    so many iterations later; what they are is counted elsewhere."""

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


EMPTY = Loop(1, ())


class Rates:
    """What instructions cost on one hardware, as parts of ``nest``, whose units wait for one another at memories."""

    def __init__(self, hardware: Hardware, nest: Loop = EMPTY) -> None:
        self.hardware = hardware
        self.spent: dict[Issue, tuple[tuple[str, Number], ...]] = {}
        self.latencies: dict[Issue, Number] = {}
        self.intervals: dict[Issue, Number] = {}
        self.paces: dict[Issue, Number] = {}
        self.bursts: dict[str, dict[str, Number]] = {}
        """The longest request of each mnemonic at each memory whose port all share: others wait behind it."""
        for issue in issues_of(nest):
            for name, words in issue.words.items():
                memory = hardware.memory(name)
                if memory.shared_port:
                    longest = self.bursts.setdefault(name, {})
                    longest[issue.mnemonic] = np.maximum(longest.get(issue.mnemonic, 0), words / memory.words_per_cycle)

    def latency(self, issue: Issue) -> Number:
        """Cycles from the start of one of the instructions to its end."""
        found = self.latencies.get(issue.one)
        if found is None:
            found = self.latencies[issue.one] = self._latency(issue)
        return found

    def interval(self, issue: Issue) -> Number:
        """Cycles from the start of one to the start of the next."""
        found = self.intervals.get(issue.one)
        if found is None:
            found = self.intervals[issue.one] = self.hardware.interval_columns(issue.mnemonic, issue.values)
        return found

    def each(self, issue: Issue) -> Number:
        """Cycles of a unit for one of the instructions, as many of which are under way as it takes."""
        found = self.paces.get(issue.one)
        if found is None:
            ahead = np.minimum(issue.ahead, self.hardware.unit(issue.mnemonic).in_flight)
            found = self.paces[issue.one] = np.maximum(self.interval(issue), self.latency(issue) / ahead)
        return found

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
        latency = self.latency(issue)
        return np.asarray(latency - np.minimum(latency, self.each(issue)))

    def busy(self, issue: Issue) -> tuple[tuple[str, Number], ...]:
        """The unit, the link and the memories that the instructions keep busy, each with its cycles."""
        if issue not in self.spent:
            self.spent[issue] = tuple(self._busy(issue))
        return self.spent[issue]

    def _busy(self, issue: Issue) -> Iterator[tuple[str, Number]]:
        unit = self.hardware.unit(issue.mnemonic)
        units = self._units(issue)
        yield unit.name, issue.times * (self.each(issue) / units)
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
        every = self.hardware.units_of(issue.mnemonic)
        if isinstance(issue.units, np.ndarray):
            return np.where(issue.units > 0, issue.units, every)
        return issue.units if issue.units > 0 else every

    def pace(self, issue: Issue) -> np.ndarray:
        """Cycles for which all of the instructions keep busy what they keep busy longest."""
        return np.asarray(reduce(np.maximum, [spent for _, spent in self.busy(issue)]))

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
            add(before, [(name, spent * ended / np.maximum(times, 1)) for name, spent in self.busy(issue)])
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
        queued: Number = 0
        for name, count in body.items():
            queued = np.maximum(queued, np.minimum(self.hardware.queues[name], count))
        return self.hardware.issue_entries - 1 + queued

    def _excess(self, issues: tuple[Issue, ...]) -> Number:
        """How many of some instructions find no place in the queues of their units."""
        excess: Number = 0
        for unit in {unit.name: unit for unit in (self.hardware.unit(issue.mnemonic) for issue in issues)}.values():
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


def issues_of(loop: Loop) -> Iterator[Issue]:
    for part in (*loop.body, *loop.first, *loop.last):
        yield from issues_of(part) if isinstance(part, Loop) else (part,)


def add(total: dict[str, Number], more: Iterable[tuple[str, Number]]) -> None:
    for name, number in more:
        total[name] = total.get(name, 0) + number
