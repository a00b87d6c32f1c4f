"""Which units can take an instruction: rule 3 of the paper, by the storages that an instance really touches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import TypeAlias

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.acadl.latency import Expression

Need: TypeAlias = tuple[str, bool]
"""A register file or memory that is touched, and whether it is read."""

Used: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""The buffers that an instruction touches, each with its kinds of access."""

SHOWN = 4
"""How many units a message names before it counts the others."""


class Routing:
    """Tables over a graph: who processes what, and who reaches which place over which storage."""

    def __init__(self, graph: acadl.ArchitectureGraph) -> None:
        self.graph = graph
        self.places: dict[str, tuple[str, int]] = {}
        self.processing: dict[str, dict[str, acadl.FunctionalUnit]] = {}
        for stage in graph.stages:
            for number, unit in enumerate(graph.units(stage)):
                self.places[unit.name] = stage.name, number
                for mnemonic in unit.to_process:
                    self.processing.setdefault(mnemonic, {})[unit.name] = unit
        self.order = {s.name: k for k, s in enumerate(graph.stages)}
        self.holds: dict[str, set[str]] = {}
        for buffer, banks in graph.buffers.items():
            for bank in banks:
                self.holds.setdefault(bank.storage, set()).add(buffer)
        self.ways: dict[Need, dict[str, list[str]]] = {}
        self._reached: dict[tuple[str, bool], dict[str, list[str]]] = {}
        for edge in graph.edges:
            if edge.kind is acadl.READ_DATA:
                self._reach(edge.source.name, edge.target.name, True)
            elif edge.kind is acadl.WRITE_DATA:
                self._reach(edge.target.name, edge.source.name, False)
        self._coverage: dict[tuple[str, bool], dict[str, int]] = {}
        self._takers: dict[tuple[str, frozenset[Need]], Mapping[str, acadl.FunctionalUnit]] = {}

    def _reach(self, storage: str, unit: str, is_read: bool) -> None:
        """The unit reaches the storage, and over it, if it is a cache, all that lies behind."""
        place = self.graph[storage]
        self._add(storage, unit, is_read, storage)
        while isinstance(place, acadl.CacheInterface):
            place = self.graph.backing(place)
            self._add(place.name, unit, is_read, storage)

    def _add(self, place: str, unit: str, is_read: bool, storage: str) -> None:
        self.ways.setdefault((place, is_read), {}).setdefault(unit, []).append(storage)
        self._reached.setdefault((unit, is_read), {}).setdefault(place, []).append(storage)

    def serving(self, unit: str, buffers: Set[str], is_read: bool) -> list[str]:
        """The storages, memories or the caches before them, over which the unit reaches buffers."""
        reached = self._reached.get((unit, is_read), {})
        held = [place for place in reached if not buffers.isdisjoint(self.holds.get(place, ()))]
        return list(dict.fromkeys(way for place in held for way in reached[place]))

    def coverage(self, buffer: str, is_read: bool) -> dict[str, int]:
        """How many of the banks of a buffer each unit reaches; units that reach none are left out."""
        key = buffer, is_read
        if key not in self._coverage:
            banks = self.graph.buffers.get(buffer, ())
            self._coverage[key] = Counter(u for bank in banks for u in self.ways.get((bank.storage, is_read), ()))
        return self._coverage[key]

    def reaching(self, mnemonic: str, needs: Collection[Need]) -> dict[str, acadl.FunctionalUnit]:
        """The units that process ``mnemonic`` and reach everything in ``needs``."""
        units = self.processing.get(mnemonic, {})
        tables: list[Mapping[str, object]] = [self.ways.get(need, {}) for need in needs]
        smallest = min((units, *tables), key=len)
        return {u: units[u] for u in smallest if u in units and all(u in table for table in tables)}

    def takers(self, mnemonic: str, needs: frozenset[Need]) -> Mapping[str, acadl.FunctionalUnit]:
        """By stage, in the order of creation: the first contained unit that takes an instance with these needs."""
        key = mnemonic, needs
        if key not in self._takers:
            self._takers[key] = self.first(self.reaching(mnemonic, needs))
        return self._takers[key]

    def first(self, units: Mapping[str, acadl.FunctionalUnit]) -> Mapping[str, acadl.FunctionalUnit]:
        """Of each stage the first of ``units`` in the order of its CONTAINS edges."""
        found: dict[str, acadl.FunctionalUnit] = {}
        for name in sorted(units, key=lambda u: (self.order[self.places[u][0]], self.places[u][1])):
            found.setdefault(self.places[name][0], units[name])
        return found

    def refusals(self, mnemonic: str, needs: Iterable[Need]) -> str:
        """Why no unit takes an instance with these needs: what each lacks, those that lack least first."""
        units = self.processing.get(mnemonic)
        if not units:
            return "it is in the to_process of none"
        lacking = []
        for unit in units.values():
            missing = [edge_text(place, unit, is_read) for place, is_read in sorted(set(needs), key=str)
                       if unit.name not in self.ways.get((place, is_read), ())]
            lacking.append((len(missing), f"{unit} has no edge {', '.join(missing)}"))
        lacking.sort(key=lambda entry: entry[0])
        more = len(lacking) - SHOWN
        shown = [text for _, text in lacking[:SHOWN]] + ([f"and {more} more units lack edges"] if more > 0 else [])
        return "; ".join(shown)


