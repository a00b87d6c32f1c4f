"""Cycles of instruction streams on architecture graphs (section 6 of the ACADL paper, docs/timing_semantics.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archloom.acadl_models.timing.result import Heard, Patience, TimingResult

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.acadl_models.timing.program import Program
    from archloom.oracle.resolved import ResolvedStream

__all__ = ["Heard", "Patience", "TimingResult", "simulate", "simulate_bound"]


def simulate(
    graph: ArchitectureGraph, resolved: ResolvedStream, *, skip: bool = True, heard: Heard | None = None,
    patience: Patience | None = None,
) -> TimingResult:
    """Cycles and statistics of ``resolved`` on ``graph`` by the fast engine, exact to the cycle.

    With ``skip`` the periods of a steady state that is proven to repeat are multiplied out instead of stepped through;
    the result is the same. With ``patience`` the rest of loops that take longer is taken to be as what was stepped of
    them: the result then says that it is not exact. ``heard`` is told now and then how far a long run is; what it
    raises ends the run. Raises GraphError for a stream that the graph cannot process, a bad latency or a deadlock.
    """
    from archloom.acadl_models.timing.machine import bind
    from archloom.oracle.memory import paused

    with paused():
        return simulate_bound(bind(graph, resolved), skip=skip, heard=heard, patience=patience)


def simulate_bound(
    program: Program, *, skip: bool = True, heard: Heard | None = None, patience: Patience | None = None
) -> TimingResult:
    """What :func:`simulate` says of a stream that is bound to its graph already."""
    from archloom.acadl_models.timing.engine.lowering.program import lower
    from archloom.acadl_models.timing.engine.run import run

    return run(lower(program), skip=skip, heard=heard, patience=patience)
