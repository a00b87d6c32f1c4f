"""A vector processor of one's own, with a small matrix unit: blocks of rows against vectors, and tables of activations.

Everything is a matrix product, convolutions included. Zero points are subtracted as bytes are loaded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, registers, row_memory, shared
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Instr, Nodes, Piece, TileMapping, each, pieces

ISA, BLOCKS = Path(__file__).with_suffix(".taidl"), 4  # blocks of rows that meet a vector before the next one
STATED = Stated(ISA)


def vectors(
    *,
    lanes: Annotated[int, STATED.size("lanes", "elements of a vector")] = STATED["lanes"],
    memory_cycles: Annotated[int, Size(1, 10_000, "latency of memory", "cycles")] = 20,
    clock_hz: Annotated[float, Clock("clock of the processor")] = 1e9,
) -> acadl.ArchitectureGraph:
    """Loads of either operand, products and stores side by side. TargetError that lists every option out of range."""
    isa = STATED.checked(vectors, locals())

    @acadl.generate
    def build() -> None:
        memory = acadl.DRAM("memory", data_width=8, port_width=lanes, max_concurrent_requests=16, read_write_ports=4,
                            read_latency=memory_cycles, write_latency=memory_cycles, address_ranges=[(0, 1 << 32)])
        a, v, scale = (registers(*held(isa.buffer(name))) for name in ("a", "v", "scale"))
        lut, rows = registers("lut", *shared(isa.buffer("lut"), words=1)), isa.scope["ROWS"]
        acc = row_memory(*held(isa.buffer("acc")), requests=16, ports=12)
        fetch = Fetch("fetch", entries=32, width=4)
        for name, interval, reads, writes in (
            ("rows", {"load_a": 1}, [memory], [a]),
            ("columns", {"load_b": 1, "start": 1, "load_scale": 1, "load_table": 1}, [memory], [v, acc, scale, lut]),
            ("products", {"multiply": rows}, [a, v, acc], [acc]),
            ("output", {"store": rows, "store_looked_up": rows}, [acc, scale, lut], [memory]),
        ):
            queued = QueuedUnit(name, fetch, set(interval), depth=16, latency=1, interval=dict(interval), in_flight=8)
            connect(queued.unit, reads, writes)
        acadl.architecture("vectors", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory})

    return acadl.create_ag(build())


def emit(gemm: Gemm, mapping: TileMapping, sizes: Mapping[str, int]) -> Nodes:
    """Blocks of rows of a vector of columns each, all of k."""
    lanes, high, made = sizes["lanes"], sizes["ROWS"] * BLOCKS, gemm.requantized
    table = [] if made is None or made.table is None else [Instr.make("load_table", dram=made.table)]
    return table + each("i", pieces(gemm.m, high), lambda i, rows: each(
        "j", pieces(gemm.n, lanes), lambda j, cols: list(vector(gemm, sizes, i * high, rows, j, cols))))


def vector(
    gemm: Gemm, sizes: Mapping[str, int], first: Affine, rows: Piece, j: Affine, cols: Piece,
) -> Iterator[Node]:
    """A vector of columns for some blocks of rows."""
    lanes, high, deepest = (sizes[name] for name in ("lanes", "ROWS", "DEEP"))
    made, (a, b, c) = gemm.requantized, gemm.strides
    assert made is not None  # as the kit has it
    acc, at, run, (zero_a, zero_b) = j % 2 * (high * BLOCKS), j * lanes, pieces(rows.size, high), made.by.operand_zeros
    yield Instr.make("load_scale", multiplier=made.multiplier_at(at), shift=made.shift_at(at), cols=cols.size)
    yield from each("g", run, lambda g, block: [
        Instr.make("start", dram=gemm.bias_at(at), acc=acc + g * high, cols=cols.size)])
    yield from each("k", pieces(gemm.k, 8 * deepest), lambda k, deep: [
        *each("h", run, lambda h, block: [Instr.make(
            "load_a", dram=gemm.a_at(first + h * high, k * (8 * deepest)), a=k % 2 * 32 + h * 8, rows=block.size,
            deep=deep.size, stride=a, zero=zero_a)]),
        *each("s", pieces(deep.size, deepest), lambda s, part: [
            Instr.make("load_b", dram=gemm.b_at(k * (8 * deepest) + s * deepest, at), v=s % 4 * deepest, deep=part.size,
                       cols=cols.size, stride=b, zero=zero_b),
            *each("u", run, lambda u, block: [Instr.make(
                "multiply", acc=acc + u * high, a=k % 2 * 32 + u * 8 + s, v=s % 4 * deepest)])])])
    name = "store" if made.table is None else "store_looked_up"
    yield from each("w", run, lambda w, block: [Instr.make(
        name, dram=gemm.c_at(first + w * high, at), acc=acc + w * high, rows=block.size, cols=cols.size, stride=c,
        zero=made.by.zero_point, low=made.by.low, high=made.by.high)])


def tiling(shape: kit.Shape, hardware: kit.Hardware, sizes: Mapping[str, Any]) -> kit.Tiling:
    """There is nothing to choose."""
    return kit.Tiling({"m": [sizes["ROWS"] * BLOCKS], "n": [sizes["lanes"]], "k": [shape.k]})


GRAPH = kit.GraphOptions(vectors)


class Vectors(kit.KitTarget):
    """A vector processor with a small matrix unit."""

    kit = kit.GemmKit(
        name="vectors", description="a vector processor with a matrix unit of 4 x 8 blocks, int8",
        isa=ISA, options=GRAPH.options(), graph=GRAPH.graph, emit=emit, tiling=tiling,
        requantizer=kit.Requantizer(kit.HALF_EVEN, shifts=(1, 62), operand_zeros=True, tables=True))


Vectors().register()
