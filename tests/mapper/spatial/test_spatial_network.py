"""Tiles from core to core: one to one, one to many, many to one, over the networks that the mesh has."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine, isa_of
from archloom.mapper.spatial.programs.timing import simulated
from archloom.oracle.errors import GraphError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.oracle.xla.oracle import compile_stream
from tests.support.examples import every

ROWS, COLUMNS, TILES = 2, 3, 8
GRAPH = wormhole(
    rows=ROWS, columns=COLUMNS, sums=4, stats=16, l1_bytes=2048 * (2 * 4 + TILES + 1), launch_cycles=1,
    dram_latency_cycles=5, noc_bytes_per_cycle=64, product_cycles=1, block_cycles=1)
MACHINE = Machine.of(GRAPH)
CORES = ROWS * COLUMNS


def at(row: int, column: int, tile: int = 0) -> int:
    """A tile in the L1 of a core."""
    return (row * COLUMNS + column) * TILES + tile


def moved(*middle: Instr) -> tuple[Stream, np.ndarray]:
    """A stream that fills the L1 of all cores, moves tiles and gives back what all L1 hold; and what it filled in."""
    every = CORES * TILES
    x, y = HbmTensor("X", 0, (every, 32, 32), "float16"), HbmTensor("Y", every * TILE_BYTES, (every, 32, 32), "float16")
    fill, give = [], []
    for core in range(CORES):
        first = core * TILES
        fill.append(Instr.make("load", dram=first * TILE_BYTES, l1=first, rows=1, cols=TILES, h0=0))
        for half in range(2):
            dram = (every + first + half * 4) * TILE_BYTES
            give += [Instr.make("unpack", l1=first + half * 4, acc=core * 4, count=4),
                     Instr.make("store", acc=core * 4, dram=dram, rows=1, cols=TILES // 2, h0=0, relu=0)]
    body = (Instr.make("launch"), *fill, *middle, *give)
    return (Stream("wormhole", MACHINE.isa_parameters, (x,), (y,), 2 * every * TILE_BYTES, body),
            np.random.default_rng(0).integers(-99, 99, (every, 32, 32)).astype(np.float16))


CASES = {
    "unicast": (Instr.make("unicast", source=at(1, 0, 2), target=at(0, 2, 5), count=2),
                [(at(0, 2, 5 + i), at(1, 0, 2 + i)) for i in range(2)]),
    "unicast in a row": (Instr.make("unicast", source=at(1, 2), target=at(1, 0, 4), count=3),
                         [(at(1, 0, 4 + i), at(1, 2, i)) for i in range(3)]),
    "share_row": (Instr.make("share_row", source=at(1, 1, 6), target=at(1, 0, 3), count=2, n0=3, s0=TILES),
                  [(at(1, c, 3 + i), at(1, 1, 6 + i)) for c in range(3) for i in range(2)]),
    "share_column": (
        Instr.make("share_column", source=at(1, 1), target=at(0, 1, 7), count=1, n0=2, s0=COLUMNS * TILES),
        [(at(r, 1, 7), at(1, 1)) for r in range(2)]),
    "gather_row": (Instr.make("gather_row", source=at(0, 0), target=at(0, 1, 2), count=2, n0=3, s0=TILES),
                    [(at(0, 1, 2 + 2 * c + i), at(0, c, i)) for c in range(3) for i in range(2)]),
    "gather_column": (
        Instr.make("gather_column", source=at(0, 2, 1), target=at(1, 2, 4), count=2, n0=2, s0=COLUMNS * TILES),
        [(at(1, 2, 4 + 2 * r + i), at(r, 2, 1 + i)) for r in range(2) for i in range(2)]),
}


@pytest.mark.first_case
@pytest.mark.parametrize("name", CASES)
def test_tiles_arrive(name: str) -> None:
    instruction, copies = CASES[name]
    stream, x = moved(instruction)
    expected = x.copy()
    for target, source in copies:
        expected[target] = x[source]
    np.testing.assert_array_equal(run(stream, isa_of(GRAPH), {"X": x})["Y"], expected)
    if name in ("share_row", "gather_column"):
        oracle = compile_stream(stream, isa_of(GRAPH))
        np.testing.assert_array_equal(np.asarray(oracle(x)[0]), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", every(6, CASES))
def test_the_simulation_is_exact_and_counts_the_ways(name: str) -> None:
    base = simulated(moved()[0], GRAPH).cycles
    instruction, copies = CASES[name]
    few = resolve(moved(*[instruction] * 8)[0], isa_of(GRAPH))
    assert simulate(GRAPH, few).cycles == simulate_reference(GRAPH, few).cycles
    found = simulated(moved(*[instruction] * 40)[0], GRAPH).cycles
    tiles = int(instruction["count"].constant) if "share" in name else len(copies)
    assert found > base + 20 * tiles * TILE_BYTES // 64


@pytest.mark.parametrize("instruction", [
    Instr.make("share_row", source=at(0, 1), target=at(1, 0), count=1, n0=3, s0=TILES),
    Instr.make("gather_column", source=at(0, 1), target=at(0, 2), count=1, n0=2, s0=COLUMNS * TILES),
])
def test_lines_end_at_their_cores(instruction: Instr) -> None:
    with pytest.raises(GraphError, match="no unit processes"):
        simulated(moved(instruction)[0], GRAPH)
