"""Cycles of a nest of loops from what its iterations issue, vectorized over candidates.

A target says which instructions an iteration of each of its loops issues (:class:`.Loop`, :class:`.Issue`); what they
cost is read off the view of its graph (:mod:`.rates`). While some units work on an iteration, others do on the next
ones. What stands ``alone`` in an iteration waits for what is before it, and keeps what follows waiting; what is
``first`` the body waits for, and it lies in one of ``slots`` places until what is ``last`` is done with it::

    load    |==B==|-----L-----|           ==: its unit is busy   --: under way
    body                      |====R====|-tail-|
    store                                      |==S==|
            `------- a place is taken: P * slots ------'

In cycles, for an iteration:

* ``R``: the most of T of the inner loops, one after the other, of the busy cycles of each unit, link and memory in it,
  and of the fetches: what the body takes if all is there. ``M``: the same with what is first and last.
* ``B``: until the last of what is first starts, as far as the body waits for it; ``L``: from then until it has ended;
  ``S``: both for what is last. The body takes up what it does not wait for as it arrives. Where a share r of its
  cycles takes up a share q of the n that are first, whose unit they keep busy for K (``taken``), it begins no earlier
  than the last of these is in time for that: ``B >= q * K * (1 - 1 / n) - r * R``. A convolution's first pass over a
  tile is such a share: it reads nearly all pixels, however many passes follow.
* ``F = max(B + L, lead)`` with ``lead = B + max(L, lead of the inner loops)``: from when a unit could begin with what
  is first until the body may begin. What inner loops need first stands in the same queue behind it.
* ``i``: what of R the inner loops wait already; they do not wait for it again.
* ``a``: by how many iterations what is first may be ahead. Instructions are issued in order, so these are the
  iterations whose instructions fit into the window of the fetch stage and the queues, no more than there are places in
  inner loops of the same unit, and no more than ``early``. What is last and finds no place in its queue lies between
  the body and what is first of the next iteration, and takes places of the window.
* ``H``: for how long what is last holds up all that follows, where more of it than finds places in the window waits
  for the body.

An iteration takes no less than its instructions in order (O), than until a place is free (P), and than M::

    O = (F - i + R * (1 - fraction of a)) / (1 + whole part of a), but max(O, R) + H where H > 0
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

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from archloom.mapper.costs.rates import FAR, Issue, Loop, Number, Rates, add
from archloom.mapper.hardware import Hardware

MOST_PLACES = 16
"""More than the loads that can be under way have no use."""

CLOSE = 0.003
"""How much of what is no bound of an iteration is added to its cycles: of plans that are equal but for it, the one that
is further from the bound."""


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


class _Costs(Rates):
    """The rates of a machine, and the cost of each loop that was looked at, by whether it is entered once."""

    def __init__(self, hardware: Hardware, nest: Loop) -> None:
        super().__init__(hardware, nest)
        self.known: dict[tuple[Loop, bytes], _Cost] = {}


def cycles(nest: Loop, hardware: Hardware) -> np.ndarray:
    """Estimated cycles of every candidate."""
    found = _cost(nest, _Costs(hardware, nest), True)
    return np.asarray(found.time + found.fill, float)


def places(latency: Number, work: np.ndarray) -> np.ndarray:
    """How many places what is loaded for so many cycles of ``work`` needs to hide a load's ``latency``: two at least,
    a power of two. With more nothing is faster."""
    found: np.ndarray = np.clip(2 ** np.ceil(np.log2(1 + latency / work)).astype(np.int64), 2, MOST_PLACES)
    return found


def _cost(loop: Loop, rates: _Costs, once: Any) -> _Cost:
    """The cost of a loop, which is entered but ``once`` or more often; one that stands in several places is looked at
    once."""
    once = np.asarray(once & (np.asarray(loop.times) == 1))
    key = loop, once.tobytes()
    if key not in rates.known:
        rates.known[key] = _found(loop, rates, once)
    return rates.known[key]


def _found(loop: Loop, rates: _Costs, once: np.ndarray) -> _Cost:
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

    def __init__(self, rates: _Costs) -> None:
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
        units = self.rates.hardware.queues
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
        add(loads, rates.busy(issue))
    nothing: Number = 0
    most_loads = reduce(np.maximum, loads.values(), nothing)
    before = _taken(loop, before, most_loads, rest)
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
    held = rates.held_up(loop, body)
    ordered = _in_order(lead - iteration.idle, rest, ahead)
    ordered = np.where(held > 0, np.maximum(ordered, rest) + held, ordered)
    placed = _placed(loop, iteration, rest, (latency, before, last), inner_lead)
    for issue in loop.first:
        unit = iteration.use(rates.hardware.unit(issue.mnemonic).name)
        unit.ahead = np.minimum(_or(unit.ahead, FAR), np.where(np.asarray(issue.times) > 0, loop.slots, FAR))
    steady = np.maximum(most, np.maximum(ordered, placed))
    # where there is but one iteration, what it waits for at the start is no part of it
    time = np.where(once, np.maximum(most, before + rest), steady + CLOSE * (ordered + placed))
    iteration.idle = np.where(lead > 0, np.maximum(time - rest + iteration.idle, 0), iteration.idle)

    # at the very start all that comes first is on its way at the same time, and nothing hides the latency of the last
    more = np.maximum(before + rest, most_loads) - time
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
