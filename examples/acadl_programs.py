"""Programs of the ACADL paper (arXiv:2402.00069) as it writes them: lists of instructions, each with a function.

A matrix product on the One MAC Accelerator, in loops with branches and unrolled in tiles, and one on a systolic array
of scalar PEs. No ISA is needed: the graph holds the data, and the instructions say what they read, write and compute.

``python examples/acadl_programs.py`` runs all three, compares with NumPy, and prints their cycles.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))  # works in a checkout that is not installed, too

from archloom.acadl_models.acadl import (
    ACADLEdge,
    ArchitectureGraph,
    Data,
    ExecuteStage,
    FunctionalUnit,
    Instruction,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    Memory,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    acadl_edge_t,
    create_ag,
    generate,
    latency_t,
)
from archloom.acadl_models.programs import Simulated, simulate
from archloom.acadl_models.systolic_array import systolic_array

FIRST = 0x1000
"""Address of the first word of the data memory."""


@generate
def oma() -> None:
    """The OMA of section 4.1 with a decoding stage, without a cache; its jumps are processed by the access unit."""
    imem0 = Memory(name="imem0", data_width=32, port_width=1, read_latency=latency_t(1), write_latency=latency_t(1),
                   address_ranges=[[0, 0x1000]])
    dmem0 = Memory(name="dmem0", data_width=32, port_width=1, read_latency=latency_t(4), write_latency=latency_t(4),
                   address_ranges=[[FIRST, 0x4000]])
    pcrf0 = RegisterFile(name="pcrf0", data_width=32, registers={"pc": Data(32, 0)})
    rf0 = RegisterFile(name="rf0", data_width=32, registers={f"r{k}": Data(32, 0) for k in range(16)})
    ifs0 = InstructionFetchStage(name="ifs0", latency=latency_t(1), issue_buffer_size=1)
    imau0 = InstructionMemoryAccessUnit(name="imau0", to_process={"blt"}, latency=latency_t(1))
    ds0 = PipelineStage(name="ds0", latency=latency_t(1))
    ex0 = ExecuteStage(name="ex0", latency=latency_t(1))
    fu0 = FunctionalUnit(name="fu0", to_process={"mov", "add", "mac"}, latency=latency_t(1))
    mau0 = MemoryAccessUnit(name="mau0", to_process={"load", "store"}, latency=latency_t(1))
    ACADLEdge(imem0, imau0, acadl_edge_t.READ_DATA)
    ACADLEdge(pcrf0, imau0, acadl_edge_t.READ_DATA)
    ACADLEdge(imau0, pcrf0, acadl_edge_t.WRITE_DATA)
    ACADLEdge(ifs0, imau0, acadl_edge_t.CONTAINS)
    ACADLEdge(ifs0, ds0, acadl_edge_t.FORWARD)
    ACADLEdge(ds0, ex0, acadl_edge_t.FORWARD)
    ACADLEdge(ex0, fu0, acadl_edge_t.CONTAINS)
    ACADLEdge(ex0, mau0, acadl_edge_t.CONTAINS)
    for unit in (imau0, fu0, mau0):
        ACADLEdge(rf0, unit, acadl_edge_t.READ_DATA)
    for unit in (fu0, mau0):
        ACADLEdge(unit, rf0, acadl_edge_t.WRITE_DATA)
    ACADLEdge(dmem0, mau0, acadl_edge_t.READ_DATA)
    ACADLEdge(mau0, dmem0, acadl_edge_t.WRITE_DATA)


# --- instructions of the OMA ---------------------------------------------------------------------------------------
def mov(rd: str, value: int) -> Instruction:
    return Instruction("mov", write_registers=[rd], immediates=[Data(32, value)], function=lambda value: value)


def add(rd: str, ra: str, value: int) -> Instruction:
    return Instruction("add", read_registers=[ra], write_registers=[rd], immediates=[Data(32, value)],
                       function=lambda a, value: a + value)


def mac(rd: str, ra: str, rb: str) -> Instruction:
    return Instruction("mac", read_registers=[ra, rb, rd], write_registers=[rd], function=lambda a, b, acc: acc + a * b)


def load(rd: str, address: int | str, *registers: str) -> Instruction:
    """``rd`` from an address that may name ``registers``."""
    return Instruction("load", read_registers=registers, read_addresses=[address], write_registers=[rd],
                       function=lambda *read: read[-1])


def store(rs: str, address: int | str, *registers: str) -> Instruction:
    return Instruction("store", read_registers=[rs, *registers], write_addresses=[address],
                       function=lambda value, *_: value)


def blt(ra: str, value: int, offset: int) -> Instruction:
    """To the instruction ``offset`` away if ``ra < value``."""
    return Instruction("blt", read_registers=[ra, "pc"], write_registers=["pc"], immediates=[value, offset],
                       function=lambda a, pc, value, offset: pc + offset if a < value else pc + 1)


def naive_gemm(m: int, n: int, k: int) -> list[Instruction]:
    """C = A · B element by element; the matrices lie one behind the other, row by row. 14 instructions."""
    a, b, c = FIRST, FIRST + m * k, FIRST + m * k + k * n
    i, j, p, left, right, total = "r1", "r2", "r3", "r6", "r7", "r8"
    return [
        mov(i, 0),
        mov(j, 0),
        mov(total, 0),
        mov(p, 0),
        load(left, f"{a} + {k} * {i} + {p}", i, p),
        load(right, f"{b} + {n} * {p} + {j}", p, j),
        mac(total, left, right),
        add(p, p, 1),
        blt(p, k, -4),
        store(total, f"{c} + {n} * {i} + {j}", i, j),
        add(j, j, 1),
        blt(j, n, -9),
        add(i, i, 1),
        blt(i, m, -12),
    ]


def tiled_gemm(m: int, n: int, k: int, tile: int) -> list[Instruction]:
    """C += A · B in tiles of ``tile`` a side (which divides m, n and k), without a branch: Python's loops."""
    a, b, c = FIRST, FIRST + m * k, FIRST + m * k + k * n
    program: list[Instruction] = []
    for i0, j0, p0 in product(range(0, m, tile), range(0, n, tile), range(0, k, tile)):
        for i, j in product(range(i0, i0 + tile), range(j0, j0 + tile)):
            program.append(load("r8", c + n * i + j))
            for p in range(p0, p0 + tile):
                program += [load("r6", a + k * i + p), load("r7", b + n * p + j), mac("r8", "r6", "r7")]
            program.append(store("r8", c + n * i + j))
    return program


