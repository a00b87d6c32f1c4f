"""Sets of objects of an architecture graph, as the hardware view has them: cores, their units, and memories.

Objects whose names differ in their indices alone are one set (``core[0][0].l1 .. core[7][7].l1``).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, Union

from archloom.acadl_models import acadl
from archloom.mapper.costs.compute import Compute, computes
from archloom.mapper.hardware import Port
from archloom.mapper.spatial.machines.affine_map import Point
from archloom.mapper.spatial.machines.df import ComputeUnit, Cores, Item, Memories, Scalar
from archloom.oracle.errors import TargetError
from archloom.oracle.taidl.isa import Isa

HBM = "hbm"
"""The buffer that is the global memory."""

_ANY_SIZE = 1 << 62
"""More than any memory holds: what a port carries does not depend on its memory's size then."""

_INDEX = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True)
class Instances:
    """Instances of a template or of a storage: their dimensions and extents."""

    name: str
    dims: tuple[str, ...]
    extents: Point


Place: TypeAlias = tuple[str, Point]
"""The name of a set of memories, and which of them."""

Storage: TypeAlias = Union["acadl.DataStorage", "acadl.RegisterFile"]


def family(name: str) -> tuple[str, Point]:
    """A name without its indices, and those: ``core[1][2].l1`` gives ``core[][].l1`` and (1, 2)."""
    return _INDEX.sub("[]", name), tuple(int(i) for i in _INDEX.findall(name))


def at(key: str, index: Point) -> str:
    """The name of a family's member: ``core[][].l1`` and (1, 2) give ``core[1][2].l1``."""
    left = iter(index)
    return re.sub(r"\[\]", lambda _: f"[{next(left)}]", key)


def share(rate: int, parts: int) -> int | float:
    """A part of a rate: a whole number if it is one."""
    return rate // parts if rate % parts == 0 else round(rate / parts, 6)


def _facts(unit: "acadl.FunctionalUnit") -> tuple[object, ...]:
    """What is equal in units that are alike."""
    each = [(name, str(unit.cycles_of(name))) for name in sorted(unit.to_process)]
    return (*each, unit.in_flight)


