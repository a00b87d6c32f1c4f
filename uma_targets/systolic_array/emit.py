"""Matrix products on the array, for the compiler and alone: at tensor level, as streams.

Tiles come in, the array works on them, requantized results go out. Tiles of A and B take turns in two halves of their
memories, and so do the sums: loading, computing and saving overlap.

Folds are how a matrix product is cut into what the array takes at a time, the same at both levels. There is nothing to
choose here: a dataflow is defined by what stays in the array, a fold is as large as the array, and the order of folds
is that of SCALE-Sim and of the EQueue paper, whose cycles are met with it. Which tiles of operands wait beside the
array is the mapper's choice (``target.py`` declares them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from archloom.acadl_models.systolic_array import Design
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr, Node
from archloom.uma_targets.kit.gemm import Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, each, pieces, repeat

Number = Affine | int


@dataclass(frozen=True)
class Problem:
    """``m`` × ``k`` by ``k`` × ``n``: rows (output pixels), columns (filters), reduction."""

    m: int
    n: int
    k: int

    @property
    def exchanged(self) -> "Problem":
        """The transposed product: the second operand first."""
        return Problem(self.n, self.m, self.k)


@dataclass(frozen=True)
class Matrix:
    """Where the elements of a matrix lie in a memory: ``base + row * row_stride + column * column_stride``."""

    base: Number
    row_stride: int
    column_stride: int

    def at(self, row: Number, column: Number) -> Affine:
        return Affine.of(self.base) + Affine.of(row) * self.row_stride + Affine.of(column) * self.column_stride

    @property
    def transposed(self) -> "Matrix":
        return Matrix(self.base, self.column_stride, self.row_stride)


@dataclass(frozen=True)
class Operands:
    """The product's operands in the memories, and whether it is added to what lies in ``c``.

    ``a`` is m × k and ``b`` is k × n; with stationary inputs, ``b`` is on the left and ``a`` on the top. ``c`` is
    m × n, or None: fold after fold, each fold's sums in a row (output-stationary only).
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    add: bool = False

    @property
    def exchanged(self) -> "Operands":
        """The operands of the transposed product."""
        return Operands(self.b.transposed, self.a.transposed, self.c and self.c.transposed, self.add)


@dataclass(frozen=True)
class Fold:
    """One fold: the first element and how many, along what is cut over rows and over columns.

    ``first``: no fold before it added to the same sums.
    """

    row: Affine
    height: int
    column: Affine
    width: int
    first: bool


def folds(problem: Problem, design: Design, body: Callable[[Fold], Iterable[Node]]) -> Nodes:
    """Loops over all folds of ``problem``; inputs that stay are taken for weights of the exchanged problem before.

    Where an operand stays, the reduction is cut over the rows and runs inside, its first fold apart.
    """
    sums_stay = design.dataflow == "os"
    over_rows = pieces(problem.m if sums_stay else problem.k, design.rows, peel_first=not sums_stay)
    over_columns = pieces(problem.n, design.columns)

    def along_rows(inner: Callable[[Affine, int, bool], Iterable[Node]]) -> Nodes:
        return each("fold_row", over_rows, lambda i, run: inner(i * design.rows, run.size, run.is_first or sums_stay))

    def along_columns(inner: Callable[[Affine, int], Iterable[Node]]) -> Nodes:
        return each("fold_column", over_columns, lambda j, run: inner(j * design.columns, run.size))

    if sums_stay:
        return along_rows(lambda row, height, first: along_columns(
            lambda column, width: body(Fold(row, height, column, width, first))))
    return along_columns(lambda column, width: along_rows(
        lambda row, height, first: body(Fold(row, height, column, width, first))))


def last(extent: int, tile: int) -> int:
    return (extent - 1) % tile + 1


# tiles of the compiler's products ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tile:
    """Number of a tile along one dimension, and the run that it belongs to."""

    number: Affine
    run: Piece
    tile: int

    @property
    def start(self) -> Affine:
        return self.number * self.tile

    @property
    def size(self) -> int:
        return self.run.size


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """The instructions of one product: tiles of rows, of columns, then of the reduction."""
    return _Emission(gemm, mapping, Design.of_parameters(parameters)).nodes()


