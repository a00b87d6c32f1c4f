"""The cost of candidates, vectorized: section 2.5 of the TL paper over columns of plans.

A wave is a pipeline of load, compute and store: while a step computes, the loads of the next proceed. Steps are of up
to four kinds, by which operands they load (kept ones only in their first wave). A step takes as long as its bottleneck:

    step = max(compute, memory, each row's ring, each column's ring, each core's own way, the port of its L1)
    T    = launch + a load + max(first loads, last stores) + max(sum of steps + stores between waves, all of memory)

A step is no shorter than what its loads take from start to end and the product that frees their place, over the blocks
that a core holds: where memory is far, few blocks are not enough. Who sends has so many transfers under way. Transfers
that share a ring, a way or memory time-share it; others run at the same time. A core with one block of sums
waits for its own store; with two it has another wave to do meanwhile. Cores whose first tiles come
early are done early and store early, so that of the first loads of all cores and their last stores only the longer ones
count.

Cores that share no tiles do not stay in step (:meth:`_Estimate.in_step`): what each of them loads when it needs more
than usual does not meet what the others load, as long as memory, or the sender of their row or column, has time to
spare. Where it has none, all that it moves is what counts, phase by phase: an operand that the inner loop indexes and
that is kept comes in the first iteration of the outer loop alone.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine
from archloom.mapper.spatial.plan import COLUMN, NONE, ROW, WAVE, TileGemm
from archloom.mapper.spatial.products.traffic import ALONE, TO_ALL, Around, InStep, Traffic, Waves, above, beats_of
from archloom.mapper.spatial.space import Space

_AT_A_TIME = 1 << 13
"""Candidates whose columns stay in a processor's caches."""


def cycles(gemm: TileGemm, machine: Machine, found: Space, around: Around = ALONE) -> tuple[np.ndarray, np.ndarray]:
    """Estimated cycles of every candidate, and those for which it keeps the memory busy."""
    whole, busy = np.empty(len(found)), np.empty(len(found))
    for first in range(0, len(found), _AT_A_TIME):
        some = slice(first, first + _AT_A_TIME)
        estimate = _Estimate(gemm, machine, found.some(some), around.of(some))
        whole[some], busy[some] = estimate.cycles, estimate.moved
    return whole, busy


