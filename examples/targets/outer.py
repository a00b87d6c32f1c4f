"""An engine of outer products of one's own: vectors, square tiles of sums, and a rounding in two steps.

Everything is a matrix product, convolutions included; zero points are part of the bias. Four tiles beside each other
take the columns of C, so that a vector of A meets four of B. Constant B lies in memory as vectors; another one is made
such first, in a workspace, by loads that interleave its rows one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from archloom.acadl_models import acadl
from archloom.acadl_models.options import Clock, Size, Stated
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, registers, row_memory
from archloom.mapper.packing import Place
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Node
from archloom.uma_targets import kit
from archloom.uma_targets.kit import Gemm, Instr, Nodes, Piece, TileMapping, ceil_div, each, pieces, repeat

ISA = Path(__file__).with_suffix(".taidl")
STATED = Stated(ISA)
TWICE = "((sum * multiplier + (1 << 30) >> 31) + (1 << max(shift - 31, 0) >> 1)) >> max(shift - 31, 0)"


def outer(
    *,
    lanes: Annotated[int, STATED.size("lanes", "elements of a vector, rows and columns of a tile")] = STATED["lanes"],
    memory_cycles: Annotated[int, Size(1, 10_000, "latency of memory", "cycles")] = 20,
    clock_hz: Annotated[float, Clock("clock of the engine")] = 2e9,
) -> acadl.ArchitectureGraph:
    """Loads of A, of B, outer products and stores side by side. TargetError that lists every option out of range."""
    isa = STATED.checked(outer, locals())

    @acadl.generate
    def build() -> None:
        memory = acadl.DRAM("memory", data_width=8, port_width=isa.scope["TILES"] * lanes, max_concurrent_requests=16,
                            read_write_ports=4, read_latency=memory_cycles, write_latency=memory_cycles,
                            address_ranges=[(0, 1 << 32)])
        z, scale = (registers(*held(isa.buffer(name))) for name in ("z", "scale"))
        tile = row_memory(*held(isa.buffer("tile")), requests=8, ports=6)
        fetch = Fetch("fetch", entries=32, width=4)
        for name, interval, reads, writes in (
            ("rows", {"load_rows": 1}, [memory], [z]),
            ("columns", {"load_columns": "deep", "load_vectors": 1, "start": 1, "clear": 1, "load_scale": 1}, [memory],
             [z, tile, scale]),
            ("products", {"outer": 1}, [z, tile], [tile]),
            ("output", {"store": "rows", "store_sums": "rows", "store_vectors": 1}, [z, tile, scale], [memory]),
        ):
            queued = QueuedUnit(name, fetch, set(interval), depth=16, latency=1, interval=dict(interval), in_flight=8)
            connect(queued.unit, reads, writes)
        acadl.architecture("outer", clock_hz=clock_hz, isa=isa, buffers={"hbm": memory})

    return acadl.create_ag(build())


def vectors(sizes: Mapping[str, Any]) -> Place:
    """Where B lies: column by column of tiles vectors of four rows, those of one tile behind those of the other."""
    k, n, wide, deepest = Affine.variable("k"), Affine.variable("n"), sizes["TILES"] * sizes["lanes"], sizes["DEEP"]
    return n // wide, k // deepest, n % wide, k % deepest


def emit(gemm: Gemm, mapping: TileMapping, sizes: Mapping[str, int]) -> Nodes:
    """A row of tiles at a time, all of k."""
    there = gemm if gemm.packed else gemm.with_b(vectors(sizes), gemm.workspace)
    return ([] if gemm.packed else pack(gemm, there, sizes)) + each(
        "i", pieces(gemm.m, sizes["lanes"]), lambda i, rows: each(
            "j", pieces(gemm.n, sizes["TILES"] * sizes["lanes"]), lambda j, cols: list(
                row_of_tiles(there, sizes, i, rows, j, cols))))


def pack(gemm: Gemm, there: Gemm, sizes: Mapping[str, int]) -> Nodes:
    """B as vectors in the workspace."""
    wide, deepest = sizes["TILES"] * sizes["lanes"], sizes["DEEP"]
    return each("p", pieces(gemm.n, wide), lambda p, cols: each("q", pieces(gemm.k, deepest), lambda q, deep: [
        Instr.make("load_columns", dram=gemm.b_at(q * deepest, p * wide), z=q % 8 * sizes["TILES"], deep=deep.size,
                   cols=cols.size, stride=gemm.strides[1]),
        Instr.make("store_vectors", dram=there.b_at(q * deepest, p * wide), z=q % 8 * sizes["TILES"],
                   count=sizes["TILES"])]))


def row_of_tiles(
    gemm: Gemm, sizes: Mapping[str, int], i: Affine, rows: Piece, j: Affine, cols: Piece,
) -> Iterator[Node]:
    """As many tiles of C as there are."""
    lanes, tiles, deepest, steps = (sizes[name] for name in ("lanes", "TILES", "DEEP", "STEPS"))
    first, at = i * lanes, j * (tiles * lanes)
    yield from each("t", pieces(cols.size, lanes), lambda t, wide: begin(gemm, t, at + t * lanes, wide.size))
    yield from each("k", pieces(gemm.k, steps * deepest), lambda k, deep: [
        Instr.make("load_rows", dram=gemm.a_at(first, k * (steps * deepest)), z=k % 2 * steps, rows=rows.size,
                   deep=deep.size, stride=gemm.strides[0]),
        *repeat("s", ceil_div(deep.size, deepest), lambda s: [
            Instr.make("load_vectors", dram=gemm.b_at(k * (steps * deepest) + s * deepest, at),
                       z=s % 8 * tiles + 2 * steps, count=ceil_div(cols.size, lanes)),
            *each("u", pieces(cols.size, lanes), lambda u, wide: [Instr.make(
                "outer", tile=u, a=k % 2 * steps + s, b=s % 8 * tiles + u + 2 * steps)])])])
    yield from each("w", pieces(cols.size, lanes), lambda w, wide: [
        store(gemm, w, gemm.c_at(first, at + w * lanes), rows.size, wide.size)])


def begin(gemm: Gemm, tile: Affine, column: Affine, cols: int) -> Nodes:
    """The bias of a tile's columns, or zeros, and what makes bytes of their sums."""
    made = gemm.requantized
    start = Instr.make("clear", tile=tile) if gemm.bias is None else Instr.make(
        "start", dram=gemm.bias_at(column), tile=tile, cols=cols)
    return [start] if made is None else [start, Instr.make(
        "load_scale", multiplier=made.multiplier_at(column), shift=made.shift_at(column), slot=tile, cols=cols)]