def edge_text(place: str, unit: acadl.FunctionalUnit, is_read: bool) -> str:
    """The edge that would let the unit reach the place."""
    return f"READ_DATA {place} -> {unit.name}" if is_read else f"WRITE_DATA {unit.name} -> {place}"


@per_graph
def routing(graph: acadl.ArchitectureGraph) -> Routing:
    """The tables of ``graph``."""
    return Routing(graph)


@per_graph
def uniform(
    graph: acadl.ArchitectureGraph, mnemonic: str, used: Used
) -> tuple[Mapping[str, acadl.FunctionalUnit], str] | None:
    """The takers of every instance that touches these buffers, or why there are none.

    None where some unit reaches some banks of a buffer and not others, so that the instances must be told apart.
    """
    tables = routing(graph)
    kinds = [(buffer, is_read) for buffer, found in used for is_read in access_modes(found)]
    candidates = dict(tables.processing.get(mnemonic, {}))
    partial = False
    for buffer, is_read in kinds:
        banks, covered = len(graph.buffers.get(buffer, ())), tables.coverage(buffer, is_read)
        candidates = {name: unit for name, unit in candidates.items() if covered.get(name, 0) or not banks}
        partial = partial or any(covered.get(name, 0) < banks for name in candidates)
    if candidates and partial:
        return None
    needs = [(bank.storage, is_read) for buffer, is_read in kinds for bank in graph.buffers.get(buffer, ())]
    return tables.first(candidates), "" if candidates else tables.refusals(mnemonic, needs)


def access_modes(kinds: Iterable[str]) -> list[bool]:
    """Which edges kinds of access need: ``True`` for READ_DATA, ``False`` for WRITE_DATA (the storage accumulates)."""
    found = set(kinds)
    return [True] * ("read" in found) + [False] * bool(found - {"read"})


@per_graph
def routes(graph: acadl.ArchitectureGraph, stages: tuple[str, ...]) -> frozenset[str]:
    """The stages from which one of ``stages`` can be reached, themselves included."""
    routed: set[str] = set()
    work = [graph[name] for name in stages]
    while work:
        stage = work.pop()
        assert isinstance(stage, acadl.PipelineStage)
        if stage.name not in routed:
            routed.add(stage.name)
            work += graph.predecessors(stage)
    return frozenset(routed)


def unit_latencies(unit: acadl.FunctionalUnit, mnemonic: str) -> Iterator[tuple[str, Expression]]:
    """The latencies of a unit for a mnemonic, and how many operations it counts for."""
    for attribute, expression in unit.cycles_of(mnemonic).items():
        yield f"{unit}: {attribute}", expression
    yield f"{unit}: operations", unit.operations_of(mnemonic)


def request_latencies(
    graph: acadl.ArchitectureGraph, storage: acadl.DataStorage, is_read: bool
) -> Iterator[tuple[str, Expression]]:
    """The latencies that requests to ``storage`` meet: its own, and those of the caches behind a cache.

    A miss costs what the caches say; the memory behind them is not asked.
    """
    for place in graph.path(storage):
        for attribute, expression in place.latencies().items():
            asked = ("read_latency" if is_read else "write_latency") if place is storage else None
            if isinstance(place, acadl.CacheInterface) or attribute == asked:
                yield f"{place}: {attribute}", expression


def missing_edges(
    graph: acadl.ArchitectureGraph, unit: acadl.FunctionalUnit, used: Mapping[str, Collection[str]]
) -> list[str]:
    """Edges that ``unit`` lacks to touch buffers; ``used`` maps a buffer to kinds of access.

    A unit that reaches some banks of a buffer lacks none: which of them an instance needs, the binder decides.
    """
    tables = routing(graph)
    missing = []
    for buffer, kinds in used.items():
        for is_read in access_modes(kinds):
            if unit.name not in tables.coverage(buffer, is_read):
                places = [bank.storage for bank in graph.buffers.get(buffer, ())]
                missing += [f"{edge_text(place, unit, is_read)} (buffer {buffer!r})" for place in places[:SHOWN]]
                missing += [f"or one to the other {len(places) - SHOWN} places of it"] * (len(places) > SHOWN)
    return missing
