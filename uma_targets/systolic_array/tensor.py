"""Matrix products at tensor level: one instruction for each vector that enters the array."""

from __future__ import annotations

from archloom.acadl_models.systolic_array import Design
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.nest import Nodes, repeat
from archloom.uma_targets.systolic_array.folds import Fold, Matrix, Operands, Problem, folds, last


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
                accumulate=int(operands.add or not f.first),
            )]  # fmt: skip

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
                top=top.at(k, f.column), top_stride=top.column_stride, width=f.width, accumulate=int(add),
            )]  # fmt: skip

        out = operands.c or Matrix(f.row * problem.n + f.column * f.height, f.width, 1)
        row, column = (f.row, f.column) if operands.c else (0, 0)
        nodes = step(Affine(0), False) + repeat("step", problem.k - 1, lambda k: step(k + 1, True))
        nodes.append(Instr.make(
            "unload", out=out.at(row, column), out_stride=out.row_stride, height=f.height, width=f.width,
            accumulate=int(operands.add),
        ))  # fmt: skip
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