def store(gemm: Gemm, tile: Affine, dram: Affine, rows: int, cols: int) -> Instr:
    """A tile as bytes, or as it is."""
    made, shape = gemm.requantized, {"rows": rows, "cols": cols, "stride": gemm.strides[2]}
    if made is None:
        return Instr.make("store_sums", dram=dram, tile=tile, **shape)
    return Instr.make("store", dram=dram, tile=tile, slot=tile, **shape, zero=made.by.zero_point, low=made.by.low,
                      high=made.by.high)


def workspace_bytes(m: int, n: int, k: int, mapping: TileMapping) -> int:
    """For B as vectors, of any size."""
    return (n + 255) * (k + 3)


def tiling(shape: kit.Shape, hardware: kit.Hardware, sizes: Mapping[str, Any]) -> kit.Tiling:
    """There is nothing to choose."""
    return kit.Tiling({"m": [sizes["lanes"]], "n": [sizes["TILES"] * sizes["lanes"]], "k": [shape.k]})


GRAPH = kit.GraphOptions(outer)


class Outer(kit.KitTarget):
    """An engine of outer products."""

    kit = kit.GemmKit(
        name="outer", description="outer products into square tiles, a rounding in two steps, int8",
        isa=ISA, options=GRAPH.options(), graph=GRAPH.graph, emit=emit, tiling=tiling,
        layouts=lambda work, sizes: {"B": vectors(sizes)}, workspace_bytes=workspace_bytes,
        requantizer=kit.Requantizer(TWICE, shifts=(31, 62)), sums=True)


Outer().register()
