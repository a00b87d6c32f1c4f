"""Instructions of products on a vector core with tiles in its registers, or with vectors alone.

*Tiles* (Algorithm 1 of the paper, without alpha and beta). A block of C stays in registers over all of a block of K:
tiles of A are loaded once for a step of K, those of B one after the other, each multiplied with all of A. Whole tiles
and what is left at the edges are blocks apart, so that sizes are set once for a block, and for K where they change. C
starts from the bias (loaded with rows 0 bytes apart) or zeros, in later blocks of K from what is there. A tensor that
is added to the product comes into the place of A or B when they are done.

*Mixed precision* (equation 3 of the paper): bytes into sums of int32, float16 and bfloat16 into sums of float32. A tile
of B has a row for each of its columns, so that B lies column by column where it is constant; of another the rows of
tiles are loaded as columns of memory.

*Vectors* (tiles of one row). A row of B is loaded and multiplied with a number of each row of A; bytes are made int32
when they are loaded.

Both ask for lines of A and B a fixed distance before they load them, at the end of a block for those of A that the next
one begins with; for those of C, and of what is added, when a block begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archloom.acadl_models.mte import LINE_BYTES
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Nodes, Piece, ceil_div, each, pieces, repeat
from archloom.uma_targets.mte.places import Level, Rows, Run, Spot, Strip, Taps, runs

BITS = 32
"""Of an element of C."""
E32M1 = 2 << 3
"""The type of vectors (``vtypei``)."""


@dataclass(frozen=True)
class Types:
    """Bits of elements of A and B; ``code``: these and those of C as ``tssm`` takes them (``ttypeio``); ``product``:
    the instruction that multiplies tiles of them."""

    bits: int
    code: int
    product: str

    @property
    def mixed(self) -> bool:
        return self.bits < BITS


F32, F16, I8 = Types(32, 2, "tfmul"), Types(16, 5, "tfwmul"), Types(8, 7, "twmul")
TYPES: Mapping[int, Types] = {types.bits // 8: types for types in (F32, F16, I8)}
"""By the bytes of an element of A and B."""

AHEAD = 1 << 17
"""Multiply-adds between asking for a line and loading it: 512 cycles at 256 of them a cycle, twice what a miss takes. A
free choice."""

SCRATCH, ZERO = 5, 0
"""Of ``x``, for constants; of ``f``: rows of A stand behind it."""


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product."""
    return blocks(gemm, mapping, Machine(parameters["vlen"], parameters["rlen"], parameters["registers"]))


def blocks(
    gemm: Gemm, mapping: kit.TileMapping, machine: "Machine", taps: Sequence[Taps] = (), rows: Rows | None = None,
) -> Nodes:
    """The instructions of a sum of products (by default of one), whose A and B lie behind those of ``gemm``: of a
    convolution, one for each place of its window. ``rows``: those of A and C, by default all of a matrix."""
    matrix = Rows((Level(gemm.m, gemm.strides[0], gemm.strides[2]),))
    make = Tiles if machine.rows > 1 else Vectors
    return make(gemm, mapping, machine, tuple(taps) or (Taps(0, 0),), rows or matrix).body()


@dataclass(frozen=True)
class Machine:
    """Sizes of registers, and of tiles of these."""

    vlen: int
    rlen: int
    registers: int

    @property
    def rows(self) -> int:
        """Of a tile; 1 where there are vectors alone."""
        return self.vlen // self.rlen

    def mixed(self, types: Types) -> bool:
        """Whether tiles are those of mixed precision."""
        return types.mixed and self.rows > 1

    def columns(self, types: Types = F32) -> int:
        """Of tiles of B and C (equations 2 and 3)."""
        most = self.rlen // BITS
        return min(self.rows, most) if self.mixed(types) else most

    def deep(self, types: Types = F32) -> int:
        """Of K in a step."""
        return self.rlen // types.bits if self.mixed(types) else min(self.rows, self.columns())

    def used(self, tall: Any, wide: Any, held: Any, types: Types = F32) -> Any:
        """Vector registers of a block of C, of the tiles of A that stay for a step, and of B, as they are in memory,
        too, where vectors take them wider."""
        return tall * wide + held + (tall if self.rows > 1 else types.mixed)


