"""The cost of candidates for chains, vectorized: the core that has most is followed through its program.

A core's matrix unit goes from step to step; a step begins when its weights have come, which take the place of those of
two steps before. Rounds of the first product are handed over by the vector unit and the networks, while the next ones
are made; the second product begins with blocks that were handed over early. Of steps, rounds and waves that are alike
the first ones and the last are followed, those between take as long as the one before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from archloom.acadl_models.mesh.graph import AHEAD
from archloom.mapper.spatial.chain.space import SLOTS, Chain
from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.plan import COLUMN, DOWN, ROW, ChainPlan
from archloom.mapper.spatial.space import Table

Numbers = np.ndarray

FOLLOWED = 3
"""Steps that are followed one by one."""

TURNS = 4
"""Rounds and waves that are followed one by one, the last of them being the last of all: those between take as long as
the one before that, whose sums, of two places, wait for nothing that only the first of them wait for."""


@dataclass(frozen=True, eq=False)
class _Load:
    """Cycles in which the loads of a step keep busy memory, what all loads and what all stores share, a row's and a
    column's ring, a core's own way and its port; ``lines``: until the last has left each of these three ways if nothing
    was under way, the first bytes being there; ``behind``: in which a transfer passes what comes behind them."""

    memory: Numbers
    inward: Numbers
    outward: Numbers
    row: Numbers
    column: Numbers
    core: Numbers
    port: Numbers
    lines: Numbers
    behind: Numbers

    def __add__(self, other: "_Load") -> "_Load":
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        return _Load(**sums | {"behind": np.maximum(self.behind, other.behind)})

    def beside(self, count: Numbers) -> "_Load":
        """``count`` times as many transfers, which nobody waits for."""
        one = {f.name: getattr(self, f.name) * count for f in fields(self) if f.name not in ("lines", "behind")}
        return _Load(**one, lines=0 * self.lines, behind=0 * self.behind)

    @property
    def way(self) -> Numbers:
        """Cycles until all have come if nothing was under way, the first bytes being there."""
        found: Numbers = self.lines.max(axis=0) + self.behind
        return found

    @property
    def interval(self) -> Numbers:
        """Cycles after which the loads of the next step have come, if nothing else limits."""
        return np.maximum.reduce([self.memory, self.inward, self.outward, self.row, self.column, self.core, self.port])


@dataclass(frozen=True, eq=False)
class _State:
    """When the matrix unit is done with the last step and with the one before, the last step's weights came, the vector
    unit and the network are done, what rounds before the last handed over has come, sums of the last two rounds are
    free again, and the store of the last is done; before ``gate`` no weights are sent, and from ``since`` on rows of A
    may lie where those of the wave before did."""

    done: Numbers
    before: Numbers
    came: Numbers
    vector: Numbers
    handed: Numbers
    shared: Numbers
    free: Numbers
    earlier: Numbers
    stored: Numbers
    gate: Numbers
    since: Numbers

    def later(self, cycles: Numbers) -> "_State":
        return _State(**{f.name: getattr(self, f.name) + cycles for f in fields(self)})

    def where(self, on: Numbers, other: "_State") -> "_State":
        """This where ``on``, else the other."""
        return _State(**{f.name: np.where(on, getattr(self, f.name), getattr(other, f.name)) for f in fields(self)})


@dataclass(frozen=True, eq=False)
class _Steps:
    """Steps that are alike: how many, cycles of the matrix unit, their loads, how many steps those may be ahead, and
    what goes the same ways between the loads of two steps."""

    count: Numbers
    product: Numbers
    load: _Load
    ahead: Numbers
    meanwhile: _Load


def chain_cycles(chain: Chain, machine: Machine, found: Table[ChainPlan]) -> Numbers:
    """Estimated cycles of every candidate."""
    return _Estimate(chain, machine, found).cycles


class _Estimate:
    """What candidates take, in cycles."""

    def __init__(self, chain: Chain, machine: Machine, found: Table[ChainPlan]) -> None:
        self.chain, self.machine, self.c = chain, machine, found.columns
        c = self.c
        m, self.k, self.hidden, self.n = chain.tiles
        self.places, self.team = c["rm"] * c["cm"], c["rt"] * c["ct"]
        self.bk, self.depth = np.minimum(c["bk"], self.k), c["bh"] * c["together"]
        self.waves = -(-m // (c["bm"] * self.places))
        self.last_rows = m - (self.waves - 1) * c["bm"] * self.places
        self.rounds = -(-self.hidden // (c["bh"] * self.team)), -(-self.n // (c["bn"] * self.team))
        self.steps = -(-self.k // self.bk), -(-self.hidden // self.depth)
        on_row, on_column = c["way"] == ROW, c["way"] == COLUMN
        self.on_row, self.on_column = on_row, on_column
        self.tree = c["way"] >= DOWN
        self.alone = SLOTS * c["bm"] * np.maximum(c["bh"], c["bn"]) > machine.sums
        # who sends along a ring keeps an order: weights wait behind blocks that are not ready to be handed over
        self.behind = (on_row & (c["ct"] > 1)) | (on_column & (c["rt"] > 1))
        self.kept = c["keep"] == 1
        synchronous = self.team * np.where(self.tree, machine.cores, 1)
        synchronous = synchronous * np.where(on_row, c["cm"], 1) * np.where(on_column, c["rm"], 1)
        self.in_step = np.minimum(1, synchronous / machine.cores)

    @cached_property
    def cycles(self) -> Numbers:
        zero = np.zeros(len(self.c["bm"]))
        state = _State(*(zero for _ in fields(_State)))
        done = _followed(self.waves, state, lambda at, number, last: self._wave(at, number == 0, last))
        # a store is on its way behind the last sums
        return np.asarray(self.machine.launch_cycles + np.maximum(done.stored, done.done), np.float64)

    # --- waves and rounds ----------------------------------------------------------------------------------------
    def _wave(self, state: _State, first: bool, last: Numbers) -> _State:
        bm = np.where(last, np.minimum(self.c["bm"], self.last_rows), self.c["bm"])
        filled = np.where(last, self.last_rows / (self.c["bm"] * self.places), 1)
        wave = _Wave(self, bm, filled, first)
        state = _followed(self.rounds[0], state, lambda at, number, end: wave.inner(at, number == 0, end))
        state = replace(state, since=state.done)
        return _followed(self.rounds[1], state, lambda at, number, end: wave.outer(at, number == 0, end))


class _Wave:
    """A wave of rows, ``bm`` tiles of them in the core that has most; ``filled``: of all teams, what they have."""

    def __init__(self, whole: _Estimate, bm: Numbers, filled: Numbers, first: bool) -> None:
        self.of, self.bm, self.filled, self.first = whole, bm, filled, first
        self.machine, self.c = whole.machine, whole.c

    def inner(self, state: _State, begins: bool, last: Numbers) -> _State:
        """A round of the first product."""
        of, machine, c = self.of, self.machine, self.c
        left = of.hidden - (of.rounds[0] - 1) * c["bh"] * of.team
        bh = np.where(last, np.minimum(c["bh"], left), c["bh"])
        members = np.where(last, np.minimum(of.team, -(-left // c["bh"])), of.team)
        shares = self._shares(bh, members)
        # the blocks of the round before are handed over meanwhile
        meanwhile = self._meanwhile(shares, of.steps[0]).beside(np.zeros(1) if begins else np.ones(1))

        def steps(count: Numbers, depth: Numbers) -> _Steps:
            load = self._weights(depth * bh, members)
            if begins:
                load = load + self._rows(depth, np.minimum(of.team, -(-of.hidden // c["bh"])))
            product = machine.product(self.bm, bh, depth) + machine.block_cycles
            return _Steps(count, product, load, self._ahead(begins), meanwhile)

        state = self._cleared(state, self.bm * bh)
        first, rest = steps(of.steps[0] - 1, of.bk), steps(np.ones_like(bh), of.k - (of.steps[0] - 1) * of.bk)
        begun = state.done + (of.steps[0] - 1) * first.product + rest.product
        state = self._stepped(self._stepped(state, first, np.zeros(1)), rest, np.zeros(1))
        finishing = self.bm * bh * of.chain.passes * machine.vector_cycles
        vector = np.maximum(state.vector, state.done) + finishing
        # what comes one after the other lets the first members hand over before the last, which wait longest, are done
        apart = np.where(of.on_row, np.minimum(c["ct"], members), np.where(of.on_column, -(-members // c["ct"]), 1))
        own = np.maximum(rest.load.lines[:2].max(axis=0) / apart, rest.load.lines[2])
        spread = np.maximum(0, np.maximum(rest.load.lines.max(axis=0), of.in_step * rest.load.interval) - own)
        waited = np.minimum(spread, state.done - begun)
        if machine.in_bytes:  # on a way that all share they come behind weights that other teams have just asked for
            others = (rest.load.memory > 0) & (np.where(of.on_row, c["rm"], of.places) > 1)
            waited = waited - np.where(others, machine.dram_latency, 0)
        late = self._late(c["rm"] * -(-members // c["ct"]), c["rt"] > 1), self._late(c["cm"] * members, c["ct"] > 1)
        handed, sent = self._handed(np.maximum(state.handed, vector), shares, waited, late)
        return replace(
            state, vector=vector, handed=handed, shared=state.handed, earlier=state.free, free=vector,
            gate=np.where(of.behind, np.maximum(vector, sent - machine.dram_latency), state.gate))

    def outer(self, state: _State, begins: bool, last: Numbers) -> _State:
        """A round of the second product; the first begins with what was handed over before the last of the first."""
        of, machine, c = self.of, self.machine, self.c
        left = of.n - (of.rounds[1] - 1) * c["bn"] * of.team
        bn = np.where(last, np.minimum(c["bn"], left), c["bn"])
        members = np.where(last, np.minimum(of.team, -(-left // c["bn"])), of.team)
        store = self.bm * bn * TILE_BYTES
        stores = self._stores(store, members)
        count, rest = of.steps[1], of.hidden - (of.steps[1] - 1) * of.depth
        meanwhile = stores.beside(1 / count)
        if begins:
            shared = np.minimum(of.team, -(-(of.hidden - (of.rounds[0] - 1) * c["bh"] * of.team) // c["bh"]))
            meanwhile = meanwhile + self._meanwhile(self._shares(c["bh"], shared), count)

        def steps(count: Numbers, depth: Numbers) -> _Steps:
            product = machine.product(self.bm, bn, depth) + machine.block_cycles
            return _Steps(count, product, self._weights(depth * bn, members), self._ahead(False), meanwhile)

        state = self._cleared(state, self.bm * bn)
        one, ready = np.ones_like(bn), np.zeros(1)
        if begins:
            early = np.minimum(count - 1, (of.rounds[0] - 1) * of.team // c["together"])
            come = np.maximum(state.vector, state.shared)
            each = (state.handed - come) / np.maximum(1, np.minimum(of.team, of.hidden // c["bh"]))
            ready = state.handed
            state = self._stepped(state, steps(early, of.depth), state.shared)
            come = np.minimum(ready, come + c["together"] * each)
            state = self._stepped(state, steps(count - 1 - early, of.depth), come)
        else:
            state = self._stepped(state, steps(count - 1, of.depth), ready)
        state = self._stepped(state, steps(one, rest), ready)
        end = of.chain.ends[1].cycles(machine)
        vector = np.where(end > 0, np.maximum(state.vector, state.done) + self.bm * bn * end, state.vector)
        own = np.maximum(store / machine.core_bytes, of.in_step * stores.interval)
        stored = np.maximum(state.stored, np.maximum(vector, state.done) + own + 2 * machine.dram_latency)
        return replace(state, vector=vector, stored=stored, earlier=state.free, free=stored)

    def _handed(
        self, last: Numbers, shares: tuple[_Load, _Load], before: Numbers, late: tuple[Numbers, Numbers]
    ) -> tuple[Numbers, Numbers]:
        """When blocks have come of which the ``last`` is ready then, the first so much ``before``, and when the ring on
        which weights wait behind them is free again: what goes down a column goes on along rows as it comes; ``late``:
        how long each waits for loads."""
        (down, along), c = shares, self.c
        along = replace(along, row=along.row + late[1])
        ahead, start = np.where(c["rt"] > 1, down.way + late[0], 0), last - before
        below = start + down.interval
        beside = start + np.maximum(ahead + along.interval, down.inward + along.inward)
        below = np.maximum(below, last + down.way - down.behind)
        beside = np.maximum(beside, last + ahead + along.way - along.behind)
        come = np.maximum(below + down.behind, np.where(c["ct"] > 1, beside + along.behind, 0))
        return come, np.where(self.of.on_row, beside, below)

    def _late(self, sent: Numbers, on: Numbers) -> Numbers:
        """Cycles that the blocks ``sent`` along a row or down a column in a round, where ``on``, wait for loads.

        On a way that all share, a load keeps its place while memory's latency runs, and what is sent later comes behind
        it. Teams that do not get the same weights ask for them at any time, so that whatever a sender has under way
        waits for half of the latency, yet not more often than there are steps that ask. In the first wave those to
        which weights are sent still are in step; each core's own loads follow one another on their way from the first.
        """
        of, machine = self.of, self.machine
        if not machine.in_bytes:
            return np.zeros(1)
        apart = on & ~of.kept & (self.filled > of.in_step) & ((self.c["way"] == 0) | (not self.first))
        turns = np.maximum(1, sent * self.filled / machine.in_flight)
        asked = of.steps[0] + of.rounds[1] * of.steps[1] / of.rounds[0]
        return np.where(apart, machine.dram_latency * np.minimum(turns / 2, asked), 0)

    def _meanwhile(self, shares: tuple[_Load, _Load], steps: Numbers) -> _Load:
        """Of the blocks that are handed over while the weights of ``steps`` come: those that these do not wait for."""
        (down, along), of, c = shares, self.of, self.c
        return (down.beside(np.where(of.behind, 0, 1 / steps))
                + along.beside(np.where(of.behind & (of.on_row | (c["ct"] == 1)), 0, 1 / steps)))

    def _cleared(self, state: _State, count: Numbers) -> _State:
        """Sums of a round are cleared when those that lay there are used."""
        free = np.where(self.of.alone, state.free, state.earlier)
        return replace(state, done=np.maximum(state.done, free) + count)

    def _stepped(self, state: _State, steps: _Steps, ready: Numbers) -> _State:
        """Steps of a product on tiles that are ``ready``."""
        # what goes meanwhile limits how often loads come, yet is asked for later than those of this step
        slowly = (steps.load + steps.meanwhile).interval
        late = self.machine.dram_latency + np.maximum(steps.load.way, self.of.in_step * steps.load.interval)
        loads = steps.load.lines.max(axis=0) > 0
        steady = np.maximum(steps.product, np.where(loads, np.maximum(slowly, (late + steps.product) / steps.ahead), 0))

        def one(at: _State) -> _State:
            free = np.maximum(at.before - (steps.ahead - SLOTS) * steps.product, at.gate)
            came = np.maximum(np.maximum(free, np.where(self.of.kept, at.since, 0)) + late, at.came + slowly)
            start = np.maximum(at.done, np.maximum(ready, np.where(loads, came, 0)))
            return replace(at, done=start + steps.product, before=at.done, came=np.where(loads, came, at.came),
                           gate=np.zeros_like(at.gate))

        for number in range(min(FOLLOWED, int(steps.count.max(initial=0)))):
            if number == FOLLOWED - 1:
                state = state.later(np.maximum(0, steps.count - FOLLOWED) * steady)
            state = one(state).where(steps.count > number, state)
        return state

    # --- what is moved -------------------------------------------------------------------------------------------
    def _load(self, size: Numbers, copies: Numbers, lines: tuple[Numbers, Numbers, Numbers], column: Numbers) -> _Load:
        """Of transfers of ``size`` bytes: ``copies`` from memory, so many on a row's ring, a column's, and a core's own
        way; each reaches so many cores of a ``column``."""
        machine = self.machine
        row, down, core = lines
        ring = size / np.where(core > 0, machine.core_bytes, machine.ring_bytes)
        port = self._port(size, column)
        branch = size / machine.tree_bytes if machine.tree_bytes else 0 * size
        behind = np.where((row > 0) & (down > 0), np.maximum(branch, port), port)
        alone = np.where((row > 0) & (down > 0), branch, 0)  # its own way, if nobody else is at the port
        alone = np.maximum(alone, size / machine.port_bytes) if machine.port_bytes else alone
        sending = np.where(size > 0, np.maximum(ring, (machine.dram_latency + ring + alone) / machine.in_flight), 0)
        every = copies * size
        sent = np.stack(np.broadcast_arrays(row, down, core))
        return _Load(
            every / machine.memory_bytes, every / machine.in_bytes if machine.in_bytes else 0 * size, 0 * size,
            row * sending, down * sending, core * sending, port,
            np.maximum(sent * ring, (sent - machine.in_flight) * sending), behind)

    def _port(self, size: Numbers, column: Numbers) -> Numbers:
        """Cycles of a port for what each of its cores gets: what so many cores of a ``column`` get passes it once."""
        machine = self.machine
        every = size * np.maximum(1, machine.port_cores / column)
        return every / machine.port_bytes if machine.port_bytes else 0 * size

    def _ahead(self, begins: bool) -> Numbers:
        """Steps of which tiles may be in a core: those that are kept come as long as instructions are handed out."""
        of, c = self.of, self.c
        one = np.where(c["way"] == 0, 1, 1 / (of.places * of.team)) if self.first else 0
        if begins:
            one = one + np.where(c["shared"] == 1, 1 / of.team, 1)
        return np.where(of.kept, np.maximum(SLOTS, AHEAD / (1 + one)), SLOTS)

    def _weights(self, tiles: Numbers, members: Numbers) -> _Load:
        """Of a block of weights; ``members`` of a team have one."""
        of, c = self.of, self.c
        size = tiles * TILE_BYTES * np.where(of.kept & (not self.first), 0, 1)
        along = np.minimum(c["ct"], members)
        down = -(-members // c["ct"])
        none = c["way"] == 0
        copies = np.where(none, of.places * self.filled * members, np.where(
            of.on_row, c["rm"] * members, np.where(of.on_column, c["cm"] * members, 1)))
        lines = np.where(of.on_row, along, of.tree), np.where(of.on_column, down, of.tree), 1.0 * none
        return self._load(size, copies, lines, np.where(of.tree, self.machine.rows, np.where(of.on_column, c["rm"], 1)))

    def _rows(self, depth: Numbers, members: Numbers) -> _Load:
        """Of the rows of A of a step, ``depth`` tiles of each, which come with the first round."""
        of, c = self.of, self.c
        size = self.bm * depth * TILE_BYTES
        shared = (c["shared"] == 1) & (of.team > 1)
        along, teams = c["ct"] > 1, of.places * self.filled
        copies = teams * np.where(shared, np.where(along, -(-members // c["ct"]), 1), members)
        lines = np.where(shared & along, c["cm"], 0), np.where(shared & ~along, c["rm"], 0), 1.0 * ~shared
        return self._load(size, copies, lines, np.where(shared & ~along, c["rt"], 1))

    def _shares(self, bh: Numbers, members: Numbers) -> tuple[_Load, _Load]:
        """Of the blocks that the members of all teams hand over in a round: down columns, and from there along rows."""
        machine, of, c = self.machine, self.of, self.c
        size, nothing = self.bm * bh * TILE_BYTES, np.zeros(len(bh))
        teams = of.places * self.filled

        def shares(sent: tuple[Numbers, Numbers], every: Numbers, got: Numbers, column: Numbers) -> _Load:
            """So many on a row's ring and on a column's, and in all; each core gets so many."""
            on = (sent[0] + sent[1]) > 0
            way, behind = size / machine.ring_bytes * on, self._port(size, column) * on
            inward = every * size / machine.in_bytes * on if machine.in_bytes else nothing
            return _Load(nothing, inward, nothing, sent[0] * way, sent[1] * way, nothing, got * behind,
                         np.stack([sent[0] > 0, sent[1] > 0, on & False]) * way, behind)

        blocks = -(-members // c["ct"])
        down, along = np.where(c["rt"] > 1, c["rm"] * blocks, 0), np.where(c["ct"] > 1, c["cm"] * members, 0)
        return (shares((0 * down, down), teams * members, blocks, c["rt"]),
                shares((along, 0 * along), teams * c["rt"] * members, members, np.ones_like(members)))

    def _stores(self, size: Numbers, members: Numbers) -> _Load:
        """Of the rows of C of a round."""
        machine, nothing = self.machine, np.zeros(len(size))
        every = self.of.places * self.filled * members * size
        outward = every / machine.out_bytes if machine.out_bytes else nothing
        return _Load(every / machine.memory_bytes, nothing, outward, nothing, nothing, nothing, nothing,
                     np.zeros((3, len(size))), nothing)


T = TypeVar("T", bound=_State)


def _followed(count: Numbers, state: _State, one: Callable[[_State, int, Numbers], _State]) -> _State:
    """``count`` times ``one``, which is told its number (of those that are followed) and whether it is the last."""
    followed = np.minimum(count, TURNS)
    took = np.zeros(len(count))
    for number in range(int(followed.max(initial=0))):
        if number == TURNS - 1:
            state = state.later((count - followed) * took)
        found = one(state, number, followed == number + 1).where(followed > number, state)
        took, state = found.done - state.done, found
    return state
