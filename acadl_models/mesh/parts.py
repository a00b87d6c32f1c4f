"""Templates of meshes of cores: a core, and the senders of the networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from archloom.acadl_models.acadl import DRAM, SRAM, Included, Link, Logic, Memory, MemoryAccessUnit, Template
from archloom.acadl_models.mesh.semaphores import HANDSHAKES
from archloom.acadl_models.mesh.sizes import L1_ACCESS_BYTES, Joules, Sizes
from archloom.acadl_models.mesh.vector import work
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, held, macs
from archloom.oracle.resolved import Buffer

_QUEUE = 4
"""Transfers that wait before a reader or a sender, and those under way in it."""

_PORT_WORDS = 1 << 12
"""Tiles that a storage in L1 moves in a cycle: links and the matrix unit's own rate are what limits."""


@dataclass(frozen=True)
class Ways:
    """Links of a core: from memory, to memory, from other cores, and the port over which networks write its L1.

    None: what comes that way is limited elsewhere.
    """

    inward: Link
    outward: Link
    sums: Link
    port: Link | None = None


class Core(Template):
    """L1 for operands, for sums and for statistics, and the units that move, multiply and weigh tiles."""

    def __init__(
        self, name: str, fetch: Fetch, memory: Sequence[DRAM], number: int, sizes: Sizes, users: int,
        ways: Ways | None = None,
    ) -> None:
        joules = sizes.joules
        self.l1, self.acc = (_local(sizes.isa.buffer(name), number, joules, 16, users) for name in ("l1", "acc"))
        if ways is None:
            way = joules.hops(sizes.way_hops)
            inward = Link("noc_in", sizes.noc_bytes_per_cycle, joules_per_byte=way)
            outward = Link("noc_out", sizes.noc_bytes_per_cycle, joules_per_byte=way)
            port_bytes = sizes.l1_bytes_per_cycle
            port = Link("port", port_bytes, component=Included("l1")) if port_bytes else None
            ways = Ways(inward, outward, inward, port)
        self.ways = ways
        self.stat = _local(sizes.isa.buffer("stat"), number, joules, 8, 4)
        shake = self.shake = HANDSHAKES if sizes.semaphores else ()
        cycles: dict[str, int | str] = {"clear": "count", "*": sizes.product, **dict.fromkeys(shake, 1)}
        self.reader = sender("reader", fetch, "load", *shake)
        products = {"matmul", "matmul_transposed", "weigh", "score", "clear", *shake}
        self.matrix = QueuedUnit(
            "matrix", fetch, products, depth=8 if shake else 2, latency=cycles, interval=cycles, in_flight=2,
            operations={"clear": 0, "*": "m * n * k", **dict.fromkeys(shake, 0)}, joules_per_operation=joules.product,
            component=macs(sizes.multipliers, "f16", "f32", register_bits=32))
        self.vector = _vector(fetch, sizes, shake)
        self.adder = QueuedUnit(
            "adder", fetch, {"reduce", "take", *shake}, depth=1, latency=1, interval=1, in_flight=1,
            operations={"reduce": "count", "*": 0}, joules_per_operation=joules.vector,
            component=Logic({"add f32": sizes.vector_width}))
        self.writer = QueuedUnit(
            "writer", fetch, {"store", "store_places", *shake}, depth=2, latency=1, interval=1, in_flight=2,
            operations={"store": "rows * cols", "store_places": "rows * cols", "*": 0},
            joules_per_operation=joules.vector, component=Logic({"add f32": sizes.vector_width}))
        connect(self.reader.unit, memory, link=ways.inward)
        connect(self.reader.unit, writes=[self.l1], link=ways.port)
        connect(self.matrix.unit, [self.l1, self.acc], [self.acc])
        connect(self.adder.unit, writes=[self.acc])
        for storage in (self.acc, self.stat, self.l1):
            connect(self.vector.unit, [storage], [storage])
        connect(self.writer.unit, [self.acc], [self.acc])
        connect(self.writer.unit, writes=memory, link=ways.outward)

    def pass_on(self, name: str, fetch: Fetch, following: "Core", link: Link) -> MemoryAccessUnit:
        """Let the core send tiles to the next one, over a link between the two; the unit that does."""
        unit = sender(name, fetch, "forward", *self.shake).unit
        connect(unit, [self.l1])
        connect(unit, writes=[following.l1], link=link)
        return unit

    def hear(self, other: "Core", link: Link | None = None) -> None:
        """Let the adder fetch sums of another core, over the core's way for sums or another ``link``."""
        connect(self.adder.unit, [other.acc], link=link or self.ways.sums)


