"""A vector unit that makes bytes of sums by itself, with one of four roundings: targets of int8 by the kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    RegisterFile,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.parts import Fetch, QueuedUnit
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.requantization import DOUBLING_HIGH, HALF_EVEN, HALF_UP, TRUNCATED, Requantizer
from archloom.uma_targets.kit import Gemm, GemmKit, Instr, KitTarget, Nodes, Option, Shape, Tiling, each, pieces, repeat

ROUNDINGS = {"half_up": Requantizer(HALF_UP), "half_even": Requantizer(HALF_EVEN), "cut": Requantizer(TRUNCATED),
             "doubling": Requantizer(DOUBLING_HIGH, shifts=(31, 62))}
MNEMONICS = {"zero", "load", "load_scale", "widen", "macc", "store", "store_table"}
SUM, A, B = range(3)


def graph(options: Mapping[str, Any], rounding: int) -> ArchitectureGraph:
    """One unit that does everything, one instruction at a time."""
    lanes = options["lanes"]

    @generate
    def build() -> None:
        memory = DRAM("memory", data_width=8, port_width=4 * lanes, read_latency=10, write_latency=10,
                      address_ranges=[(0, 1 << 30)])
        vectors = RegisterFile("vectors", data_width=32 * lanes, registers={f"v{i}": 0 for i in range(4)})
        scale = RegisterFile("scale", data_width=32 * lanes, registers={f"s{i}": 0 for i in range(2)})
        fetch = Fetch("fetch", entries=4)
        unit = QueuedUnit("unit", fetch, MNEMONICS, depth=2, latency=1, interval=1, in_flight=1).unit
        for storage in (memory, vectors, scale):
            ACADLEdge(storage, unit, READ_DATA)
            ACADLEdge(unit, storage, WRITE_DATA)
        architecture("rounders", clock_hz=1e9, parameters={"lanes": lanes, "rounding": rounding},
                     buffers={"hbm": memory, "v": vectors, "scale": scale})

    return create_ag(build())


def emit(gemm: Gemm, mapping: TileMapping, parameters: Mapping[str, int]) -> Nodes:
    """Row by row, ``lanes`` columns at a time, an element of A against a piece of a row of B."""
    lanes, made = parameters["lanes"], gemm.requantized
    assert made is not None
    by, table = made.by, {} if made.table is None else {"table": made.table}

    def piece(i: Any, j: Any, count: int) -> Nodes:
        return [
            Instr.make("load", dram=gemm.bias_at(j), vd=SUM, count=count),
            Instr.make("load_scale", dram=made.multiplier_at(j), row=0, count=count),
            Instr.make("load_scale", dram=made.shift_at(j), row=1, count=count),
            *repeat("k", gemm.k, lambda k: [
                Instr.make("widen", dram=gemm.a_at(i, k), vd=A, count=count, stride=0, zero=by.operand_zeros[0]),
                Instr.make("widen", dram=gemm.b_at(k, j), vd=B, count=count, stride=1, zero=by.operand_zeros[1]),
                Instr.make("macc", vd=SUM, va=A, vb=B, count=count)]),
            Instr.make("store_table" if table else "store", dram=gemm.c_at(i, j), vs=SUM, count=count,
                       zero=by.zero_point, low=by.low, high=by.high, **table)]

    return repeat("i", gemm.m, lambda i: each(
        "j", pieces(gemm.n, lanes), lambda j, run: piece(i, j * lanes, run.size)))


def tiling(shape: Shape, hardware: Hardware, options: Mapping[str, Any]) -> Tiling:
    """There is nothing to choose."""
    return Tiling({"m": [shape.m], "n": [options["lanes"]], "k": [shape.k]})


def rounder(rounding: str, **changes: Any) -> KitTarget:
    """The target with one of :data:`ROUNDINGS`; ``changes`` are fields of its requantizer."""
    number = list(ROUNDINGS).index(rounding)

    class Rounder(KitTarget):
        kit = GemmKit(
            name=f"rounds_{rounding}", description="a vector unit with a rounding of its own",
            isa=Path(__file__).with_suffix(".taidl"), options=(Option("lanes", int, 4, "lanes", 1, 64),),
            graph=lambda options: graph(options, number), emit=emit, tiling=tiling,
            macs_per_cycle=lambda g: g.parameters["lanes"], requantizer=replace(ROUNDINGS[rounding], **changes))

    return Rounder()
