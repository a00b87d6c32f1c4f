"""The fast timing engine: the cycles of docs/timing_semantics.md, event by event and with proven skipping of periods.

:func:`simulate` gives the same :class:`~archloom.acadl_models.timing.result.TimingResult` as the step-by-step
simulator. A bound stream is lowered to flat integer tables (:mod:`.lower`); a jitted event loop (:mod:`.core`) visits
only the cycles in which anything happens, and generates instances by walking the loop nest, so that memory is bounded
by the instructions in flight.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archloom.acadl_models.timing.result import TimingResult

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.oracle.resolved import ResolvedStream


IMPLEMENTED: frozenset[str] = frozenset(
    ("write_after_read", "issue", "fetches_in_flight", "stage_latency", "arbitration", "cache_miss_end")
)
"""Parameters of the semantics whose values, other than the default, this engine simulates."""


def simulate(graph: ArchitectureGraph, resolved: ResolvedStream, *, skip: bool = True) -> TimingResult:
    """Cycles and statistics of ``resolved`` on ``graph``, exact to the cycle.

    With ``skip`` the periods of a steady state that is proven to repeat are multiplied out instead of stepped through.
    Raises GraphError for a stream that the graph cannot process, a latency below its least value or a deadlock.
    """
    from archloom.acadl_models.timing.engine.lowering.program import lower
    from archloom.acadl_models.timing.engine.run import run
    from archloom.acadl_models.timing.machine import bind
    from archloom.oracle.collector import paused
    from archloom.oracle.errors import GraphError

    missing = sorted(set(graph.semantics.changed()) - IMPLEMENTED)
    if missing:
        raise GraphError(graph.name, [f"semantics: {n} is only simulated step by step" for n in missing])
    with paused():
        return run(lower(bind(graph, resolved)), skip=skip)


def warmup() -> None:
    """Compile the engine, or load it from the cache on disk: an installer calls this, so that no user waits for it."""
    from archloom.acadl_models.timing.engine.core import compile_all

    compile_all()
