"""From plans of chains to streams: a wave of rows goes through both products before the next one begins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from archloom.mapper.spatial.chain.space import SLOTS, Chain, beside, footprint
from archloom.mapper.spatial.epilogue import ACTIVATIONS, Beside, finished
from archloom.mapper.spatial.machines.machine import SIDE, TILE_BYTES, Machine
from archloom.mapper.spatial.plan import ChainPlan
from archloom.mapper.spatial.programs.emit import multicast
from archloom.mapper.spatial.programs.waves import Nodes, Wave, Zone, repeat, repeat_peeled, repeat_waves, waves
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr


def chain_nodes(chain: Chain, plan: ChainPlan, machine: Machine, places: Mapping[str, int]) -> Nodes:
    """The program after the launch; all tensors lie in tiles at ``places``."""
    return _Emitter(chain, plan, machine, places).nodes()


@dataclass(frozen=True)
class _At:
    """A wave of rows: its number, its zones, and whether weights are loaded."""

    number: Affine
    wave: Wave
    loads: bool


@dataclass(frozen=True)
class _Emitter:
    chain: Chain
    plan: ChainPlan
    machine: Machine
    places: Mapping[str, int]

    @cached_property
    def tiles(self) -> tuple[int, int, int, int]:
        return self.chain.tiles

    @cached_property
    def depth(self) -> int:
        """Tiles of hidden columns that a step of the second product takes."""
        return self.plan.block[1] * self.plan.together

    @cached_property
    def chunks(self) -> list[tuple[int, int, int]]:
        """Runs of steps of the second product: the first, how many, and the tiles of hidden columns of each."""
        whole, rest = divmod(self.tiles[2], self.depth)
        return [run for run in ((0, whole, self.depth), (whole, 1 if rest else 0, rest)) if run[1]]

    @cached_property
    def rounds(self) -> tuple[tuple[Wave, ...], tuple[Wave, ...]]:
        """Blocks of hidden columns, and of columns of C, dealt out to the members of a team."""
        _, bh, bn, _ = self.plan.block
        team = self.plan.rows[1], self.plan.columns[1]
        return waves(self.tiles[2], bh, *team), waves(self.tiles[3], bn, *team)

    @cached_property
    def counts(self) -> tuple[int, int, int, int]:
        """Rounds of both products, steps of k, and of hidden columns."""
        first, second = (found[-1].first + found[-1].count for found in self.rounds)
        return first, second, -(-self.tiles[1] // self.plan.block[3]), sum(run[1] for run in self.chunks)

    def nodes(self) -> Nodes:
        kept = self.plan.weights[1] == "keep"

        def one(w: Affine, wave: Wave, first: bool) -> Nodes:
            at = _At(w, wave, first or not kept)
            return self.inner(at) + self.outer(at)

        over_rows = waves(self.tiles[0], self.plan.block[0], self.plan.rows[0], self.plan.columns[0])
        return repeat_peeled("w", over_rows, kept, one)

    # --- cores and places ----------------------------------------------------------------------------------------
    def each(
        self, zones: tuple[Zone, ...] | None, members: tuple[range, range],
        body: Callable[[Affine, Affine, Affine, int], Nodes], alone: tuple[bool, bool] = (False, False),
    ) -> Nodes:
        """``body`` on the members of the teams in ``zones`` (of all without any), with the tiles of their rows;
        ``alone``: only of the first team along rows / columns of the mesh."""
        (rows, down), (columns, along) = self.plan.rows, self.plan.columns
        found: Nodes = []
        for zone in zones or (Zone(range(rows), range(columns), self.plan.block[0]),):
            slow, fast = range(1) if alone[0] else zone.slow, range(1) if alone[1] else zone.fast

            def core(r: Affine, c: Affine, y: Affine, x: Affine, size: int = zone.size) -> Nodes:
                number = (r * down + y) * self.machine.columns + c * along + x
                return body(number, r * columns + c, y * along + x, size)

            found += repeat("rm", slow, lambda r, core=core, fast=fast: repeat("cm", fast, lambda c: repeat(  # type: ignore[misc]
                "ty", members[0], lambda y: repeat("tx", members[1], lambda x: core(r, c, y, x)))))
        return found

    def having(self, at: _At, wave: Wave, body: Callable[[Affine, Affine, Affine, int, int], Nodes]) -> Nodes:
        """``body`` on all cores that have a block in a round, with its tiles of rows and of columns."""
        return [node for zone in wave.zones for node in self.each(
            at.wave.zones, (zone.slow, zone.fast), lambda n, p, t, m, zone=zone: body(n, p, t, m, zone.size))]  # type: ignore[misc]

    def row_of(self, at: _At, team: Affine) -> Affine:
        return (at.number * self.plan.places + team) * self.plan.block[0]

    def hidden_at(self, block: Affine | int) -> Affine:
        """Where a block of hidden columns lies in L1: behind the rows of A, row of tiles by row of tiles."""
        bm, bh = self.plan.block[:2]
        return Affine.of(block) * (bm * bh) + bm * self.tiles[1]

    def weights_at(self, at: _At, product: int, turn: Affine, step: Affine) -> Affine:
        """Where the weights of a step of a round lie."""
        bm, bh, bn, bk = self.plan.block
        first, second, steps, blocks = self.counts
        base = bm * (self.tiles[1] + self.tiles[2])
        size = max(min(bk, self.tiles[1]) * bh, self.depth * bn)
        if self.plan.weights[1] == "keep":
            if product == 0:
                return (turn * self.tiles[1] + step * bk) * bh + base
            return turn * (self.tiles[2] * bn) + step * (self.depth * bn) + base + first * bh * self.tiles[1]
        number = at.number * (first * steps + second * blocks) + step
        number = number + (turn * steps if product == 0 else turn * blocks + first * steps)
        return number % SLOTS * size + base

    def sums_at(self, at: _At, number: Affine) -> Affine:
        """Where the sums of a round lie: beside those of the round before, if there is room."""
        bm, bh, bn, _ = self.plan.block
        size, (first, second, _, _) = bm * max(bh, bn), self.counts
        slots = min(SLOTS, self.machine.sums // footprint(self.chain, self.plan)[1])
        return (at.number * (first + second) + number) % slots * size if slots > 1 else Affine(0)

    def added(
        self, at: _At, product: int, turn: Affine, n: Affine, tile: tuple[Affine, Affine], size: tuple[int, int]
    ) -> Nodes:
        """Bias and residual are added to ``size`` sums of a round, which begin at ``tile`` of the whole."""
        (row, column), (first, second, _, _) = tile, self.counts
        number = at.number * (first + second) + turn + product * first
        room = int(beside(self.chain, self.plan.block))
        base = footprint(self.chain, self.plan)[0] - SLOTS * room
        l1 = n * self.machine.tiles + number % SLOTS * room + base
        wide = self.tiles[3] * TILE_BYTES
        bias = column * (2 * SIDE) + self.places.get(("bias1", "bias2")[product], 0)
        residual = row * wide + column * TILE_BYTES + self.places.get("residual", 0)
        sums = n * self.machine.sums + self.sums_at(at, turn + product * first)
        return finished(self.chain.ends[product], sums, size, Beside(bias, residual, l1, wide))

    def clear(self, at: _At, wave: Wave, sums: Affine) -> Nodes:
        """Sums are cleared before a round: after one, the matrix unit would have to wait for the vector unit."""
        return self.having(at, wave, lambda n, p, t, m, columns: [
            Instr.make("clear", acc=n * self.machine.sums + sums, count=m * columns)])

    def multiply(self, at: _At, wave: Wave, rows: Affine, weights: Affine, sums: Affine, depth: int) -> Nodes:
        """A step of either product on all cores that have a block in a round."""
        tiles = self.machine.tiles
        return self.having(at, wave, lambda n, p, t, m, columns: [
            Instr.make("matmul", a=n * tiles + rows, b=n * tiles + weights, c=n * self.machine.sums + sums,
                       m=m, n=columns, k=depth)])

    # --- the first product ---------------------------------------------------------------------------------------
    def inner(self, at: _At) -> Nodes:
        """Hidden columns, round by round; the rows of A come with the first."""
        return repeat_peeled("r", self.rounds[0], True, lambda r, wave, begins: self.inner_round(at, r, wave, begins))

    def inner_round(self, at: _At, turn: Affine, wave: Wave, begins: bool) -> Nodes:
        bm, bh, _, bk = self.plan.block
        _, k, hidden, _ = self.tiles
        found = self.clear(at, wave, self.sums_at(at, turn))
        whole, rest = divmod(k, bk)
        for first, count, depth in ((0, whole, bk), (whole, 1 if rest else 0, rest)):
            def step(i: Affine, first: int = first, depth: int = depth) -> Nodes:
                at_k = (i + first) * bk
                nodes = self.load_rows(at, at_k, depth) if begins else []
                where = self.weights_at(at, 0, turn, i + first)
                for zone in wave.zones if at.loads else ():
                    def source(t: Affine) -> Affine:
                        return at_k * hidden + (turn * self.plan.team + t) * bh

                    nodes += self.load_weights(at, zone, "W1", source, where, (depth, zone.size, hidden))
                rows = at_k * bm
                return nodes + self.multiply(at, wave, rows, where, self.sums_at(at, turn), depth)

            found += repeat("k", range(count), step)
        for zone in wave.zones:
            def give(n: Affine, p: Affine, t: Affine, m: int, columns: int = zone.size) -> Nodes:
                block = turn * self.plan.team + t
                added = self.added(at, 0, turn, n, (Affine(0), block * self.plan.block[1]), (m, columns))
                return [*added, *self.hand_over(n, t, block, self.sums_at(at, turn), m * columns)]

            # written out for each member, whose number counts both cores and blocks within a core
            for y in zone.slow:
                for x in zone.fast:
                    found += self.each(at.wave.zones, (range(y, y + 1), range(x, x + 1)), give)
        if self.plan.columns[1] > 1:
            for zone in wave.zones:
                for y in zone.slow:
                    for x in zone.fast:
                        found += self.along_rows(at, turn, zone, (y, x))
        return found

    def hand_over(self, n: Affine, member: Affine, block: Affine, sums: Affine, count: int) -> Nodes:
        """The activation of a block, and the block as tiles in the L1 of the members of its column of the team."""
        acc, mine = n * self.machine.sums + sums, n * self.machine.tiles + self.hidden_at(block)
        found: Nodes = []
        if self.chain.activation is not None:
            found.append(Instr.make(ACTIVATIONS[self.chain.activation], acc=acc, count=count))
        found.append(Instr.make("pack", acc=acc, l1=mine, count=count))
        if self.plan.rows[1] > 1:
            apart = self.machine.tiles * self.machine.columns
            target = mine - member // self.plan.columns[1] * apart
            found.append(Instr.make(
                "share_column", source=mine, target=target, count=count, n0=self.plan.rows[1], s0=apart))
        return found

    def along_rows(self, at: _At, turn: Affine, zone: Zone, member: tuple[int, int]) -> Nodes:
        """The block of a member goes from all cores of its column of the team along their rows."""
        y, x = member
        tiles, along = self.machine.tiles, self.plan.columns[1]
        place = self.hidden_at(turn * self.plan.team + (y * along + x))

        def share(n: Affine, p: Affine, t: Affine, m: int) -> Nodes:
            mine = n * tiles + place
            return [Instr.make("share_row", source=mine, target=mine - x * tiles, count=m * zone.size, n0=along,
                               s0=tiles)]

        return self.each(at.wave.zones, (range(self.plan.rows[1]), range(x, x + 1)), share)

    def load_rows(self, at: _At, at_k: Affine, depth: int) -> Nodes:
        """Rows of A for a step."""
        bm, k = self.plan.block[0], self.tiles[1]
        along = self.plan.columns[1] > 1
        sent = {"n0": self.plan.columns[1] if along else self.plan.rows[1],
                "s0": self.machine.tiles * (1 if along else self.machine.columns)}
        shared = self.plan.shared and self.plan.team > 1
        mnemonic = ("multicast_row" if along else "multicast_column") if shared else "load"

        def one(n: Affine, p: Affine, t: Affine, size: int) -> Nodes:
            dram = (self.row_of(at, p) * k + at_k) * TILE_BYTES + self.places["A"]
            return [Instr.make(mnemonic, dram=dram, l1=n * self.machine.tiles + at_k * bm, rows=size, cols=depth,
                               h0=k * TILE_BYTES, **(sent if shared else {}))]

        zones = self.rounds[0][0].zones  # members without any block of hidden columns need no rows
        if shared:
            down = range(max(zone.slow.stop for zone in zones) if along else 1)
            return self.each(at.wave.zones, (down, range(1)), one)
        return [node for zone in zones for node in self.each(at.wave.zones, (zone.slow, zone.fast), one)]

    def load_weights(
        self, at: _At, zone: Zone, which: str, source: Callable[[Affine], Affine], where: Affine,
        size: tuple[int, int, int],
    ) -> Nodes:
        """``size``: tiles of a block, rows and columns, and columns of the whole."""
        pattern, tiles = self.plan.weights[0], self.machine.tiles
        (rows, down), (columns, along) = self.plan.rows, self.plan.columns
        sent, alone = multicast(pattern, self.machine, (columns, along), (rows, down * self.machine.columns))

        def one(n: Affine, p: Affine, t: Affine, _: int) -> Nodes:
            block: dict[str, Affine | int] = {
                "dram": source(t) * TILE_BYTES + self.places[which], "l1": n * tiles + where,
                "rows": size[0], "cols": size[1], "h0": size[2] * TILE_BYTES,
            }
            return [Instr.make("load" if pattern == "none" else f"multicast_{pattern}", **block, **sent)]

        # what is sent goes to all that may use it; those without rows in this wave have none in a later one either
        return self.each(at.wave.zones if pattern == "none" else None, (zone.slow, zone.fast), one, alone)

    # --- the second product --------------------------------------------------------------------------------------
    def outer(self, at: _At) -> Nodes:
        """Columns of C, round by round."""
        return repeat_waves("r", self.rounds[1], lambda r, wave: self.outer_round(at, r, wave))

    def outer_round(self, at: _At, turn: Affine, wave: Wave) -> Nodes:
        bn, n_tiles = self.plan.block[2], self.tiles[3]
        sums = self.sums_at(at, turn + self.counts[0])
        found = self.clear(at, wave, sums)
        for first, count, depth in self.chunks:
            def step(i: Affine, first: int = first, depth: int = depth) -> Nodes:
                number = i + first
                where = self.weights_at(at, 1, turn, number)
                nodes: Nodes = []
                for zone in wave.zones if at.loads else ():
                    def source(t: Affine) -> Affine:
                        return number * (self.depth * n_tiles) + (turn * self.plan.team + t) * bn

                    nodes += self.load_weights(at, zone, "W2", source, where, (depth, zone.size, n_tiles))
                rows = self.hidden_at(number * self.plan.together)
                return nodes + self.multiply(at, wave, rows, where, sums, depth)

            found += repeat("h", range(count), step)

        def store(n: Affine, p: Affine, t: Affine, m: int, columns: int) -> Nodes:
            row, column = self.row_of(at, p), (turn * self.plan.team + t) * bn
            dram = (row * n_tiles + column) * TILE_BYTES + self.places["C"]
            return [*self.added(at, 1, turn, n, (row, column), (m, columns)),
                    Instr.make("store", acc=n * self.machine.sums + sums, dram=dram, rows=m, cols=columns,
                               h0=n_tiles * TILE_BYTES, relu=0)]

        return found + self.having(at, wave, store)
