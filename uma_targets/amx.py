"""The UMA target ``amx``: GEMM of signed bytes on the matrix unit of an x86 core. B is packed by AVX-512, tiles are
multiplied, sums are requantized by AVX-512.

*Packing.* A tile of B holds four rows of it side by side, byte by byte in turn (VNNI). A constant B lies so in memory.
Of another four loads widen bytes to words, shifts and ors put them together, and a row of 16 words goes to the
workspace; columns and rows that B has not are zero.

*Products.* Blocks of up to 2 x 2 tiles of C stay in tmm0 to tmm3 over all of k; tmm4 and tmm5 hold tiles of A, tmm6
and tmm7 tiles of B. k is cut into equal tiles of at most 64 bytes: the last one may read bytes behind a row of A, which
zeros in B multiply. Rows of C that do not fill tiles get a configuration of their own.

*Sums.* Where C is the sums, tiles start from the bias (loaded with rows 0 bytes apart) and are stored to C; they are
configured as wide as what is left of C.

*Requantization.* Tiles of C go to the workspace and come back row by row, as vectors: bias, conversion to f32, factor,
bounds (0 is ReLU), conversion to integers half to even, saturated bytes to memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from archloom.acadl_models.amx import LINE_BYTES, MACS_PER_CYCLE, ROWS, amx
from archloom.mapper.costs.lines import Cache
from archloom.mapper.packing import Place
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, each, pieces, repeat
from archloom.uma_targets.kit.nest import float_bits

GRAPH = kit.GraphOptions(amx)

ORDERS = (("m", "n", "k"), ("n", "m", "k"))
"""Loops over blocks of C: rows outermost, or columns, of which then B is read once for all rows."""

LANES = 16
TILE = ROWS * LINE_BYTES
"""Bytes of a tile."""
MOST = 2 * LANES
"""Rows and columns of the largest block of C."""

WHOLE, EDGE = 0, 1
"""Mask registers: all lanes, as after reset; and those of the columns that are left."""
FACTOR, LOW, HIGH, BIAS = 1, 2, 3, 4
"""zmm registers; biases of the second tile in the one behind."""
PACKED, SETS = 16, 4
"""First of the zmm registers that pack and requantize, and how many sets of four pack at a time."""
GROUP = 8
"""Rows of C that are requantized at a time."""


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product, of a B that is packed before it where it does not lie so."""
    there = gemm if gemm.packed else gemm.with_b(packed(gemm.k), gemm.workspace)
    return Emission(there, mapping, None if gemm.packed else gemm).body()


def depth_of(k: int) -> tuple[int, int]:
    """How many tiles k is cut into, and the bytes of each: equal ones, whole words."""
    tiles = ceil_div(k, LINE_BYTES)
    return tiles, 4 * ceil_div(ceil_div(k, tiles), 4)


def workspace_bytes(m: int, n: int, k: int, mapping: kit.TileMapping) -> int:
    """Bytes for all of B, packed, and a block of C."""
    return LINE_BYTES * lines_of(n, k) + 4 * TILE


def lines_of(n: int, k: int) -> int:
    """Lines of B, packed: each has four rows of 16 columns."""
    tiles, depth = depth_of(k)
    return ceil_div(n, LANES) * tiles * depth // 4


def packed(rows: int) -> Place:
    """Where B of so many rows lies: panels of 16 columns, tile behind tile of k, four rows byte by byte in turn."""
    k, n, depth = Affine.variable("k"), Affine.variable("n"), depth_of(rows)[1]
    return n // LANES, k // depth, k % depth // 4, n % LANES, k % 4


