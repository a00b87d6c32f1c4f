"""Jitted entry point: the event loop over the cycles in which anything happens."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import constant_pointer, entry, pointer
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases import meeting
from archloom.acadl_models.timing.engine.phases.accounting import note_front, note_hunger, settle
from archloom.acadl_models.timing.engine.phases.completing import complete
from archloom.acadl_models.timing.engine.phases.forwarding import forward
from archloom.acadl_models.timing.engine.phases.program import advance
from archloom.acadl_models.timing.engine.phases.starting import fetch, start
from archloom.acadl_models.timing.engine.phases.timers import next_time
from archloom.acadl_models.timing.engine.skipping.steady import look_back


@entry
def run(tables, machine, memory):
    """Simulate until every instruction is finished, or until the status says why not.

    ``memory`` is room for what is remembered; if it has none, nothing is skipped.
    """
    t, m, h = constant_pointer(tables), pointer(machine), pointer(memory)
    m[M_REMEMBERS] = int(len(memory) > 0)
    if m[M_STATUS] == PAUSED:
        m[M_STATUS] = RUNNING
        m[M_EVENT] *= m[M_REMEMBERS]
    else:
        m[M_PC] = -1
        advance(t, m)
        note_hunger(t, m, 0)
        note_front(t, m, 0)
    while True:
        if m[M_TIME] >= m[M_PAUSE] or m[M_LOGGED] > m[M_LOG_ROOM]:
            m[M_STATUS] = PAUSED
            return
        complete(t, m)
        if m[M_STATUS] != RUNNING:
            return
        if m[M_FINISHED] == t[H_TOTAL]:
            settle(t, m)
            m[M_STATUS] = DONE
            return
        if m[M_MARKED] != 0:
            forward(t, m)
        start(t, m)
        fetch(t, m)
        if m[M_STATUS] != RUNNING:
            return
        if m[M_EVENT] == 1:
            look_back(t, m, h)
        after = next_time(m, m[M_AGAIN] == 1 or m[M_MARKED] != 0)
        if after == FOREVER:
            m[M_STATUS] = DEADLOCK
            return
        m[M_TIME] = after


def compile_all() -> None:
    """Compile :func:`run` and what lowering needs, or load it from the cache on disk."""
    meeting.compile_all()
    run.compile("void(int64[::1], int64[::1], int64[::1])")
