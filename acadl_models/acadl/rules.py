"""The validity rules of architecture graphs (sections 3, 4 and 6 of the paper), each a function that lists faults.

Every rule sees the objects and those edges that the class diagram allows; a fault names the object by its path, what
was found and what would be right. ``check`` applies them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from archloom.acadl_models.acadl import edges
from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.edges import BACKED_BY, CONTAINS, FORWARD, READ_DATA, WRITE_DATA, EdgeKind
from archloom.acadl_models.acadl.stages import InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import DRAM, CacheInterface, DataStorage, Link, MemoryInterface, RegisterFile
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit, MemoryAccessUnit

O = TypeVar("O", bound=ACADLObject)


class Sketch:
    """Objects and edges by identity: names may still clash."""

    def __init__(
        self, objects: Sequence[ACADLObject], edges: Sequence[edges.ACADLEdge],
        unconnected: Sequence[edges.ACADLDanglingEdge],
    ) -> None:
        self.objects = objects
        self.edges = edges
        self.unconnected = unconnected
        self._out: dict[tuple[EdgeKind, int], list[ACADLObject]] = {}
        self._in: dict[tuple[EdgeKind, int], list[ACADLObject]] = {}
        for edge in edges:
            self._out.setdefault((edge.kind, id(edge.source)), []).append(edge.target)
            self._in.setdefault((edge.kind, id(edge.target)), []).append(edge.source)

    def targets(self, kind: EdgeKind, source: ACADLObject) -> list[ACADLObject]:
        return self._out.get((kind, id(source)), [])

    def sources(self, kind: EdgeKind, target: ACADLObject) -> list[ACADLObject]:
        return self._in.get((kind, id(target)), [])

    def of(self, *kinds: type[O]) -> list[O]:
        """The objects of some classes."""
        return [o for o in self.objects if isinstance(o, kinds)]

    @cached_property
    def known(self) -> set[int]:
        """The identities of the graph's objects."""
        return {id(o) for o in self.objects}

    @cached_property
    def faults(self) -> dict[int, list[str]]:
        """The faults of objects in themselves, by identity; sound objects are left out."""
        return {id(o): faults for o in self.objects if (faults := o.faults())}

    def sound(self, obj: ACADLObject) -> bool:
        """Whether the attributes of an object, also of one from elsewhere, can be relied on."""
        return id(obj) not in self.faults and (id(obj) in self.known or not obj.faults())


_SHOWN = 8


def listed(objects: Iterable[ACADLObject]) -> str:
    """Objects by name and class, those after the first few counted; or ``nothing``."""
    names = [str(o) for o in objects]
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more]) or "nothing"


def check(
    objects: Sequence[ACADLObject], edges: Sequence[edges.ACADLEdge],
    unconnected: Sequence[edges.ACADLDanglingEdge] = (),
) -> list[str]:
    """All faults of all rules, in the order of :data:`RULES`; ``unconnected``: required dangling edges left open."""
    sketch = Sketch(objects, edges, unconnected)
    return [fault for rule in RULES for fault in rule(sketch)]


def attributes(g: Sketch) -> Iterable[str]:
    """Every attribute has a value of its type and range."""
    return (f"{o}: {fault}" for o in g.objects for fault in g.faults.get(id(o), ()))


def unique_names(g: Sketch) -> Iterable[str]:
    """Names are unique in the graph."""
    named: dict[str, list[str]] = {}
    for o in g.objects:
        if isinstance(o.name, str):
            named.setdefault(o.name, []).append(type(o).__name__)
    for name, classes in named.items():
        if len(classes) > 1:
            yield (
                f"duplicate name {name!r}: {len(classes)} objects carry it ({', '.join(classes)}); "
                "every object needs its own name"
            )


def edges_inside(g: Sketch) -> Iterable[str]:
    """Edges join objects of this graph, and no edge is stated twice."""
    seen: set[tuple[EdgeKind, int, int]] = set()
    for e in g.edges:
        for end in (e.source, e.target):
            if id(end) not in g.known:
                yield f"{e.kind.name} edge {e.source} -> {e.target}: {end} was not made inside this @generate function"
        key = (e.kind, id(e.source), id(e.target))
        if key in seen:
            yield f"{e.kind.name} edge {e.source} -> {e.target} is stated twice"
        seen.add(key)


