"""Jitted: the log of a window of a run: one record for each step of an instance and of a request.

It lies behind everything else in the machine, and has room only where a window is looked at.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import H
from archloom.acadl_models.timing.engine.state import BEATS_ROOM, Instance, Log, Logged, M, Request, Store, Unit


@jit
def note(m, kind, number, seq, a, b, c):
    """Append a record; the run pauses before the room gets short."""
    if m[M.LOGGING] == 0:
        return
    record = m[M.LOG] + m[M.LOGGED] * Log.SIZE
    m[record + Log.KIND] = kind
    m[record + Log.TIME] = m[M.TIME]
    m[record + Log.OBJECT] = number
    m[record + Log.SEQ] = seq
    m[record + Log.A] = a
    m[record + Log.B] = b
    m[record + Log.C] = c
    m[M.LOGGED] += 1


@jit
def note_step(m, kind, slot):
    """A step of an instance in its unit."""
    if m[M.LOGGING] == 1:
        note(m, kind, (m[slot + Instance.UNIT] - m[M.UNITS]) // Unit.SIZE, m[slot + Instance.SEQ], 0, 0, 0)


@jit
def note_request(t, m, kind, request):
    """A step of a request: which one of its instance, its finish, and what it moves."""
    if m[M.LOGGING] == 1:
        slot = m[request + Request.OWNER]
        number = (request - slot - t[H.SLOT_REQUESTS]) // Request.SIZE
        store = (m[request + Request.STORE] - m[M.STORES]) // Store.SIZE
        beats = 2 * m[request + Request.BEATS] + m[request + Request.IS_READ]
        finish = m[request + Request.FINISH]
        note(m, kind, store, m[slot + Instance.SEQ], number, finish, m[request + Request.BYTES] * BEATS_ROOM + beats)


@jit
def note_carried(t, m, request, link, bandwidth):
    """A link carries a request."""
    if m[M.LOGGING] == 1:
        rest = m[request + Request.BYTES] * BEATS_ROOM + 2 * bandwidth + m[request + Request.IS_READ]
        seq = m[m[request + Request.OWNER] + Instance.SEQ]
        note(m, Logged.CARRIED, link, seq, m[request + Request.SEND_WAIT], m[request + Request.SENT], rest)
