"""Lowering memories with state: caches, DRAM banks and links, and where accesses meet them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from archloom.acadl_models import acadl
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.layout import H, Policy, StoreKind
from archloom.acadl_models.timing.engine.memory_state import STEPS_PER_LEVEL, Tail, WayStep
from archloom.acadl_models.timing.program import Place

Put = Callable[[list[int]], int]
"""Appends words to the tables; returns their position."""

POLICIES = {"LRU": Policy.LRU, "FIFO": Policy.FIFO, "MRU": Policy.MRU, "RANDOM": Policy.RANDOM}


@dataclass(frozen=True)
class MemoryTables:
    """What the tables of a graph say about memories with state.

    ``states``: for each storage the fields from ``StoreSpec.KIND`` on; ``caches`` and ``spaces`` are numbers by name
    (of a cache; of a memory behind caches, with bank state, with channels or with bursts); ``grains``: bits of which
    lines, rows and bursts of each such memory are whole parts; ``bursting``: those of which bursts alone are asked for.
    """

    graph: acadl.ArchitectureGraph
    header: Mapping[int, int]
    states: tuple[tuple[int, int, int], ...]
    caches: Mapping[str, int]
    spaces: Mapping[str, int]
    grains: tuple[int, ...]
    bursting: frozenset[str]

    def is_placed(self, place: Place) -> bool:
        """Whether accesses meet a cache or banks that must know where they lie."""
        return bool(self.spaces) and any(
            path[-1] in self.spaces and path[-1] not in self.bursting for path in place.paths)

    def serial(self, storage: acadl.DataStorage, state: tuple[int, int, int]) -> int:
        """Whether no two requests of a storage carry words at once, or are counted as if.

        A miss that ends without the latency of a hit has moved its words in the past: such requests are counted one by
        one.
        """
        alone = storage.max_concurrent_requests == 1 or (
            storage.shared_port and state[2] == NONE and state[0] != StoreKind.INTERLEAVED
        )
        return int(alone or (state[0] == StoreKind.CACHED and not self.header[H.HIT_AFTER_MISS]))

    def way(self, path: Sequence[str], put: Put, latency: Callable[[acadl.DataStorage, str], int]) -> int:
        """The table of the caches on the way to a memory, or NONE; ``latency`` codes that of an attribute."""
        if len(path) < 2:
            return NONE
        record = [len(path) - 1]
        for name in path[:-1]:
            cache = self.graph[name]
            assert isinstance(cache, acadl.DataStorage)
            record += [self.caches[name], latency(cache, "hit_latency"), latency(cache, "miss_latency")]
        return put(record)

    def multiple(self, moves: Iterable[tuple[Place, int]]) -> int:
        """In how many periods of a loop all accesses move by whole lines, rows and bursts; ``moves``: places, and by
        how many words."""
        moving = [(path[-1], words * place.data_width) for place, words in moves for path in place.paths]
        return math.lcm(*(_times(self.grains[self.spaces[memory]], bits)
                          for memory, bits in moving if bits and memory in self.spaces))


def _times(whole: int, part: int) -> int:
    """The smallest multiple of ``part`` that is one of ``whole``, in parts."""
    return whole // math.gcd(whole, part)


def memory_tables(
    graph: acadl.ArchitectureGraph, storages: Sequence[acadl.DataStorage], units: Sequence[acadl.FunctionalUnit],
    put: Put,
) -> MemoryTables:
    """The tables of a graph; ``storages`` and ``units`` in the order of their own tables."""
    caches = [c for c in graph.caches if isinstance(c, acadl.SetAssociativeCache)]
    drams = stateful_drams(graph)
    stateful = dict.fromkeys([*(graph.path(c)[-1].name for c in caches), *(s.name for s in drams)])
    memories = stateful | dict.fromkeys(s.name for s in storages if _bursts(graph, s))
    spaces = {name: k for k, name in enumerate(memories)}
    numbers = {c.name: k for k, c in enumerate(caches)}
    grains = tuple(_grain(graph, name, caches) for name in spaces)
    levels = max((len(graph.path(c)) - 1 for c in caches), default=0)
    first, dram_records = 0, []
    for dram in drams:
        count, part = (dram.channels, dram.channel_words) if dram.is_interleaved else (len(dram.banks), dram.row_words)
        dram_records += [
            part, dram.t_RCD, dram.t_RP, dram.t_RAS, put([w for bank in dram.banks for w in bank]),
            count, first, spaces[dram.name], dram.data_width,
        ]  # fmt: skip
        first += count
    header: dict[int, int] = {
        H.CACHES: len(caches),
        H.CACHE_TABLE: put([v for c in caches for v in _cache(graph, c, numbers, spaces, storages)]),
        H.DRAMS: len(drams), H.DRAM_TABLE: put(dram_records), H.BANKS: first,
        H.LINKS: len(graph.links),
        H.LINK_TABLE: put([v for k in graph.links for v in (k.bandwidth, k.latency, int(k.exclusive))]),
        H.SPACES: len(spaces), H.SPACE_TABLE: put(list(grains)),
        H.LEVELS: levels, H.HIT_AFTER_MISS: int(graph.semantics.cache_miss_end == "after_hit"),
        H.TAIL_SIZE: Tail.LATENCIES + 2 * levels + WayStep.SIZE * (2 + STEPS_PER_LEVEL * levels) if spaces else 0,
    }  # fmt: skip
    states = []
    for storage in storages:
        kind, state = StoreKind.PLAIN, 0
        if storage.name in numbers:
            kind, state = StoreKind.CACHED, numbers[storage.name]
        elif isinstance(storage, acadl.DRAM) and storage in drams:
            kind, state = StoreKind.INTERLEAVED if storage.is_interleaved else StoreKind.BANKED, drams.index(storage)
        states.append((kind, state, _links(graph, storage, units, put)))
    bursting = frozenset(memories) - frozenset(stateful)
    return MemoryTables(graph, header, tuple(states), numbers, spaces, grains, bursting)


def stateful_drams(graph: acadl.ArchitectureGraph) -> list[acadl.DRAM]:
    """Memories with banks whose rows are open, or with channels, in order of creation."""
    return [s for s in graph.storages if isinstance(s, acadl.DRAM) and (s.has_bank_state or s.is_interleaved)]


def _cache(
    graph: acadl.ArchitectureGraph, cache: acadl.SetAssociativeCache, numbers: Mapping[str, int],
    spaces: Mapping[str, int], storages: Sequence[acadl.DataStorage],
) -> list[int]:
    behind = graph.backing(cache)
    requests = sum(first.max_concurrent_requests for first in graph.caches if cache in graph.path(first))
    registers = requests if cache.miss_registers is None else min(cache.miss_registers, requests)
    return [
        cache.sets, cache.ways, cache.cache_line_size, POLICIES[cache.replacement_policy.name], int(cache.write_back),
        int(cache.write_allocate), numbers.get(behind.name, NONE), spaces[graph.path(cache)[-1].name], cache.seed,
        registers, storages.index(behind) if behind in storages else NONE,
    ]  # fmt: skip


def _grain(graph: acadl.ArchitectureGraph, memory: str, caches: Sequence[acadl.SetAssociativeCache]) -> int:
    lines = [8 * c.cache_line_size for c in caches if graph.path(c)[-1].name == memory]
    place = graph[memory]
    rows = [place.row_words * place.data_width] if isinstance(place, acadl.DRAM) and place.has_bank_state else []
    if isinstance(place, acadl.DRAM) and place.is_interleaved:
        rows = [place.channels * place.channel_words * place.data_width]
    return math.lcm(*lines, *rows, *(8 * size for size in _bursts(graph, place)))


def _bursts(graph: acadl.ArchitectureGraph, storage: acadl.ACADLObject) -> set[int]:
    """Bytes of the bursts in which units ask for words of a memory."""
    if not isinstance(storage, acadl.MemoryInterface):
        return set()
    ways = [(unit, acadl.READ_DATA) for unit in graph.readers(storage)]
    ways += [(unit, acadl.WRITE_DATA) for unit in graph.writers(storage)]
    return {graph.burst_bytes(storage, unit, kind) for unit, kind in ways} - {0}


def _links(
    graph: acadl.ArchitectureGraph, storage: acadl.DataStorage, units: Sequence[acadl.FunctionalUnit], put: Put
) -> int:
    """Position of the link of each unit for writes and for reads, or NONE."""
    numbers = {k.name: n for n, k in enumerate(graph.links)}
    if not numbers:
        return NONE
    table: list[int] = []
    for unit in units:
        for kind in (acadl.EdgeKind.WRITE_DATA, acadl.EdgeKind.READ_DATA):
            link = graph.link(storage, unit, kind)
            table.append(NONE if link is None else numbers[link.name])
    return put(table) if any(n != NONE for n in table) else NONE
