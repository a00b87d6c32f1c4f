"""Rates and sizes of a mesh of cores that plans are made and costed with, read off an architecture graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from oracle.errors import TargetError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

TILE_BYTES = 2048
"""A tile of 32 x 32 numbers of 16 bits."""

SIDE = 32
"""Rows and columns of a tile."""


@dataclass(frozen=True)
class Machine:
    """``rows`` x ``columns`` cores, each with ``tiles`` of operands, ``sums`` of partial sums and ``stats``.

    ``product_cycles``: of a tile by a tile; ``block_cycles``: of a product of blocks, beside those. ``ring_bytes`` and
    ``core_bytes``: what a row or a column of the network and a core's own way carry in a cycle; ``dram_bytes``: what
    memory moves in a cycle, ``dram_latency`` cycles late.
    ``launch_cycles``: until the cores begin.
    ``vector_cycles``: of a pass of the vector unit over a tile.
    """

    rows: int
    columns: int
    tiles: int
    sums: int
    stats: int
    product_cycles: int
    block_cycles: int
    ring_bytes: int
    core_bytes: int
    dram_bytes: int
    dram_latency: int
    launch_cycles: int
    clock_hz: float
    vector_cycles: int

    @property
    def cores(self) -> int:
        return self.rows * self.columns

    @property
    def isa_parameters(self) -> tuple[tuple[str, int], ...]:
        """Those of the streams' ISA, by name."""
        return ("cores", self.cores), ("stats", self.stats), ("sums", self.sums), ("tiles", self.tiles)

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Machine":
        """Read the figures off a graph of :func:`acadl_models.wormhole.wormhole`; TargetError for another."""
        missing = [name for name in ("rows", "columns") if name not in graph.dims]
        missing += [name for name in ("tiles", "sums", "stats") if name not in graph.parameters]
        if missing:
            raise TargetError(f"graph {graph.name!r} is no mesh of cores: it does not state {', '.join(missing)}")
        memory, core = graph[graph.buffers["hbm"][0].storage], "core[0][0]"
        one, two = (_cycles(graph, f"{core}.matrix.unit", "matmul", m=m, n=1, k=1) for m in (1, 2))
        return Machine(
            graph.dims["rows"], graph.dims["columns"], graph.parameters["tiles"], graph.parameters["sums"],
            graph.parameters["stats"],
            two - one, 2 * one - two,
            _figure(graph, "noc_h[0].ring", "bandwidth"), _figure(graph, f"{core}.noc_in", "bandwidth"),
            _figure(graph, memory.name, "port_width"), _figure(graph, memory.name, "read_latency"),
            _cycles(graph, "dispatcher.unit", "launch"), graph.clock_hz,
            _cycles(graph, f"{core}.vector.unit", "rescale", m=1, d=1),
        )


def _figure(graph: "ArchitectureGraph", name: str, attribute: str) -> int:
    value = getattr(graph[name], attribute)
    if not isinstance(value, int):
        raise TargetError(f"{graph.name}: {attribute} of {name} is {value!r}, not a number")
    return value


def _cycles(graph: "ArchitectureGraph", name: str, mnemonic: str, **values: int) -> int:
    from acadl_models.acadl.objects import FunctionalUnit

    unit = graph[name]
    assert isinstance(unit, FunctionalUnit)
    return unit.latency_of(mnemonic).evaluate({**graph.parameters, **values})