class _Estimate:
    """What candidates take, in cycles; a step is one of the whole depth of a block."""

    def __init__(self, gemm: TileGemm, machine: Machine, found: Space, around: Around) -> None:
        self.machine, self.around = machine, around
        c = self.c = found.columns
        s = self.s = found.over
        depth = s["depth"]
        self.bk = np.minimum(c["bk"], depth)
        self.m = Waves.of(gemm.m, c["bm"], s["rm"] * s["cm"])
        self.n = Waves.of(gemm.n, c["bn"], s["rn"] * s["cn"])
        self.steps, self.block = depth / self.bk, c["bm"] * c["bn"]
        self.count = np.ceil(self.steps)
        self.part = self.m.largest * self.n.largest
        self.product = machine.product(c["bm"], c["bn"], self.bk) * self.part
        self.compute = self.product + machine.block_cycles * self.count / self.steps
        self.waves = around.problems * self.m.count * self.n.count
        self.computed = self.waves * self.steps * self.compute
        self.stored = beats_of(machine, c["bm"], c["bn"], gemm.n)
        along_row, along_column = np.ceil(np.log2(s["columns"])), np.ceil(np.log2(s["rows"]))
        # sums of others that a core adds to its own, one after the other, in cycles for each byte
        self.rounds = along_row / machine.sum_bytes + along_column / machine.column_sum_bytes
        self.storing = around.crowd[0] * around.crowd[1] * machine.cores // (s["rk"] * s["ck"])
        self.streams_a, self.streams_b = c["keep_a"] == 0, c["keep_b"] == 0
        # kept tiles of A are loaded in the first wave along n alone, those of B in the first along m
        self.times_a = np.where(c["keep_a"] == 1, 1, self.n.count)
        self.times_b = np.where(c["keep_b"] == 1, 1, self.m.count)
        size_a, size_b = (c[name] * self.bk * TILE_BYTES for name in ("bm", "bn"))
        beats_a = beats_of(machine, c["bm"], self.bk, gemm.k) * around.share
        beats_b = beats_of(machine, self.bk, c["bn"], gemm.n)
        dealt = gemm.k / (depth * s["rk"] * s["ck"])
        self.a = Traffic(machine, around, c["way_a"], beats_a, (size_a, size_a * around.share), s["rn"], s["cn"],
                         self.m.of_some(dealt), self.n, self.n.of_loads(c["keep_a"]), self.count / self.steps)
        self.b = Traffic(machine, around, c["way_b"], beats_b, (size_b, size_b), s["rm"], s["cm"],
                         self.n.of_some(dealt), self.m, self.m.of_loads(c["keep_b"]), self.count / self.steps)
        by_n = c["nm"] == 1
        self.hops = np.maximum(self._hops(self.a, self.n, self.m, by_n), self._hops(self.b, self.m, self.n, ~by_n))

    @cached_property
    def cycles(self) -> np.ndarray:
        between, waits = self.between, self.waits
        # loads of a wave's first steps come while the sums of the wave before are added up and stored
        waits = waits - np.minimum(between, waits * np.minimum(1, self.c["slots"] / self.steps))
        computing = self.computed + waits + np.maximum(between, self.flooded) + self.anew
        # with two blocks of sums those of a wave are added up while the next is computed
        own = np.where(self.c["outputs"] > 1, 0, self.compute)
        computing = np.maximum(computing, (self.waves - 1) * (self.adding + own)) + self.adding
        last = 2 * self.machine.dram_latency + self.own_store
        apart, spread = self.ends
        ends = last + apart + np.maximum(spread, self.hops) + self.rises
        found: np.ndarray = self.machine.launch_cycles + np.maximum(
            ends + computing, last + self.memory + above(apart + self.hops, spread))
        return found

    def _hops(self, own: Traffic, theirs: Waves, mine: Waves, outer: np.ndarray) -> np.ndarray:
        """Cycles until tiles that are passed on have come to the last core that needs them. The last of all on the way
        may have nothing to do in the last waves over the loop that shares them (``theirs``, ``outer`` or inner)."""
        rest = self.steps * self.compute * np.where(outer, mine.count, 1)
        return np.maximum(own.hops, np.where(theirs.count > 1, own.line - rest, 0))

    # --- memory --------------------------------------------------------------------------------------------------
    @cached_property
    def loads(self) -> tuple[np.ndarray, np.ndarray]:
        """Steps in which A is loaded, and those in which B is."""
        problems, steps = self.around.problems, self.steps
        return problems * steps * self.times_a * self.m.count, problems * steps * self.times_b * self.n.count

    @cached_property
    def moved(self) -> np.ndarray:
        """For so long memory is busy, or what all loads or all stores share on their way."""
        machine, added, (each_a, each_b) = self.machine, self.around.added, self.loads
        stores = self.waves * self.storing * self.m.filled * self.n.filled
        found = each_a * self.a.memory + each_b * self.b.memory + stores * self.stored * (1 + added)
        if machine.in_bytes:
            beside = stores * self.block * (TILE_BYTES / machine.in_bytes) * added
            found = np.maximum(found, each_a * self.a.inward + each_b * self.b.inward + beside)
        if machine.out_bytes:
            found = np.maximum(found, stores * self.block * (TILE_BYTES / machine.out_bytes))
        return found * self.around.filled

    @cached_property
    def inner_kept(self) -> np.ndarray:
        """Whether the operand that the inner loop indexes is kept: it comes in the first iteration of the outer one."""
        return np.where(self.c["nm"] == 1, self.c["keep_a"], self.c["keep_b"]) == 1

    @cached_property
    def early(self) -> tuple[np.ndarray, np.ndarray]:
        """Whether A, and whether B, comes in the first iteration of the outer loop alone."""
        by_n = self.c["nm"] == 1
        return self.inner_kept & by_n, self.inner_kept & ~by_n

    @cached_property
    def outer_count(self) -> np.ndarray:
        return np.where(self.c["nm"] == 1, self.n.count, self.m.count)

    @cached_property
    def memory(self) -> np.ndarray:
        """Cycles if memory limits: the first iteration of the outer loop may be limited by it, and the others by what
        is computed."""
        each_a, each_b = self.loads
        early = np.where(self.c["nm"] == 1, each_a * self.a.memory, each_b * self.b.memory) * self.around.filled
        outer = self.outer_count
        once = np.maximum(self.computed / outer, early + (self.moved - early) / outer)
        rest = np.maximum(self.computed, self.moved - early) * (1 - 1 / outer)
        return np.where(self.inner_kept, once + rest, self.moved)

    @cached_property
    def bound(self) -> tuple[InStep, InStep]:
        """In the first iteration of the outer loop, and in the others: those go in step that get the same tiles at that
        time, or add up each other's sums."""
        early_a, early_b = self.early
        operands = (("way_a", "rn", "cn", early_a), ("way_b", "rm", "cm", early_b))
        first, others = (InStep.of(self.machine, (self.s["rk"], self.s["ck"]), [
            (self.c[way], self.s[rows], self.s[columns], ~(early & later)) for way, rows, columns, early in operands])
            for later in (False, True))
        return first, others

    @cached_property
    def in_step(self) -> tuple[InStep, InStep]:
        """In the first iteration of the outer loop, and in the others.

        Cores that share nothing begin together, in the first of so many iterations; then memory or a sender serves them
        one after the other, and they stay apart, the more so the more time it has to spare in what they take if they
        never meet.
        """
        apart, outer, (each_a, each_b) = _NeverMet(self), self.outer_count, self.loads
        own = self.computed + apart.waits + apart.anew
        early_a, early_b = self.early
        filled = self.around.filled

        def share(resource: str, of_a: np.ndarray, of_b: np.ndarray, whole: np.ndarray) -> list[np.ndarray]:
            early = early_a * of_a + early_b * of_b
            often = ((early * outer + whole - early) / own, (whole - early) / own)
            bound = (getattr(shares, resource) for shares in self.bound)
            return [of + (1 - of) * np.clip(part, 1 / outer, 1) for of, part in zip(bound, often)]

        a, b = self.a, self.b
        memory = share("memory", each_a * a.memory * filled, each_b * b.memory * filled, self.moved)
        lines = [share(name, each_a * x, each_b * y, each_a * x + each_b * y) for name, x, y in (
            ("row", a.row, b.row), ("column", a.column, b.column))]
        first, others = zip(memory, *lines)
        return InStep(*first), InStep(*others)

    # --- steps ---------------------------------------------------------------------------------------------------
    @cached_property
    def _chain(self) -> tuple[np.ndarray, np.ndarray]:
        """Of :meth:`chained`: what it is for a way of no cycles, and for each cycle of one."""
        latency, block, slots, count = self.machine.dram_latency, self.machine.block_cycles, self.c["slots"], self.count
        apart = (count % slots == 0) & (slots > 1)
        shallow = np.where(apart, 0, (count - self.steps) / count)
        often = count / (slots * self.steps)
        each = often * (1 - shallow)
        return often * (latency + block) + each * self.product, each

    def chained(self, way: np.ndarray) -> np.ndarray:
        """Cycles of a step if nothing limits but that its loads take the place of the step ``slots`` before: they wait
        for its product, for memory and for their ``way``. Where the last step of a wave is shallower and always takes
        the same place, the other places have whole steps alone."""
        fixed, each = self._chain
        return fixed + each * way

    @cached_property
    def both(self) -> np.ndarray:
        """Cycles of the loads of a step that loads both operands."""
        return self.a.beside(self.b, self.in_step[0])

    @cached_property
    def alone(self) -> tuple[np.ndarray, np.ndarray]:
        """Cycles of the loads of a step that loads A alone, and B alone."""
        first, others = self.in_step
        (early_a, early_b), a, b = self.early, self.a, self.b
        return (np.where(early_a, a.alone(first), a.alone(others)), np.where(early_b, b.alone(first), b.alone(others)))

    @cached_property
    def chains(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Cycles of a step that waits for its places alone: one that loads both operands, A alone, and B alone."""
        way_a, way_b = self.ways
        way = np.maximum(way_a * self.streams_a, way_b * self.streams_b)
        # a core's own way brings one after the other
        way = np.maximum(way, (self.a.core + self.b.core) * (self.streams_a & self.streams_b))
        both = np.maximum(self.chained(way), self.passed)
        return (np.where(self.streams_a | self.streams_b, both, 0), np.where(self.streams_a, self.chained(way_a), 0),
                np.where(self.streams_b, self.chained(way_b), 0))

    @cached_property
    def with_both(self) -> np.ndarray:
        """Cycles of a step that loads both operands."""
        return np.maximum(self.both, self.chains[0])

    @cached_property
    def passed(self) -> np.ndarray:
        """Cycles of a step if one operand is passed on along a line whose only sender multicasts the other one.

        The sender takes the cores of the line in turn: what the first one gets for a step comes after what the last one
        got for the step before, whose place was freed by the product ``slots`` steps earlier. That product had waited
        for a block that was passed on all along the line, and that the first core had loaded into the place of one
        another ``slots`` steps earlier. So the line, both ways and two products lie within ``2 * slots + 1`` steps.
        """
        fixed = 2 * (self.machine.dram_latency + self.machine.block_cycles) * self.count / self.steps
        ways = 2 * self.product + self.a.way + self.b.way
        found: np.ndarray = np.zeros_like(self.compute)
        streams = self.streams_a & self.streams_b
        for mine, passes, sends, along in ((self.a, "way_a", "way_b", "n"), (self.b, "way_b", "way_a", "m")):
            sender = np.where(self.s["c" + along] > 1, ROW, COLUMN)
            there = (self.c[passes] == WAVE) & (self.c[sends] == sender) & streams
            found = np.maximum(found, np.where(there, (fixed + ways + mine.line) / (2 * self.c["slots"] + 1), 0))
        return found

    @cached_property
    def ways(self) -> tuple[np.ndarray, np.ndarray]:
        """Of A's tiles and of B's to the cores that share them, until the last of these has room. Cores with one block
        of sums are as far apart as their stores follow one another in memory, and a tree waits for all of them."""
        stores = np.where(
            self.c["outputs"] == 1, self.storing * self.stored * self.m.filled * self.n.filled / self.count, 0)
        return (self.a.way + np.where(TO_ALL[self.c["way_a"]], stores, 0),
                self.b.way + np.where(TO_ALL[self.c["way_b"]], stores, 0))

    @cached_property
    def waits(self) -> np.ndarray:
        """For loads of all steps but the first."""
        alone_a, alone_b = (np.maximum(alone, chain) for alone, chain in zip(self.alone, self.chains[1:]))
        found = self.times_a * self.times_b * above(self.with_both, self.compute)
        found = found + (self.m.count - self.times_b) * self.times_a * above(alone_a, self.compute)
        found = found + (self.n.count - self.times_a) * self.times_b * above(alone_b, self.compute)
        return above(self.around.problems * self.steps * found, above(self.with_both, self.compute))

    @cached_property
    def flooded(self) -> np.ndarray:
        """Waits of tiles that are streamed to several cores behind those of an operand that each core keeps and loads
        as fast as it can: so many of its transfers are before them in memory."""
        kept_a, (each_a, each_b) = self.c["keep_a"] == 1, self.loads
        streamed, kept = (np.where(kept_a, self.c[x], self.c[y]) for x, y in (("way_b", "way_a"), ("way_a", "way_b")))
        strip = np.where(kept_a, each_a * self.a.memory, each_b * self.b.memory) * self.around.filled
        strip = strip / np.where(self.inner_kept, 1, self.outer_count)
        before = self.machine.in_flight * np.where(kept_a, self.a.memory, self.b.memory)
        usual = np.maximum(self.compute, self.with_both)
        slowly = np.maximum(usual, self.chained(np.where(kept_a, self.b.way, self.a.way) + before))
        there = (self.streams_a != self.streams_b) & (streamed != NONE) & (kept == NONE)
        return np.where(there, above(strip, self.c["slots"] * usual) * (1 - usual / slowly), 0)

    @cached_property
    def anew(self) -> np.ndarray:
        """Waits for strips that are kept where the ones before lay: their first tiles come when those are used for the
        last time."""
        c, machine = self.c, self.machine
        times = np.where(c["nm"] == 1, c["keep_b"] * (self.n.count - 1), c["keep_a"] * (self.m.count - 1))
        strip = np.where(c["nm"] == 1, self.alone[1], self.alone[0])
        way = np.where(c["nm"] == 1, self.ways[1], self.ways[0])
        first = self.in_step[0]
        mixed = np.where(c["nm"] == 1, self.b.behind(self.a, first), self.a.behind(self.b, first))
        loads = machine.dram_latency + np.maximum(way, np.where(self.inner_kept, strip, mixed))
        rest = (self.steps - 1) * self.product + (self.count - 1) * machine.block_cycles
        late = above(loads, rest + self.between / self.waves)
        waited = above(np.where(self.inner_kept, strip, self.with_both), self.compute)
        # meanwhile streamed tiles for later waves come, which the core would wait for then, as far as there is room
        inner, streams = (np.where(c["nm"] == 1, *pair) for pair in (self.alone, (self.streams_a, self.streams_b)))
        later = (np.where(c["nm"] == 1, self.m.count, self.n.count) - 1) * self.steps
        ahead = np.minimum(later * above(inner, self.compute), (c["slots"] - 1) * inner) * streams
        return times * self.around.problems * above(late, waited + ahead)

    # --- waves ---------------------------------------------------------------------------------------------------
    @cached_property
    def own_store(self) -> np.ndarray:
        """Cycles of a core's store."""
        return np.maximum(self.stored, self.block * TILE_BYTES / self.machine.core_bytes) * self.part

    @cached_property
    def between(self) -> np.ndarray:
        """Cycles between waves, for sums that are added up and stored."""
        around, machine, waves = self.around, self.machine, self.waves
        store = self.own_store + 2 * machine.dram_latency + around.finishing * self.block * self.part
        store = store + np.where(around.added > 0, machine.dram_latency, 0)
        # with two blocks of sums a store takes place during the next wave, and must be done before the one after it
        late = np.maximum(waves - 2, 0) * above(store, self.steps * self.compute) / 2
        late = np.maximum(late, self._behind_stores())
        return np.where(self.c["outputs"] > 1, late, (waves - 1) * (store + self.adding))

    @cached_property
    def adding(self) -> np.ndarray:
        """Cycles of a core for a block of others' sums that it adds to its own."""
        return self.rounds * self.block * self.part * (2 * TILE_BYTES)

    def _behind_stores(self) -> np.ndarray:
        """Cores in step store at a time, and what they load meanwhile comes after that: it must be there when they have
        computed what they hold. Cores to which tiles are passed on store one after the other."""
        alone = np.where(self.streams_a, self.alone[0], self.alone[1] * self.streams_b)
        loaded = np.where(self.streams_a & self.streams_b, self.both, alone)
        burst = self.storing * self.stored * self.m.filled * self.n.filled
        loads = self.a.memory * self.streams_a + self.b.memory * self.streams_b
        queued = self.in_step[1].memory * (burst + loads) - self.hops
        ahead = (self.c["slots"] - 1) * self.compute
        loading = np.where(
            self.streams_a | self.streams_b, self.waves, self.around.problems * (self.m.count + self.n.count - 1))
        behind = above(loading, np.maximum(1, self.c["slots"] / self.steps))
        return behind * (above(np.maximum(loaded, queued), ahead) - above(loaded, ahead))

    # --- beginning and end ---------------------------------------------------------------------------------------
    @cached_property
    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """A core's first load and what it does with its last sums; by how much the first loads, or the last stores, of
        all cores lie apart: memory serves all of them at the same time, and cores without work in the last wave may
        begin late."""
        m, n, block = self.m, self.n, self.block
        led = np.where((self.c["lead"] > 0) & (self.c["lead"] < self.bk), self.c["lead"] / self.bk, 1)
        way = self.a.on_the_way(self.b)
        queued = above(self.a.queue(self.b, self.a.early, self.b.early), way)
        # those that have the most waves are not the last to get their first tiles: memory serves them in turn, along m
        before = np.where(n.count > 1, 1 - n.tail, 0) / (self.s["rm"] * self.s["cm"])
        queued = queued * (np.where(m.count > 1, m.tail, 1) - before)
        first = np.maximum(queued, self.a.sent(self.b) + self._sent_late - way) * led
        spread = np.maximum(first, above(self.storing * m.tail * n.tail * self.stored, self.own_store))
        return way * led + self.around.finishing * block * self.part, spread

    @property
    def _sent_late(self) -> np.ndarray:
        """By how much senders that have more first blocks to send than they have transfers under way are late: each
        time they wait for what all cores have asked memory for by then on their own."""
        flight, by_n = self.machine.in_flight, self.c["nm"] == 1
        found: np.ndarray = np.zeros_like(self.compute)
        for mine, other, way, streams, rounds in (
                (self.a, self.b, "way_b", self.streams_b, np.where(by_n, 1, self.n.count)),
                (self.b, self.a, "way_a", self.streams_a, np.where(by_n, self.m.count, 1))):
            ahead = np.where(streams, self.c["slots"], np.minimum(flight, self.count * rounds))
            late = np.maximum(0, mine.sends / flight - 1) * ahead * other.memory
            found = found + np.where(self.c[way] == NONE, late, 0)
        return found

    @cached_property
    def rises(self) -> np.ndarray:
        """What shallow first steps cost: overheads of blocks, and waits for deeper loads than what is computed."""
        overheads, waits = np.zeros_like(self.compute), np.zeros_like(self.compute)
        depth, bk, whole, overhead = self.c["lead"].copy(), self.bk, self.bk * self.steps, self.machine.block_cycles
        below = (depth > 0) & (depth < bk) & (depth < whole)
        while below.any():
            done, following = depth / bk, np.minimum(2 * depth, bk) / bk
            overheads += np.where(below, overhead * (1 - done), 0)
            waits += np.where(below, above(following * self.with_both, done * self.product + overhead), 0)
            depth = 2 * depth
            below &= (depth < bk) & (depth < whole)
        return waits + overheads * np.where(self.c["keep_a"] == 1, self.n.count, 1)


class _NeverMet(_Estimate):
    """The same candidates if cores that share nothing never asked for anything at the same time."""

    def __init__(self, other: _Estimate) -> None:
        _ = other.chains  # what is known so far does not depend on who goes in step, nor do these
        self.__dict__.update(other.__dict__)

    @cached_property
    def in_step(self) -> tuple[InStep, InStep]:
        return self.bound
