"""The hardware view of any architecture graph as a ``df`` description.

Objects whose names differ in their indices alone are one set (``core[0][0].l1 .. core[7][7].l1``). **Cores** are the
templates in whose arrays units compute, or one core for a graph without such arrays; units that reach the global
memory move data and count as ways. **Memories** hold the ISA's buffers; storages that are written through one port are
one memory. Which core reaches which memory, and what links join, is said by affine maps
(:mod:`archloom.mapper.spatial.machines.affine_map`): a ``df.mux`` from cores to what their units read or write,
``df.interconnects`` for links and for units outside of cores. What several places share as one medium maps each of them
to all of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, ACADLEdge, ArchitectureGraph, FunctionalUnit
from archloom.acadl_models.fit import Traffic, traffic
from archloom.mapper.spatial.machines.affine_map import AffineMap, Pairs, Point, fitted
from archloom.mapper.spatial.machines.df import Description, Item, Links, SpatialDim
from archloom.mapper.spatial.machines.machine import is_mesh, isa_of
from archloom.mapper.spatial.machines.sets import HBM, Instances, Place, Sets, Storage, family
from archloom.oracle import taidl
from archloom.oracle.errors import ArchloomError, TargetError
from archloom.oracle.taidl.isa import Isa


def described(graph: "ArchitectureGraph", isa: "Isa | None" = None) -> Description:
    """The hardware view; ``isa`` says what units compute, by default the ISA of the graph's name.

    TargetError for a graph without a view: it names the object to blame.
    """
    return _View(graph, isa or isa_named(graph)).description()


def isa_named(graph: "ArchitectureGraph") -> "Isa":
    """The ISA of a mesh of cores, or the one with the graph's name; TargetError if there is none."""
    if is_mesh(graph):
        return isa_of(graph)
    try:
        return taidl.load(graph.name, **graph.parameters)
    except ArchloomError as error:
        raise TargetError(f"graph {graph.name!r}: which ISA says what its units compute? ({error})") from error


@dataclass
class _Joined:
    """What one set of links (or of units outside of cores) joins: by link, and by memories at both ends."""

    bandwidth: int | None
    pairs: dict[tuple[Point, str, str], Pairs] = field(default_factory=dict)

    def add(self, link: Point, source: Place, target: Place) -> None:
        self.pairs.setdefault((link, source[0], target[0]), set()).add((source[1], target[1]))


