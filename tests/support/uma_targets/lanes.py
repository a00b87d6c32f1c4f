"""A whole target for float32 on one page, as another package would write it: graph, emission, tiles, description."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from archloom.acadl_models.acadl import (
    CONTAINS,
    DRAM,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    ExecuteStage,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    RegisterFile,
    architecture,
    create_ag,
    generate,
)
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.options import Option
from archloom.oracle.stream import Instr
from archloom.uma_targets.kit import Gemm, GemmKit, KitTarget, Nodes, Shape, Tiling, each, pieces, repeat

MNEMONICS = {"load", "splat", "zero", "macc", "store"}
SUM, A, B = range(3)


def graph(options: Mapping[str, Any]) -> ArchitectureGraph:
    """One unit that does everything, one instruction at a time."""
    lanes = options["lanes"]

    @generate
    def build() -> None:
        memory = DRAM("memory", data_width=8, port_width=4 * lanes, read_latency=10, write_latency=10,
                      address_ranges=[(0, 1 << 30)])
        vectors = RegisterFile("vectors", data_width=32 * lanes, registers={f"v{i}": 0 for i in range(4)})
        fetch, fetcher = InstructionFetchStage("fetch", issue_buffer_size=4), InstructionMemoryAccessUnit("fetcher")
        program = SRAM("program", data_width=64, port_width=2, address_ranges=[(0, 1 << 20)])
        stage, unit = ExecuteStage("stage"), MemoryAccessUnit("unit", to_process=MNEMONICS, latency=1)
        for a, b, kind in (
            (fetch, fetcher, CONTAINS), (program, fetcher, READ_DATA), (fetch, stage, FORWARD), (stage, unit, CONTAINS),
            (memory, unit, READ_DATA), (unit, memory, WRITE_DATA), (vectors, unit, READ_DATA),
            (unit, vectors, WRITE_DATA),
        ):
            ACADLEdge(a, b, kind)
        architecture("lanes", clock_hz=1e9, parameters={"lanes": lanes}, buffers={"hbm": memory, "v": vectors})

    return create_ag(build())


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """Row by row, ``lanes`` columns at a time, an element of A against a piece of a row of B."""
    lanes = parameters["lanes"]

    def piece(i: Any, j: Any, count: int) -> Nodes:
        first = Instr.make("zero", vd=SUM, count=count) if gemm.bias is None else Instr.make(
            "load", dram=gemm.bias_at(j), vd=SUM, count=count)
        return [first, *repeat("k", gemm.k, lambda k: [
            Instr.make("splat", dram=gemm.a_at(i, k), vd=A, count=count),
            Instr.make("load", dram=gemm.b_at(k, j), vd=B, count=count),
            Instr.make("macc", vd=SUM, va=A, vb=B, count=count),
        ]), Instr.make("store", dram=gemm.c_at(i, j), vs=SUM, count=count, relu=int(gemm.relu))]

    return repeat("i", gemm.m, lambda i: each(
        "j", pieces(gemm.n, lanes), lambda j, run: piece(i, j * lanes, run.size)))


def tiling(shape: Shape, hardware: Hardware, options: Mapping[str, Any]) -> Tiling:
    """There is nothing to choose."""
    return Tiling({"m": [shape.m], "n": [options["lanes"]], "k": [shape.k]})


LANES = GemmKit(
    name="lanes", description="a vector unit for float32", isa=Path(__file__).with_suffix(".taidl"),
    options=(Option("lanes", int, 4, "elements of a vector register", 1, 64),), graph=graph,
    emit=emit, tiling=tiling,
    macs_per_cycle=lambda g: g.parameters["lanes"], numbers="float32",
)


class Lanes(KitTarget):
    """A vector unit for float32."""

    kit = LANES
