"""The two simulators on the same input: what they find must be equal, errors included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import TimingResult, log, simulate
from archloom.acadl_models.timing.reference import log_reference, simulate_reference
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedStream


@dataclass(frozen=True)
class InstanceLog:
    """When an instruction instance passed each step, in cycles."""

    number: int
    mnemonic: str
    values: Mapping[str, int]
    unit: str
    fetched: int
    received: int
    started: int
    processing: int
    written: int
    finished: int


STEPS = (log.FETCHED, log.RECEIVED, log.STARTED, log.PROCESSING, log.WRITING, log.FINISHED)


def simulate_logged(graph: ArchitectureGraph, stream: ResolvedStream, found: list[InstanceLog]) -> TimingResult:
    """The step-by-step simulator; ``found`` gets an entry for each instance as it finishes."""
    run = log_reference(graph, stream)
    times: dict[int, list[int]] = defaultdict(list)
    for event in run.events:
        if event.step in STEPS:
            times[event.number].append(event.time)
        if event.step == log.FINISHED:
            static, values = run.program.names.find(event.number)
            entry = event.number, static.node.mnemonic, values, event.place, *times.pop(event.number)
            found.append(InstanceLog(*entry))
    return simulate_reference(graph, stream)


def outcome(run, *args, **options) -> TimingResult | str:  # type: ignore[no-untyped-def]
    """The result or the error; of a deadlock its head: of several blockers each simulator may name another."""
    try:
        return run(*args, **options)
    except GraphError as error:
        first = error.faults[0]
        return first if first.startswith("deadlock") else str(error)


def check_skipping(graph: ArchitectureGraph, stream: ResolvedStream) -> TimingResult | str:
    """The engine finds the same with and without skipping."""
    stepped = outcome(simulate, graph, stream, skip=False)
    found = outcome(simulate, graph, stream, skip=True)
    assert found == stepped
    return found


def check_equal(graph: ArchitectureGraph, stream: ResolvedStream) -> TimingResult | str:
    """The engine finds what the step-by-step simulator finds, with and without skipping."""
    expected = outcome(simulate_reference, graph, stream)
    found = check_skipping(graph, stream)
    assert found == expected
    return found


def agreed(graph: ArchitectureGraph, stream: ResolvedStream) -> TimingResult:
    """What the engine finds, with and without skipping, and the step-by-step simulator, too."""
    found = simulate(graph, stream)
    assert found == simulate(graph, stream, skip=False) == simulate_reference(graph, stream)
    return found


def in_the_page(rows: list[list[object]]) -> None:
    """The rows stand in a table of docs/timing_semantics.md."""
    text = (Path(__file__).parents[3] / "docs" / "timing_semantics.md").read_text()
    for row in rows:
        line = "| " + " | ".join(map(str, row)) + " |"
        assert line in text, f"docs/timing_semantics.md lacks the row {line}"
