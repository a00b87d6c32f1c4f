"""Memories with state in the machine: their size, how they start, and what the result says about them."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.lowering.memories import stateful_drams
from archloom.acadl_models.timing.engine.lowering.program import Array
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403
from archloom.acadl_models.timing.memories import CacheTiming, DramTiming
from archloom.acadl_models.timing.memories.cache import MODULUS
from archloom.acadl_models.timing.result import LinkTiming, PortTiming


def memory_sizes(t: Array) -> dict[int, int]:
    """Words of the parts that are state."""
    return {
        M_CACHES: int(t[H_CACHES]) * CS_SIZE,
        M_CACHE_LINES: sum(int(c[TK_SETS] * c[TK_WAYS]) for c in _cache_records(t)),
        M_DRAMS: int(t[H_DRAMS]) * N_SIZE,
        M_BANKS: int(t[H_BANKS]) * B_SIZE,
        M_LINKS: int(t[H_LINKS]) * LS_SIZE,
    }


def memory_work_sizes(t: Array) -> dict[int, int]:
    """Words of the parts that have no meaning from one cycle to the next."""
    stores = t[t[H_STORE_TABLE] : t[H_STORE_TABLE] + t[H_STORES] * TM_SIZE].reshape(-1, TM_SIZE)
    return {
        M_STEPPING: int(stores[stores[:, TM_KIND] == CACHED, TM_CAPACITY].sum()),
        M_POSTED: (int(t[H_LEVELS]) + 1) * POSTED_PER_LEVEL * V_SIZE,
        M_RANGES: int(t[H_PLACED]) * Y_SIZE,
    }


def start_memories(t: Array, m: Array) -> None:
    """Caches are empty, no row is open."""
    place = int(m[M_CACHE_LINES])
    for cache, record in enumerate(_cache_records(t)):
        state = int(m[M_CACHES]) + cache * CS_SIZE
        m[state + CS_GENERATOR] = record[TK_SEED] % (MODULUS - 1) + 1
        m[state + CS_LINES] = place
        size = int(record[TK_SETS] * record[TK_WAYS])
        m[place : place + size] = NONE
        place += size
    _part(m, M_BANKS, int(t[H_BANKS]), B_SIZE)[:, B_ROW] = NONE


def cache_timings(graph: ArchitectureGraph, t: Array, m: Array) -> Iterator[CacheTiming]:
    """Of all caches, in order of creation."""
    for cache, record in zip(graph.caches, _part(m, M_CACHES, int(t[H_CACHES]), CS_SIZE)):
        yield CacheTiming(cache.name, *(int(v) for v in record[:CS_GENERATOR]))


def dram_timings(graph: ArchitectureGraph, t: Array, m: Array) -> Iterator[DramTiming]:
    """Of all DRAMs with bank state, in order of creation."""
    for dram, record in zip(stateful_drams(graph), _part(m, M_DRAMS, int(t[H_DRAMS]), N_SIZE)):
        if dram.has_bank_state:
            yield DramTiming(dram.name, *(int(v) for v in record))


def link_timings(graph: ArchitectureGraph, t: Array, m: Array) -> Iterator[LinkTiming]:
    """Of all links, in order of creation."""
    for link, record in zip(graph.links, _part(m, M_LINKS, int(t[H_LINKS]), LS_SIZE)):
        write, read = (_port(record, way) for way in (0, 1))
        yield LinkTiming(link.name, read, write, int(record[LS_WAIT]))


def _port(link: Array, way: int) -> PortTiming:
    port = link[LS_PORTS + way * P_SIZE :]
    figures = link[LS_BYTES + way], port[P_BUSY], port[P_PEAK], port[P_PEAK_CYCLES]
    return PortTiming(*map(int, figures))


def _cache_records(t: Array) -> Array:
    return t[t[H_CACHE_TABLE] : t[H_CACHE_TABLE] + t[H_CACHES] * TK_SIZE].reshape(-1, TK_SIZE)


def _part(m: Array, part: int, count: int, size: int) -> Array:
    return m[m[part] : m[part] + count * size].reshape(-1, size)


__all__ = ["cache_timings", "dram_timings", "link_timings", "memory_sizes", "memory_work_sizes", "start_memories"]
