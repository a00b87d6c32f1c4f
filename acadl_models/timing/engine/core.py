"""Jitted entry point: the event loop over the cycles in which anything happens."""

from __future__ import annotations

from acadl_models.timing.engine.jit import entry, jit, pointer
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.machine import complete, fetch, forward, look_ahead, next_time, settle_counters, start
from acadl_models.timing.engine.program import advance
from acadl_models.timing.engine.steady import look_back


@entry
def run(tables, machine, memory):
    """Simulate until every instruction is finished, or until the status says why not.

    ``memory`` is room for what is remembered; if it has none, nothing is skipped.
    """
    t, m, h = pointer(tables), pointer(machine), pointer(memory)
    remembers = len(memory) > 0
    m[M_PC] = -1
    advance(t, m)
    m[M_MOVES] = 1
    while True:
        complete(t, m)
        if m[M_STATUS] != RUNNING:
            return
        if m[M_FINISHED] == t[H_TOTAL]:
            settle_counters(t, m)
            m[M_STATUS] = DONE
            return
        if m[M_MOVES] == 1 or m[M_MOVE_TIME] == m[M_TIME]:
            move(t, m)
            if m[M_STATUS] != RUNNING:
                return
            if m[M_EVENT] == 1 and remembers:
                look_back(t, m, h)
        after = next_time(t, m)
        if after == FOREVER:
            m[M_STATUS] = DEADLOCK
            return
        m[M_TIME] = after


@jit
def move(t, m):
    """Phases 2 to 4: nothing of them happens in cycles that only end requests and processing steps."""
    settle_counters(t, m)
    m[M_AGAIN] = 0
    forward(t, m)
    start(t, m)
    fetch(t, m)
    look_ahead(t, m)
    m[M_MOVES] = 0


def compile_all() -> None:
    """Compile :func:`run`, or load it from the cache on disk."""
    run.compile("void(int64[::1], int64[::1], int64[::1])")