class _View(Sets):
    """The sets of a graph, and the ways between them."""

    def __init__(self, graph: "ArchitectureGraph", isa: "Isa") -> None:
        super().__init__(graph, isa)
        self.told: set[tuple[str, str, str, str, AffineMap]] = set()

    # --- ways ----------------------------------------------------------------------------------------------------
    def ways(self) -> Iterator[Item]:
        yield from self._muxes()
        yield from self._interconnects()
        for cache in self.graph.caches:
            behind = self.graph.backing(cache)
            if cache.name in self.places and behind.name in self.places:
                yield from self.links(
                    f"{self.places[cache.name][0]}_to_{self.places[behind.name][0]}", "interconnects",
                    self.memories[self.places[cache.name][0]], self.memories[self.places[behind.name][0]],
                    {(self.places[cache.name][1], index) for _, index in self.spots(behind.name)}, None, cache.name)

    def touched(self, unit: "FunctionalUnit") -> Iterator[tuple[Storage, "ACADLEdge"]]:
        yield from self._edges.get(unit.name, ())

    @cached_property
    def _edges(self) -> dict[str, list[tuple[Storage, "ACADLEdge"]]]:
        found: dict[str, list[tuple[Storage, ACADLEdge]]] = {}
        for edge in self.graph.edges:
            if edge.kind in (READ_DATA, WRITE_DATA):
                unit, storage = (edge.target, edge.source) if edge.kind is READ_DATA else (edge.source, edge.target)
                if storage.name in self.places:
                    found.setdefault(unit.name, []).append((storage, edge))  # type: ignore[arg-type]
        return found

    def is_port(self, edge: "ACADLEdge") -> bool:
        """Whether what an edge carries is limited by a port of a memory alone, or by nothing."""
        return edge.link is None or edge.link.name in self.port_names

    def _muxes(self) -> Iterator[Item]:
        """What each core's units read or write; with a bandwidth where all of them do so over like links."""
        found: dict[tuple[str, str], Pairs] = {}
        widths: dict[tuple[str, str], set[int | None]] = {}
        sets = {made.name: made for made in self.cores.values()}
        for unit in self.graph.functional_units:
            mine = self.core(unit)
            for storage, edge in self.touched(unit) if mine else ():
                ends = mine[0].name, self.places[storage.name][0]  # type: ignore[index]
                found.setdefault(ends, set()).update(
                    (mine[1], index) for _, index in self.spots(storage.name))  # type: ignore[index]
                link = None if self.is_port(edge) else edge.link
                widths.setdefault(ends, set()).add(link.bandwidth if link else None)
        for (core, memory), pairs in found.items():
            width = widths[core, memory].pop() if len(widths[core, memory]) == 1 else None
            yield from self.links(f"{core}_to_{memory}", "mux", sets[core], self.memories[memory], pairs, width, core)

    def _interconnects(self) -> Iterator[Item]:
        """Links first, then units outside of cores that need none."""
        joined: dict[str, _Joined] = {}
        for unit in self.graph.functional_units:
            edges = list(self.touched(unit))
            links = {edge.link.name for storage, edge in edges if edge.link and not self.is_port(edge)}
            if len(links) > 1 and len({family(name)[0] for name in links}) > 1:
                continue  # a tree over links that are told by themselves
            if links or self.core(unit) is None:
                self._carried(joined, unit, edges, bool(links))
        for key, of in joined.items():
            yield from self._told(key, of)

    def _carried(
        self, joined: dict[str, _Joined], unit: "FunctionalUnit", edges: list[tuple[Storage, "ACADLEdge"]], linked: bool
    ) -> None:
        """From where to where a unit moves data, by what its instructions read and write."""
        for mnemonic in sorted(unit.to_process):
            used = self.used[mnemonic]
            sources = [(s, e) for s, e in edges if e.source is s and not used.reads.isdisjoint(self.held(s))]
            targets = [(s, e) for s, e in edges if e.target is s and not used.writes.isdisjoint(self.held(s))]
            if not linked:
                self._carry(joined, unit.name, None, [s for s, _ in sources], [s for s, _ in targets])
            for storage, edge in sources:
                if edge.link and not self.is_port(edge):
                    ends = [s for s, _ in targets if s is not storage]
                    self._carry(joined, edge.link.name, edge.link.bandwidth, [storage], ends)
            for storage, edge in targets:
                if edge.link and not self.is_port(edge):
                    ends = [s for s, _ in sources if s is not storage]
                    self._carry(joined, edge.link.name, edge.link.bandwidth, ends, [storage])

    @cached_property
    def used(self) -> dict[str, Traffic]:
        """The buffers that each instruction reads and writes."""
        return {name: traffic(what.body) for name, what in self.isa.instructions.items()}

    def held(self, storage: Storage) -> list[str]:
        """The buffers that lie in a storage, or behind a cache."""
        return [buffer for place in self.path(storage) for buffer in self.holds.get(place.name, ())]

    def _carry(
        self, joined: dict[str, _Joined], name: str, bandwidth: int | None, sources: Iterable[Storage],
        targets: Iterable[Storage],
    ) -> None:
        key, index = family(name)
        made = joined.setdefault(key, _Joined(bandwidth))
        if made.bandwidth != bandwidth:
            raise self.fault(f"{name} carries {bandwidth} bytes a cycle, others of its kind {made.bandwidth}")
        for source in sources:
            for target in targets:
                cores = self._cores_of(source, target)
                pairs = [cores] if cores else itertools.product(self.spots(source.name), self.spots(target.name))
                for ends in pairs:
                    made.add(index, *ends)

    def _cores_of(self, source: Storage, target: Storage) -> tuple[Place, Place] | None:
        """The cores of two parts of memories that cores share: from core to core."""
        heads = {self.head(source.name), self.head(target.name)}
        name = self.places[source.name][0]
        cores = self.cores.get(heads.pop()) if len(heads) == 1 else None
        if cores is None or name != self.places[target.name][0] or self.memories[name].dims == cores.dims:
            return None
        return (cores.name, family(source.name)[1]), (cores.name, family(target.name)[1])

    def _told(self, key: str, of: _Joined) -> Iterator[Item]:
        sets = {**self.memories, **{made.name: made for made in self.cores.values()}}
        base = key.replace("[]", "").removesuffix(".unit").removesuffix(".ring").removesuffix("_link")
        base = base.rpartition(".")[2]
        for source, target in dict.fromkeys((s, t) for _, s, t in of.pairs):
            mine = {link: pairs for (link, s, t), pairs in of.pairs.items() if (s, t) == (source, target)}
            every: Pairs = set().union(*mine.values())
            # from the side with more places, each of which then has one image
            places, images = ({pair[side] for pair in every} for side in (0, 1))
            if source == self.memory or (target != self.memory and len(images) > len(places)):
                source, target, every = target, source, {(b, a) for a, b in every}
                mine = {link: {(b, a) for a, b in pairs} for link, pairs in mine.items()}
            single = of.bandwidth is not None and all(len(pairs) == 1 for pairs in mine.values())
            ends = [{a for a, _ in pairs} for pairs in mine.values()]
            shared = {(a, b) for places in ends for a in places for b in places if len(places) > 1}
            if shared and source != target and of.bandwidth:
                yield from self.links(base, "interconnects", sets[source], sets[source], shared, of.bandwidth, key)
            yield from self.links(
                base, "interconnects", sets[source], sets[target], every, of.bandwidth, key, not single)

    @property
    def memory(self) -> str:
        """The name of the global memory."""
        return self.places[self.graph.buffers[HBM][0].storage][0]

    def links(
        self, base: str, kind: str, source: Instances, target: Instances, pairs: Pairs, bandwidth: int | None,
        blame: str, symbols: bool = True,
    ) -> Iterator[Item]:
        maps = fitted(pairs, source.extents, target.extents, source is target, symbols)
        maps = maps or fitted(pairs, source.extents, target.extents, source is target)
        if maps is None and kind == "interconnects":
            source, target, pairs = target, source, {(b, a) for a, b in pairs}
            maps = fitted(pairs, source.extents, target.extents, source is target)
        if maps is None:
            raise self._no_maps(source, target, pairs, blame)
        for map_ in maps:
            told = blame, kind, source.name, target.name, map_
            if told not in self.told:  # several kinds of instructions take the same way
                self.told.add(told)
                yield Links(self.named(base), kind, source.name, target.name, map_, bandwidth)

    def _no_maps(self, source: Instances, target: Instances, pairs: Pairs, blame: str) -> TargetError:
        """The error about ways that follow no maps; a place of the source without any is to blame, if there is one."""
        joined = {place for place, _ in pairs}
        cut = next((p for p in itertools.product(*map(range, source.extents)) if p not in joined), None)
        if cut is not None:
            there = self.object_at(source, min(joined))
            return self.fault(f"{self.object_at(source, cut)} has no way to {target.name}, which {there} has")
        return self.fault(f"the ways over {blame} from {source.name} to {target.name} follow no affine maps")

    def description(self) -> Description:
        self.alike()
        units = list(self.units())
        memories = list(self.memory_items())
        ways = list(self.ways())
        dims = [SpatialDim(name, extent) for name, extent in self.dims.items()]
        return Description((*dims, *units, *memories, *ways), self.graph.name, self.graph.clock_hz)
