"""A stream bound to a graph: which unit takes each instruction, and what its accesses ask of the storages.

This is the static part of the timing (docs/timing_semantics.md, "What an instruction touches"); both simulators start
from it, so that they refuse the same inputs with the same words.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping

from archloom.acadl_models.acadl import ArchitectureGraph, MemoryInterface, PipelineStage
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.acadl.latency import Expression, LatencyError
from archloom.acadl_models.timing.binding import Binder
from archloom.acadl_models.timing.gathered import placed
from archloom.acadl_models.timing.program import Program, StaticInstruction
from archloom.oracle.errors import GraphError, StreamError
from archloom.oracle.resolved import ResolvedStream


def bind(graph: ArchitectureGraph, stream: ResolvedStream) -> Program:
    """Bind ``stream`` to ``graph``; GraphError lists all reasons why it cannot be timed on it."""
    binder = Binder(graph, placed(stream))
    faults = list(untimed(graph))
    if not faults:
        body = binder.bound()
        faults = binder.listed() or list(_wandering(binder.instructions))
    if faults:
        raise GraphError(graph.name, faults)
    _check_capacity(graph, stream)
    return Program(graph, stream, graph.fetch_stages[0], body, tuple(binder.instructions))


def untimed(graph: ArchitectureGraph) -> Iterator[str]:
    """Why a valid graph cannot be simulated: features that are declared but have no timing here."""
    if len(graph.fetch_stages) != 1:
        names = ", ".join(s.name for s in graph.fetch_stages)
        yield f"a simulation runs one stream: expected one InstructionFetchStage, found {names}"
        return
    _, memory = graph.instruction_memory(graph.fetch_stages[0])
    users = [u for u in (*graph.readers(memory), *graph.writers(memory)) if u in graph.functional_units]
    if users:
        yield f"{memory}: fetches that compete with data accesses ({users[0]}) are not simulated; split the memory"


def _wandering(instructions: Iterable[StaticInstruction]) -> Iterator[str]:
    """Accesses of which no instruction could have the numbers of renamed registers in its text."""
    for static in instructions:
        for plan in static.plans:
            if plan.place.renamed and plan.named is None:
                yield (
                    f"{static.mnemonic} {plan.access.kind}s {plan.buffer.name!r} from {plan.element_offset} on: "
                    "the place in a renamed register must not depend on loops"
                )


def forwarding_order(graph: ArchitectureGraph) -> tuple[PipelineStage, ...]:
    """Receivers before senders: always the earliest-created stage all of whose successors are placed."""
    numbers = {stage.name: k for k, stage in enumerate(graph.stages)}
    left = {stage.name: len({s.name for s in graph.successors(stage)}) for stage in graph.stages}
    ready = [numbers[name] for name, count in left.items() if not count]
    placed: list[PipelineStage] = []
    while ready:
        stage = graph.stages[heapq.heappop(ready)]
        placed.append(stage)
        for before in {s.name: s for s in graph.predecessors(stage)}:
            left[before] -= 1
            if not left[before]:
                heapq.heappush(ready, numbers[before])
    return tuple(placed)


def _check_capacity(graph: ArchitectureGraph, stream: ResolvedStream) -> None:
    banks = graph.buffers.get("hbm", ())
    if banks and stream.hbm_bytes > graph.bytes_of("hbm"):
        held = ", ".join(dict.fromkeys(bank.storage for bank in banks))
        raise StreamError(
            f"stream {stream.name!r} needs {stream.hbm_bytes} bytes of HBM, but {held} of graph "
            f"{graph.name!r} holds {graph.bytes_of('hbm')}"
        )


@per_graph
def fetch_cycles(graph: ArchitectureGraph, parameters: tuple[tuple[str, int], ...]) -> int:
    """Cycles from the start to the end of a fetch; GraphError for an unknown name or a value below its least.

    ``parameters``: those of the ISA.
    """
    fetcher, memory = graph.instruction_memory(graph.fetch_stages[0])
    assert isinstance(memory, MemoryInterface)
    words = memory.port_width
    values = {**dict(parameters), "words": words, "bytes": -(-words * memory.data_width // 8)}
    cycles = 0
    for where, expression, least in (
        (f"{memory}: read_latency", memory.latencies()["read_latency"], 1),
        (f"{fetcher}: latency", fetcher.latency_of("*"), 0),
    ):
        unknown = sorted(expression.names - set(values))
        if unknown:
            known = ", ".join(sorted(values))
            fault = f"{where} {expression.text!r} names {', '.join(unknown)}, unknown for a fetch (known: {known})"
            raise GraphError(graph.name, [fault])
        cycles += evaluate_latency(graph, where, expression, values, least, "fetch")
    return cycles


def evaluate_latency(
    graph: ArchitectureGraph, where: str, expression: Expression, values: Mapping[str, int], least: int, mnemonic: str
) -> int:
    """The value of a latency; GraphError naming object, instruction and value if it is below ``least``."""
    try:
        cycles = expression.evaluate(values)
    except LatencyError as error:
        raise GraphError(graph.name, [latency_fault(where, expression, mnemonic, str(error), least)]) from None
    if cycles < least:
        raise GraphError(graph.name, [latency_fault(where, expression, mnemonic, f"is {cycles}", least)])
    return cycles


MOST_LISTED = 20
"""Instructions in flight that a deadlock lists before it counts the others: arrays have thousands."""


def more_faults(count: int) -> list[str]:
    """The line that counts what is not listed."""
    return [f"and {count - MOST_LISTED} more instructions wait"] if count > MOST_LISTED else []


def latency_fault(where: str, expression: Expression, mnemonic: str, found: str, least: int) -> str:
    """The message about a latency that has no legal value for an instruction."""
    return f"{where} {expression.text!r} {found} for {mnemonic!r}; it must be at least {least}"