class Sets:
    """Cores with their units, and memories, of a graph whose units do what ``isa`` says."""

    def __init__(self, graph: "acadl.ArchitectureGraph", isa: "Isa") -> None:
        self.graph, self.isa = graph, isa
        self.dims: dict[str, int] = {}
        self.names: set[str] = set()
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

    def fault(self, text: str) -> TargetError:
        return TargetError(f"graph {self.graph.name!r} has no view: {text}")

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
            raise self.fault("no unit of it computes anything")
        if any(made.kind != "scalar" for work in found.values() for made in work):
            # counters beside units that work on many numbers at a time
            found = {key: tuple(made for made in work if made.kind != "scalar") for key, work in found.items()}
        return found

    def alike(self) -> None:
        """Units that compute are equal in all cores, and each core has them; TargetError names one that differs."""
        first: dict[str, acadl.FunctionalUnit] = {}
        there: dict[str, set[Point]] = {}
        for unit in self.graph.functional_units:
            key = family(unit.name)[0]
            if not self.work[key]:
                continue
            known = first.setdefault(key, unit)
            there.setdefault(key, set()).add(family(unit.name)[1])
            if _facts(unit) != _facts(known):
                raise self.fault(
                    f"{unit.name} differs from {known.name} in what it processes, or in its cycles")
        for key, found in there.items():
            every = itertools.product(*map(range, self.extents[key]))
            lacking = next((index for index in every if index not in found), None)
            if lacking is not None:
                raise self.fault(
                    f"of {math.prod(self.extents[key])} units {first[key].name}, ... only {len(found)} are there; "
                    f"{at(key, lacking)} is missing")

    @cached_property
    def cores(self) -> dict[str, Instances]:
        """Sets of cores by the array of templates that they are."""
        found: dict[str, Instances] = {}
        for unit in self.graph.functional_units:
            head = self.head(unit.name)
            if self.work[family(unit.name)[0]] and head not in found:
                extents = self.extents[family(unit.name)[0]][: head.count("[]")]
                dims = self.dims_of(head, extents)
                base = head.replace("[]", "").rpartition(".")[2] or "core"
                found[head] = Instances(self.named(base if base != "core" else "cores"), dims, extents or (1,))
        return found

    def core(self, unit: "acadl.FunctionalUnit") -> tuple[Instances, Point] | None:
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
    def ports(self) -> dict[str, "acadl.Link"]:
        """Links through which several units write a storage that is not read over them."""
        writers: dict[tuple[str, str], set[str]] = {}
        read, links = set(), {}
        for edge in self.graph.edges:
            if edge.link is None:
                continue
            links[edge.link.name] = edge.link
            if edge.kind is acadl.READ_DATA:
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
    def memories(self) -> dict[str, Instances]:
        return {made.name: made for _, made in self._memories.values()}

    @cached_property
    def _memories(self) -> dict[str, tuple[Place, Instances]]:
        known: dict[str, list[str]] = {}
        read = {edge.source.name for edge in self.graph.edges if edge.kind is acadl.READ_DATA}
        for name in (*self.holds, *(cache.name for cache in self.graph.caches)):
            if name not in read and not self.graph.caches:
                continue  # nobody reads it: it keeps an order, and no data
            known.setdefault(family(name)[0], []).append(name)
        found = {}
        for key, storages in known.items():
            held = {b for s in storages for b in self.holds.get(s, ())}
            base = next(iter(held)) if len(held) == 1 else key.replace("[]", "").rpartition(".")[2]
            dims, extents, index = self._instances(key, storages)
            made = Instances(self.named(base), dims, extents)
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
        channels = self._channels(storages)
        if channels > 1:
            dims = (*(self.dims_of(head, extents) if extents else ()), self._channel_dim(channels))
            return dims, (*extents, channels), {name: index if extents else () for name, index in own.items()}
        dims = self.dims_of(head, extents)
        shared = {name: self.ports[name].name for name in storages if name in self.ports}
        if len(set(shared.values())) in (0, len(storages)):
            return dims, extents or (1,), own
        # cores that share a port have parts of one memory: it has the dimensions along which ports differ
        axes = [a for a in range(len(extents)) if self._tells(a, own, shared)]
        return tuple(dims[a] for a in axes), tuple(extents[a] for a in axes), {
            name: tuple(index[a] for a in axes) for name, index in own.items()}

    def _channels(self, storages: list[str]) -> int:
        """Into how many channels each of like memories deals out its words; TargetError if they differ."""
        found = {self.channels(name): name for name in storages}
        if len(found) > 1:
            each = ", ".join(f"{name}: {count}" for count, name in found.items())
            raise self.fault(f"like memories differ in their channels ({each})")
        return next(iter(found))

    def channels(self, name: str) -> int:
        """The channels of a storage, 1: its words are not dealt out."""
        return getattr(self.graph[name], "channels", 1)

    def _channel_dim(self, count: int) -> str:
        """The dimension of so many channels."""
        if self.dims.get("channels") != count:
            name = self.named("channels")
            self.dims[name] = count
            return name
        return "channels"

    def spots(self, name: str) -> list[Place]:
        """The memories that a storage is: one, or each of its channels."""
        memory, index = self.places[name]
        count = self.channels(name)
        return [(memory, (*index, channel)) for channel in range(count)] if count > 1 else [(memory, index)]

    def object_at(self, made: Instances, point: Point) -> str:
        """The name of the core or storage that is at a point of a set."""
        for head, cores in self.cores.items():
            if cores is made:
                return at(head, point) if head else made.name
        spots = (name for name, (memory, _) in self.places.items() if memory == made.name
                 and (made.name, point) in self.spots(name))
        return next(spots, made.name)

    @staticmethod
    def _tells(axis: int, own: Mapping[str, Point], shared: Mapping[str, str]) -> bool:
        """Whether storages that differ along ``axis`` alone have different ports."""
        port_of = {index: shared.get(name) for name, index in own.items()}
        first = next(iter(own.values()))
        line = [i for i in port_of if all(a == b for n, (a, b) in enumerate(zip(i, first)) if n != axis)]
        return len({port_of[i] for i in line}) > 1

    def memory_items(self) -> Iterator[Item]:
        parts: dict[Place, list[str]] = {}
        for storage, place in self.places.items():
            parts.setdefault(place, []).append(storage)
        for made in self.memories.values():
            mine = [names for (name, _), names in parts.items() if name == made.name]
            there = {spot[1] for names in mine for name in names for spot in self.spots(name)}
            lacking = next((p for p in itertools.product(*map(range, made.extents)) if p not in there), None)
            if lacking is not None:
                extents = " x ".join(map(str, made.extents))
                raise self.fault(f"memories like {mine[0][0]} leave {lacking} of {extents} out")
            sizes = {sum(map(self.size, names)) for names in mine}
            ports = {self.port(names[0], _ANY_SIZE) for names in mine}
            if len(ports) > 1:
                raise self.fault(f"memories like {mine[0][0]} differ in their ports")
            if len(sizes) > 1:
                raise self.fault(f"the memories of {mine[0][0]} differ in size ({sizes})")
            yield Memories(made.name, made.dims, *self.port(mine[0][0], sizes.pop()))

    def size(self, name: str) -> int:
        place = self.graph[name]
        if isinstance(place, acadl.RegisterFile):
            return max(1, place.data_width * len(place.registers) // 8)
        if isinstance(place, (acadl.MemoryInterface, acadl.SetAssociativeCache)):
            return place.size_bytes
        raise self.fault(f"the size of {name} is not known")

    def port(self, name: str, size: int) -> tuple[int, int | float | None, int | None, int | None]:
        """Bytes, bytes a cycle of a port (None: as many as it holds), ports, latency; of each of its channels."""
        place = self.graph[name]
        if not isinstance(place, acadl.DataStorage):
            return size, None, None, None
        port = Port.of(place)
        width = port.bytes_per_cycle if port.bytes_per_cycle < size else None
        if name in self.ports:
            width = min(width or size, self.ports[name].bandwidth)
        many = port.streams if port.streams > 1 and width is not None and name not in self.ports else None
        latency = port.latency if port.latency is not None and port.latency > 1 else None
        if port.channels > 1:
            return size // port.channels, share(port.bytes_per_cycle, port.channels), many, latency
        return size, width, many, latency

    def path(self, storage: Storage) -> tuple[Storage, ...]:
        """The storage, and what lies behind a cache."""
        return self.graph.path(storage) if isinstance(storage, acadl.DataStorage) else (storage,)