@dataclass(frozen=True)
class Blocks:
    """Writes the instructions of one product, block after block; the kinds of cores say what a block is."""

    gemm: Gemm
    mapping: kit.TileMapping
    machine: Machine
    taps: tuple[Taps, ...]
    rows: Rows

    @property
    def types(self) -> Types:
        return TYPES[self.gemm.item]

    @property
    def columns(self) -> int:
        return self.machine.columns(self.types)

    @property
    def deep(self) -> int:
        """Of K in a step."""
        return self.machine.deep(self.types)

    @property
    def tall(self) -> int:
        """Tiles of a block along M."""
        return self.mapping.size("m") // self.machine.rows

    @property
    def wide(self) -> int:
        return self.mapping.size("n") // self.columns

    def body(self) -> Nodes:
        if self.types.mixed:
            self._refuse_mixed()
        needs = self.machine.used(self.tall, self.wide, self.mapping.slots("B"), self.types)
        room = self.machine.registers
        if needs > room or not self.tall or not self.wide:
            raise MappingError(f"{self.mapping}: needs {needs} registers, of {room}")
        ends = self.gemm.relu or self.gemm.residual is not None
        blocks = pieces(self.gemm.k, self.mapping.size("k"), peel_first=True, peel_last=ends)
        return [*self._constants(), *each("kb", blocks, self._block_of_k)]

    def _refuse_mixed(self) -> None:
        """MappingError for products in mixed precision that no instruction makes."""
        if self.gemm.out_item * 8 != BITS:
            raise MappingError("products in mixed precision are stored as their sums of 32 bits, without a factor")
        refuse_without_tiles(self.machine, self.types)
        if self.types == I8 and self.gemm.relu:
            raise MappingError("products of int8 are stored as their int32 sums, without an activation")

    def _constants(self) -> Iterator[Node]:
        if self.gemm.relu:
            yield Instr.make("li", rd=SCRATCH, value=0)
            yield Instr.make("fmv_w_x", rd=ZERO, rs1=SCRATCH)
        if self.machine.rows > 1:
            yield _lanes(self.machine.vlen // BITS)
        if self.gemm.dtype == "bfloat16":
            yield Instr.make("csrwi_bfloat", value=1)

    def _block_of_k(self, number: Affine, depth: Piece) -> Nodes:
        k0, strips = number * self.mapping.size("k"), self.rows.strips(self.machine.rows, self.tall)
        return [node for across in runs(self.gemm.n, self.columns, self.wide)
                for node in repeat("nb", across.count, lambda j, across=across: [  # type: ignore[misc]
                    node for down in strips
                    for node in down.nodes(lambda at, later, down=down: list(self._block(  # type: ignore[misc]
                        at, later, down, j * across.span + across.first, across, k0, depth)))])]

    def _block(
        self, at: Spot, later: Spot, down: Strip, n: Affine, across: Run, k: Affine, depth: Piece
    ) -> Iterator[Node]:
        """A block of C, for a block of K; the next one begins at ``later``."""
        tiles = [(a * across.tiles + b, spot.c, n + b * across.size)
                 for a, spot in enumerate(down.spots(at)) for b in range(across.tiles)]
        adds = self.gemm.residual is not None and depth.is_last
        if adds:
            yield from self._ask_c(self.gemm.residual_at(0, n) + at.c, down, across)
        yield from self._sizes(down, across)
        for register, row, column in tiles:
            yield self._begin(register, row, column, depth)
        yield from self._ask_c(self.gemm.c_at(0, n) + at.c, down, across)
        yield from self._sums(at, later, down, n, across, k, depth)
        for register, row, column in tiles if adds else ():
            free = len(tiles)  # of A or B, which have been multiplied
            yield self._load_c(free, self.gemm.residual_at(0, column) + row, self.rows.row.c)
            yield Instr.make("vfadd_vv", vd=register, vs2=register, vs1=free, vm=1)
        if self.gemm.relu and depth.is_last:
            yield from (Instr.make("vfmax_vf", vd=r, vs2=r, rs1=ZERO, vm=1) for r, _, _ in tiles)
        for register, row, column in tiles:
            yield self._end(register, self.gemm.c_at(0, column) + row)

    def _ask_c(self, first: Affine, down: Strip, across: Run) -> Nodes:
        """Ask for the lines of a block of C, or of what is added to it."""
        return repeat("piece", down.pieces.extent, lambda i: ask_for(
            first + i * down.pieces.c, down.row.c, down.along, across.span * BITS // 8))

    def _begin(self, register: int, row: Affine, column: Affine, depth: Piece) -> Node:
        """A tile of C before the first step."""
        if not depth.is_first:
            return self._load_c(register, self.gemm.c_at(0, column) + row, self.rows.row.c)
        if self.gemm.bias is None:
            return Instr.make("vmv_v_i", vd=register, imm=0)
        return self._load_c(register, self.gemm.bias_at(column), 0)

    def _sizes(self, down: Strip, across: Run) -> Iterator[Node]:
        raise NotImplementedError

    def _load_c(self, register: int, address: Affine, stride: int) -> Node:
        raise NotImplementedError

    def _sums(
        self, at: Spot, later: Spot, down: Strip, n: Affine, across: Run, k: Affine, depth: Piece
    ) -> Nodes:
        nodes: Nodes = []
        for run in pieces(depth.size, self.deep):
            if self.machine.rows > 1:
                nodes.append(Instr.make("tssk", rd=0, request=run.size, ttypeio=self.types.code))
            first = k + run.first * self.deep
            for taps in self.taps:
                nodes += taps.nodes(lambda a, b, first=first, run=run: self._run(  # type: ignore[misc]
                    at, later, down, n, across, first, run.count, a, b))
        return nodes

    def _run(
        self, spot: Spot, later: Spot, down: Strip, n: Affine, across: Run, k: Affine, count: int, a: Affine, b: Affine,
    ) -> Nodes:
        """So many steps of K from ``k`` on, A and B so many bytes behind, and before them what asks for lines."""
        deep, steps = self.deep, max(1, self.mapping.slots("B") // self.wide)
        whole, *rest = pieces(count, steps)
        ahead, columns = AHEAD, across.span
        if self.machine.rows > 1:  # a product takes as long for a tile at the edge as for a whole one
            ahead, columns = AHEAD * BITS // self.types.bits, across.tiles * self.columns
        last = max(0, whole.count - ceil_div(ahead, steps * deep * down.span * columns))
        far = whole.count - last

        def at(i: Affine) -> Affine:
            return k + i * (steps * deep)

        def step(i: Affine, p: Piece) -> Nodes:
            return list(self._steps(spot, down, n, across, at(i), p.size, a, b))

        return [
            *each("kt", [Piece(0, last, whole.size)], lambda i, p: [
                *self._ask_a(spot, down, at(i + far), p.size, a), *self._ask_b(n, across, at(i + far), p.size, b),
                *step(i, p)]),
            *each("kt", [Piece(last, far, whole.size)], lambda i, p: [
                *self._ask_a(later, down, at(i - last), p.size, a), *step(i, p)]),
            *each("kt", rest, step)]

    def _ask_a(self, spot: Spot, down: Strip, k: Affine, steps: int, a1: Affine) -> Nodes:
        """Ask for lines of A before so many steps from ``k`` on: for all that tiles have of it."""
        first = self.gemm.a_at(0, k) + spot.a + a1
        return repeat("piece", down.pieces.extent, lambda i: ask_for(
            first + i * down.pieces.a, down.row.a, down.along, steps * self.deep * self.gemm.item))

    def _ask_b(self, n: Affine, across: Run, k: Affine, steps: int, b1: Affine) -> Nodes:
        """The same of B."""
        lines, along = steps * self.deep, across.span
        if self.by_columns:
            lines, along = along, lines
        return ask_for(self.gemm.b_at(k, n) + b1, self.b_stride, lines, along * self.gemm.item)

    @property
    def by_columns(self) -> bool:
        """Whether B lies column by column."""
        return self.machine.mixed(self.types) and self.gemm.packed is not None

    @property
    def b_stride(self) -> int:
        """Bytes from one row of B to the next, or from column to column where it lies so."""
        if not self.by_columns:
            return self.gemm.strides[1]
        assert self.gemm.packed is not None
        return self.gemm.packed.evaluate({"k": 0, "n": 1})

    def _steps(
        self, spot: Spot, down: Strip, n: Affine, across: Run, k: Affine, steps: int, a1: Affine, b1: Affine,
    ) -> Iterator[Node]:
        """Steps of K: as many tiles of B as are held are loaded, then multiplied with those of A, and so on. Both lie
        so many bytes behind."""
        held, spots = self.mapping.slots("B"), list(down.spots(spot))
        pairs = [(step, b) for step in range(steps) for b in range(across.tiles)]
        a0 = down.tiles * across.tiles if self.machine.rows > 1 else 1
        b0 = down.tiles * (across.tiles + (self.machine.rows > 1))
        for at in range(0, len(pairs), held):
            group = pairs[at:at + held]
            for number, (step, b) in enumerate(group):
                at_b = self.gemm.b_at(k + step * self.deep, n + b * across.size) + b1
                yield from self._load_b(b0 + number, at_b)
            for number, (step, b) in enumerate(group):
                if b == 0:
                    for a, row in enumerate(spots):
                        yield self._load_a(a0 + a, self.gemm.a_at(0, k + step * self.deep) + row.a + a1)
                for a in range(down.tiles):
                    yield self._product(a * across.tiles + b, a0 + a, b0 + number)

    def _load_a(self, register: int, address: Affine) -> Node:
        raise NotImplementedError

    def _load_b(self, register: int, address: Affine) -> Iterator[Node]:
        raise NotImplementedError

    def _product(self, c: int, a: int, b: int) -> Node:
        raise NotImplementedError

    def _end(self, register: int, address: Affine) -> Node:
        raise NotImplementedError


class Tiles(Blocks):
    """By instructions for tiles."""

    def _sizes(self, down: Strip, across: Run) -> Iterator[Node]:
        yield Instr.make("tssm", rd=0, request=down.size, ttypeio=self.types.code)
        yield Instr.make("tssn", rd=0, request=across.size, ttypeio=self.types.code)

    def _load_c(self, register: int, address: Affine, stride: int) -> Node:
        return Instr.make("tlc", vd=register, dram=address, stride=stride)

    def _end(self, register: int, address: Affine) -> Node:
        return Instr.make("tsc", vd=register, dram=address, stride=self.rows.row.c)

    def _load_a(self, register: int, address: Affine) -> Node:
        return Instr.make("tla", vd=register, dram=address, stride=self.rows.row.a)

    def _load_b(self, register: int, address: Affine) -> Iterator[Node]:
        load = ("tlbt" if self.by_columns else "ttlbt") if self.types.mixed else "tlb"
        yield Instr.make(load, vd=register, dram=address, stride=self.b_stride)

    def _product(self, c: int, a: int, b: int) -> Node:
        return Instr.make(self.types.product, vd=c, vs1=a, vs2=b)


class Vectors(Blocks):
    """By vector instructions: a tile is a part of a row."""

    def _sizes(self, down: Strip, across: Run) -> Iterator[Node]:
        yield _lanes(across.size)

    def _load_c(self, register: int, address: Affine, stride: int) -> Node:
        return Instr.make("vle32_v", vd=register, dram=address, vm=1)

    def _end(self, register: int, address: Affine) -> Node:
        return Instr.make("vse32_v", vs3=register, dram=address, vm=1)

    def _ask_a(self, spot: Spot, down: Strip, k: Affine, steps: int, a1: Affine) -> Nodes:
        """A line has numbers for so many steps (16 of float32): in each of them those of as many rows further are asked
        for."""
        each_line = LINE_BYTES // self.gemm.item
        turns = [(first, min(each_line, down.along - first)) for first in range(0, down.along, each_line)]
        first, row = spot.further(a1, 0), down.row.a
        return [Instr.make("prefetch_r", dram=self.gemm.a_at(0, at) + first.a + piece * down.pieces.a
                           + (turn + at % rows) * row)
                for at in (k + step for step in range(steps)) for piece in range(down.pieces.extent)
                for turn, rows in turns]

    def _load_a(self, register: int, address: Affine) -> Node:
        return Instr.make("lb" if self.types.mixed else "flw", rd=register, dram=address)

    def _load_b(self, register: int, address: Affine) -> Iterator[Node]:
        if not self.types.mixed:
            yield Instr.make("vle32_v", vd=register, dram=address, vm=1)
            return
        narrow = self.machine.registers - 1
        yield Instr.make("vle8_v", vd=narrow, dram=address, vm=1)
        yield Instr.make("vsext_vf4", vd=register, vs2=narrow, vm=1)

    def _product(self, c: int, a: int, b: int) -> Node:
        return Instr.make("vmacc_vx" if self.types.mixed else "vfmacc_vf", vd=c, rs1=a, vs2=b, vm=1)


def ask_for(at: Affine, stride: int, rows: int, size: int) -> Nodes:
    """Ask for the lines of so many rows of a matrix, each of ``size`` bytes and ``stride`` bytes apart."""
    return repeat("asked", rows, lambda r: repeat("line", ceil_div(size, LINE_BYTES), lambda c: [
        Instr.make("prefetch_r", dram=at + r * stride + c * LINE_BYTES)]))


def refuse_without_tiles(machine: Machine, types: Types) -> None:
    """MappingError for products of 16 bits where there are vectors alone."""
    if types == F16 and machine.rows == 1:
        raise MappingError(f"products of 16 bits take tiles: expected rlen below vlen, found {machine.rlen} for both")


def _lanes(count: int) -> Instr:
    return Instr.make("vsetvli", rd=0, avl=count, vtypei=E32M1)