class _Emission:
    def __init__(self, gemm: Gemm, mapping: TileMapping, design: Design) -> None:
        self.gemm, self.design = gemm, design
        self.tiles = {d: min(mapping.size(d), e) for d, e in (("m", gemm.m), ("n", gemm.n), ("k", gemm.k))}
        self.one_k = self.tiles["k"] == gemm.k
        self.a_side, self.b_side = ("top", "left") if design.dataflow == "is" else ("left", "top")

    def nodes(self) -> Nodes:
        return self._over("m", self.gemm.m, self._row_of_tiles)

    def _over(self, d: str, extent: int, body: Callable[[_Tile], Nodes], peel_first: bool = False) -> Nodes:
        tile = self.tiles[d]
        return each(f"{d}t", pieces(extent, tile, peel_first=peel_first), lambda i, run: body(_Tile(i, run, tile)))

    def _row_of_tiles(self, m: _Tile) -> Nodes:
        k = _Tile(Affine(0), Piece(0, 1, self.gemm.k, True, True), self.gemm.k)
        nodes: Nodes = [self._load_a(m, k)] if self.one_k else []
        return nodes + self._over("n", self.gemm.n, lambda n: self._tile_of_sums(m, n))

    def _tile_of_sums(self, m: _Tile, n: _Tile) -> Nodes:
        nodes: Nodes = [self._load_bias(m, n)] if self.gemm.bias is not None else []
        nodes += self._over("k", self.gemm.k, lambda k: self._product(m, n, k), peel_first=True)
        return [*nodes, self._save(m, n)]

    def _product(self, m: _Tile, n: _Tile, k: _Tile) -> Nodes:
        problem = Problem(m.size, n.size, k.size)
        add = self.gemm.bias is not None or not k.run.is_first
        operands = Operands(self._a(m, k), self._b(n, k), self._sums(n), add)
        loads = [] if self.one_k else [self._load_a(m, k)]
        loads.append(load(
            self.b_side, self.gemm.b_at(k.start, n.start), (self.gemm.strides[1], 1), operands.b, k.size, n.size))
        return [*loads, *product(self.design, problem, operands)]

    # --- places ------------------------------------------------------------------------------------------------
    def _a(self, m: _Tile, k: _Tile) -> Matrix:
        """A's tile: whole vectors side by side."""
        base = (m if self.one_k else k).number % 2 * (self.tiles["m"] * self.tiles["k"])
        return Matrix(base, k.size, 1) if self.design.dataflow == "ws" else Matrix(base, 1, m.size)

    def _b(self, n: _Tile, k: _Tile) -> Matrix:
        base = (n if self.one_k else k).number % 2 * (self.tiles["n"] * self.tiles["k"])
        return Matrix(base, 1, k.size) if self.design.dataflow == "is" else Matrix(base, n.size, 1)

    def _sums(self, n: _Tile) -> Matrix:
        return Matrix(n.number % 2 * (self.tiles["m"] * self.tiles["n"]), self.tiles["n"], 1)

    # --- moves -------------------------------------------------------------------------------------------------
    def _load_a(self, m: _Tile, k: _Tile) -> Instr:
        return load(
            self.a_side, self.gemm.a_at(m.start, k.start), (self.gemm.strides[0], 1), self._a(m, k), m.size, k.size)

    def _load_bias(self, m: _Tile, n: _Tile) -> Instr:
        out = self._sums(n)
        return Instr.make(
            "load_out", dram=self.gemm.bias_at(n.start), dram_outer=0, dram_inner=self.gemm.sum_item, out=out.base,
            out_outer=out.row_stride, out_inner=out.column_stride, outer=m.size, inner=n.size)

    def _save(self, m: _Tile, n: _Tile) -> Instr:
        out, whole = self._sums(n), self.gemm.stores_sums
        more = {} if whole else {"scale": self.gemm.scale_bits, "relu": int(self.gemm.relu)}
        return Instr.make(
            "save" if whole else "save_scaled", out=out.base, out_outer=out.row_stride, out_inner=out.column_stride,
            dram=self.gemm.c_at(m.start, n.start), dram_outer=self.gemm.strides[2], dram_inner=self.gemm.out_item,
            outer=m.size, inner=n.size, **more)


