"""The UMA target ``mte``: products of float32 on a vector core with tiles in its registers, or with vectors alone.

*Tiles* (Algorithm 1 of the paper, without alpha and beta). A block of C stays in registers over all of a block of K:
tiles of A are loaded once for a step of K, those of B one after the other, each multiplied with all of A. Whole tiles
and what is left at the edges are blocks apart, so that sizes are set once for a block, and for K where they change. C
starts from the bias (loaded with rows 0 bytes apart) or zeros, in later blocks of K from what is there. A tensor that
is added to the product comes into the place of A or B when they are done.

*Vectors* (tiles of one row). A row of B is loaded and multiplied with a number of each row of A.

Both ask for lines of A and B a fixed distance before they load them, at the end of a block for those of A that the next
one begins with; for those of C, and of what is added, when a block begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph, RegisterFile
from archloom.acadl_models.mte import LINE_BYTES, PORT_BYTES, macs_per_cycle, mte
from archloom.mapper.costs.lines import Cache
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Issue, Loop, Nodes, Piece, Tiling, ceil_div, each, pieces, repeat
from archloom.uma_targets.kit.vectors import RiscvV, VectorKit

GRAPH = kit.GraphOptions(mte)

BITS = 32
F32, E32M1 = 2, 2 << 3
"""Types of tiles (``ttypeio``) and of vectors (``vtypei``)."""

AHEAD = 1 << 17
"""Multiply-adds between asking for a line and loading it: 512 cycles at 256 of them a cycle, twice what a miss takes. A
free choice."""

SCRATCH, ZERO = 5, 0
"""Of ``x``, for constants; of ``f``: rows of A stand behind it."""


@dataclass(frozen=True)
class Run:
    """``count`` blocks along an axis from the element ``first`` on, each of ``tiles`` tiles of ``size`` elements."""

    first: int
    count: int
    tiles: int
    size: int

    @property
    def span(self) -> int:
        """Elements of a block."""
        return self.tiles * self.size


def runs(extent: int, tile: int, tiles: int) -> list[Run]:
    """Blocks of so many whole tiles, then one of what is left of them, then the tile at the edge."""
    whole, rest = divmod(extent, tile)
    found = [Run(p.first * tiles * tile, p.count, p.size, tile) for p in pieces(whole, tiles)] if whole else []
    return found + ([Run(whole * tile, 1, 1, rest)] if rest else [])


def emit(gemm: Gemm, mapping: kit.TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product."""
    return blocks(gemm, mapping, Machine(parameters["vlen"], parameters["rlen"], parameters["registers"]))


def blocks(gemm: Gemm, mapping: kit.TileMapping, machine: "Machine", taps: "Sequence[Taps]" = ()) -> Nodes:
    """The instructions of a sum of products (by default of one), whose A and B lie behind those of ``gemm``: of a
    convolution, one for each place of its window."""
    return (Tiles if machine.rows > 1 else Vectors)(gemm, mapping, machine, tuple(taps) or (Taps(0, 0),)).body()


@dataclass(frozen=True)
class Machine:
    """Sizes of registers, and what they are of float32."""

    vlen: int
    rlen: int
    registers: int

    @property
    def rows(self) -> int:
        """Of a tile; 1 where there are vectors alone."""
        return self.vlen // self.rlen

    @property
    def columns(self) -> int:
        return self.rlen // BITS

    @property
    def deep(self) -> int:
        """Of K in a step."""
        return min(self.rows, self.columns)

    def used(self, tall: Any, wide: Any, held: Any) -> Any:
        """Vector registers of a block of C, of the tiles of A that stay for a step, and of B."""
        return tall * wide + held + (tall if self.rows > 1 else 0)


@dataclass(frozen=True)
class Taps:
    """Bytes by which A and B of products lie behind the first: ``a`` and ``b``, and so much more in each iteration of
    ``loops`` (how many, bytes of A, bytes of B), outermost first."""

    a: int
    b: int
    loops: tuple[tuple[int, int, int], ...] = ()

    def nodes(self, body: Callable[[Affine, Affine], Nodes]) -> Nodes:
        """``body`` of the bytes, for each of the products."""
        def nest(number: int, a: Affine, b: Affine) -> Nodes:
            if number == len(self.loops):
                return body(a, b)
            count, down, across = self.loops[number]
            return repeat(f"tap{number}", count, lambda i: nest(number + 1, a + i * down, b + i * across))

        return nest(0, Affine(self.a), Affine(self.b))


