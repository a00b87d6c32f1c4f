"""Random storages with state for random graphs: caches of one or two levels, DRAMs with banks or channels, links."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random

from archloom.acadl_models.acadl import (
    BACKED_BY,
    DRAM,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    DataStorage,
    FunctionalUnit,
    Link,
    RegisterFile,
    ReplacementPolicy,
    SetAssociativeCache,
)
from tests.support.acadl_models.engine_strategies import COLUMNS, ROWS, STORAGE_LATENCIES, Connect, Storage

WORD_BITS = 8 * COLUMNS
POLICIES = (*3 * (ReplacementPolicy.LRU, ReplacementPolicy.FIFO, ReplacementPolicy.MRU), ReplacementPolicy.RANDOM)
CACHE_LATENCIES: tuple[int | str, ...] = (1, 1, 2, 3, 9, "words", "1 + a % 3", "1 + bytes // 8")


def random_memories(r: Random, rows: int = ROWS) -> tuple[Sequence[Storage], dict[str, object], Connect]:
    """Storages of which some have caches in front, and edges of which some run over links."""
    fronts: list[Storage] = []
    buffers: dict[str, object] = {}
    for k in range(r.randint(1, 3)):
        banks = r.choice((1, 1, 1, 2))
        cuts = [rows * b // banks for b in range(banks + 1)]
        mine = [_memory(r, f"mem{k}_{b}", cuts[b], cuts[b + 1]) for b in range(banks)]
        buffers[f"buffer{k}"] = [(memory, cuts[b], cuts[b + 1]) for b, memory in enumerate(mine)]
        if banks == 1 and r.random() < 0.2:
            buffers[f"twin{k}"] = buffers[f"buffer{k}"]
        if r.random() < 0.6:
            fronts += [_caches(r, memory) for memory in mine]
        else:
            fronts += mine
    file = RegisterFile("file", data_width=WORD_BITS, registers={f"r{k}": 0 for k in range(rows)})
    buffers["registers"] = file
    links = [
        Link(f"link{k}", bandwidth=r.choice((1, 3, 4, 8)), mode=r.choice(("streaming", "streaming", "window")),
             latency=r.choice((0, 0, 2)))
        for k in range(r.choice((0, 0, 1, 2)))
    ]  # fmt: skip

    def connect(storage: Storage, unit: FunctionalUnit) -> None:
        over = [r.choice(links) if links and isinstance(storage, DataStorage) and r.random() < 0.6 else None
                for _ in range(2)]
        if storage is fronts[0] and isinstance(storage, DataStorage) and links:
            over = [links[0], links[-1]]  # a link that carries nothing is a fault
        ACADLEdge(storage, unit, READ_DATA, link=over[0])
        ACADLEdge(unit, storage, WRITE_DATA, link=over[1])

    return [*fronts, file], buffers, connect


def _memory(r: Random, name: str, start: int, stop: int) -> SRAM | DRAM:
    common = {
        "data_width": WORD_BITS, "max_concurrent_requests": r.choice((1, 1, 2, 4)), "read_write_ports": 99,
        "port_width": r.choice((1, 2, 4)), "read_latency": r.choice(STORAGE_LATENCIES),
        "write_latency": r.choice(STORAGE_LATENCIES), "shared_port": r.random() < 0.3,
    }
    if r.random() < 0.5:
        return SRAM(name, address_ranges=[(start, stop)], **common)  # type: ignore[arg-type]
    size = 2 * (stop - start)  # room for two buffers
    if r.random() < 0.4:
        common["shared_port"] = True
        return DRAM(name, address_ranges=[(start, start + size)], channels=r.choice((2, 3, 4)),
                    channel_words=r.choice((1, 2, 4)), **common)  # type: ignore[arg-type]
    cuts = sorted({start, start + size, *(start + r.randrange(1, size) for _ in range(r.randint(0, 2)))})
    return DRAM(
        name, address_ranges=[(start, start + size)], bank_address_ranges=list(itertools.pairwise(cuts)),
        row_words=r.choice((1, 2, 3, 4, 8)), t_RCD=r.randint(0, 4), t_RP=r.randint(1, 4), t_RAS=r.choice((0, 3, 9, 25)),
        **common,  # type: ignore[arg-type]
    )


def _caches(r: Random, memory: DataStorage) -> SetAssociativeCache:
    """One cache, or two behind each other, before a memory."""
    behind = memory
    for level in range(r.choice((1, 1, 2)), 0, -1):
        cache = SetAssociativeCache(
            f"l{level}_{memory.name}", data_width=WORD_BITS, max_concurrent_requests=r.choice((1, 1, 2, 4)),
            read_write_ports=99, port_width=r.choice((1, 2, 4)), shared_port=r.random() < 0.3,
            write_allocate=r.random() < 0.6, write_back=r.random() < 0.6, miss_latency=r.choice(CACHE_LATENCIES),
            hit_latency=r.choice(CACHE_LATENCIES), cache_line_size=COLUMNS * r.choice((1, 1, 2, 4)),
            replacement_policy=r.choice(POLICIES), seed=r.randrange(5), sets=r.choice((1, 2, 3, 4)),
            ways=r.choice((1, 2, 3)), miss_registers=r.choice((None, None, 1, 2, 3)),
        )  # fmt: skip
        ACADLEdge(cache, behind, BACKED_BY)
        behind = cache
    assert isinstance(behind, SetAssociativeCache)
    return behind
