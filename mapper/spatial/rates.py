"""Joules of what cores of a mesh do, as its graph states them, and of what was simulated.

An instruction costs by what it moves and computes alone, whenever it comes: estimates count instructions, and are exact
where the counts are.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, ArchitectureGraph, DataStorage
from archloom.acadl_models.energy.figures import figures_of, leakage_of
from archloom.acadl_models.timing.energy import Energy, energy, has_energy, listed, total_joules
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.result import TimingResult
from archloom.mapper.spatial.machines.machine import ISA, TILE_BYTES, Machine, isa_of
from archloom.mapper.spatial.programs.timing import simulated
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Stream

Joules = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Rates:
    """Joules of a product of tiles, of a pass of the vector unit over a tile, of a tile and of a statistic in L1 (a
    tile of sums counts as two), and of a byte: in memory, on the way to and from a core, along a row, along a column of
    the mesh, from a core to the next, on the way of sums to another core; and ``watts`` whatever happens."""

    product: float
    vector: float
    l1_tile: float
    stat: float
    dram_byte: float
    way_byte: float
    row_byte: float
    column_byte: float
    hop_byte: float
    sum_byte: float
    watts: float
    graph: "ArchitectureGraph"
    _known: dict[tuple[object, ...], float] = field(default_factory=dict)

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Rates":
        """What a graph of :mod:`archloom.acadl_models.mesh` states; MappingError where it states no energies."""
        if not has_energy(graph):
            raise MappingError(f"graph {graph.name!r} states no energies: plans can only be chosen by time")
        l1, stat, memory = (_known(graph, graph.buffers[name][0].storage) for name in ("l1", "stat", "hbm"))
        product, vector = (
            next(u for u in graph.functional_units if name in u.to_process).joules_of(name) or 0.0
            for name in ("matmul", "rescale"))
        way, row, column = (_link(graph, name, "hbm", True) for name in ("load", "multicast_row", "multicast_column"))
        watts, missing = leakage_of(graph)
        if watts is None:
            raise MappingError(f"graph {graph.name!r}: leakage is not known of {listed(missing)}")
        return Rates(
            product, vector, l1, stat, memory, way, row, column, _link(graph, "forward", "l1", False),
            _link(graph, "reduce", "acc", True), watts, graph)

    @property
    def loaded(self) -> float:
        """Of a tile that a core loads over its own way."""
        return TILE_BYTES * (self.dram_byte + self.way_byte) + self.l1_tile

    @property
    def stored(self) -> float:
        """Of sums that go to memory as a tile, rounded on their way, and are cleared."""
        return TILE_BYTES * (self.dram_byte + self.way_byte) + 4 * self.l1_tile + self.vector

    def one(self, mnemonic: str, **attributes: int) -> float:
        """Of one instruction, whose addresses need not be given: it is simulated by itself."""
        key = mnemonic, *sorted(attributes.items())
        if key not in self._known:
            stream = self._alone(mnemonic, attributes)
            found = _energy(stream, self.graph, simulated(stream, self.graph)).dynamic_joules
            self._known[key] = 0.0 if found is None else found  # what is missing, the whole plan is refused for
        return self._known[key]

    def _alone(self, mnemonic: str, attributes: dict[str, int]) -> "Stream":
        names = isa_of(self.graph).instruction(mnemonic).attributes
        values = {name: attributes.get(name, 0) for name in names}
        parameters = Machine.of(self.graph).isa_parameters
        return Stream(ISA, parameters, (), (), 1 << 20, (Instr.make(mnemonic, **values),), mnemonic)

    @property
    def added(self) -> float:
        """Of sums of another core, a tile of them, that are read, added to a core's own, and cleared."""
        return 2 * TILE_BYTES * self.sum_byte + 6 * self.l1_tile + self.vector


def _known(graph: "ArchitectureGraph", name: str) -> float:
    """Joules of a word or a byte of an object, the mean of a read and a write, which these graphs let cost the same;
    MappingError where they are not known."""
    read, write = (figures_of(graph)[name].of(way) for way in ("read", "write"))
    if read is None or write is None:
        raise MappingError(f"graph {graph.name!r}: joules of {name} are not known")
    return (read + write) / 2


def _link(graph: "ArchitectureGraph", mnemonic: str, buffer: str, reads: bool) -> float:
    """Joules of a byte on the first link over which a unit reads from a buffer, or writes to it."""
    unit = next((u for u in graph.functional_units if mnemonic in u.to_process), None)
    if unit is None:
        return 0.0
    storages = [place for place in (graph[p.storage] for p in graph.buffers[buffer]) if isinstance(place, DataStorage)]
    links = (graph.link(place, unit, READ_DATA if reads else WRITE_DATA) for place in storages)
    return next((_known(graph, link.name) for link in links if link is not None), 0.0)


def measured_joules(stream: "Stream", graph: "ArchitectureGraph", timing: "TimingResult") -> float:
    """Joules of a simulated stream; GraphError where they are not determined."""
    return total_joules(_energy(stream, graph, timing), graph)


def _energy(stream: "Stream", graph: "ArchitectureGraph", timing: "TimingResult") -> Energy:
    return energy(bind(graph, resolve(stream, isa_of(graph))), timing)
