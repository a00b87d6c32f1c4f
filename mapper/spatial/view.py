"""The hardware view of any architecture graph as a ``df`` description.

Objects whose names differ in their indices alone are one set (``core[0][0].l1 .. core[7][7].l1``). **Cores** are the
templates in whose arrays units compute, or one core for a graph without such arrays; units that reach the global
memory move data and count as ways. **Memories** hold the ISA's buffers; storages that are written through one port are
one memory. Which core reaches which memory, and what links join, is said by affine maps
(:mod:`mapper.spatial.fitting`): a ``df.mux`` from cores to what their units read or write, ``df.interconnects`` for
links and for units outside of cores. What several places share as one medium maps each of them to all of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, Union

from acadl_models.fit import Traffic, traffic
from mapper.compute import Compute, computes
from mapper.hardware import Port
from mapper.spatial.affine_map import AffineMap
from mapper.spatial.df import ComputeUnit, Cores, Description, Item, Links, Memories, Scalar, SpatialDim
from mapper.spatial.fitting import Pairs, Point, fitted
from oracle.errors import TargetError

if TYPE_CHECKING:
    from acadl_models.acadl import ACADLEdge, ArchitectureGraph, DataStorage, FunctionalUnit, Link, RegisterFile
    from oracle.taidl.isa import Isa

HBM = "hbm"
_INDEX = re.compile(r"\[(\d+)\]")


def described(graph: "ArchitectureGraph", isa: "Isa | None" = None) -> Description:
    """The hardware view; ``isa`` says what units compute, by default the ISA of the graph's name.

    TargetError for a graph without a view: it names the object to blame.
    """
    return _View(graph, isa or isa_named(graph)).description()


def isa_named(graph: "ArchitectureGraph") -> "Isa":
    """The ISA of a mesh of cores, or the one with the graph's name; TargetError if there is none."""
    from mapper.spatial.machine import is_mesh
    from mapper.spatial.timing import isa_of
    from oracle import taidl
    from oracle.errors import ArchloomError

    if is_mesh(graph):
        return isa_of(graph)
    try:
        return taidl.load(graph.name, **graph.parameters)
    except ArchloomError as error:
        raise TargetError(f"graph {graph.name!r}: which ISA says what its units compute? ({error})") from error


@dataclass(frozen=True)
class _Set:
    """Instances of a template or of a storage: their dimensions and extents."""

    name: str
    dims: tuple[str, ...]
    extents: Point


Place: TypeAlias = tuple[str, Point]
"""The name of a set of memories, and which of them."""

Storage: TypeAlias = Union["DataStorage", "RegisterFile"]


@dataclass
class _Joined:
    """What one set of links (or of units outside of cores) joins: by link, and by memories at both ends."""

    bandwidth: int | None
    pairs: dict[tuple[Point, str, str], Pairs] = field(default_factory=dict)

    def add(self, link: Point, source: Place, target: Place) -> None:
        self.pairs.setdefault((link, source[0], target[0]), set()).add((source[1], target[1]))


def family(name: str) -> tuple[str, Point]:
    """A name without its indices, and those: ``core[1][2].l1`` gives ``core[][].l1`` and (1, 2)."""
    return _INDEX.sub("[]", name), tuple(int(i) for i in _INDEX.findall(name))


def _facts(unit: "FunctionalUnit") -> tuple[object, ...]:
    """What is equal in units that are alike."""
    each = [(name, str(unit.latency_of(name)), str(unit.interval_of(name))) for name in sorted(unit.to_process)]
    return (*each, unit.in_flight)