@dataclass(frozen=True)
class Blocks:
    """Writes the instructions of one product, block after block; the kinds of cores say what a block is."""

    gemm: Gemm
    mapping: kit.TileMapping
    machine: Machine
    taps: tuple[Taps, ...]

    @property
    def tall(self) -> int:
        """Tiles of a block along M."""
        return self.mapping.size("m") // self.machine.rows

    @property
    def wide(self) -> int:
        return self.mapping.size("n") // self.machine.columns

    def body(self) -> Nodes:
        needs, room = self.machine.used(self.tall, self.wide, self.mapping.slots("B")), self.machine.registers
        if needs > room or not self.tall or not self.wide:
            raise MappingError(f"{self.mapping}: needs {needs} registers, of {room}")
        ends = self.gemm.relu or self.gemm.residual is not None
        blocks = pieces(self.gemm.k, self.mapping.size("k"), peel_first=True, peel_last=ends)
        return [*self._constants(), *each("kb", blocks, self._block_of_k)]

    def _constants(self) -> Iterator[Node]:
        if self.gemm.relu:
            yield Instr.make("li", rd=SCRATCH, value=0)
            yield Instr.make("fmv_w_x", rd=ZERO, rs1=SCRATCH)
        if self.machine.rows > 1:
            yield _lanes(self.machine.vlen // BITS)

    def _block_of_k(self, number: Affine, depth: Piece) -> Nodes:
        k0 = number * self.mapping.size("k")
        return [node for across in runs(self.gemm.n, self.machine.columns, self.wide)
                for node in repeat("nb", across.count, lambda j, across=across: [  # type: ignore[misc]
                    node for down in runs(self.gemm.m, self.machine.rows, self.tall)
                    for node in repeat("mb", down.count, lambda i, down=down: self._block(  # type: ignore[misc]
                        i * down.span + down.first, (i + 1) % down.count * down.span + down.first, down,
                        j * across.span + across.first, across, k0, depth))])]

    def _block(
        self, m: Affine, later: Affine, down: Run, n: Affine, across: Run, k: Affine, depth: Piece
    ) -> Iterator[Node]:
        """A block of C, for a block of K; the next one begins in the row ``later``."""
        tiles = [(a * across.tiles + b, m + a * down.size, n + b * across.size)
                 for a in range(down.tiles) for b in range(across.tiles)]
        adds = self.gemm.residual is not None and depth.is_last
        if adds:
            yield from ask_for(self.gemm.residual_at(m, n), self.gemm.strides[2], down.span, across.span)
        yield from self._sizes(down, across)
        for register, row, column in tiles:
            yield self._begin(register, row, column, depth)
        yield from ask_for(self.gemm.c_at(m, n), self.gemm.strides[2], down.span, across.span)
        yield from self._sums(m, later, down, n, across, k, depth)
        for register, row, column in tiles if adds else ():
            free = len(tiles)  # of A or B, which have been multiplied
            yield self._load_c(free, self.gemm.residual_at(row, column), self.gemm.strides[2])
            yield Instr.make("vfadd_vv", vd=register, vs2=register, vs1=free, vm=1)
        if self.gemm.relu and depth.is_last:
            yield from (Instr.make("vfmax_vf", vd=r, vs2=r, rs1=ZERO, vm=1) for r, _, _ in tiles)
        for register, row, column in tiles:
            yield self._end(register, row, column)

    def _begin(self, register: int, row: Affine, column: Affine, depth: Piece) -> Node:
        """A tile of C before the first step."""
        if not depth.is_first:
            return self._load_c(register, self.gemm.c_at(row, column), self.gemm.strides[2])
        if self.gemm.bias is None:
            return Instr.make("vmv_v_i", vd=register, imm=0)
        return self._load_c(register, self.gemm.bias_at(column), 0)

    def _sizes(self, down: Run, across: Run) -> Iterator[Node]:
        raise NotImplementedError

    def _load_c(self, register: int, address: Affine, stride: int) -> Node:
        raise NotImplementedError

    def _sums(
        self, m: Affine, later: Affine, down: Run, n: Affine, across: Run, k: Affine, depth: Piece
    ) -> Nodes:
        nodes: Nodes = []
        for run in pieces(depth.size, self.machine.deep):
            if self.machine.rows > 1:
                nodes.append(Instr.make("tssk", rd=0, request=run.size, ttypeio=F32))
            first = k + run.first * self.machine.deep
            for taps in self.taps:
                nodes += taps.nodes(lambda a, b, first=first, run=run: self._run(  # type: ignore[misc]
                    m, later, down, n, across, first, run.count, a, b))
        return nodes

    def _run(
        self, m: Affine, later: Affine, down: Run, n: Affine, across: Run, k: Affine, count: int, a: Affine, b: Affine,
    ) -> Nodes:
        """So many steps of K from ``k`` on, A and B so many bytes behind, and before them what asks for lines."""
        deep, steps = self.machine.deep, max(1, self.mapping.slots("B") // self.wide)
        whole, *rest = pieces(count, steps)
        last = max(0, whole.count - ceil_div(AHEAD, steps * deep * down.span * across.span))
        far = whole.count - last

        def at(i: Affine) -> Affine:
            return k + i * (steps * deep)

        def step(i: Affine, p: Piece) -> Nodes:
            return list(self._steps(m, down, n, across, at(i), p.size, a, b))

        return [
            *each("kt", [Piece(0, last, whole.size)], lambda i, p: [
                *self._ask_a(m, down, at(i + far), p.size, a), *self._ask_b(n, across, at(i + far), p.size, b),
                *step(i, p)]),
            *each("kt", [Piece(last, far, whole.size)], lambda i, p: [
                *self._ask_a(later, down, at(i - last), p.size, a), *step(i, p)]),
            *each("kt", rest, step)]

    def _ask_a(self, m: Affine, down: Run, k: Affine, steps: int, a1: Affine) -> Nodes:
        """Ask for lines of A before so many steps from ``k`` on: for all that tiles have of it."""
        return ask_for(self.gemm.a_at(m, k) + a1, self.gemm.strides[0], down.span, steps * self.machine.deep)

    def _ask_b(self, n: Affine, across: Run, k: Affine, steps: int, b1: Affine) -> Nodes:
        """The same of B."""
        return ask_for(self.gemm.b_at(k, n) + b1, self.gemm.strides[1], steps * self.machine.deep, across.span)

    def _steps(
        self, m: Affine, down: Run, n: Affine, across: Run, k: Affine, steps: int, a1: Affine, b1: Affine,
    ) -> Iterator[Node]:
        """Steps of K: as many tiles of B as are held are loaded, then multiplied with those of A, and so on. Both lie
        so many bytes behind."""
        held = self.mapping.slots("B")
        pairs = [(step, b) for step in range(steps) for b in range(across.tiles)]
        a0 = down.tiles * across.tiles if self.machine.rows > 1 else 1
        b0 = down.tiles * (across.tiles + (self.machine.rows > 1))
        for at in range(0, len(pairs), held):
            group = pairs[at:at + held]
            for number, (step, b) in enumerate(group):
                at_b = self.gemm.b_at(k + step * self.machine.deep, n + b * across.size) + b1
                yield self._load_b(b0 + number, at_b)
            for number, (step, b) in enumerate(group):
                if b == 0:
                    for a in range(down.tiles):
                        at_a = self.gemm.a_at(m + a * down.size, k + step * self.machine.deep) + a1
                        yield self._load_a(a0 + a, at_a)
                for a in range(down.tiles):
                    yield self._product(a * across.tiles + b, a0 + a, b0 + number)

    def _load_a(self, register: int, address: Affine) -> Node:
        raise NotImplementedError

    def _load_b(self, register: int, address: Affine) -> Node:
        raise NotImplementedError

    def _product(self, c: int, a: int, b: int) -> Node:
        raise NotImplementedError

    def _end(self, register: int, row: Affine, column: Affine) -> Node:
        raise NotImplementedError


class Tiles(Blocks):
    """By instructions for tiles."""

    def _sizes(self, down: Run, across: Run) -> Iterator[Node]:
        yield Instr.make("tssm", rd=0, request=down.size, ttypeio=F32)
        yield Instr.make("tssn", rd=0, request=across.size, ttypeio=F32)

    def _load_c(self, register: int, address: Affine, stride: int) -> Node:
        return Instr.make("tlc", vd=register, dram=address, stride=stride)

    def _end(self, register: int, row: Affine, column: Affine) -> Node:
        return Instr.make("tsc", vd=register, dram=self.gemm.c_at(row, column), stride=self.gemm.strides[2])

    def _load_a(self, register: int, address: Affine) -> Node:
        return Instr.make("tla", vd=register, dram=address, stride=self.gemm.strides[0])

    def _load_b(self, register: int, address: Affine) -> Node:
        return Instr.make("tlb", vd=register, dram=address, stride=self.gemm.strides[1])

    def _product(self, c: int, a: int, b: int) -> Node:
        return Instr.make("tfmul", vd=c, vs1=a, vs2=b)


class Vectors(Blocks):
    """By vector instructions: a tile is a part of a row."""

    def _sizes(self, down: Run, across: Run) -> Iterator[Node]:
        yield _lanes(across.size)

    def _load_c(self, register: int, address: Affine, stride: int) -> Node:
        return Instr.make("vle32_v", vd=register, dram=address, vm=1)

    def _end(self, register: int, row: Affine, column: Affine) -> Node:
        return Instr.make("vse32_v", vs3=register, dram=self.gemm.c_at(row, column), vm=1)

    def _ask_a(self, m: Affine, down: Run, k: Affine, steps: int, a1: Affine) -> Nodes:
        """A line has numbers for 16 steps: in each of them those of every 16th row are asked for."""
        each_line = 8 * LINE_BYTES // BITS
        turns = [(first, min(each_line, down.span - first)) for first in range(0, down.span, each_line)]
        return [Instr.make("prefetch_r", dram=self.gemm.a_at(m + first + at % rows, at) + a1)
                for at in (k + step for step in range(steps)) for first, rows in turns]

    def _load_a(self, register: int, address: Affine) -> Node:
        return Instr.make("flw", rd=register, dram=address)

    def _load_b(self, register: int, address: Affine) -> Node:
        return Instr.make("vle32_v", vd=register, dram=address, vm=1)

    def _product(self, c: int, a: int, b: int) -> Node:
        return Instr.make("vfmacc_vf", vd=c, rs1=a, vs2=b, vm=1)


def ask_for(at: Affine, stride: int, rows: int, columns: int) -> Nodes:
    """Ask for the lines of so many rows of a matrix, ``stride`` bytes apart."""
    return repeat("asked", rows, lambda r: repeat("line", ceil_div(columns * BITS // 8, LINE_BYTES), lambda c: [
        Instr.make("prefetch_r", dram=at + r * stride + c * LINE_BYTES)]))


def _lanes(count: int) -> Instr:
    return Instr.make("vsetvli", rd=0, avl=count, vtypei=E32M1)


# --- the space of mappings -------------------------------------------------------------------------------------------
DEPTHS = (256, 1024)
"""Blocks of K to choose from, beside all of it: a free choice."""

HELD = (1, 2, 4, 8)
"""Tiles of B that are loaded one after the other, to choose from: a free choice."""


def _tiling(shape: kit.Shape, hardware: kit.Hardware, options: Mapping[str, Any]) -> Tiling:
    """Blocks of C that fit into registers beside tiles of A and B; all of K at once or in blocks."""
    machine = Machine(**GRAPH.graph(options).parameters)

    def multiples(extent: int, tile: int) -> list[int]:
        return [tile * count for count in range(1, min(machine.registers, -(-extent // tile)) + 1)]

    return Tiling(
        {"m": multiples(shape.m, machine.rows), "n": multiples(shape.n, machine.columns),
         "k": [shape.k, *(k for k in DEPTHS if k < shape.k)]},
        demand={"registers": lambda c: machine.used(c["m"] // machine.rows, c["n"] // machine.columns, c["B"])},
        room={"registers": machine.registers}, buffers={"B": HELD},
        loops=lambda c: _loops(shape, c, machine, hardware), help="more registers")


def _loops(shape: kit.Shape, c: kit.Columns, machine: Machine, hardware: kit.Hardware) -> Loop:
    """Blocks of K, of C in them; groups of tiles of B, and products with them, each of which waits for the one before
    it into the same tile. Sizes are those of whole tiles."""
    tall, wide, held = c["m"] // machine.rows, c["n"] // machine.columns, c["B"]
    blocks = ceil_div(shape.m, c["m"]) * ceil_div(shape.n, c["n"])
    values = {"tm": machine.rows, "tn": machine.columns, "tk": machine.deep, "sewi": BITS, "sewo": BITS,
              "vl": machine.columns, "sew": BITS}
    near, of_a, of_b = _waits(shape, c, hardware)

    def issue(name: str, times: Any, beats: Any = 0) -> Issue:
        return Issue(name, times, values=values, beats=beats)

    tiles = machine.rows > 1
    product, a, b, load, store = (
        ("tfmul", "tla", "tlb", "tlc", "tsc") if tiles else ("vfmacc_vf", "flw", "vle32_v", "vle32_v", "vse32_v"))
    lines = machine.rows if tiles else machine.vlen // (8 * PORT_BYTES)
    loads = (issue(a, tall * held / wide, of_a + lines * tiles), issue(b, held, of_b + lines))
    group = Loop(ceil_div(c["k"], machine.deep) * wide / held, (issue(product, tall * held),), first=loads, slots=2,
                 rings=(((issue(product, 1),), 1),))
    again = (c["k"] < shape.k) | bool(shape.bias)
    added = (issue(load, tall * wide, near + lines),) if shape.residual else ()
    block = Loop(blocks, (group,), first=(issue(load, tall * wide * again, near + lines),),
                 last=(*added, issue(store, tall * wide, near + lines)), slots=1)
    return Loop(ceil_div(shape.k, c["k"]), (block,))


def _waits(shape: kit.Shape, c: kit.Columns, hardware: kit.Hardware) -> tuple[int, Any, Any]:
    """Cycles until a line is there: of the cache, and in the mean of A and of B. Columns of B for a block come from
    memory once for all blocks of rows where they leave half of the cache to others, all of A once for all columns where
    there is room for both."""
    cache = Cache.of(hardware)
    if cache is None:
        return 0, 0, 0
    room, item = cache.lines * cache.line_bytes, BITS // 8
    b, a = c["k"] * c["n"] * item, c["k"] * shape.m * item
    far_b = np.where(2 * b <= room, 1 / ceil_div(shape.m, c["m"]), 1)
    far_a = np.where(a + b <= room, 1 / ceil_div(shape.n, c["n"]), 1)
    return cache.hit_cycles, cache.hit_cycles + far_a * cache.miss_cycles, cache.hit_cycles + far_b * cache.miss_cycles


def _unit(parameters: Mapping[str, int]) -> RiscvV:
    return RiscvV(parameters["vlen"], parameters["registers"])


def _free(graph: ArchitectureGraph) -> int:
    """Physical registers beyond those with names: one instruction writes no more."""
    file = graph.objects[graph.buffers["v"][0].storage]
    assert isinstance(file, RegisterFile) and file.physical_registers is not None
    return file.physical_registers - graph.parameters["registers"]


class Mte(kit.KitTarget):
    """Products of float32 by tiles, or by vectors."""

    kit = kit.GemmKit(
        name="mte", isa="mte", graph=GRAPH.graph, options=GRAPH.options(), emit=emit, tiling=_tiling,
        description="a vector core whose registers hold tiles of matrices, and those it is compared with (MTE)",
        macs_per_cycle=macs_per_cycle, numbers="float32", residual=True, vectors=VectorKit(_unit, _free))