def load(memory: str, dram: Number, strides: tuple[int, int], matrix: Matrix, rows: int, columns: int) -> Instr:
    """``rows`` × ``columns`` elements from ``dram``, ``strides`` bytes apart, into the memory ``left`` or ``top``."""
    return Instr.make(f"load_{memory}", dram=dram, dram_outer=strides[0], dram_inner=strides[1], **{
        memory: matrix.base, f"{memory}_outer": matrix.row_stride, f"{memory}_inner": matrix.column_stride,
    }, outer=rows, inner=columns)


# at tensor level: one instruction for each vector that enters the array ---------------------------------------------


def product(design: Design, problem: Problem, operands: Operands) -> Nodes:
    """The nodes of a stream that computes ``problem`` with operands that lie in the array's memories."""
    if design.dataflow == "os":
        return _sums_stay(design, problem, operands)
    if design.dataflow == "is":
        problem, operands = problem.exchanged, operands.exchanged
    return _operand_stays(design, problem, operands)


def _operand_stays(design: Design, problem: Problem, operands: Operands) -> Nodes:
    """Preload, vectors, drain for each fold."""
    left, top, out = operands.a, operands.b, operands.c
    assert out is not None

    def fold(f: Fold) -> Nodes:
        def row(i: Affine) -> Nodes:
            vector = top.at(f.row + i, f.column)
            return [Instr.make("preload", top=vector, stride=top.column_stride, row=i, width=f.width)]

        def step(m: Affine) -> Nodes:
            return [Instr.make(
                "stream", left=left.at(m, f.row), left_stride=left.column_stride, height=f.height,
                out=out.at(m, f.column), out_stride=out.column_stride, width=f.width,
                accumulate=int(operands.add or not f.first))]

        unused = design.rows - f.height if design.charging.whole_array else 0
        nodes = repeat("row", f.height, row) + repeat("unused", unused, lambda _: [Instr.make("shift")])
        return nodes + repeat("step", problem.m, step) + _drain(design, f.height, f.width)

    return folds(problem, design, fold)


def _sums_stay(design: Design, problem: Problem, operands: Operands) -> Nodes:
    """All vectors of a fold, then the sums leave."""
    left, top = operands.a, operands.b
    overlap = design.charging.sums_overlap

    def fold(f: Fold) -> Nodes:
        def step(k: Affine, add: bool) -> Nodes:
            return [Instr.make(
                "multiply", left=left.at(f.row, k), left_stride=left.row_stride, height=f.height,
                top=top.at(k, f.column), top_stride=top.column_stride, width=f.width, accumulate=int(add))]

        out = operands.c or Matrix(f.row * problem.n + f.column * f.height, f.width, 1)
        row, column = (f.row, f.column) if operands.c else (0, 0)
        nodes = step(Affine(0), False) + repeat("step", problem.k - 1, lambda k: step(k + 1, True))
        nodes.append(Instr.make(
            "unload", out=out.at(row, column), out_stride=out.row_stride, height=f.height, width=f.width,
            accumulate=int(operands.add)))
        return nodes if overlap else nodes + _drain(design, f.height, f.width)

    nodes = folds(problem, design, fold)
    if overlap:
        nodes += _drain(design, last(problem.m, design.rows), last(problem.n, design.columns))
    return nodes


def _drain(design: Design, height: int, width: int) -> Nodes:
    """The steps in which the array runs empty; a single PE is empty at once."""
    if not design.drain_steps(height, width):
        return []
    return [Instr.make("drain", height=height, width=width)]