class Ring(Template):
    """Who sends from memory to any of ``cores``, and from core to core, all on one link: a row or a column."""

    def __init__(
        self, name: str, fetch: Fetch, memory: Sequence[DRAM], cores: Sequence[Core], mnemonic: str, link: Link | int,
        ports: Sequence[Link | None] | None = None, joules: float | None = None,
    ) -> None:
        """``link``: its bytes a cycle, or one that others use, too; ``joules``: of a byte on it. ``ports``: over which
        each core's L1 is written, by default its own."""
        self.link = link if isinstance(link, Link) else Link("ring", link, joules_per_byte=joules)
        along = mnemonic.removeprefix("multicast_")
        lines = along in ("row", "column")
        self.sender = sender(
            "sender", fetch, mnemonic, *([f"share_{along}", f"gather_{along}"] if lines else []), *cores[0].shake)
        connect(self.sender.unit, memory, link=self.link)
        for core, port in zip(cores, ports or [core.ways.port for core in cores]):
            connect(self.sender.unit, writes=[core.l1], link=port)
            if lines:
                connect(self.sender.unit, [core.l1], link=self.link)


class Tree(Template):
    """Sends over one ring to a core of each crossing ring, and from there over those to all cores.

    What a crossing ring carries is counted once: on the way to its core that lies on the trunk.
    """

    def __init__(
        self, name: str, fetch: Fetch, memory: Sequence[DRAM], trunk: Ring,
        branches: Sequence[tuple[Ring, Sequence[Core]]], heads: Sequence[Core], mnemonic: str,
    ) -> None:
        self.sender = sender("sender", fetch, mnemonic, *heads[0].shake)
        connect(self.sender.unit, memory, link=trunk.link)
        for (branch, cores), head in zip(branches, heads):
            for core in cores:
                connect(self.sender.unit, writes=[core.l1], link=branch.link if core is head else core.ways.port)


class Router(Template):
    """Sends tiles of ``sources`` to any core: over ``link``, and each target's further way, if it has one."""

    def __init__(
        self, name: str, fetch: Fetch, link: Link, sources: Sequence[Core], targets: Sequence[tuple[Core, Link | None]]
    ) -> None:
        self.sender = sender("sender", fetch, "unicast", *sources[0].shake)
        connect(self.sender.unit, [core.l1 for core in sources], link=link)
        for core, way in targets:
            connect(self.sender.unit, writes=[core.l1], link=way)


def sender(name: str, fetch: Fetch, mnemonic: str, *more: str) -> QueuedUnit:
    """What moves tiles for one mnemonic, several transfers at a time; those gathered from many places, and ``more``."""
    others = {"load_windows", "load_row"} if mnemonic == "load" else {mnemonic.replace("multicast", "windows")}
    return QueuedUnit(
        name, fetch, {mnemonic, *more} | others, depth=_QUEUE, latency=1, interval=1, in_flight=_QUEUE)


def _local(buffer: Buffer, number: int, joules: Joules, requests: int, users: int) -> SRAM:
    """A core's part of a buffer, which is the buffer of one core."""
    name, bits, words = held(buffer)
    return SRAM(
        name, data_width=bits, port_width=_PORT_WORDS, max_concurrent_requests=requests, read_write_ports=users,
        address_ranges=[(number * words, (number + 1) * words)], joules_per_access=joules.words(bits // 8),
        component=_OF_L1,
    )


_OF_L1 = Memory(width_bits=8 * L1_ACCESS_BYTES)
"""What is a part of it has its area and leakage by its own size, and energy by the whole."""


def _vector(fetch: Fetch, sizes: Sizes, shake: Sequence[str]) -> QueuedUnit:
    """The vector unit, which passes over tiles; ``shake``: its handshakes."""
    cycles_of: dict[str, int | str] = {**work(sizes.vector_tile_cycles), **dict.fromkeys(shake, 1)}
    return QueuedUnit(
        "vector", fetch, set(cycles_of), depth=8 if shake else 2, latency=cycles_of, interval=cycles_of, in_flight=1,
        operations={**work(1), **dict.fromkeys(shake, 0)}, joules_per_operation=sizes.joules.vector,
        component=macs(sizes.vector_width, "f32", "f32"))