class _View:
    def __init__(self, graph: "ArchitectureGraph", isa: "Isa") -> None:
        self.graph, self.isa = graph, isa
        self.dims: dict[str, int] = {}
        self.names: set[str] = set()
        self.told: set[tuple[str, str, str, str, AffineMap]] = set()
        self.heads: dict[str, tuple[str, ...]] = {}
        self.holds: dict[str, list[str]] = {}
        for buffer, banks in graph.buffers.items():
            for bank in banks:
                self.holds.setdefault(bank.storage, []).append(buffer)
        if HBM not in graph.buffers:
            raise TargetError(f"graph {graph.name!r} has no view: it places no buffer {HBM!r}, the global memory")
        self.extents: dict[str, Point] = {}
        for name in graph.objects:
            key, index = family(name)
            known = self.extents.get(key, (0,) * len(index))
            self.extents[key] = tuple(max(a, b + 1) for a, b in zip(known, index))

    # --- names and dimensions ------------------------------------------------------------------------------------
    def named(self, wanted: str) -> str:
        """``wanted`` as a name of the dialect that nothing has yet."""
        base = re.sub(r"\W+", "_", wanted).strip("_") or "x"
        name, number = base, 2
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names.add(name)
        return name

    def dims_of(self, head: str, extents: Point) -> tuple[str, ...]:
        """The dimensions of an array of templates or storages, made when first asked for."""
        if not extents:
            head, extents = "one", (1,)
        if head not in self.heads:
            stated = tuple(self.graph.dims)
            if stated and extents == tuple(self.graph.dims.values()):
                names = stated
            else:
                base = head.replace("[]", "").rpartition(".")[2]
                names = tuple(f"{base}_{i}" for i in range(len(extents))) if len(extents) > 1 else (f"{base}_of",)
                names = ("one",) if head == "one" else names
            for name, extent in zip(names, extents):
                if name not in self.dims:
                    self.dims[name] = extent
                    self.names.add(name)
            self.heads[head] = names
        return self.heads[head]

    def head(self, name: str) -> str:
        """The array of templates that an object lies in, ``""`` for none."""
        key = family(name)[0]
        end = key.rfind("].")
        return key[: end + 1] if end >= 0 else ""

    # --- compute units -------------------------------------------------------------------------------------------
    @cached_property
    def moving(self) -> frozenset[str]:
        """Units that reach the global memory, over caches, too."""
        places = {bank.storage for bank in self.graph.buffers[HBM]}
        found = set()
        for unit in self.graph.functional_units:
            touched = [*self.graph.reads(unit), *self.graph.writes(unit)]
            if any(s.name in places for storage in touched for s in self.path(storage)):
                found.add(unit.name)
        return frozenset(found)

    @cached_property
    def work(self) -> dict[str, tuple[Compute, ...]]:
        """What the units of each family compute, if anything."""
        found: dict[str, tuple[Compute, ...]] = {}
        for unit in self.graph.functional_units:
            key = family(unit.name)[0]
            if key not in found:
                found[key] = () if unit.name in self.moving else computes(self.graph, self.isa, unit)
        if not any(found.values()):
            raise TargetError(f"graph {self.graph.name!r} has no view: no unit of it computes anything")
        if any(made.kind != "scalar" for work in found.values() for made in work):
            # counters beside units that work on many numbers at a time
            found = {key: tuple(made for made in work if made.kind != "scalar") for key, work in found.items()}
        return found

    def alike(self) -> None:
        """Units that compute are equal in all cores, and each core has them; TargetError names one that differs."""
        first: dict[str, FunctionalUnit] = {}
        count: dict[str, int] = {}
        for unit in self.graph.functional_units:
            key = family(unit.name)[0]
            if not self.work[key]:
                continue
            known = first.setdefault(key, unit)
            count[key] = count.get(key, 0) + 1
            if _facts(unit) != _facts(known):
                raise TargetError(f"graph {self.graph.name!r} has no view: {unit.name} differs from {known.name} in "
                                  f"what it processes, or in its cycles")
        for key, found in count.items():
            if found < math.prod(self.extents[key]):
                raise TargetError(f"graph {self.graph.name!r} has no view: of {math.prod(self.extents[key])} units "
                                  f"{first[key].name}, ... only {found} are there")

    @cached_property
    def cores(self) -> dict[str, _Set]:
        """Sets of cores by the array of templates that they are."""
        found: dict[str, _Set] = {}
        for unit in self.graph.functional_units:
            head = self.head(unit.name)
            if self.work[family(unit.name)[0]] and head not in found:
                extents = self.extents[family(unit.name)[0]][: head.count("[]")]
                dims = self.dims_of(head, extents)
                base = head.replace("[]", "").rpartition(".")[2] or "core"
                found[head] = _Set(self.named(base if base != "core" else "cores"), dims, extents or (1,))
        return found

    def core(self, unit: "FunctionalUnit") -> tuple[_Set, Point] | None:
        """The core of a unit; a graph of one core has all units in it."""
        head = self.head(unit.name)
        if head in self.cores and head:
            return self.cores[head], family(unit.name)[1][: head.count("[]")]
        return (self.cores[""], (0,)) if set(self.cores) == {""} else None

    def units(self) -> Iterator[Item]:
        """The compute units, then the cores that have them; what only begins the work is a scalar of its own."""
        of_core: dict[str, list[tuple[str, int]]] = {}
        for key, work in self.work.items():
            if not work:
                continue
            head = self.head(key)
            own = self.extents[key][head.count("[]"):]
            base = key[len(head):].strip(".").replace("[]", "")
            base = base.removesuffix(".unit") if base != "unit" else head.replace("[]", "").rpartition(".")[2] + "_unit"
            for made in work:
                name = self.named(base if made is work[0] else f"{base}_{made.kind}")
                of_core.setdefault(head, []).append((name, math.prod(own)))
                yield (Scalar(name, made.cycles) if made.kind == "scalar" else
                       ComputeUnit(name, made.kind, made.shape, made.cycles, made.start or None))
        for unit in self.graph.functional_units:
            if not self.graph.reads(unit) and self.core(unit) is None:
                latency = unit.latency_of(min(unit.to_process))
                if latency.is_constant:
                    yield Scalar(self.named(unit.name.removesuffix(".unit")), max(1, latency.evaluate({})))
        for head, cores in self.cores.items():
            yield Cores(cores.name, cores.dims, tuple(of_core[head]))

    # --- memories ------------------------------------------------------------------------------------------------
    @cached_property
    def ports(self) -> dict[str, "Link"]:
        """Links through which several units write a storage that is not read over them."""
        from acadl_models.acadl import READ_DATA

        writers: dict[tuple[str, str], set[str]] = {}
        read, links = set(), {}
        for edge in self.graph.edges:
            if edge.link is None:
                continue
            links[edge.link.name] = edge.link
            if edge.kind is READ_DATA:
                read.add((edge.link.name, edge.source.name))
            else:
                writers.setdefault((edge.link.name, edge.target.name), set()).add(edge.source.name)
        return {storage: links[link] for (link, storage), units in writers.items()
                if len(units) > 1 and (link, storage) not in read}

    @cached_property
    def port_names(self) -> frozenset[str]:
        return frozenset(link.name for link in self.ports.values())

    @cached_property
    def places(self) -> dict[str, Place]:
        """For each storage with a buffer, and each cache, the memory that it is a part of."""
        return {storage: place for storage, (place, _) in self._memories.items()}

    @cached_property
    def memories(self) -> dict[str, _Set]:
        return {made.name: made for _, made in self._memories.values()}

    @cached_property
    def _memories(self) -> dict[str, tuple[Place, _Set]]:
        from acadl_models.acadl import READ_DATA

        known: dict[str, list[str]] = {}
        read = {edge.source.name for edge in self.graph.edges if edge.kind is READ_DATA}
        for name in (*self.holds, *(cache.name for cache in self.graph.caches)):
            if name not in read and not self.graph.caches:
                continue  # nobody reads it: it keeps an order, and no data
            known.setdefault(family(name)[0], []).append(name)
        found = {}
        for key, storages in known.items():
            held = {b for s in storages for b in self.holds.get(s, ())}
            base = next(iter(held)) if len(held) == 1 else key.replace("[]", "").rpartition(".")[2]
            dims, extents, index = self._instances(key, storages)
            made = _Set(self.named(base), dims, extents)
            for storage in storages:
                found[storage] = ((made.name, index[storage]), made)
        return found

    def _instances(self, key: str, storages: list[str]) -> tuple[tuple[str, ...], Point, dict[str, Point]]:
        """Dimensions and extents of a memory, and which instance of it each storage is."""
        own = {name: family(name)[1] or (0,) for name in storages}
        extents = self.extents[key]
        grid = tuple(self.graph.dims.values())
        if len(grid) == 2 and extents == (math.prod(grid),) and HBM not in self.holds.get(storages[0], ()):
            # counted through all cores
            own = {name: (index[0] // grid[1], index[0] % grid[1]) for name, index in own.items()}
            extents = grid
        head = key[: key.rfind("[]") + 2] if "[]" in key else ""
        dims = self.dims_of(head, extents)
        shared = {name: self.ports[name].name for name in storages if name in self.ports}
        if len(set(shared.values())) in (0, len(storages)):
            return dims, extents or (1,), own
        # cores that share a port have parts of one memory: it has the dimensions along which ports differ
        axes = [a for a in range(len(extents)) if self._tells(a, own, shared)]
        return tuple(dims[a] for a in axes), tuple(extents[a] for a in axes), {
            name: tuple(index[a] for a in axes) for name, index in own.items()}

    @staticmethod
    def _tells(axis: int, own: Mapping[str, Point], shared: Mapping[str, str]) -> bool:
        """Whether storages that differ along ``axis`` alone have different ports."""
        at = {index: shared.get(name) for name, index in own.items()}
        first = next(iter(own.values()))
        line = [i for i in at if all(a == b for n, (a, b) in enumerate(zip(i, first)) if n != axis)]
        return len({at[i] for i in line}) > 1

    def memory_items(self) -> Iterator[Item]:
        parts: dict[Place, list[str]] = {}
        for storage, place in self.places.items():
            parts.setdefault(place, []).append(storage)
        for made in self.memories.values():
            mine = [names for (name, _), names in parts.items() if name == made.name]
            sizes = {sum(map(self.size, names)) for names in mine}
            ports = {self.port(names[0], 1 << 62) for names in mine}
            if len(ports) > 1:
                raise TargetError(
                    f"graph {self.graph.name!r} has no view: memories like {mine[0][0]} differ in their ports")
            if len(sizes) > 1:
                raise TargetError(
                    f"graph {self.graph.name!r} has no view: the memories of {mine[0][0]} differ in size ({sizes})")
            yield Memories(made.name, made.dims, *self.port(mine[0][0], sizes.pop()))

    def size(self, name: str) -> int:
        from acadl_models.acadl import MemoryInterface, RegisterFile, SetAssociativeCache

        place = self.graph[name]
        if isinstance(place, RegisterFile):
            return max(1, place.data_width * len(place.registers) // 8)
        if isinstance(place, (MemoryInterface, SetAssociativeCache)):
            return place.size_bytes
        raise TargetError(f"graph {self.graph.name!r} has no view: the size of {name} is not known")

    def port(self, name: str, size: int) -> tuple[int, int | None, int | None, int | None]:
        """Bytes, bytes a cycle of a port (None: as many as it holds), ports, latency."""
        from acadl_models.acadl import DataStorage

        place = self.graph[name]
        if not isinstance(place, DataStorage):
            return size, None, None, None
        port = Port.of(place)
        width = port.bytes_per_cycle if port.bytes_per_cycle < size else None
        if name in self.ports:
            width = min(width or size, self.ports[name].bandwidth)
        many = port.streams if port.streams > 1 and width is not None and name not in self.ports else None
        return size, width, many, port.latency if port.latency is not None and port.latency > 1 else None

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
                    {(self.places[cache.name][1], self.places[behind.name][1])}, None, cache.name)

    def touched(self, unit: "FunctionalUnit") -> Iterator[tuple[Storage, "ACADLEdge"]]:
        yield from self._edges.get(unit.name, ())

    @cached_property
    def _edges(self) -> dict[str, list[tuple[Storage, "ACADLEdge"]]]:
        from acadl_models.acadl import READ_DATA, WRITE_DATA

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
                name, index = self.places[storage.name]
                ends = mine[0].name, name  # type: ignore[index]
                found.setdefault(ends, set()).add((mine[1], index))  # type: ignore[index]
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

    def path(self, storage: Storage) -> tuple[Storage, ...]:
        """The storage, and what lies behind a cache."""
        from acadl_models.acadl import DataStorage

        return self.graph.path(storage) if isinstance(storage, DataStorage) else (storage,)

    def _carry(
        self, joined: dict[str, _Joined], name: str, bandwidth: int | None, sources: Iterable[Storage],
        targets: Iterable[Storage],
    ) -> None:
        key, index = family(name)
        made = joined.setdefault(key, _Joined(bandwidth))
        if made.bandwidth != bandwidth:
            raise TargetError(f"graph {self.graph.name!r} has no view: {name} carries {bandwidth} bytes a cycle, "
                              f"others of its kind {made.bandwidth}")
        for source in sources:
            for target in targets:
                ends = self._cores_of(source, target) or (self.places[source.name], self.places[target.name])
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
            if (len(images), source == self.memory) > (len(places), target == self.memory):
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
        self, base: str, kind: str, source: _Set, target: _Set, pairs: Pairs, bandwidth: int | None, blame: str,
        symbols: bool = True,
    ) -> Iterator[Item]:
        maps = fitted(pairs, source.extents, target.extents, source is target, symbols)
        maps = maps or fitted(pairs, source.extents, target.extents, source is target)
        if maps is None and kind == "interconnects":
            source, target, pairs = target, source, {(b, a) for a, b in pairs}
            maps = fitted(pairs, source.extents, target.extents, source is target)
        if maps is None:
            raise TargetError(
                f"graph {self.graph.name!r} has no view: the ways over {blame} from {source.name} to {target.name} "
                f"follow no affine maps")
        for map_ in maps:
            told = blame, kind, source.name, target.name, map_
            if told not in self.told:  # several kinds of instructions take the same way
                self.told.add(told)
                yield Links(self.named(base), kind, source.name, target.name, map_, bandwidth)

    def description(self) -> Description:
        self.alike()
        units = list(self.units())
        memories = list(self.memory_items())
        ways = list(self.ways())
        dims = [SpatialDim(name, extent) for name, extent in self.dims.items()]
        return Description((*dims, *units, *memories, *ways), self.graph.name, self.graph.clock_hz)
