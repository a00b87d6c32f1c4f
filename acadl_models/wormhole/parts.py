"""Templates of Wormhole: the Tensix core, and the senders of the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from acadl_models.acadl import DRAM, READ_DATA, SRAM, WRITE_DATA, ACADLEdge, Link, Template
from acadl_models.parts import Fetch, QueuedUnit
from acadl_models.wormhole.figures import STAT_BYTES, TILE_BYTES
from acadl_models.wormhole.vector import work

_QUEUE = 4
"""Transfers that wait before a reader or a sender, and those under way in it."""

_PORT_WORDS = 1 << 12
"""Tiles that a port of L1 moves in a cycle: links and the matrix unit's own rate are what limits, not the port."""


@dataclass(frozen=True)
class Sizes:
    """What is equal in all cores: tiles of operands and of sums, statistics, bytes a cycle of a link, cycles of a
    product of tiles, of one of blocks beside those, and of an operation on 32 numbers."""

    tiles: int
    sums: int
    stats: int
    noc_bytes_per_cycle: int
    product_cycles: int
    block_cycles: int
    vector_cycles: int


class Tensix(Template):
    """A core: L1 for operands and for sums, and the units of its five processors that move and multiply tiles."""

    def __init__(self, name: str, fetch: Fetch, memory: DRAM, number: int, sizes: Sizes, users: int) -> None:
        tiles, sums, bytes_per_cycle = sizes.tiles, sizes.sums, sizes.noc_bytes_per_cycle
        self.l1 = SRAM(
            "l1", data_width=8 * TILE_BYTES, port_width=_PORT_WORDS, max_concurrent_requests=16,
            read_write_ports=users, address_ranges=[(number * tiles, (number + 1) * tiles)],
        )
        self.acc = SRAM(
            "acc", data_width=16 * TILE_BYTES, port_width=_PORT_WORDS, max_concurrent_requests=16,
            read_write_ports=users, address_ranges=[(number * sums, (number + 1) * sums)],
        )
        self.inward = Link("noc_in", bytes_per_cycle)
        self.outward = Link("noc_out", bytes_per_cycle)
        self.stat = SRAM(
            "stat", data_width=8 * STAT_BYTES, port_width=_PORT_WORDS, max_concurrent_requests=8, read_write_ports=4,
            address_ranges=[(number * sizes.stats, (number + 1) * sizes.stats)],
        )
        product = f"m * n * k * {sizes.product_cycles} + {sizes.block_cycles}"
        cycles = {"clear": "count", "*": product}
        self.reader = _sender("reader", fetch, "load")
        products = {"matmul", "matmul_transposed", "weigh", "score", "clear"}
        self.matrix = QueuedUnit("matrix", fetch, products, depth=2, latency=cycles, interval=cycles, in_flight=2)
        self.vector = _vector(fetch, sizes.vector_cycles)
        self.adder = QueuedUnit("adder", fetch, {"reduce"}, depth=1, latency=1, interval=1, in_flight=1)
        self.writer = QueuedUnit("writer", fetch, {"store"}, depth=2, latency=1, interval=1, in_flight=2)
        ACADLEdge(memory, self.reader.unit, READ_DATA, link=self.inward)
        ACADLEdge(self.reader.unit, self.l1, WRITE_DATA)
        ACADLEdge(self.l1, self.matrix.unit, READ_DATA)
        ACADLEdge(self.acc, self.matrix.unit, READ_DATA)
        ACADLEdge(self.matrix.unit, self.acc, WRITE_DATA)
        ACADLEdge(self.adder.unit, self.acc, WRITE_DATA)
        for place in (self.acc, self.stat):
            ACADLEdge(place, self.vector.unit, READ_DATA)
            ACADLEdge(self.vector.unit, place, WRITE_DATA)
        ACADLEdge(self.l1, self.vector.unit, READ_DATA)
        ACADLEdge(self.vector.unit, self.l1, WRITE_DATA)
        ACADLEdge(self.acc, self.writer.unit, READ_DATA)
        ACADLEdge(self.writer.unit, self.acc, WRITE_DATA)
        ACADLEdge(self.writer.unit, memory, WRITE_DATA, link=self.outward)

    def pass_on(self, name: str, fetch: Fetch, following: "Tensix", bytes_per_cycle: int) -> None:
        """Let the core send tiles to the next one, over a link between the two."""
        unit = _sender(name, fetch, "forward").unit
        ACADLEdge(self.l1, unit, READ_DATA)
        ACADLEdge(unit, following.l1, WRITE_DATA, link=Link(f"{name}_link", bytes_per_cycle))

    def hear(self, other: "Tensix") -> None:
        """Let the adder fetch sums of another core, over this core's way in."""
        ACADLEdge(other.acc, self.adder.unit, READ_DATA, link=self.inward)


class Ring(Template):
    """A row or a column of one of the networks, and who sends along it from memory to any of its cores."""

    def __init__(
        self, name: str, fetch: Fetch, memory: DRAM, cores: Sequence[Tensix], mnemonic: str, bytes_per_cycle: int
    ) -> None:
        self.link = Link("ring", bytes_per_cycle)
        self.sender = _sender("sender", fetch, mnemonic)
        ACADLEdge(memory, self.sender.unit, READ_DATA, link=self.link)
        for core in cores:
            ACADLEdge(self.sender.unit, core.l1, WRITE_DATA)


class Tree(Template):
    """Sends over one ring to a core of each crossing ring, and from there over those to all cores.

    What a crossing ring carries is counted once: on the way to its core that lies on the trunk.
    """

    def __init__(
        self, name: str, fetch: Fetch, memory: DRAM, trunk: Ring, branches: Sequence[tuple[Ring, Sequence[Tensix]]],
        heads: Sequence[Tensix], mnemonic: str,
    ) -> None:
        self.sender = _sender("sender", fetch, mnemonic)
        ACADLEdge(memory, self.sender.unit, READ_DATA, link=trunk.link)
        for (branch, cores), head in zip(branches, heads):
            for core in cores:
                link = branch.link if core is head else None
                ACADLEdge(self.sender.unit, core.l1, WRITE_DATA, link=link)


def _vector(fetch: Fetch, cycles: int) -> QueuedUnit:
    """The vector unit: passes over tiles, each of as many operations as a tile has rows."""
    cycles_of = work(32 * cycles)
    return QueuedUnit("vector", fetch, set(cycles_of), depth=2, latency=cycles_of, interval=cycles_of, in_flight=1)


def _sender(name: str, fetch: Fetch, mnemonic: str) -> QueuedUnit:
    # what is gathered from scattered places takes the same way
    gather = mnemonic.replace("multicast", "gather").replace("load", "gather")
    return QueuedUnit(name, fetch, {mnemonic, gather}, depth=_QUEUE, latency=1, interval=1, in_flight=_QUEUE)
