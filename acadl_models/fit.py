"""Whether an architecture graph and an ISA fit: the two halves of a target, checked before anything is compiled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from archloom.acadl_models.acadl import ArchitectureGraph, DataStorage, FunctionalUnit, PipelineStage
from archloom.acadl_models.acadl.latency import Expression
from archloom.acadl_models.timing.program import word_axes
from archloom.acadl_models.timing.routing import SHOWN, missing_edges, request_latencies, routing, unit_latencies
from archloom.oracle.accesses import bits_of
from archloom.oracle.errors import TargetError, suggest
from archloom.oracle.resolved import Buffer
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import HBM, Isa


@dataclass(frozen=True)
class Traffic:
    """The buffers that an instruction may read and write, over all of its branches."""

    reads: frozenset[str]
    writes: frozenset[str]

    def kinds(self) -> dict[str, set[str]]:
        """What a unit must be able to do with each buffer.

        A read of a buffer that the instruction also writes may be the old value of an accumulation, for which the
        storage's adders suffice; only a resolved stream tells (:func:`archloom.acadl_models.timing.machine.bind`).
        """
        kinds: dict[str, set[str]] = {b: {"write"} for b in self.writes}
        kinds.update({b: {"read"} for b in self.reads - self.writes})
        return dict(sorted(kinds.items()))


def traffic(body: tuple[ast.Statement, ...]) -> Traffic:
    """The buffers that statements with every ``def`` inlined touch."""
    reads: set[str] = set()
    writes: set[str] = set()
    work = list(body)
    while work:
        statement = work.pop()
        if isinstance(statement, ast.Read):
            reads.add(statement.source.buffer)
        elif isinstance(statement, ast.Write):
            writes.add(statement.target.buffer)
        elif isinstance(statement, ast.If):
            work += [*statement.then, *statement.otherwise]
        elif isinstance(statement, ast.Repeat):
            work += statement.body
    return Traffic(frozenset(reads), frozenset(writes))


def misfits(graph: ArchitectureGraph, isa: Isa) -> list[str]:
    """Everything in which the graph and the ISA disagree; empty if they fit."""
    return [*_parameters(graph, isa), *_buffers(graph, isa), *_mnemonics(graph, isa), *_names(graph, isa)]


def check_fit(graph: ArchitectureGraph, isa: Isa, target: str | None = None) -> None:
    """Raise TargetError with all misfits; ``target`` names whose graph and ISA they are."""
    found = misfits(graph, isa)
    if found:
        head = f"target {(target or graph.name)!r}: graph {graph.name!r} and ISA {isa.name!r} do not fit"
        raise TargetError("\n  - ".join([f"{head} ({len(found)} misfit{'s' if len(found) != 1 else ''}):", *found]))


def _parameters(graph: ArchitectureGraph, isa: Isa) -> Iterator[str]:
    """Parameters that the structure fixes have the ISA's values."""
    known = dict(isa.parameters)
    for name, value in graph.parameters.items():
        if name not in known:
            yield f"the graph states parameter {name}={value}, which the ISA does not have{suggest(name, list(known))}"
        elif known[name] != value:
            yield f"parameter {name} is {value} in the graph and {known[name]} in the ISA"


def _buffers(graph: ArchitectureGraph, isa: Isa) -> Iterator[str]:
    """Every buffer lies in a storage of the graph that is large enough and divides into its words."""
    names = [*(b.name for b in isa.buffers), HBM]
    for buffer in isa.buffers:
        if buffer.name not in graph.buffers:
            placed = ", ".join(sorted(graph.buffers)) or "none"
            yield f"buffer {buffer.name!r} of the ISA lies in no storage of the graph (placed: {placed})"
        else:
            yield from _place(graph, buffer)
    for name in graph.buffers:
        if name not in names:
            yield f"the graph places buffer {name!r}, which the ISA does not have{suggest(name, names)}"
    if HBM not in graph.buffers:
        yield f"the graph places no buffer {HBM!r}, the global memory"


