"""The energy of candidates, vectorized, from the figures that a graph states; and of what was simulated, exactly.

Products cost the same in every plan; plans differ in what they load from memory, over how many cores it goes, and how
often it is written to and read from L1. Kept tiles are loaded once, multicast ones once for all that share them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mapper.spatial.cost import Waves
from mapper.spatial.machine import TILE_BYTES, Machine
from mapper.spatial.plan import PATTERNS, TileGemm
from mapper.spatial.space import Column, Space
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from acadl_models.timing.result import TimingResult
    from oracle.stream import Stream

_NONE, _ROW, _COLUMN, _DOWN, _ACROSS, _WAVE = map(PATTERNS.index, ("none", "row", "column", "down", "across", "wave"))


@dataclass(frozen=True)
class Rates:
    """Joules of a product of tiles, of a tile in L1, and of a byte: in memory, on the way to a core, along a row,
    along a column of the mesh, from a core to the next."""

    product: float
    l1_tile: float
    dram_byte: float
    way_byte: float
    row_byte: float
    column_byte: float
    hop_byte: float

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Rates":
        """What a graph of :mod:`acadl_models.mesh` states; MappingError where it states no energies."""
        from acadl_models.timing.energy import has_energy

        if not has_energy(graph):
            raise MappingError(f"graph {graph.name!r} states no energies: plans can only be chosen by time")
        memory, l1 = (graph[graph.buffers[name][0].storage] for name in ("hbm", "l1"))
        unit = next(u for u in graph.functional_units if "matmul" in u.to_process)
        return Rates(
            unit.joules_of("matmul") or 0.0, _stated(l1, "joules_per_access"), _stated(memory, "joules_per_access"),
            *(_link(graph, mnemonic, reads) for mnemonic, reads in (
                ("load", True), ("multicast_row", True), ("multicast_column", True), ("forward", False))),
        )


def _stated(place: object, figure: str) -> float:
    return float(getattr(place, figure, None) or 0.0)


def _link(graph: "ArchitectureGraph", mnemonic: str, reads: bool) -> float:
    """Joules of a byte on the first link over which a unit reads from memory, or writes to L1."""
    from acadl_models.acadl import READ_DATA, WRITE_DATA, DataStorage

    unit = next((u for u in graph.functional_units if mnemonic in u.to_process), None)
    if unit is None:
        return 0.0
    kind, places = (READ_DATA, graph.buffers["hbm"]) if reads else (WRITE_DATA, graph.buffers["l1"])
    storages = [place for place in (graph[p.storage] for p in places) if isinstance(place, DataStorage)]
    links = (graph.link(place, unit, kind) for place in storages)
    return next((_stated(link, "joules_per_byte") for link in links if link is not None), 0.0)


def joules(gemm: TileGemm, machine: Machine, rates: Rates, found: Space) -> np.ndarray:
    """Estimated joules of every candidate."""
    c = found.columns
    spread = np.array([(*rows, *columns) for rows, columns, _ in found.spreads], np.int64).reshape(-1, 6)
    s = dict(zip(("rm", "rn", "rk", "cm", "cn", "ck"), spread[c["spread"]].T))
    sums = s["rk"] * s["ck"]
    m, n = (Waves.of(extent, c[block], s[f"r{x}"] * s[f"c{x}"])
            for extent, block, x in ((gemm.m, "bm", "m"), (gemm.n, "bn", "n")))
    loads_a = np.where(c["keep_a"] == 1, 1, n.count) * gemm.m * gemm.k
    loads_b = np.where(c["keep_b"] == 1, 1, m.count) * gemm.n * gemm.k
    a = _moved(machine, rates, c["way_a"], loads_a, s["rn"], s["cn"], n.of_loads(c["keep_a"]))
    b = _moved(machine, rates, c["way_b"], loads_b, s["rm"], s["cm"], m.of_loads(c["keep_b"]))
    stored = gemm.m * gemm.n * TILE_BYTES * (rates.dram_byte + rates.way_byte)
    # products of blocks read their operands, and take their sums, of twice as many bytes, in one access
    reads = gemm.m * gemm.n * gemm.k * (1 / c["bm"] + 1 / c["bn"])
    steps = np.ceil(gemm.k / (sums * c["bk"])) * sums
    added = gemm.m * gemm.n * (2 * steps + 4 + 6 * (sums - 1))
    cleared = machine.cores * (machine.tiles + 2 * machine.sums)
    total: np.ndarray = (
        gemm.m * gemm.n * gemm.k * rates.product + stored + a + b + (reads + added + cleared) * rates.l1_tile)
    return total


def _moved(
    machine: Machine, rates: Rates, way: Column, tiles: np.ndarray, rows: Column, columns: Column,
    filled: np.ndarray,
) -> np.ndarray:
    """Joules of bringing ``tiles`` to the cores that share them: ``rows`` along each column, ``columns`` along rows;
    ``filled``: those of them that have work."""
    sharing, every = rows * columns, [way == i for i in range(len(PATTERNS))]
    copies = np.select(
        [every[_NONE], every[_ROW], every[_COLUMN]], [sharing * filled, rows, columns], default=1.0)
    on_way = np.select(
        [every[_ROW], every[_COLUMN], every[_DOWN], every[_ACROSS], every[_WAVE]],
        [rates.row_byte, rates.column_byte, rates.column_byte + machine.rows * rates.row_byte,
         rates.row_byte + machine.columns * rates.column_byte, rates.way_byte + (sharing - 1) * rates.hop_byte],
        default=rates.way_byte)
    reached = np.where(every[_NONE], copies, sharing)
    found: np.ndarray = tiles * (copies * TILE_BYTES * (rates.dram_byte + on_way) + reached * rates.l1_tile)
    return found


def measured_joules(stream: "Stream", graph: "ArchitectureGraph", timing: "TimingResult") -> float:
    """Joules of a simulated stream; GraphError where they are not determined."""
    from acadl_models.timing.energy import energy
    from acadl_models.timing.machine import bind
    from mapper.spatial.timing import isa_of
    from oracle.resolve import resolve

    return energy(bind(graph, resolve(stream, isa_of(graph))), timing).joules