def contained_once(g: Sketch) -> Iterable[str]:
    """A functional unit is contained in exactly one stage."""
    for unit in g.of(FunctionalUnit):
        stages = g.sources(CONTAINS, unit)
        owner = "InstructionFetchStage" if isinstance(unit, InstructionMemoryAccessUnit) else "ExecuteStage"
        if not stages:
            yield f"{unit} is contained in no stage: add a CONTAINS edge from an {owner} to it"
        elif len({id(s) for s in stages}) > 1:
            yield f"{unit} is contained in {listed(stages)}: a unit belongs to exactly one stage"


def one_instruction_memory(g: Sketch) -> Iterable[str]:
    """A fetch stage contains exactly one InstructionMemoryAccessUnit, which reads exactly one instruction memory."""
    for stage in g.of(InstructionFetchStage):
        units = g.targets(CONTAINS, stage)
        if len(units) != 1:
            yield f"{stage} contains {listed(units)}: expected exactly one InstructionMemoryAccessUnit"
    for unit in g.of(InstructionMemoryAccessUnit):
        memories = [s for s in g.sources(READ_DATA, unit) if isinstance(s, DataStorage)]
        if len(memories) != 1:
            yield (
                f"{unit} reads {listed(memories)}: expected exactly one instruction memory "
                "(a READ_DATA edge from a DataStorage)"
            )


def fetch_fits(g: Sketch) -> Iterable[str]:
    """The issue buffer holds at least one fetch: ``issue_buffer_size >= port_width`` of the instruction memory."""
    for stage in g.of(InstructionFetchStage):
        for unit in g.targets(CONTAINS, stage):
            for memory in g.sources(READ_DATA, unit):
                sound = isinstance(memory, DataStorage) and g.sound(stage) and g.sound(memory)
                if sound and stage.issue_buffer_size < memory.port_width:  # type: ignore[attr-defined]
                    yield (
                        f"{stage}: issue_buffer_size {stage.issue_buffer_size} is below the port_width "
                        f"{memory.port_width} of {memory}: no fetch would ever find room"  # type: ignore[attr-defined]
                    )


def has_fetch(g: Sketch) -> Iterable[str]:
    """A graph with stages has an InstructionFetchStage; a graph has objects."""
    if not g.objects:
        yield "the graph has no objects: make them inside the @generate function"
    elif not g.of(InstructionFetchStage):
        yield "the graph has no InstructionFetchStage: no instruction would ever enter it"


def acyclic(g: Sketch) -> Iterable[str]:
    """FORWARD edges form no cycle."""
    state: dict[int, int] = {}
    for root in g.of(PipelineStage):
        trail: list[ACADLObject] = []
        work: list[tuple[ACADLObject, bool]] = [(root, False)]
        while work:
            stage, leaving = work.pop()
            if leaving:
                state[id(stage)] = 2
                trail.pop()
            elif state.get(id(stage)) is None:
                state[id(stage)] = 1
                trail.append(stage)
                work.append((stage, True))
                for after in reversed(g.targets(FORWARD, stage)):
                    if state.get(id(after)) == 1:
                        loop = [*trail[[id(t) for t in trail].index(id(after)):], after]
                        yield f"FORWARD edges form a cycle: {' -> '.join(o.name for o in loop)}"
                    elif state.get(id(after)) is None:
                        work.append((after, False))


def _reached(starts: Iterable[ACADLObject], after: Callable[[EdgeKind, ACADLObject], list[ACADLObject]]) -> set[int]:
    """Ids of the stages to which FORWARD edges lead from some, themselves included."""
    seen: set[int] = set()
    work = list(starts)
    while work:
        stage = work.pop()
        if id(stage) not in seen:
            seen.add(id(stage))
            work += after(FORWARD, stage)
    return seen


def reachable(g: Sketch) -> Iterable[str]:
    """Every stage can be reached from a fetch stage."""
    seen = _reached(g.of(InstructionFetchStage), g.targets)
    for stage in g.of(PipelineStage):
        if id(stage) not in seen and g.of(InstructionFetchStage):
            yield f"{stage} cannot be reached from a fetch stage over FORWARD edges"


def leads_somewhere(g: Sketch) -> Iterable[str]:
    """Every stage contains a unit that processes instructions or forwards to one that does."""
    work = [s for s in g.of(PipelineStage) if not isinstance(s, InstructionFetchStage) and g.targets(CONTAINS, s)]
    useful = _reached(work, g.sources)
    for stage in g.of(PipelineStage):
        if id(stage) not in useful:
            yield f"{stage} leads to no functional unit: no instruction could ever be forwarded to or from it"


