"""Cycles of a nest of loops from what its iterations issue, vectorized over candidates.

A target says which instructions an iteration of each of its loops issues (:class:`Loop`, :class:`Issue`); what they
cost is read off the view of its graph. While some units work on an iteration, others do on the next ones, so a loop
takes as long as the unit that has most to do, or as its inner loops one after the other; what stands ``alone`` in an
iteration waits for what is before it, and keeps what follows waiting:

    T(loop) = times * (max(sum of T(inner loops), busy cycles of each unit, of memory) + latencies of what is alone)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

if TYPE_CHECKING:
    from mapper.hardware import Hardware

Number: TypeAlias = "int | float | np.ndarray"
"""One figure for all candidates, or a column."""


@dataclass(frozen=True, eq=False)
class Issue:
    """``times`` instructions, dealt out evenly to ``units`` that process ``mnemonic`` (by default all that do).

    ``moves``: bytes between HBM and the unit for each of so many ``pieces`` of memory; ``words``: what each reads and
    writes of other memories; ``ahead``: how many may be under way, where places for what they bring are fewer than what
    the unit can do at a time; ``values``: attributes and registers on which its latency depends.
    """

    mnemonic: str
    times: Number = 1
    moves: Number = 0
    pieces: Number = 1
    words: Mapping[str, Number] = field(default_factory=dict)
    units: Number = 0
    ahead: Number = 1 << 30
    values: Mapping[str, Number] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Loop:
    """``times`` iterations of ``body``; ``alone``: instructions of an iteration that nothing else overlaps; ``waits``:
    cycles of an iteration in which nothing happens."""

    times: Number
    body: "tuple[Union[Loop, Issue], ...]"
    alone: tuple[Issue, ...] = ()
    waits: Number = 0


@dataclass(frozen=True, eq=False)
class _Cost:
    """Cycles of a nest, and of each unit and of memory in it."""

    time: Number
    busy: Mapping[str, Number]


class Rates:
    """What instructions cost on one hardware."""

    def __init__(self, hardware: "Hardware", nest: Loop) -> None:
        self.hardware, self.hbm = hardware, hardware.memory("hbm")
        self.streams = 1 if self.hbm.shared_port else self.hbm.slots
        self.bursts: dict[str, Number] = {}
        """The longest request of the nest at each memory whose port all share: others wait behind it."""
        for issue in _issues(nest):
            for name, words in issue.words.items():
                memory = hardware.memory(name)
                if memory.shared_port:
                    self.bursts[name] = np.maximum(self.bursts.get(name, 0), words / memory.words_per_cycle)

    def latency(self, issue: Issue) -> Number:
        """Cycles from the start of one of the instructions to its end."""
        own = self.hardware.latency_columns(issue.mnemonic, issue.values)
        _, port, more = self.hardware.way(issue.mnemonic)
        moved = self._transfer(issue, port)
        return own + np.where(moved > 0, self.hbm.read_latency_cycles + more + moved, 0)

    def busy(self, issue: Issue) -> Iterator[tuple[str, Number]]:
        """The unit, the link and the memories that the instructions keep busy, each with its cycles."""
        unit = self.hardware.unit(issue.mnemonic)
        interval = self.hardware.interval_columns(issue.mnemonic, issue.values)
        link, port, more = self.hardware.way(issue.mnemonic)
        moving = issue.times * self._transfer(issue, port)
        units = np.where(np.asarray(issue.units) > 0, issue.units, sum(
            issue.mnemonic in u.mnemonics for u in self.hardware.units))
        latency = self.latency(issue) + sum(self.bursts.get(name, 0) for name in issue.words)
        yield unit.name, issue.times * np.maximum(interval, latency / np.minimum(issue.ahead, unit.in_flight)) / units
        if link:  # one request after the other; else each has a stream of memory's of its own
            yield link, moving / units
        yield "hbm", moving / self.streams
        under_way = np.where(moving > 0, self.hbm.read_latency_cycles + more, 0) * issue.times + moving
        yield "requests to hbm", under_way / self.hbm.slots
        for name, words in issue.words.items():
            memory = self.hardware.memory(name)
            ports = memory.words_per_cycle * (1 if memory.shared_port else memory.slots)
            yield name, issue.times * words / (ports * np.minimum(units, memory.banks))

    def alone(self, issue: Issue) -> np.ndarray:
        """Cycles from the start of the first to the end of the last, each as early as the unit takes it."""
        times = np.asarray(issue.times)
        most = np.max(np.broadcast_arrays(*(spent for _, spent in self.busy(issue))), axis=0)
        return np.where(times > 0, self.latency(issue) + most * np.maximum(times - 1, 0) / np.maximum(times, 1), 0)

    @staticmethod
    def _transfer(issue: Issue, port: float) -> np.ndarray:
        """Cycles for which one of the instructions moves data."""
        return np.asarray(issue.pieces * np.ceil(np.asarray(issue.moves) / port))


def cycles(nest: Loop, hardware: "Hardware") -> np.ndarray:
    """Estimated cycles of every candidate."""
    return np.asarray(_cost(nest, Rates(hardware, nest)).time, float)


def _issues(loop: Loop) -> Iterator[Issue]:
    for part in loop.body:
        yield from _issues(part) if isinstance(part, Loop) else (part,)


def _cost(loop: Loop, rates: Rates) -> _Cost:
    busy: dict[str, Number] = {}
    inner: Number = 0
    for part in loop.body:
        if isinstance(part, Loop):
            found = _cost(part, rates)
            inner = inner + found.time
            parts: Iterator[tuple[str, Number]] = iter(found.busy.items())
        else:
            parts = rates.busy(part)
        for name, spent in parts:
            busy[name] = busy.get(name, 0) + spent
    time = inner
    for spent in busy.values():
        time = np.maximum(time, spent)
    waits = sum(rates.alone(issue) for issue in loop.alone)
    return _Cost(loop.times * (time + waits + loop.waits), {name: loop.times * spent for name, spent in busy.items()})
