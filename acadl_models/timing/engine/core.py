"""Jitted entry point: the event loop over the cycles in which anything happens."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER
from archloom.acadl_models.timing.engine.jit import constant_pointer, entry, pointer
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.phases.accounting import note_front, note_hunger, settle
from archloom.acadl_models.timing.engine.phases.agenda import next_time
from archloom.acadl_models.timing.engine.phases.completing import complete
from archloom.acadl_models.timing.engine.phases.forwarding import forward
from archloom.acadl_models.timing.engine.phases.program import advance
from archloom.acadl_models.timing.engine.phases.starting import fetch, start
from archloom.acadl_models.timing.engine.skipping.moving import list_fields
from archloom.acadl_models.timing.engine.skipping.steady import look_back
from archloom.acadl_models.timing.engine.state import M, Status


@entry
def run(tables, machine, memory) -> None:
    """Simulate until every instruction is finished, or until the status says why not.

    ``memory`` is room for what is remembered; if it has none, nothing is skipped.
    """
    t, m, h = constant_pointer(tables), pointer(machine), pointer(memory)
    m[M.REMEMBERS] = int(len(memory) > 0)
    if m[M.STATUS] == Status.PAUSED:
        m[M.STATUS] = Status.RUNNING
        m[M.EVENT] *= m[M.REMEMBERS]
    else:
        list_fields(t, m)
        m[M.PC] = -1
        advance(t, m)
        note_hunger(t, m, 0)
        note_front(t, m, 0)
    while True:
        full = m[M.STEPPED] >= m[M.MOST_STEPPED] or m[M.LOGGED] > m[M.LOG_ROOM]
        if full or m[M.TIME] >= m[M.PAUSE]:
            m[M.STATUS] = Status.PAUSED
            return
        complete(t, m)
        if m[M.STATUS] != Status.RUNNING:
            return
        if m[M.FINISHED] == t[H.TOTAL] and m[M.LINGERING] == 0:
            settle(t, m)
            m[M.STATUS] = Status.DONE
            return
        if m[M.MARKED] != 0:
            forward(t, m)
        start(t, m)
        fetch(t, m)
        if m[M.STATUS] != Status.RUNNING:
            return
        if m[M.EVENT] == 1:
            look_back(t, m, h)
        after = next_time(m, m[M.AGAIN] == 1 or m[M.MARKED] != 0)
        if after == FOREVER:
            m[M.STATUS] = Status.DEADLOCK
            return
        m[M.TIME] = after