def ports_connected(g: Sketch) -> Iterable[str]:
    """Dangling edges that must be connected are."""
    return (f"{port} was never connected, and is required" for port in g.unconnected)


# --- storages, caches and links --------------------------------------------------------------------------------
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


def renamed(g: Sketch) -> Iterable[str]:
    """Physical registers are freed when instructions commit: renaming needs a reorder buffer."""
    fetches = [s for s in g.of(InstructionFetchStage) if s.reorder_entries is None]
    for file in g.of(RegisterFile):
        if file.is_renamed and fetches:
            yield (
                f"{file}: physical_registers are freed when instructions commit, but {listed(fetches)} has no reorder "
                "buffer: state reorder_entries"
            )


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


def prefetched(g: Sketch) -> Iterable[str]:
    """What a unit prefetches is there for others: it writes nothing."""
    for unit in g.of(MemoryAccessUnit):
        if unit.prefetches and (written := g.targets(WRITE_DATA, unit)):
            yield f"{unit} prefetches, and has WRITE_DATA edges to {listed(written)}: it has no result"


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


def bursts(g: Sketch) -> Iterable[str]:
    """Bursts are whole words, and what a memory holds is whole bursts, as are the lines of a cache before it."""
    for memory in filter(g.sound, g.of(MemoryInterface)):
        for size, whose in _bursts_of(g, memory):
            if size * 8 % memory.data_width:
                yield f"{memory}: burst_bytes {size}{whose} are no whole words of {memory.data_width} bits"
            elif isinstance(memory, DRAM) and (memory.has_bank_state or memory.is_interleaved):
                yield f"{memory}: burst_bytes {size}{whose} with open rows or channels: these have no timing together"
            elif any(bound * memory.data_width % (8 * size) for limits in memory.address_ranges for bound in limits):
                found = list(memory.address_ranges)
                yield f"{memory}: address_ranges {found} are no whole bursts of {size} bytes{whose}"
    for cache in filter(g.sound, g.of(CacheInterface)):
        yield from _bursts_behind(g, cache)


def compressed(g: Sketch) -> Iterable[str]:
    """What is compressed is known when a network is compiled: a memory with a stored share has constants alone, is
    written by no unit, and asked by no cache."""
    for memory in filter(g.sound, g.of(MemoryInterface)):
        if memory.stored_share == 1:
            continue
        share = f"{memory}: stored_share {memory.stored_share:g}"
        if not memory.roles or "activations" in memory.roles:
            yield f"{share}: its roles must be of constants ('weights', 'tables'), not {memory.roles!r}"
        for unit in g.sources(WRITE_DATA, memory):
            yield f"{share}: {unit} writes to it"
        for cache in g.of(CacheInterface):
            if memory in g.targets(BACKED_BY, cache):
                yield f"{share}: {cache} is before it"


def _bursts_of(g: Sketch, place: ACADLObject) -> Iterable[tuple[int, str]]:
    """Those of a memory and of the links at it, each with whose it is."""
    if isinstance(place, MemoryInterface) and place.burst_bytes:
        yield place.burst_bytes, ""
    links = {id(e.link): e.link for e in g.edges if e.link is not None and place in (e.source, e.target)}
    for link in links.values():
        if g.sound(link) and link.burst_bytes:
            yield link.burst_bytes, f" of {link}"


def _bursts_behind(g: Sketch, cache: CacheInterface) -> Iterable[str]:
    for _, whose in _bursts_of(g, cache):
        yield f"{cache}: burst_bytes{whose}: a cache is asked for words"
    for behind in g.targets(BACKED_BY, cache):
        size = behind.burst_bytes if isinstance(behind, MemoryInterface) and g.sound(behind) else 0
        if size and (cache.cache_line_size % size or not cache.write_back):
            yield f"{cache}: before {behind} with bursts of {size} bytes lines must be whole bursts, and written back"


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


Rule = Callable[[Sketch], Iterable[str]]
RULES: tuple[Rule, ...] = (
    attributes, unique_names, edges_inside, has_fetch, contained_once, one_instruction_memory, fetch_fits, acyclic,
    reachable, leads_somewhere, ports_connected, ports, connected_storages, renamed, storage_access, prefetched,
    caches_backed,
    cache_words, bursts, compressed, one_way, links_inside,
)