# --- instructions of the systolic array ----------------------------------------------------------------------------
def pe(i: int, j: int, register: str) -> str:
    """A register of a PE: ``west``, ``north`` or ``own``."""
    return f"grid.pe[{i}][{j}].registers.{register}"


def move(operation: str, memory: str, address: int, register: str) -> Instruction:
    """A word of a memory on a side of the array into a register."""
    return Instruction(operation, read_addresses=[(memory, address)], write_registers=[register],
                       function=lambda word: word)


def multiply(rows: int, columns: int, i: int, j: int) -> Instruction:
    """A PE multiplies onto its own sum, and passes to the east and to the south what came from the other sides."""
    east, south = [pe(i, j + 1, "west")] * (j + 1 < columns), [pe(i + 1, j, "north")] * (i + 1 < rows)

    def function(west: int, north: int, own: int) -> object:
        written = (own + west * north, *[west] * len(east), *[north] * len(south))
        return written if len(written) > 1 else written[0]

    return Instruction("mac", read_registers=[pe(i, j, name) for name in ("west", "north", "own")],
                       write_registers=[pe(i, j, "own"), *east, *south], function=function)


def systolic_gemm(rows: int, columns: int, k: int) -> Iterator[Instruction]:
    """C = A · B for a C as large as the array: columns of A from the left, rows of B from the top."""
    for p in range(k):
        yield from (move("load_west", "memory.left", rows * p + i, pe(i, 0, "west")) for i in range(rows))
        yield from (move("load_north", "memory.top", columns * p + j, pe(0, j, "north")) for j in range(columns))
        yield from (multiply(rows, columns, i, j) for i, j in product(range(rows), range(columns)))
    for i, j in product(range(rows), range(columns)):
        yield Instruction("store_own", read_registers=[pe(i, j, "own")],
                          write_addresses=[("memory.out", columns * i + j)], function=lambda own: own)


# --- running them --------------------------------------------------------------------------------------------------
def words(*matrices: np.ndarray, first: int = 0) -> dict[int, int]:
    """Matrices one behind the other, row by row, by address."""
    return dict(enumerate((int(v) for matrix in matrices for v in matrix.flat), first))


def of_memory(done: Simulated, memory: str, first: int, shape: tuple[int, int]) -> np.ndarray:
    """What a memory holds from an address on, as a matrix."""
    held = done.run.data[memory]
    return np.array([held[first + k] for k in range(shape[0] * shape[1])]).reshape(shape)


def on_oma(program: list[Instruction], a: np.ndarray, b: np.ndarray) -> tuple[Simulated, np.ndarray]:
    """Run a product on the OMA."""
    graph: ArchitectureGraph = create_ag(oma())
    done = simulate(graph, program, data={"dmem0": words(a, b, first=FIRST)})
    return done, of_memory(done, "dmem0", FIRST + a.size + b.size, (a.shape[0], b.shape[1]))


def on_array(a: np.ndarray, b: np.ndarray) -> tuple[Simulated, np.ndarray]:
    """Run a product on an array of the size of its result."""
    shape = a.shape[0], b.shape[1]
    done = simulate(systolic_array(*shape, level="scalar"), list(systolic_gemm(*shape, a.shape[1])),
                    data={"memory.left": words(a.T), "memory.top": words(b)})
    return done, of_memory(done, "memory.out", 0, shape)


def main() -> None:
    """All three, with NumPy's result beside them."""
    draw = np.random.default_rng(0)
    a, b = draw.integers(-8, 8, (4, 8)), draw.integers(-8, 8, (8, 4))
    for name, (done, c) in (
        ("OMA, branches", on_oma(naive_gemm(4, 4, 8), a, b)), ("OMA, tiles of 2", on_oma(tiled_gemm(4, 4, 8, 2), a, b)),
        ("systolic array", on_array(a, b)),
    ):
        np.testing.assert_array_equal(c, a @ b)
        print(f"{name:16} {done.run.steps:5} instructions {done.cycles:6} cycles ({done.simulator})")


if __name__ == "__main__":
    main()
