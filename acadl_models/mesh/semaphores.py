"""Semaphores of cores: counters in each core, over which the units that hand tiles to each other wait for one another.

Every unit has a queue of its own, whose instructions it takes in order; what it has signalled and waited for is counted
in the queue's own word (``progress``), by which an instruction finds its unit. A unit waits on semaphores of its core,
a sender of a row or a column on those of any of its cores, and signals those of cores in its row and column; trees and
routers, which reach every core, on all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from archloom.acadl_models.acadl import SRAM, Memory, MemoryAccessUnit
from archloom.acadl_models.parts import connect

QUEUES = ("reader", "matrix", "adder", "writer", "east", "south", "row", "column", "down", "across", "vector",
          "router")
"""The queues of a core, in the order of ``wormhole.taidl``; those from ``row`` to ``across``, and of the router, are of
senders that begin at it."""

HANDSHAKES = ("signal", "wait")
"""Their instructions."""

_WORD = 32


@dataclass
class Semaphores:
    """The counters of ``cores`` cores, ``count`` in each, while a graph is built."""

    cores: int
    count: int
    users: int
    counters: list[SRAM] = field(default_factory=list)
    queues: dict[int, SRAM] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for core in range(self.cores):
            self.counters.append(self._words(f"semaphores[{core}]", [(core * self.count, (core + 1) * self.count)]))

    def _words(self, name: str, ranges: list[tuple[int, int]]) -> SRAM:
        return SRAM(name, data_width=_WORD, port_width=1 << 12, max_concurrent_requests=64,
                    read_write_ports=self.users, address_ranges=ranges, component=Memory(width_bits=_WORD))

    def join(
        self, unit: MemoryAccessUnit, queue: str, core: int, waits: Sequence[int], signals: Sequence[int]
    ) -> None:
        """Give ``unit`` the queue of that name of a core; it waits on and signals semaphores of these cores."""
        number = core * len(QUEUES) + QUEUES.index(queue)
        self.queues[number] = self._words(f"{queue}_steps[{core}]", [(number, number + 1)])
        connect(unit, writes=[self.queues[number]])
        signalled = [self.counters[other] for other in dict.fromkeys((*waits, *signals))]
        connect(unit, [self.counters[other] for other in dict.fromkeys(waits)], signalled)

    def rest(self, host: MemoryAccessUnit) -> Iterator[SRAM]:
        """The storages of all queues; those that no unit has are one storage, of the host."""
        unused = [n for n in range(self.cores * len(QUEUES)) if n not in self.queues]
        if unused:
            idle = self._words("idle_steps", [(n, n + 1) for n in unused])
            connect(host, writes=[idle])
            yield idle
        yield from self.queues.values()
