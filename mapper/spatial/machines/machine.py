"""Rates and sizes of a mesh of cores that plans are made and costed with, read off an architecture graph."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import overload

import numpy as np

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, ArchitectureGraph, FunctionalUnit, Link, MemoryInterface
from archloom.acadl_models.acadl.edges import EdgeKind
from archloom.mapper.hardware import Port
from archloom.mapper.spatial.machines.queues import Queues
from archloom.oracle import taidl
from archloom.oracle.errors import TargetError
from archloom.oracle.taidl.isa import Isa

TILE_BYTES = 2048
"""A tile of 32 x 32 numbers of 16 bits."""

SIDE = 32
"""Rows and columns of a tile."""

ISA = "wormhole"
"""Of every mesh."""

MOST_ARRAY = 64
"""Tiles up to which the side of a matrix unit is looked for."""


def isa_of(graph: ArchitectureGraph) -> Isa:
    """The ISA of a mesh, with the graph's sizes."""
    return taidl.load(ISA, **graph.parameters)


@dataclass(frozen=True)
class Machine:
    """``rows`` x ``columns`` cores, each with ``tiles`` of operands, ``sums`` of partial sums and ``stats``.

    ``product_cycles``: of ``array`` x ``array`` by ``array`` x ``array`` tiles, a product of the matrix unit;
    ``block_cycles``: of a product of blocks, beside those. What a cycle carries, in bytes: ``ring_bytes`` a row or a
    column of the network, ``core_bytes`` a core's own way, ``hop_bytes`` the link from a core to the next,
    ``sum_bytes`` a core's way for sums of others, ``port_bytes`` the port through which ``port_cores`` cores of a
    column have their L1 written (0: as much as comes), ``dram_bytes`` memory and what all transfers from it share;
    ``dram_latency`` cycles late. Of those: ``memory_bytes`` memory itself, loads and stores together, ``in_bytes`` and
    ``out_bytes`` what all loads and what all stores share on their way (0: nothing). ``tree_bytes``: the branches of a
    tree, which take a block when its trunk has carried it (0: it has none). ``column_sum_bytes``: as ``sum_bytes``, for
    sums of a core of the same column.
    ``launch_cycles``: until the cores begin.
    ``vector_cycles``: of a pass of the vector unit over a tile. ``in_flight``: transfers that who loads or sends has
    under way. ``semaphores``: counters in a core; ``queues``: the units that count with them.
    """

    rows: int
    columns: int
    tiles: int
    sums: int
    stats: int
    array: int
    product_cycles: int
    block_cycles: int
    ring_bytes: int
    core_bytes: int
    hop_bytes: int
    sum_bytes: int
    port_bytes: int
    port_cores: int
    dram_bytes: int
    dram_latency: int
    launch_cycles: int
    clock_hz: float
    vector_cycles: int
    in_flight: int
    semaphores: int = 0
    memory_bytes: int = 0
    in_bytes: int = 0
    out_bytes: int = 0
    tree_bytes: int = 0
    column_sum_bytes: int = 0
    queues: Queues = field(default=Queues(0, ()), compare=False, repr=False)

    @property
    def cores(self) -> int:
        return self.rows * self.columns

    @property
    def isa_parameters(self) -> tuple[tuple[str, int], ...]:
        """Those of the streams' ISA, by name."""
        counters = (("semaphores", self.semaphores),) if self.semaphores else ()
        return ("cores", self.cores), *counters, ("stats", self.stats), ("sums", self.sums), ("tiles", self.tiles)

    def misfits(self, rows: int, columns: int) -> Iterator[str]:
        """What is wrong with loops that are spread over so many rows and columns."""
        for name, cores, extent in (("rows", rows, self.rows), ("columns", columns, self.columns)):
            if cores != extent:
                yield f"it spreads loops over {cores} {name}, of which there are {extent}"

    def shortages(self, *needs: int, statistics: str = "statistics") -> Iterator[str]:
        """Of what a core needs more than it holds, of tiles of operands, sums, and statistics."""
        kinds = ("tiles of operands", "sums", statistics)
        for what, needed, held in zip(kinds, needs, (self.tiles, self.sums, self.stats)):
            if needed > held:
                yield f"it needs {needed} {what} in a core, which holds {held}"

    @overload
    def product(self, m: int, n: int, k: int) -> int: ...
    @overload
    def product(self, m: np.ndarray, n: np.ndarray, k: "np.ndarray | int") -> np.ndarray: ...
    def product(self, m, n, k):  # type: ignore[no-untyped-def]
        """Cycles of the products of m x k by k x n tiles in a core, without ``block_cycles``."""
        if self.array == 1:
            return m * n * k * self.product_cycles
        return -(-m // self.array) * -(-n // self.array) * -(-k // self.array) * self.product_cycles

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Machine":
        """Read the figures off a graph made by :mod:`archloom.acadl_models.mesh`; TargetError for another."""
        missing = _missing(graph)
        if missing:
            raise TargetError(f"graph {graph.name!r} is no mesh of cores: it does not state {', '.join(missing)}")
        return _Reader(graph).machine()


def is_mesh(graph: "ArchitectureGraph") -> bool:
    """Whether a graph states what a mesh of cores does."""
    return not _missing(graph)


def _missing(graph: "ArchitectureGraph") -> list[str]:
    missing = [name for name in ("rows", "columns") if name not in graph.dims]
    return missing + [name for name in ("tiles", "sums", "stats") if name not in graph.parameters]


class _Reader:
    """Finds units by what they process, and links by the storages that they join."""

    def __init__(self, graph: "ArchitectureGraph") -> None:
        self.graph = graph
        self.units: dict[str, list["FunctionalUnit"]] = {}
        for unit in graph.functional_units:
            for mnemonic in unit.to_process:
                self.units.setdefault(mnemonic, []).append(unit)
        absent = [name for name in ("hbm", "l1", "acc", "stat") if not graph.buffers.get(name)]
        if absent:
            raise TargetError(f"graph {graph.name!r} is no mesh of cores: it places no buffer {', '.join(absent)}")
        if len(graph.tensor_memories) > 1:
            several = ", ".join(memory.name for memory in graph.tensor_memories)
            raise TargetError(f"graph {graph.name!r} is no mesh of cores: it has several memories ({several})")
        self.memory = graph.tensor_memories[0]

    def machine(self) -> Machine:
        graph, memory = self.graph, self.memory
        array = self.array()
        one, two = (self.cycles("matmul", m=m, n=1, k=1) for m in (1, array + 1))
        ways = [graph.link(memory, unit, READ_DATA) for unit in self.of("load")]
        outs = [graph.link(memory, unit, WRITE_DATA) for unit in self.of("store")]
        into, out = self.shared(ways), self.shared(outs)
        reader = self.of("load")[0]
        port = graph.link(_storage(graph, graph.buffers["l1"][0].storage), reader, WRITE_DATA)
        sharers = [u for u in self.of("load") if port is not None and port in self.links(u, WRITE_DATA)]
        return Machine(
            graph.dims["rows"], graph.dims["columns"], graph.parameters["tiles"], graph.parameters["sums"],
            graph.parameters["stats"], array, two - one, 2 * one - two,
            self.bandwidth("multicast_row", READ_DATA), self.bandwidth("load", READ_DATA),
            self.bandwidth("forward", WRITE_DATA), self.bandwidth("reduce", READ_DATA),
            port.bandwidth if port is not None else 0, max(1, len(sharers)),
            min(Port.of(memory).bytes_per_cycle, into or sys.maxsize), self.latency(),
            self.cycles("launch"), graph.clock_hz, self.cycles("rescale", m=1, d=1), reader.in_flight,
            graph.parameters.get("semaphores", 0), Port.of(memory).bytes_per_cycle, into, out, self.branches(port),
            self.column_sums(), Queues.of(graph),
        )

    @staticmethod
    def shared(ways: Sequence["Link | None"]) -> int:
        """What the link carries on which all ``ways`` go; 0: they do not go on one."""
        first = ways[0]
        return first.bandwidth if first is not None and len(ways) > 1 and all(way is first for way in ways) else 0

    def column_sums(self) -> int:
        """What comes in a cycle from the core below the first, or from the one to its right if there is none."""
        places, columns = self.graph.buffers["acc"], self.graph.dims["columns"]
        below = places[min(columns, len(places) - 1)] if len(places) > 1 else places[0]
        link = self.graph.link(_storage(self.graph, below.storage), self.of("reduce")[0], READ_DATA)
        return link.bandwidth if link is not None else self.bandwidth("reduce", READ_DATA)

    def branches(self, port: "Link | None") -> int:
        """What a branch of a tree carries: a link through which the cores' L1 is written, other than their port."""
        ports = {id(link) for unit in self.of("load") for link in self.links(unit, WRITE_DATA)} if port else set()
        found = [link for link in self.links(self.of("multicast_down")[0], WRITE_DATA) if id(link) not in ports]
        return min((link.bandwidth for link in found), default=0)

    def of(self, mnemonic: str) -> list["FunctionalUnit"]:
        if mnemonic not in self.units:
            raise TargetError(f"graph {self.graph.name!r} is no mesh of cores: no unit processes {mnemonic!r}")
        return self.units[mnemonic]

    def array(self) -> int:
        """Along m, how many tiles a product of the matrix unit takes."""
        one = self.cycles("matmul", m=1, n=1, k=1)
        side = next((m for m in range(1, MOST_ARRAY + 1) if self.cycles("matmul", m=m + 1, n=1, k=1) > one), 0)
        if not side:
            raise TargetError(
                f"{self.graph.name}: matmul takes {one} cycles for up to {MOST_ARRAY} tiles: its rate is not known")
        return side

    def cycles(self, mnemonic: str, **values: int) -> int:
        unit = self.of(mnemonic)[0]
        try:
            return unit.latency_of(mnemonic).evaluate({**self.graph.parameters, **values})
        except KeyError as error:
            raise TargetError(
                f"{self.graph.name}: the latency {unit.latency_of(mnemonic).text!r} of {mnemonic} by {unit.name} names "
                f"{error}; known are {', '.join((*values, *self.graph.parameters))}") from error

    def links(self, unit: "FunctionalUnit", kind: "EdgeKind") -> list["Link"]:
        places = self.graph.reads(unit) if kind is READ_DATA else self.graph.writes(unit)
        found = (self.graph.link(place, unit, kind) for place in places)  # type: ignore[arg-type]
        return [link for link in found if link is not None]

    def bandwidth(self, mnemonic: str, kind: "EdgeKind") -> int:
        """Bytes in a cycle of the first unit that processes ``mnemonic``, on the narrowest of its ways."""
        links = self.links(self.of(mnemonic)[0], kind)
        if not links:
            unit = self.of(mnemonic)[0].name
            raise TargetError(f"{self.graph.name}: no link of {unit} says what it carries in a cycle")
        return min(link.bandwidth for link in links)

    def latency(self) -> int:
        value = Port.of(self.memory).latency
        if value is None:
            raise TargetError(
                f"{self.graph.name}: read_latency of {self.memory.name} is {self.memory.read_latency!r}, not a number")
        return value


def _storage(graph: "ArchitectureGraph", name: str) -> "MemoryInterface":
    place = graph[name]
    if not isinstance(place, MemoryInterface):
        raise TargetError(f"graph {graph.name!r} is no mesh of cores: {name} is no memory")
    return place
