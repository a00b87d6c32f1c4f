"""The UMA target ``gamma``: GEMM with fused activation on all complexes at once.

Tiles of C along one dimension (the outermost of the mapping's order) are spread over the complexes. The operand that
this dimension indexes is private: each complex loads its blocks of 8 x 8 from memory into registers. The other operand
is the same for all: of each pair of neighbours the first one fetches a panel of it into its scratchpad, and both read
their blocks from there. Registers, panels and accumulators are double-buffered; instructions of the complexes are
interleaved.

A complex holds the sums of its tile of C in accumulators, block (i, j) in number ``i * blocks of n + j``. They start
from the bias or 0; the last step along k is the fused product, which requantizes into registers to be stored. Results
take turns in the registers that operands leave free, so that a product need not wait for the store before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from archloom.acadl_models.gamma import LANES, gamma
from archloom.mapper.tiling import Demand
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, divided, each, pieces

GRAPH = kit.GraphOptions(gamma)
ORDERS = (("m", "n", "k"), ("n", "m", "k"))
MOST_BLOCKS = 4
"""Blocks of a tile along m and n that are tried."""

HIGHEST = 127
"""The largest value of the results."""

Attributes: TypeAlias = dict[str, Affine | int]


def demand(m: Any, n: Any, k: Any, by_n: Any) -> dict[str, Any]:
    """What tiles need of one complex: two sets of registers for the blocks of A and B and one block for results; two
    sets of sums; two panels. Integers, or arrays of them for many tiles; ``by_n``: tiles of n go to other complexes."""
    blocks_m, blocks_n = ceil_div(m, LANES), ceil_div(n, LANES)
    panel = np.where(by_n, m * ceil_div(k, LANES), blocks_n * k)
    return {"registers": (2 * (blocks_m + blocks_n) + 1) * LANES, "accumulators": 2 * blocks_m * blocks_n,
            "scratchpad": 2 * panel}


@dataclass(frozen=True)
class Block:
    """A block along one dimension: its number in the tile, and its first element and size there."""

    number: int
    first: int
    size: int


def blocks(size: int) -> list[Block]:
    """``size`` elements in blocks of 8."""
    return [Block(i, i * LANES, min(LANES, size - i * LANES)) for i in range(ceil_div(size, LANES))]


@dataclass(frozen=True)
class Share:
    """A complex's tile of C: number of the tile, first row and column, and sizes."""

    complex: int
    number: Affine
    m0: Affine
    n0: Affine
    m: int
    n: int

    @property
    def leader(self) -> int:
        """The complex whose scratchpad holds the panel that this one reads."""
        return self.complex - self.complex % 2


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product."""
    return Emission(gemm, mapping, parameters).body()


@dataclass(frozen=True)
class Emission:
    """Writes the instructions of one product."""

    gemm: Gemm
    mapping: kit.TileMapping
    parameters: Mapping[str, int]

    @property
    def spread(self) -> str:
        """The dimension whose tiles go to different complexes."""
        return self.mapping.order[0]

    @cached_property
    def k_tiles(self) -> int:
        return ceil_div(self.gemm.k, self.mapping.size("k"))

    @cached_property
    def inner_tiles(self) -> int:
        d = "n" if self.spread == "m" else "m"
        return ceil_div(self._extent(d), self.mapping.size(d))

    def body(self) -> Nodes:
        """Loops over groups of tiles along the spread dimension, tiles along the other, and tiles along k."""
        self._check()
        tile, other = self.mapping.size(self.spread), "n" if self.spread == "m" else "m"
        groups = pieces(self._extent(self.spread), tile * self.parameters["complexes"])
        inner = pieces(self._extent(other), self.mapping.size(other))
        return each("g", groups, lambda g, group: each("t", inner, lambda t, run: self._tile(g, group, t, run)))

    def _check(self) -> None:
        m, n, k = (self.mapping.size(d) for d in "mnk")
        for name, need in demand(m, n, k, self.spread == "n").items():
            what = "scratchpad_rows" if name == "scratchpad" else name
            if need > self.parameters[what]:
                raise MappingError(
                    f"{self.mapping}: needs {need} {what.replace('_', ' ')} of a complex, which has "
                    f"{self.parameters[what]}")

    def _extent(self, d: str) -> int:
        return {"m": self.gemm.m, "n": self.gemm.n, "k": self.gemm.k}[d]

    def _tile(self, g: Affine, group: Piece, t: Affine, run: Piece) -> Nodes:
        """Tiles of C, one for each complex."""
        shares = self._shares(g, group, t, run)
        number = (g * self.inner_tiles + t) * self.k_tiles
        nodes: Nodes = [node for share in shares for node in self._start(share)]
        nodes += each("kt", pieces(self.gemm.k, self.mapping.size("k"), peel_last=True),
                      lambda kt, part: self._panel(shares, number + kt, kt, part))
        return nodes

    def _shares(self, g: Affine, group: Piece, t: Affine, run: Piece) -> list[Share]:
        tile, count = self.mapping.size(self.spread), self.parameters["complexes"]
        number, shares = g * self.inner_tiles + t, []
        for c in range(ceil_div(group.size, tile)):
            mine, size = (g * count + c) * tile, min(tile, group.size - c * tile)
            if self.spread == "m":
                shares.append(Share(c, number, mine, t * self.mapping.size("n"), size, run.size))
            else:
                shares.append(Share(c, number, t * self.mapping.size("m"), mine, run.size, size))
        return shares

    def _start(self, share: Share) -> Iterator[Node]:
        for i in blocks(share.m):
            for j in blocks(share.n):
                sizes: Attributes = {"rows": i.size, "cols": j.size}
                if self.gemm.bias is None:
                    yield Instr.make("clear", acc=self._sum(share, i, j), **sizes)
                else:
                    address = self.gemm.bias_at(share.n0 + j.first)
                    yield Instr.make("bias", dram=address, acc=self._sum(share, i, j), **sizes)

    def _panel(self, shares: list[Share], number: Affine, kt: Affine, part: Piece) -> Nodes:
        """All steps along a tile of k: the shared panel into scratchpads, then blocks."""
        k0 = kt * self.mapping.size("k")
        nodes: Nodes = [node for share in shares if share.leader == share.complex
                        for node in self._fetch(share, number, k0, part.size)]
        steps = ceil_div(self.mapping.size("k"), LANES)
        nodes += each("kb", pieces(part.size, LANES, peel_last=part.is_last), lambda kb, step: self._step(
            shares, number, k0, kb, number * steps + kb, part, step))
        return nodes

    def _fetch(self, share: Share, number: Affine, k0: Affine, depth: int) -> Iterator[Node]:
        """A panel of the shared operand: of B a column of blocks after the other, of A too, by blocks of k."""
        for part in blocks(share.n if self.spread == "m" else depth):
            if self.spread == "m":
                address, rows, stride = self.gemm.b_at(k0, share.n0 + part.first), depth, self.gemm.strides[1]
            else:
                address, rows, stride = self.gemm.a_at(share.m0, k0 + part.first), share.m, self.gemm.strides[0]
            yield Instr.make("fetch8", dram=address, sp=self._pad(share, number) + part.number * rows, rows=rows,
                             cols=part.size, stride=stride)

    def _step(
        self, shares: list[Share], number: Affine, k0: Affine, kb: Affine, count: Affine, part: Piece, step: Piece
    ) -> Nodes:
        """Blocks of 8 along k: operands of all complexes, then their products."""
        last = part.is_last and step.is_last
        nodes: Nodes = []
        for share in shares:
            nodes += self._operands(share, number, k0, kb, count, part.size, step.size)
        for share in shares:
            for i in blocks(share.m):
                for j in blocks(share.n):
                    nodes += self._product(share, i, j, count, step.size, last)
        return nodes

    def _operands(
        self, share: Share, number: Affine, k0: Affine, kb: Affine, count: Affine, depth: int, size: int
    ) -> Iterator[Node]:
        k = k0 + kb * LANES
        pad = self._pad(share, number)
        for i in blocks(share.m):
            where: Attributes = {"vd": self._a(share, i, count), "rows": i.size, "cols": size}
            if self.spread == "m":
                address = self.gemm.a_at(share.m0 + i.first, k)
                yield Instr.make("load8", dram=address, **where, stride=self.gemm.strides[0])
            else:
                yield Instr.make("read", sp=pad + kb * share.m + i.first, **where)
        for j in blocks(share.n):
            where = {"vd": self._b(share, j, count), "rows": size, "cols": j.size}
            if self.spread == "m":
                yield Instr.make("read", sp=pad + j.number * depth + kb * LANES, **where)
            else:
                address = self.gemm.b_at(k, share.n0 + j.first)
                yield Instr.make("load8", dram=address, **where, stride=self.gemm.strides[1])

    def _product(self, share: Share, i: Block, j: Block, count: Affine, depth: int, last: bool) -> Iterator[Node]:
        operands: Attributes = {
            "va": self._a(share, i, count), "vb": self._b(share, j, count), "acc": self._sum(share, i, j),
        }
        sizes: Attributes = {"rows": i.size, "cols": j.size}
        if not last:
            yield Instr.make("matmul", **operands, **sizes, depth=depth)
            return
        result = self._result(share, i, j)
        low = self.gemm.lowest
        yield Instr.make("gemm", **operands, vd=result, **sizes, depth=depth, scale=self.gemm.scale_bits, low=low,
                         high=HIGHEST)
        address = self.gemm.c_at(share.m0 + i.first, share.n0 + j.first)
        yield Instr.make("store8", dram=address, vs=result, **sizes, stride=self.gemm.strides[2])

    # places -----------------------------------------------------------------------------------------------------------

    @property
    def _set_size(self) -> int:
        """Registers of the blocks of A and B of a step."""
        return (ceil_div(self.mapping.size("m"), LANES) + ceil_div(self.mapping.size("n"), LANES)) * LANES

    def _set(self, share: Share, count: Affine) -> Affine:
        """First register of the set of step number ``count``."""
        return (count % 2) * self._set_size + share.complex * self.parameters["registers"]

    def _a(self, share: Share, i: Block, count: Affine) -> Affine:
        return self._set(share, count) + i.first

    def _b(self, share: Share, j: Block, count: Affine) -> Affine:
        return self._set(share, count) + ceil_div(self.mapping.size("m"), LANES) * LANES + j.first

    def _index(self, i: Block, j: Block) -> int:
        return i.number * ceil_div(self.mapping.size("n"), LANES) + j.number

    def _sum(self, share: Share, i: Block, j: Block) -> Affine:
        """The accumulator of a block: tiles take turns in two halves."""
        half = self.parameters["accumulators"] // 2
        return (share.number % 2) * half + share.complex * self.parameters["accumulators"] + self._index(i, j)

    def _result(self, share: Share, i: Block, j: Block) -> int:
        """Registers of a result, at the end of those of the complex."""
        free = self.parameters["registers"] - 2 * self._set_size
        slot = self._index(i, j) % (free // LANES) + 1
        return share.complex * self.parameters["registers"] + self.parameters["registers"] - slot * LANES

    def _pad(self, share: Share, number: Affine) -> Affine:
        """First row of panel ``number`` in the leader's scratchpad."""
        rows = self.parameters["scratchpad_rows"]
        return (number % 2) * (rows // 2) + share.leader * rows


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Tiles of a few blocks, panels of k as long as two fit a scratchpad."""
    rows = hardware.memory("sp").rows // options["complexes"]
    sizes = {d: divided(e, LANES, MOST_BLOCKS * LANES) for d, e in (("m", shape.m), ("n", shape.n))}
    orders = ORDERS if options["spread"] == "auto" else tuple(o for o in ORDERS if o[0] == options["spread"])

    def need(name: str) -> Demand:
        by_n = np.array([o[0] == "n" for o in orders])
        return lambda c: demand(c["m"], c["n"], c["k"], by_n[c["order"]])[name]

    room = {"registers": options["registers"], "accumulators": options["accumulators"], "scratchpad": rows}
    return Tiling(
        {**sizes, "k": divided(shape.k, LANES, max(LANES, rows // 2 // LANES * LANES), limit=4)}, orders,
        demand={name: need(name) for name in room}, room=room,
        loops=lambda c: _loops(shape, c, options["complexes"], options["registers"], orders),
        help="more registers, accumulators or scratchpad_kib",
    )


def _loops(
    shape: kit.Shape, c: kit.Columns, complexes: int, registers: int, orders: tuple[tuple[str, ...], ...]
) -> Loop:
    """Tiles of all complexes at a time; in a panel of k, each loads its own blocks of 8 x 8, and the shared ones. Sums,
    panels and operands take turns, results in the registers that operands leave. Sizes are those of mean tiles."""
    by_n = np.array([o[0] == "n" for o in orders])[c["order"]]
    extents = {"m": shape.m, "n": shape.n, "k": shape.k}
    tiles = {d: np.asarray(ceil_div(e, c[d])) for d, e in extents.items()}
    blocks = {d: ceil_div(e, LANES) / tiles[d] for d, e in extents.items()}
    high, wide, deep = (e / ceil_div(e, LANES) for e in extents.values())
    own, shared = np.where(by_n, blocks["n"], blocks["m"]), np.where(by_n, blocks["m"], blocks["n"])
    spread, other = np.where(by_n, tiles["n"], tiles["m"]), np.where(by_n, tiles["m"], tiles["n"])
    rounds = np.asarray(ceil_div(spread, complexes))
    many, sums = spread / rounds, blocks["m"] * blocks["n"]
    leaders = np.where(np.minimum(spread, complexes) > 1, many / 2, 1)

    # of n a column of blocks at a time, of m a column of k
    panel, parts = np.where(by_n, blocks["m"] * high, blocks["k"] * deep), np.where(by_n, blocks["k"], shared)
    fetch = Issue("fetch8", leaders * parts, np.where(by_n, deep, wide) * shape.item, panel, units=leaders,
                  values={"rows": panel}, beats=panel)
    rows = np.where(by_n, deep, high)
    load = Issue("load8", many * own, np.where(by_n, wide, deep) * shape.item, rows, units=many, values={"rows": rows})
    read = Issue("read", many * shared, units=many, beats=np.where(by_n, high, deep))
    products = Issue("matmul", many * sums, units=many, values={"rows": high})
    store = Issue("store8", many * sums, wide * shape.out_item, high, units=many, values={"rows": high})
    bias = Issue("bias", many * sums, 4 * wide, units=many)

    step = Loop(blocks["k"], (products,), first=(load, read), slots=2)
    panels = Loop(tiles["k"], (step,), first=(fetch,), slots=2, occupied=0)
    tile = Loop(rounds * other, (panels,), first=(bias,) if shape.bias else (), last=(store,), slots=2)
    return Loop(1, (tile,), alone=(products, store))


class Gamma(kit.KitTarget):
    """Gamma: fused tensor operations on 16-bit integers."""

    kit = kit.GemmKit(
        name="gamma", isa="gamma", graph=GRAPH.graph, emit=emit, tiling=_tiling,
        description="fused 8 x 8 tensor operations on 16-bit integers in complexes that share scratchpads "
                    "(ACADL paper)",
        options=GRAPH.options({"complexes": [kit.Option(
            "spread", str, "auto", "which tiles go to different complexes", choices=("auto", "m", "n"))]}),
        patience=20)
