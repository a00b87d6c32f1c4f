"""The validity rules of architecture graphs (sections 3, 4 and 6 of the paper), each a function that lists faults.

Every rule sees the objects and those edges that the class diagram allows; a fault names the object by its path, what
was found and what would be right. ``check`` applies them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from archloom.acadl_models.acadl import storage_rules
from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.edges import CONTAINS, FORWARD, READ_DATA, ACADLDanglingEdge, ACADLEdge, EdgeKind
from archloom.acadl_models.acadl.sketch import Sketch, listed
from archloom.acadl_models.acadl.stages import InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import DataStorage
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit


def check(
    objects: Sequence[ACADLObject], edges: Sequence[ACADLEdge], unconnected: Sequence[ACADLDanglingEdge] = ()
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


Rule = Callable[[Sketch], Iterable[str]]
RULES: tuple[Rule, ...] = (
    attributes, unique_names, edges_inside, has_fetch, contained_once, one_instruction_memory, fetch_fits, acyclic,
    reachable, leads_somewhere, ports_connected, storage_rules.ports, storage_rules.connected_storages,
    storage_rules.storage_access, storage_rules.caches_backed, storage_rules.cache_words, storage_rules.one_way,
    storage_rules.links_inside,
)
