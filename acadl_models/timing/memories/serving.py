"""How a request goes through a storage with state: the times for which it waits, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeAlias

from archloom.acadl_models import acadl
from archloom.acadl_models.timing.memories.cache import Cache, Wait
from archloom.acadl_models.timing.memories.channels import Channels, InterleavedPort, Interleaving
from archloom.acadl_models.timing.memories.dram import Banks
from archloom.acadl_models.timing.program import Request

LatencyOf = Callable[[acadl.DataStorage, str], int]
"""The value of a latency attribute of a storage for a request, in cycles."""

Pause: TypeAlias = int | tuple[Cache, Wait]
"""The time until which a request waits, or what happens to it at a cache."""


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

    def ready(
        self, storage: acadl.DataStorage, request: Request, latency_of: LatencyOf, clock: Callable[[], int]
    ) -> Generator[Pause, None, int]:
        """Serve a request that gets a slot now, by the ``clock``: returns the time at which its first beat can move.

        Yields what it waits for before: a cache is looked up again then.
        """
        cache = self.caches.get(storage.name)
        if cache is None:
            latency = latency_of(storage, "read_latency" if request.is_read else "write_latency")
            if storage.name not in self.banks:
                return clock() + latency
            runs = [(at, at + count) for at, count in request.runs]
            return self.banks[storage.name].access(runs, latency, clock()) - request.beats + 1
        word = storage.data_width // 8
        lines = [(at * word, (at + count) * word) for at, count in request.runs]
        for waiting, wait in cache.serve(lines, request.is_read):
            if wait not in (Wait.HIT, Wait.MISS):
                yield waiting, wait
                continue
            meant = self.graph[waiting.name]
            assert isinstance(meant, acadl.DataStorage)
            until = clock() + latency_of(meant, wait.value)
            if waiting is cache and wait is Wait.HIT:
                return until
            yield until
        return clock()

    def _cache(self, cache: acadl.CacheInterface) -> Cache:
        if cache.name not in self.caches:
            assert isinstance(cache, acadl.SetAssociativeCache)
            behind = self.graph.backing(cache)
            self.caches[cache.name] = Cache(
                cache.name, cache.sets, cache.ways, cache.cache_line_size, cache.replacement_policy,
                cache.write_back, cache.write_allocate, cache.seed,
                self._cache(behind) if isinstance(behind, acadl.CacheInterface) else None,
                self.graph.semantics.cache_miss_end == "after_hit", cache.miss_registers,
            )
        return self.caches[cache.name]
