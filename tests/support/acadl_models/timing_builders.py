"""Small graphs and streams for timing tests, built by hand: no ISA, no resolver between the test and the simulator."""

from __future__ import annotations

from collections.abc import Mapping

from archloom.acadl_models.acadl import (
    CONTAINS,
    FORWARD,
    READ_DATA,
    SRAM,
    ACADLEdge,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    PipelineStage,
)
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import (
    Buffer,
    Op,
    Read,
    ResolvedInstr,
    ResolvedNode,
    ResolvedStream,
    Statement,
    TensorType,
    Window,
    WindowDim,
    Write,
)

ROWS, COLS = 64, 4
"""Shape of the buffer ``mem`` that the streams use: ``ROWS`` words of 32 bits."""

Index = Affine | int | str


def window(buffer: str, row: Index, rows: int = 1, *, stride: int = 1, col: Index = 0, cols: int = COLS) -> Window:
    """``rows`` rows from ``row`` on, ``stride`` apart, each ``cols`` columns from ``col`` on."""
    dims = (WindowDim(0, rows, stride), WindowDim(1, cols, 1))
    return Window(buffer, (Affine.of(row), Affine.of(col)), dims)


def hbm(address: Index, count: int, rows: int = 1, stride: int = 0) -> Window:
    """``rows`` pieces of ``count`` bytes, ``stride`` apart."""
    return Window("hbm", (Affine.of(address),), (WindowDim(0, rows, stride), WindowDim(0, count, 1)))


def instr(
    mnemonic: str,
    *,
    reads: tuple[Window, ...] = (),
    writes: tuple[Window, ...] = (),
    accumulates: tuple[Window, ...] = (),
    attributes: Mapping[str, Index] | None = None,
    registers: Mapping[str, Index] | None = None,
) -> ResolvedInstr:
    """An instruction that reads, then writes and accumulates into the windows given."""
    statements: list[Statement] = [Read(f"%r{i}", w, TensorType(w.shape, "i8")) for i, w in enumerate(reads)]
    statements += [Write(f"%w{i}", w, TensorType(w.shape, "i8")) for i, w in enumerate(writes)]
    for i, w in enumerate(accumulates):
        kind = TensorType(w.shape, "i8")
        statements += [
            Read(f"%a{i}", w, kind),
            Op(f"%x{i}", "constant", (), (("value", Affine(1)),), kind),
            Op(f"%s{i}", "add", (f"%a{i}", f"%x{i}"), (), kind),
            Write(f"%s{i}", w, kind, "accumulate"),
        ]
    pairs = tuple((k, Affine.of(v)) for k, v in (attributes or {}).items())
    state = tuple((k, Affine.of(v)) for k, v in (registers or {}).items())
    return ResolvedInstr(mnemonic, pairs, state, tuple(statements), 0)


def stream(
    *body: ResolvedNode, hbm_bytes: int = 1 << 16, parameters: Mapping[str, int] | None = None
) -> ResolvedStream:
    """A stream over ``hbm``, ``mem`` and ``acc`` (ROWS x COLS i8 each) and the register-file buffer ``regs``."""
    buffers = (
        Buffer("hbm", (hbm_bytes,), "i8"), Buffer("mem", (ROWS, COLS), "i8"), Buffer("acc", (ROWS, COLS), "i8"),
        Buffer("regs", (4, COLS), "i8"),
    )
    return ResolvedStream("test", "hand", tuple((parameters or {}).items()), buffers, (), (), hbm_bytes, body)


def front(*, width: int = 1, buffer: int = 16, fetch_latency: int = 1) -> InstructionFetchStage:
    """A fetch stage with its memory: ``width`` instructions every ``fetch_latency`` cycles."""
    stage = InstructionFetchStage("ifs", issue_buffer_size=buffer)
    unit = InstructionMemoryAccessUnit("imau")
    memory = SRAM("imem", data_width=32, port_width=width, read_latency=fetch_latency, address_ranges=[(0, 1 << 20)])
    ACADLEdge(stage, unit, CONTAINS)
    ACADLEdge(memory, unit, READ_DATA)
    return stage


def after(source: PipelineStage, *units: FunctionalUnit, name: str = "ex") -> ExecuteStage:
    """An execute stage behind ``source`` that contains ``units``."""
    stage = ExecuteStage(name)
    ACADLEdge(source, stage, FORWARD)
    for unit in units:
        ACADLEdge(stage, unit, CONTAINS)
    return stage