@dataclass(frozen=True)
class Emission:
    """Writes the instructions of one product of a packed B, made of that of ``plain`` where there is one."""

    gemm: Gemm
    mapping: kit.TileMapping
    plain: Gemm | None

    @cached_property
    def depth(self) -> tuple[int, int]:
        return depth_of(self.gemm.k)

    @cached_property
    def packed_rows(self) -> int:
        """Rows of 16 words that 16 columns of B take."""
        tiles, depth = self.depth
        return tiles * depth // 4

    def body(self) -> Nodes:
        for d in "mn":
            if self.mapping.size(d) not in (LANES, MOST):
                raise MappingError(f"{self.mapping}: a block of C has 16 or 32 rows and columns")
        packing = [*self._edge(), *(self._pack(self.plain) if self.plain else [])]
        if self.gemm.stores_sums:
            return [*packing, *self._sums()]
        nodes: Nodes = [*self._constants(), *packing]
        for run in pieces(self.gemm.m, self.mapping.size("m")):
            rows = _parts(run.size)
            nodes += self._configure(rows, [LANES, LANES])
            nodes += self._each_block(run, pieces(self.gemm.n, self.mapping.size("n")), partial(self._block, rows))
        return nodes

    def _each_block(
        self, down: Piece, across: Sequence[Piece], block: Callable[[Affine, Affine, Piece], Iterable[Node]],
    ) -> Nodes:
        """Blocks of C in their order; ``block`` gets the numbers of rows and columns, and the run of columns."""
        if self.mapping.order[0] == "m":
            return repeat("mt", down.count, lambda i: each(
                "nt", across, lambda j, columns: block(i + down.first, j, columns)))
        return each("nt", across, lambda j, columns: repeat(
            "mt", down.count, lambda i: block(i + down.first, j, columns)))

    def _constants(self) -> Iterator[Node]:
        low = float(self.gemm.lowest)
        for register, bits in ((FACTOR, self.gemm.scale_bits), (LOW, float_bits(low)), (HIGH, float_bits(127.0))):
            yield Instr.make("vmovd", dst=register, value=bits)
            yield Instr.make("vbroadcastss", dst=register, src=register)

    def _edge(self) -> Iterator[Node]:
        edge = self.gemm.n % LANES
        if edge:
            yield Instr.make("kmovw", dst=EDGE, value=(1 << edge) - 1)

    # B before the products --------------------------------------------------------------------------------------------

    def _pack(self, plain: Gemm) -> Nodes:
        whole, rest = divmod(self.gemm.k, 4)
        used = whole + bool(rest)
        runs = [(0, whole, 4), (whole, used - whole, rest), (used, self.packed_rows - used, 0)]
        return each("pn", pieces(self.gemm.n, LANES), lambda block, run: [
            node for first, count, bytes_ in runs
            for node in self._pack_run(plain, block, _mask(run.size), first, count, bytes_)])

    def _pack_run(self, plain: Gemm, block: Affine, mask: int, first: int, count: int, bytes_: int) -> Nodes:
        """``count`` packed rows from row ``first`` on, each of so many rows of B."""
        return each("pk", pieces(count, SETS) if count else (), lambda r, group: self._pack_rows(
            plain, block, mask, r * SETS + first, group.size, bytes_))

    def _pack_rows(self, plain: Gemm, block: Affine, mask: int, row: Affine, rows: int, count: int) -> Iterator[Node]:
        """Some packed rows of 16 columns: of each ``count`` rows of B, zeros for those that are missing of four. Step
        by step for all rows, so that one need not wait for the other."""
        sets = [PACKED + 4 * r for r in range(rows)]
        if not count:
            yield from (_vector("vpxord", first, first, first) for first in sets)
        for i in range(count):
            for r, first in enumerate(sets):
                b = plain.b_at((row + r) * 4 + i, block * LANES)
                yield Instr.make("vpmovzxbd_m", dst=first + i, dram=b, mask=mask)
        for i in range(1, count):
            yield from (Instr.make("vpslld", dst=first + i, src=first + i, count=8 * i) for first in sets)
            yield from (_vector("vpord", first, first, first + i) for first in sets)
        for r, first in enumerate(sets):
            yield Instr.make("vmovups_store", dram=self.gemm.b_at((row + r) * 4, block * LANES), src=first)

    # products ---------------------------------------------------------------------------------------------------------

    def _configure(self, rows: list[int], columns: list[int]) -> Nodes:
        """Tiles for blocks with such rows and columns."""
        depth = self.depth[1]
        shapes = {2 * i + j: (r, 4 * c) for i, r in enumerate(rows) for j, c in enumerate(columns)}
        shapes |= {4 + i: (r, depth) for i, r in enumerate(rows)}
        shapes |= {6 + j: (depth // 4, 4 * c) for j, c in enumerate(columns)}
        return [Instr.make("ldtilecfg", number=1), *(
            Instr.make("tilecfg", tile=t, tile_rows=r, tile_colsb=b) for t, (r, b) in sorted(shapes.items()))]

    def _sums(self) -> Nodes:
        """All blocks, those of equal sizes after one configuration."""
        m, n = self.mapping.size("m"), self.mapping.size("n")
        return [node for run in pieces(self.gemm.m, m) for across in pieces(self.gemm.n, n) for node in [
            *self._configure(_parts(run.size), _parts(across.size)),
            *self._each_block(run, (across,), partial(self._block_of_sums, _parts(run.size)))]]

    def _block_of_sums(self, rows: list[int], i: Affine, j: Affine, run: Piece) -> Iterator[Node]:
        columns = _parts(run.size)
        m0, n0 = i * self.mapping.size("m"), j * self.mapping.size("n")
        sums = [(2 * a + b, a, b) for a in range(len(rows)) for b in range(len(columns))]
        for t, _, b in sums:
            yield Instr.make("tilezero", dst=t) if self.gemm.bias is None else Instr.make(
                "tileloadd", dst=t, dram=self.gemm.bias_at(n0 + b * LANES), stride=0)
        yield from repeat("kt", self.depth[0], lambda k: self._step(m0, len(rows), j, len(columns), k))
        for t, a, b in sums:
            yield Instr.make("tilestored", src=t, dram=self.gemm.c_at(m0 + a * ROWS, n0 + b * LANES),
                             stride=self.gemm.strides[2])

    def _block(self, rows: list[int], i: Affine, j: Affine, run: Piece) -> Nodes:
        """A block of C: sums of tiles, then their rows."""
        m0, n0, columns = i * self.mapping.size("m"), j * self.mapping.size("n"), _parts(run.size)
        sums = [(2 * a + b, a, b) for a in range(len(rows)) for b in range(len(columns))]
        nodes: Nodes = [Instr.make("tilezero", dst=t) for t, _, _ in sums]
        nodes += repeat("kt", self.depth[0], lambda k: self._step(m0, len(rows), j, len(columns), k))
        nodes += [Instr.make("tilestored", src=t, dram=self._scratch(t), stride=LINE_BYTES) for t, _, _ in sums]
        if self.gemm.bias is not None:
            nodes += [Instr.make("vmovdqu32_m", dst=BIAS + b, dram=self.gemm.bias_at(n0 + b * LANES), mask=_mask(c))
                      for b, c in enumerate(columns)]
        for t, a, b in sums:
            nodes += self._requantize_tile(t, m0 + a * ROWS, rows[a], n0 + b * LANES, b, _mask(columns[b]))
        return nodes

    def _step(self, m0: Affine, rows: int, j: Affine, columns: int, k: Affine) -> Iterator[Node]:
        """One tile of k: loads, products."""
        depth = self.depth[1]
        for a in range(rows):
            yield Instr.make("tileloadd", dst=4 + a, dram=self.gemm.a_at(m0 + a * ROWS, k * depth),
                             stride=self.gemm.strides[0])
        for b in range(columns):
            block = j * (self.mapping.size("n") // LANES) + b
            yield Instr.make("tileloadd", dst=6 + b, dram=self.gemm.b_at(k * depth, block * LANES), stride=LINE_BYTES)
            for a in range(rows):
                yield Instr.make("tdpbssd", dst=2 * a + b, src1=4 + a, src2=6 + b)

    def _scratch(self, tile: int) -> Affine:
        """Where a tile of C lies in the workspace, behind B."""
        return self.gemm.workspace + (lines_of(self.gemm.n, self.gemm.k) * LINE_BYTES + tile * TILE)

    def _requantize_tile(self, t: int, m: Affine, rows: int, n: Affine, tile: int, mask: int) -> Nodes:
        """A tile of C, some rows at a time."""
        return each("r", pieces(rows, GROUP), lambda g, run: self._requantize(
            run.size, self._scratch(t) + g * (GROUP * LINE_BYTES), m + g * GROUP, n, tile, mask))

    def _requantize(self, rows: int, source: Affine, m: Affine, n: Affine, tile: int, mask: int) -> Iterator[Node]:
        """Rows of 16 sums to bytes of C, step by step for all of them."""
        data = [PACKED + r for r in range(rows)]
        for r, x in enumerate(data):
            yield Instr.make("vmovups_load", dst=x, dram=source + r * LINE_BYTES)
        if self.gemm.bias is not None:
            yield from (_vector("vpaddd", x, x, BIAS + tile) for x in data)
        yield from (Instr.make("vcvtdq2ps", dst=x, src=x) for x in data)
        for mnemonic, operand in (("vmulps", FACTOR), ("vmaxps", LOW), ("vminps", HIGH)):
            yield from (_vector(mnemonic, x, x, operand) for x in data)
        yield from (Instr.make("vcvtps2dq", dst=x, src=x) for x in data)
        for r, x in enumerate(data):
            yield Instr.make("vpmovsdb_m", dram=self.gemm.c_at(m + r, n), src=x, mask=mask)


def _vector(mnemonic: str, dst: int, src1: int, src2: int) -> Instr:
    return Instr.make(mnemonic, dst=dst, src1=src1, src2=src2)


def _parts(size: int) -> list[int]:
    """Rows (or columns) of the one or two tiles that a block has."""
    return [min(LANES, size)] + ([size - LANES] if size > LANES else [])


def _mask(columns: int) -> int:
    return WHOLE if columns == LANES else EDGE


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of one or two tiles each way; all of k at once."""
    sizes = {d: [s for s in (LANES, MOST) if s == LANES or e > LANES] for d, e in (("m", shape.m), ("n", shape.n))}
    return Tiling({**sizes, "k": [shape.k]}, ORDERS, loops=lambda c: _loops(shape, c, hardware, options))


def _loops(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware, options: Mapping[str, Any]) -> Loop:
    """Blocks of C; for each tile of k loads of rows and columns and their products, of which those of a tile follow one
    another. Tiles of operands are renamed. Vectors are issued in order, before the next block's tiles: beside its
    products are those that wait in the fetch stage then. Lines that come from memory stand apart."""
    tall, wide = (np.asarray(ceil_div(e, c[d])) for e, d in ((shape.m, "m"), (shape.n, "n")))
    rows, columns = ceil_div(shape.m, ROWS) / tall, ceil_div(shape.n, LANES) / wide  # tiles of a mean block
    near, last = Cache.of(hardware)[0].hit_cycles, Cache.of(hardware)[-1]
    tiles, loads = rows * columns, rows + columns
    step = Loop(depth_of(shape.k)[0], (Issue("tdpbssd", tiles),), first=(Issue("tileloadd", loads, beats=near + ROWS),),
                slots=np.maximum((options["physical_tiles"] - tiles) / loads, 1), rings=(((Issue("tdpbssd"),), 1),))
    behind: tuple[Issue, ...] = (Issue("tilestored", tiles, beats=near + ROWS),)
    waits: int | np.ndarray = 0
    if shape.out_item <= shape.item:
        vectors, names = shape.m / tall * columns, ("vcvtdq2ps", "vmulps", "vmaxps", "vminps", "vcvtps2dq")
        ends = (Issue(name, vectors, beats=near) for name in ("vmovups_load", "vpmovsdb_m"))
        behind = (*behind, *ends, *(Issue(name, vectors) for name in names))
        # the fetch stage holds two steps of k before them: set by products of 512 and 1,024 x 64 by 64 to 512, none of
        # which is judged, without memory's latency
        apart = np.maximum(1 - (hardware.issue_entries - 2 * (tiles + loads)) / ((len(names) + 2) * vectors), 0)
        waits = apart * len(names) * vectors / hardware.units_of("vmulps")
    blocks = Loop(tall * wide, (step, *behind), waits=waits + near + ROWS)
    return Loop(1, (blocks,), waits=_far(shape, c, last, (tall, wide)) * last.miss_cycles / last.misses)


def _far(shape: kit.Shape, c: kit.Columns, cache: Cache, counts: tuple[Any, Any]) -> Any:
    """Lines of A and B that come from memory: of the operand that the outer loop does not index all for each of its
    ``counts`` of iterations, where it does not leave half of the last cache to what comes in between."""
    (tall, wide), room = counts, cache.lines / 2
    a, b = shape.m * ceil_div(shape.k * shape.item, LINE_BYTES), lines_of(shape.n, shape.k)
    return np.where(c["order"] == 0, a + b * np.where(b <= room, 1, tall), b + a * np.where(a <= room, 1, wide))


class Amx(kit.KitTarget):
    """Intel AMX: products of tiles of bytes."""

    kit = kit.GemmKit(
        name="amx", isa="amx", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="an x86 core's matrix unit with tiles of 16 x 64 bytes and AVX-512 around it (Intel AMX)",
        macs_per_cycle=lambda graph: MACS_PER_CYCLE, workspace_bytes=workspace_bytes, sums=True,
        layouts=lambda work, sizes: {"B": packed(work.extent("k"))})
