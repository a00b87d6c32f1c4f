"""Cycles and traffic of matrix products on a systolic array, simulated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING

from archloom.acadl_models.systolic_array import Design, graph_of
from archloom.acadl_models.systolic_array.design import FETCH_CYCLES
from archloom.mapper.memory import place
from archloom.oracle.errors import TargetError
from archloom.oracle.memory import paused
from archloom.oracle.stream import Instr, Stream
from archloom.uma_targets.kit.nest import Nodes, repeat
from archloom.uma_targets.systolic_array import emit
from archloom.uma_targets.systolic_array.emit import Matrix, Number, Operands, load
from benchmarks.published import systolic_scalar

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.acadl_models.timing import TimingResult
    from archloom.oracle.taidl.isa import Isa


@dataclass(frozen=True)
class Problem(emit.Problem):
    """A product with what is counted of it."""

    @property
    def macs(self) -> int:
        return self.m * self.n * self.k

    def over_rows(self, design: Design) -> int:
        """The extent that is cut over the array's rows."""
        return self.m if design.dataflow == "os" else self.k

    def over_columns(self, design: Design) -> int:
        """The extent that is cut over the array's columns."""
        return self.m if design.dataflow == "is" else self.n

    def folds(self, design: Design) -> int:
        """How many folds the product takes."""
        return -(-self.over_rows(design) // design.rows) * -(-self.over_columns(design) // design.columns)

    def last_fold(self, design: Design) -> tuple[int, int]:
        """Rows and columns that the last fold uses."""
        return emit.last(self.over_rows(design), design.rows), emit.last(self.over_columns(design), design.columns)

    def counted(self, design: Design, cycles: int) -> int:
        """What the convention counts of a run of ``cycles`` that ends with this product.

        The first instruction starts when it is fetched, which no convention counts. Without hops, the way from memory
        and to memory does not count either. At tensor level reading is part of a step, and only an array that needs no
        drain ends with the writing. At scalar level operands that do not stay come in one cycle before the first PE
        works, and the sum of the last PE, if the last fold uses it, is stored in the cycle after it.
        """
        cycles -= FETCH_CYCLES + int(design.charging.last_index)
        if design.charging.hops:
            return cycles
        if design.level == "tensor":
            return cycles if design.drain_steps(design.rows, design.columns) else cycles - 1
        height, width = self.last_fold(design)
        if design.dataflow == "os":
            return cycles - 1 - int(height == design.rows and width == design.columns)
        return cycles - int(width == design.columns)


@dataclass(frozen=True)
class Machine:
    """A design with its graph and its ISA, each made once."""

    design: Design

    @cached_property
    def graph(self) -> "ArchitectureGraph":
        return graph_of(self.design)

    @cached_property
    def isa(self) -> "Isa":
        from archloom.oracle import taidl

        return taidl.load(self.design.isa_name, **self.graph.parameters)

    def prepare(self) -> "Machine":
        """Make graph and ISA now."""
        assert self.graph and self.isa
        return self

    def stream(self, problem: Problem) -> Stream:
        """The array's part of a product: the operands lie in its memories, the sums stay there."""
        nodes = level_of(self.design).product(self.design, problem, streamed(problem, self.design.dataflow))
        name = f"{self.design.dataflow}_{problem.m}x{problem.n}x{problem.k}"
        return Stream(self.design.isa_name, self.isa.parameters, (), (), 0, tuple(nodes), name)

    def gemm(self, problem: Problem) -> Stream:
        """The whole product: C = A · B from HBM to HBM, int8 in, int32 out."""
        m, n, k = problem.m, problem.n, problem.k
        a, b, c = place([("A", (m, k), "int8", m * k), ("B", (k, n), "int8", k * n), ("C", (m, n), "int32", 4 * m * n)])
        nodes = gemm_nodes(self.design, problem, a.address, b.address, c.address)
        size = c.address + 4 * m * n
        return Stream(self.design.isa_name, self.isa.parameters, (a, b), (c,), size, tuple(nodes), "gemm")

    def run(self, problem: Problem) -> "Measured":
        """The product simulated."""
        from archloom.acadl_models.timing import simulate
        from archloom.oracle.resolve import resolve

        return Measured(self.design, problem, simulate(self.graph, resolve(self.stream(problem), self.isa)))

    def network(self, problems: Iterable[Problem]) -> Stream:
        """The products of a network as one stream; equal layers are a loop."""
        nodes: Nodes = []
        layers = Counter(problems)
        for problem, count in layers.items():
            body = self.stream(problem).body
            nodes += repeat("layer", count, lambda _, body=body: body)  # type: ignore[misc]
        return Stream(self.design.isa_name, self.isa.parameters, (), (), 0, tuple(nodes), f"{layers.total()} layers")

    def run_network(self, problems: Sequence[Problem]) -> int:
        """Cycles of all layers together, simulated in one stream, each as the convention counts it.

        Raises TargetError where folds, and so layers, overlap, and where every PE is an object.
        """
        from archloom.acadl_models.timing import simulate
        from archloom.oracle.resolve import resolve

        design = self.design
        if design.level != "tensor" or design.charging.sums_overlap or not design.drain_steps(1, 1):
            raise TargetError(
                "systolic_array: a network runs as one stream at level tensor, in convention scalesim and on more than "
                f"one PE; found level {design.level}, convention {design.convention}, "
                f"{design.rows} x {design.columns} PEs"
            )
        with paused():
            timing = simulate(self.graph, resolve(self.network(problems), self.isa))
        return problems[-1].counted(design, timing.cycles) - (len(problems) - 1) * int(design.charging.last_index)


@lru_cache(maxsize=64)
def machine(design: Design) -> Machine:
    """The machine of ``design``, made once."""
    return Machine(design)


@dataclass(frozen=True)
class Measured:
    """A simulated product: what the convention counts, and the words that the memories moved."""

    design: Design
    problem: Problem
    timing: "TimingResult"

    @property
    def cycles(self) -> int:
        """Cycles as the convention counts them."""
        return self.problem.counted(self.design, self.timing.cycles)

    @property
    def left_reads(self) -> int:
        """Elements read on the left."""
        return self.timing.storage("memory.left").bytes_read

    @property
    def top_reads(self) -> int:
        """Elements read on the top."""
        return self.timing.storage("memory.top").bytes_read

    @property
    def ifmap_reads(self) -> int:
        """Elements of the inputs read."""
        return self.top_reads if self.design.dataflow == "is" else self.left_reads

    @property
    def filter_reads(self) -> int:
        """Elements of the weights read."""
        return self.left_reads if self.design.dataflow == "is" else self.top_reads

    @property
    def ofmap_writes(self) -> int:
        """Sums written, partial ones included."""
        return self.timing.storage("memory.out").bytes_written // 4

    @property
    def utilization(self) -> float:
        """Multiplications over what all PEs could do in the counted cycles."""
        return self.problem.macs / (self.cycles * self.design.rows * self.design.columns) if self.cycles else 1.0

    @property
    def mapping_efficiency(self) -> float:
        """The share of PEs that the folds use."""
        design, problem = self.design, self.problem
        used = problem.over_rows(design) * problem.over_columns(design)
        return used / (problem.folds(design) * design.rows * design.columns)


def streamed(problem: Problem, dataflow: str) -> Operands:
    """Operands that lie as they enter: the elements of each vector side by side, from address 0."""
    m, n, k = problem.m, problem.n, problem.k
    if dataflow == "os":
        return Operands(Matrix(0, 1, m), Matrix(0, n, 1), None)
    if dataflow == "ws":
        return Operands(Matrix(0, k, 1), Matrix(0, n, 1), Matrix(0, n, 1))
    return Operands(Matrix(0, 1, m), Matrix(0, 1, k), Matrix(0, 1, m))


def level_of(design: Design) -> ModuleType:
    """What emits products at the level of ``design``."""
    return emit if design.level == "tensor" else systolic_scalar


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
    found = streamed(problem, design.dataflow)
    sums = found.c or Matrix(0, n, 1)
    operands = Operands(found.a, found.b, sums)
    nodes = load_operands(design.dataflow, operands, problem, a, k, b, n)
    return [*nodes, *level_of(design).product(design, problem, operands), save(sums, c, 4 * n, m, n)]
