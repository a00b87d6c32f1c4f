"""The two simulators on the same input: what they find must be equal, errors included."""

from __future__ import annotations

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import ResolvedStream


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