def _place(graph: ArchitectureGraph, buffer: Buffer) -> Iterator[str]:
    shape = f"buffer {buffer.name!r} ({'x'.join(map(str, buffer.shape))} {buffer.dtype})"
    places = [bank.storage for bank in graph.buffers[buffer.name]]
    where = ", ".join(places[:SHOWN]) + (f" and {len(places) - SHOWN} more" if len(places) > SHOWN else "")
    size = -(-bits_of(buffer) // 8)
    if size > graph.bytes_of(buffer.name):
        yield f"{shape} takes {size} bytes, but {where} holds {graph.bytes_of(buffer.name)}"
    for bank in graph.buffers[buffer.name]:
        place = graph[bank.storage]
        if isinstance(place, DataStorage) and word_axes(buffer, place.data_width) is None:
            yield f"{shape} does not divide into the words of {place}, {place.data_width} bits each"


def _mnemonics(graph: ArchitectureGraph, isa: Isa) -> Iterator[str]:
    """Each instruction has a unit that processes it and reaches its buffers; units name instructions of the ISA."""
    for unit in graph.functional_units:
        for mnemonic in sorted(unit.to_process - set(isa.instructions)):
            choices = suggest(mnemonic, list(isa.instructions))
            yield f"{unit} processes {mnemonic!r}, which the ISA does not have{choices}"
    for mnemonic, instruction in isa.instructions.items():
        units = [u for u in graph.functional_units if mnemonic in u.to_process]
        used = traffic(instruction.body).kinds()
        if not units:
            yield f"no unit of the graph processes {mnemonic!r}: add it to the to_process of a unit"
        elif all(missing_edges(graph, u, used) for u in units):
            for unit in units[:SHOWN]:
                missing = ", ".join(missing_edges(graph, unit, used))
                yield f"{unit} processes {mnemonic!r} but lacks the edges {missing}"
            if len(units) > SHOWN:
                yield f"{len(units) - SHOWN} more units process {mnemonic!r} and lack edges"


def _names(graph: ArchitectureGraph, isa: Isa) -> Iterator[str]:
    """Latency expressions name only attributes, registers and parameters (storages also ``words`` and ``bytes``)."""
    common = {k for r in isa.registers for k in r.keys} | {n for n, _ in isa.parameters}
    found: dict[str, None] = {}
    for mnemonic, instruction in isa.instructions.items():
        known = common | set(instruction.attributes)
        for unit in graph.functional_units:
            if mnemonic in unit.to_process:
                for where, expression, extra in _expressions(graph, unit, mnemonic, traffic(instruction.body)):
                    unknown = sorted(expression.names - known - extra)
                    if unknown:
                        names = ", ".join(sorted(known | extra))
                        found[f"{where} {expression.text!r} names {', '.join(unknown)}, unknown for {mnemonic!r} "
                              f"(valid: {names})"] = None
    yield from found


def _expressions(
    graph: ArchitectureGraph, unit: FunctionalUnit, mnemonic: str, touched: Traffic
) -> Iterator[tuple[str, Expression, set[str]]]:
    """The latencies that an instruction meets on its way to and in ``unit``, and the names added to the ISA's."""
    yield from ((*each, set()) for each in unit_latencies(unit, mnemonic))
    for is_read, buffers in ((True, touched.reads), (False, touched.writes)):
        for storage in (graph[name] for name in routing(graph).serving(unit.name, buffers, is_read)):
            if isinstance(storage, DataStorage):
                asked = request_latencies(graph, storage, is_read)
                yield from ((where, expression, {"words", "bytes"}) for where, expression in asked)
    own = graph.stage_of(unit)
    if graph.semantics.stage_latency == "added":
        yield f"{own}: latency", own.latencies()["latency"], set()
    work: list[PipelineStage] = graph.predecessors(own)
    while work:
        stage = work.pop()
        if graph.predecessors(stage):  # the fetch stage has no latency
            yield f"{stage}: latency", stage.latencies()["latency"], set()
            work += graph.predecessors(stage)
