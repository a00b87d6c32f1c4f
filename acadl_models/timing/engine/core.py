"""Jitted entry point: the event loop over the cycles in which anything happens."""

from __future__ import annotations

from acadl_models.timing.engine.jit import entry
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.machine import complete, count_cycles, fetch, forward, next_time, start
from acadl_models.timing.engine.program import advance
from acadl_models.timing.engine.steady import look_back


@entry
def run(t, m, h):
    """Simulate until every instruction is finished, or until the status says why not.

    ``h`` is room for what is remembered; if it has none, nothing is skipped.
    """
    m[M_PC] = -1
    advance(t, m)
    while True:
        complete(t, m)
        if m[M_STATUS] != RUNNING:
            return
        if m[M_FINISHED] == t[H_TOTAL]:
            m[M_STATUS] = DONE
            return
        forward(t, m)
        start(t, m)
        fetch(t, m)
        if m[M_STATUS] != RUNNING:
            return
        if m[M_EVENT] == 1 and len(h) > 0:
            look_back(t, m, h)
        after = next_time(t, m)
        if after == FOREVER:
            m[M_STATUS] = DEADLOCK
            return
        count_cycles(t, m, after - m[M_TIME])
        m[M_TIME] = after


def compile_all() -> None:
    """Compile :func:`run`, or load it from the cache on disk."""
    run.compile("void(int64[::1], int64[::1], int64[::1])")
