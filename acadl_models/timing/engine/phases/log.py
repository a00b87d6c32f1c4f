"""Jitted: the log of a window of a run: one record for each step of an instance and of a request.

It lies behind everything else in the machine, and has room only where a window is looked at.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403


@jit
def note(m, kind, number, seq, a, b, c):
    """Append a record; the run pauses before the room gets short."""
    if m[M_LOGGING] == 0:
        return
    record = m[M_LOG] + m[M_LOGGED] * G_SIZE
    m[record + G_KIND] = kind
    m[record + G_TIME] = m[M_TIME]
    m[record + G_OBJECT] = number
    m[record + G_SEQ] = seq
    m[record + G_A] = a
    m[record + G_B] = b
    m[record + G_C] = c
    m[M_LOGGED] += 1


@jit
def note_step(m, kind, slot):
    """A step of an instance in its unit."""
    if m[M_LOGGING] == 1:
        note(m, kind, (m[slot + I_UNIT] - m[M_UNITS]) // U_SIZE, m[slot + I_SEQ], 0, 0, 0)


@jit
def note_request(t, m, kind, request):
    """A step of a request: which one of its instance, its finish, and what it moves."""
    if m[M_LOGGING] == 1:
        slot = m[request + R_OWNER]
        number = (request - slot - t[H_SLOT_REQUESTS]) // R_SIZE
        store = (m[request + R_STORE] - m[M_STORES]) // D_SIZE
        beats = 2 * m[request + R_BEATS] + m[request + R_IS_READ]
        finish = m[request + R_FINISH]
        note(m, kind, store, m[slot + I_SEQ], number, finish, m[request + R_BYTES] * BEATS_ROOM + beats)


@jit
def note_carried(t, m, request, link, bandwidth):
    """A link carries a request."""
    if m[M_LOGGING] == 1:
        rest = m[request + R_BYTES] * BEATS_ROOM + 2 * bandwidth + m[request + R_IS_READ]
        seq = m[m[request + R_OWNER] + I_SEQ]
        note(m, G_CARRIED, link, seq, m[request + R_SEND_WAIT], m[request + R_SENT], rest)
