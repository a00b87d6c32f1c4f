"""Matrix products at tensor level: one instruction for each vector that enters the array."""

from __future__ import annotations

from dataclasses import dataclass

from acadl_models.systolic_array import Design
from oracle.affine import Affine
from oracle.stream import Instr
from uma_targets.systolic_array.folds import Nodes, Problem, over, over_sums, repeat

Number = Affine | int


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

    ``a`` is m × k and ``b`` is k × n; with stationary inputs, ``b`` is on the left and ``a`` on the top. ``c`` is m × n,
    or None: fold after fold, each fold's sums in a row.
    """

    a: Matrix
    b: Matrix
    c: Matrix | None
    add: bool = False

    @classmethod
    def streamed(cls, problem: Problem, dataflow: str) -> "Operands":
        """Operands that lie as they enter: the elements of each vector side by side, from address 0."""
        m, n, k = problem.m, problem.n, problem.k
        if dataflow == "os":
            return cls(Matrix(0, 1, m), Matrix(0, n, 1), None)
        if dataflow == "ws":
            return cls(Matrix(0, k, 1), Matrix(0, n, 1), Matrix(0, n, 1))
        return cls(Matrix(0, 1, m), Matrix(0, 1, k), Matrix(0, 1, m))


def product(design: Design, problem: Problem, operands: Operands | None = None) -> Nodes:
    """The nodes of a stream that computes ``problem`` with operands that lie in the array's memories."""
    found = operands or Operands.streamed(problem, design.dataflow)
    if design.dataflow == "os":
        return _sums_stay(design, problem, found)
    if design.dataflow == "is":
        problem = Problem(problem.n, problem.m, problem.k)
        found = Operands(found.b.transposed, found.a.transposed, found.c and found.c.transposed, found.add)
    return _operand_stays(design, problem, found)


def _operand_stays(design: Design, problem: Problem, operands: Operands) -> Nodes:
    """Weights stay (or, with exchanged operands, inputs): preload, vectors, drain for each fold."""
    left, top = operands.a, operands.b
    out = operands.c or Matrix(0, problem.n, 1)

    def fold(k: Affine, height: int, n: Affine, width: int, add: bool) -> Nodes:
        nodes = repeat("row", height, lambda row: [
            Instr.make("preload", top=top.at(k + row, n), stride=top.column_stride, row=row, width=width)
        ])  # fmt: skip
        if design.charging.whole_array:
            nodes += repeat("rest", design.rows - height, lambda _: [Instr.make("shift")])
        nodes += repeat("step", problem.m, lambda m: [
            Instr.make(
                "stream", left=left.at(m, k), left_stride=left.column_stride, height=height, out=out.at(m, n),
                out_stride=out.column_stride, width=width, accumulate=int(add),
            )
        ])  # fmt: skip
        return nodes + _drain(design, height, width)

    def folds(n: Affine, width: int) -> Nodes:
        return over_sums(
            "k", problem.k, design.rows,
            lambda k, height, first: fold(k, height, n, width, operands.add or not first),
        )  # fmt: skip

    return over("n", problem.n, design.columns, folds)


def _sums_stay(design: Design, problem: Problem, operands: Operands) -> Nodes:
    """Sums stay: all vectors of a fold, then the sums leave."""
    left, top = operands.a, operands.b
    overlap = design.charging.sums_overlap

    def fold(m: Affine, height: int, n: Affine, width: int) -> Nodes:
        def step(k: Affine, add: int) -> Nodes:
            return [Instr.make(
                "multiply", left=left.at(m, k), left_stride=left.row_stride, height=height, top=top.at(k, n),
                top_stride=top.column_stride, width=width, accumulate=add,
            )]  # fmt: skip

        out = operands.c.at(m, n) if operands.c else m * problem.n + n * height
        nodes = step(Affine(0), 0) + repeat("step", problem.k, lambda k: step(k, 1), start=1)
        nodes.append(Instr.make(
            "unload", out=out, out_stride=operands.c.row_stride if operands.c else width, height=height, width=width,
            accumulate=int(operands.add),
        ))  # fmt: skip
        return nodes if overlap else nodes + _drain(design, height, width)

    nodes = over("m", problem.m, design.rows, lambda m, height: over(
        "n", problem.n, design.columns, lambda n, width: fold(m, height, n, width)
    ))  # fmt: skip
    if overlap:
        nodes += _drain(design, _last(problem.m, design.rows), _last(problem.n, design.columns))
    return nodes


def _drain(design: Design, height: int, width: int) -> Nodes:
    """The steps in which the array runs empty; a single PE is empty at once."""
    if not design.drain_steps(height, width):
        return []
    return [Instr.make("drain", height=height, width=width)]


def _last(extent: int, tile: int) -> int:
    """The size of the last tile."""
    return (extent - 1) % tile + 1
