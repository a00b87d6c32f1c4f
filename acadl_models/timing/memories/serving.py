"""How a request goes through a storage with state: the times for which it waits, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from archloom.acadl_models import acadl
from archloom.acadl_models.timing.memories.cache import Cache, Wait
from archloom.acadl_models.timing.memories.channels import Channels, InterleavedPort, Interleaving
from archloom.acadl_models.timing.memories.dram import Banks
from archloom.acadl_models.timing.result import CacheTiming, DramTiming

LatencyOf = Callable[[acadl.DataStorage, str], int]
"""The value of a latency attribute of a storage for a request, in cycles."""


@dataclass(frozen=True)
class Load:
    """What a request moves: half-open ranges of words (ascending), their beats on the port of the storage, bytes."""

    runs: tuple[tuple[int, int], ...]
    is_read: bool
    beats: int
    bytes: int


class Memories:
    """The caches, DRAM banks and channels, and links of a graph, by name."""

    def __init__(self, graph: acadl.ArchitectureGraph) -> None:
        self.graph = graph
        self.caches: dict[str, Cache] = {}
        for cache in graph.caches:
            self._cache(cache)
        self.banks = {
            s.name: Banks(s.name, s.banks, s.row_words, s.t_RCD, s.t_RP, s.t_RAS, s.port_width)
            for s in graph.storages
            if isinstance(s, acadl.DRAM) and s.has_bank_state
        }
        self.interleaved = {
            s.name: InterleavedPort(Interleaving(s.channels, s.channel_words, s.port_width))
            for s in graph.storages
            if isinstance(s, acadl.DRAM) and s.is_interleaved
        }
        self.channels = {k.name: Channels(k.name, k.bandwidth, k.latency, k.exclusive) for k in graph.links}

    def cache_figures(self) -> tuple[CacheTiming, ...]:
        """Of all caches, in order of creation."""
        return tuple(self.caches[c.name].figures() for c in self.graph.caches)

    def dram_figures(self) -> tuple[DramTiming, ...]:
        """Of all DRAMs with bank state, in order of creation."""
        return tuple(banks.figures() for banks in self.banks.values())

    def link(self, storage: acadl.DataStorage, unit: acadl.FunctionalUnit, is_read: bool) -> acadl.Link | None:
        """The link over which a unit reaches a storage."""
        return self.graph.link(storage, unit, acadl.EdgeKind.READ_DATA if is_read else acadl.EdgeKind.WRITE_DATA)

    def ready(
        self, storage: acadl.DataStorage, load: Load, latency_of: LatencyOf, now: int
    ) -> Generator[int, None, int]:
        """Serve a request that gets a slot ``now``: returns the time at which its first beat can move.

        Yields the times until which it waits before: a cache is looked up again then.
        """
        if storage.name in self.caches:
            return (yield from self._cached(storage, load, latency_of, now))
        latency = latency_of(storage, "read_latency" if load.is_read else "write_latency")
        if storage.name in self.banks:
            return self.banks[storage.name].access(load.runs, latency, now) - load.beats + 1
        return now + latency

    def _cached(
        self, storage: acadl.DataStorage, load: Load, latency_of: LatencyOf, now: int
    ) -> Generator[int, None, int]:
        cache = self.caches[storage.name]
        word = storage.data_width // 8
        for waiting, wait in cache.serve([(a * word, b * word) for a, b in load.runs], load.is_read):
            meant = self.graph[waiting.name]
            assert isinstance(meant, acadl.DataStorage)
            now += latency_of(meant, wait.value)
            if waiting is not cache or wait is Wait.MISS:
                yield now
        return now

    def _cache(self, cache: acadl.CacheInterface) -> Cache:
        if cache.name not in self.caches:
            assert isinstance(cache, acadl.SetAssociativeCache)
            behind = self.graph.backing(cache)
            self.caches[cache.name] = Cache(
                cache.name, cache.sets, cache.ways, cache.cache_line_size, cache.replacement_policy,
                cache.write_back, cache.write_allocate, cache.seed,
                self._cache(behind) if isinstance(behind, acadl.CacheInterface) else None,
                self.graph.semantics.cache_miss_end == "after_hit",
            )
        return self.caches[cache.name]
