"""Moves of operands and sums between HBM and the array's memories."""

from __future__ import annotations

from archloom.acadl_models.systolic_array import Design
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit.nest import Nodes
from archloom.uma_targets.systolic_array import scalar, tensor
from archloom.uma_targets.systolic_array.folds import Matrix, Number, Operands, Problem


def load(memory: str, dram: Number, strides: tuple[int, int], matrix: Matrix, rows: int, columns: int) -> Instr:
    """``rows`` × ``columns`` elements from ``dram``, ``strides`` bytes apart, into the memory ``left`` or ``top``."""
    return Instr.make(f"load_{memory}", dram=dram, dram_outer=strides[0], dram_inner=strides[1], **{
        memory: matrix.base, f"{memory}_outer": matrix.row_stride, f"{memory}_inner": matrix.column_stride,
    }, outer=rows, inner=columns)  # fmt: skip


def load_operands(
    dataflow: str, operands: Operands, problem: Problem, a: Number, a_stride: int, b: Number, b_stride: int
) -> Nodes:
    """A and B, row-major in HBM with rows ``a_stride`` and ``b_stride`` bytes apart, to the sides where they enter."""
    first, second = ("top", "left") if dataflow == "is" else ("left", "top")
    return [
        load(first, a, (a_stride, 1), operands.a, problem.m, problem.k),
        load(second, b, (b_stride, 1), operands.b, problem.k, problem.n),
    ]


def save(out: Matrix, dram: Number, stride: int, rows: int, columns: int) -> Instr:
    """Sums as they are, to rows ``stride`` bytes apart."""
    return Instr.make(
        "save", out=out.base, out_outer=out.row_stride, out_inner=out.column_stride, dram=dram, dram_outer=stride,
        dram_inner=4, outer=rows, inner=columns,
    )  # fmt: skip


def gemm_nodes(design: Design, problem: Problem, a: int, b: int, c: int) -> Nodes:
    """A product whose operands fit into the memories, from and to the HBM addresses ``a``, ``b`` and ``c``."""
    m, n, k = problem.m, problem.n, problem.k
    found = Operands.streamed(problem, design.dataflow)
    sums = found.c or Matrix(0, n, 1)
    operands = Operands(found.a, found.b, sums)
    level = tensor if design.level == "tensor" else scalar
    nodes = load_operands(design.dataflow, operands, problem, a, k, b, n)
    return [*nodes, *level.product(design, problem, operands), save(sums, c, 4 * n, m, n)]
