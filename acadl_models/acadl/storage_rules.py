"""The validity rules of storages, caches and links, each a function that lists faults."""

from __future__ import annotations

from collections.abc import Iterable

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.caches import CacheInterface
from archloom.acadl_models.acadl.edges import BACKED_BY, READ_DATA, WRITE_DATA
from archloom.acadl_models.acadl.links import Link
from archloom.acadl_models.acadl.sketch import Sketch, listed
from archloom.acadl_models.acadl.storages import DataStorage, RegisterFile
from archloom.acadl_models.acadl.units import InstructionMemoryAccessUnit, MemoryAccessUnit


def ports(g: Sketch) -> Iterable[str]:
    """At most ``read_write_ports`` memory access units are attached to a storage."""
    for storage in g.of(DataStorage):
        if g.sound(storage):
            attached = [*g.targets(READ_DATA, storage), *g.sources(WRITE_DATA, storage)]
            units = {id(u): u for u in attached if isinstance(u, MemoryAccessUnit)}
            if len(units) > storage.read_write_ports:
                yield (
                    f"{storage}: {len(units)} memory access units are attached ({listed(units.values())}) "
                    f"but read_write_ports is {storage.read_write_ports}"
                )


def connected_storages(g: Sketch) -> Iterable[str]:
    """Every register file and storage is read or written by a unit, or backs a cache."""
    for o in g.of(RegisterFile, DataStorage):
        if not (g.targets(READ_DATA, o) or g.sources(WRITE_DATA, o) or g.sources(BACKED_BY, o)):
            yield f"{o} is connected to no functional unit: add a READ_DATA or WRITE_DATA edge, or remove it"


def storage_access(g: Sketch) -> Iterable[str]:
    """A MemoryAccessUnit that is no instruction fetcher has at least one edge to a data storage."""
    for unit in g.of(MemoryAccessUnit):
        if not isinstance(unit, InstructionMemoryAccessUnit):
            attached = [*g.sources(READ_DATA, unit), *g.targets(WRITE_DATA, unit)]
            if not any(isinstance(s, DataStorage) for s in attached):
                yield (
                    f"{unit} reads and writes no DataStorage: add READ_DATA or WRITE_DATA edges, "
                    "or make it a FunctionalUnit"
                )


def caches_backed(g: Sketch) -> Iterable[str]:
    """A cache is backed by exactly one storage, and the hierarchy has no cycle."""
    for cache in g.of(CacheInterface):
        behind = g.targets(BACKED_BY, cache)
        if len(behind) != 1:
            yield f"{cache} is backed by {listed(behind)}: expected exactly one BACKED_BY edge to a DataStorage"
            continue
        seen: list[ACADLObject] = [cache]
        while behind and behind[0] not in seen:
            seen.append(behind[0])
            behind = g.targets(BACKED_BY, behind[0])
        if behind and behind[0] is cache:
            yield f"BACKED_BY edges form a cycle: {' -> '.join(o.name for o in [*seen, cache])}"


def links_inside(g: Sketch) -> Iterable[str]:
    """Every link is one of this graph and carries an edge."""
    used = {id(e.link): e.link for e in g.edges if e.link is not None}
    for link in g.of(Link):
        if id(link) not in used:
            yield f"{link} carries no edge: name it as the link of a READ_DATA or WRITE_DATA edge, or remove it"
    for key, link in used.items():
        if key not in g.known:
            yield f"{link} was not made inside this @generate function"


def cache_words(g: Sketch) -> Iterable[str]:
    """A cache has the words of the storage behind it, whole bytes, and its lines are whole words."""
    for cache in filter(g.sound, g.of(CacheInterface)):
        for behind in g.targets(BACKED_BY, cache):
            if isinstance(behind, DataStorage) and behind.data_width != cache.data_width:
                yield (
                    f"{cache}: data_width is {cache.data_width}, but {behind} behind it has words of "
                    f"{behind.data_width} bits: a cache has the words of what backs it"
                )
        if cache.data_width % 8:
            yield f"{cache}: data_width {cache.data_width} is no whole number of bytes, in which lines are counted"
        elif cache.cache_line_size % (cache.data_width // 8):
            yield (
                f"{cache}: cache_line_size {cache.cache_line_size} bytes is no whole number of its words of "
                f"{cache.data_width} bits"
            )


def one_way(g: Sketch) -> Iterable[str]:
    """A unit is attached to a cache or to what lies behind it, not to both for the same kind of access."""
    for cache in g.of(CacheInterface):
        seen: list[ACADLObject] = [cache]
        while (behind := g.targets(BACKED_BY, seen[-1])) and behind[0] not in seen:
            seen.append(behind[0])
        for kind, find in ((READ_DATA, g.targets), (WRITE_DATA, g.sources)):
            near = {id(u) for u in find(kind, cache)}
            for place in seen[1:]:
                for unit in find(kind, place):
                    if id(unit) in near:
                        yield (
                            f"{unit} has {kind.name} edges to {cache} and to {place} behind it: "
                            "it must reach a storage in one way"
                        )
