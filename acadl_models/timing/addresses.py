"""Where the words of a buffer lie in a memory: what caches and DRAM banks see of them."""

from __future__ import annotations

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.acadl.graph import per_graph


def base_of(graph: ArchitectureGraph, memory: str, buffer: str) -> int:
    """What is added to a row of ``buffer`` in ``memory`` for its word address there.

    A buffer that has the memory to itself keeps its row numbers, those of the memory's ``address_ranges``; of several
    buffers each lies behind the ones before it in the order of the ``buffers`` table.
    """
    return _bases(graph).get((memory, buffer), 0)


@per_graph
def _bases(graph: ArchitectureGraph) -> dict[tuple[str, str], int]:
    ends: dict[str, int] = {}
    bases: dict[tuple[str, str], int] = {}
    for buffer, banks in graph.buffers.items():
        for memory in dict.fromkeys(b.storage for b in banks if b.stop is not None):
            mine = [(b.start, b.stop or 0) for b in banks if b.storage == memory]
            first, last = min(start for start, _ in mine), max(stop for _, stop in mine)
            base = ends[memory] - first if memory in ends else 0
            bases[memory, buffer] = base
            ends[memory] = last + base
    return bases
