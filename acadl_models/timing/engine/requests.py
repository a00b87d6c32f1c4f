"""Jitted: requests to storages: slots, FIFOs, and when a granted request finishes."""

from __future__ import annotations

from acadl_models.timing.engine.accounting import note_unit, settle_queue, unit_ready
from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.log import note_request
from acadl_models.timing.engine.marks import mark
from acadl_models.timing.engine.order import note_mover
from acadl_models.timing.engine.program import fail
from acadl_models.timing.engine.timers import schedule
from acadl_models.timing.engine.transfers import begin_transfer


@jit
def end_request(m, request):
    """Phase 1a: a request ends and frees its slot; whoever it belongs to may move on."""
    store = m[request + R_STORE]
    m[store + D_ACTIVE] -= 1
    if m[store + D_QUEUED] > 0 and m[store + D_FREED] == 0:
        m[store + D_FREED] = 1
        m[m[M_FREED] + m[M_FREES]] = store
        m[M_FREES] += 1
    slot = m[request + R_OWNER]
    m[slot + I_PENDING] -= 1
    if m[slot + I_PENDING] == 0:
        note_mover(m, slot)


@jit
def grant_freed(t, m, now):
    """Freed slots take the requests that wait, storage by storage."""
    freed, count = m[M_FREED], m[M_FREES]
    m[M_FREES] = 0
    for k in range(1, count):  # in the order of the storages
        store = m[freed + k]
        j = k - 1
        while j >= 0 and m[freed + j] > store:
            m[freed + j + 1] = m[freed + j]
            j -= 1
        m[freed + j + 1] = store
    for k in range(count):
        store = m[freed + k]
        m[store + D_FREED] = 0
        while m[store + D_QUEUED] > 0 and has_slot(t, m, store, m[store + D_QUEUE_HEAD]):
            grant_queued(t, m, store, now)


@jit
def has_slot(t, m, store, request):
    """Whether a storage may grant a request now."""
    return m[store + D_ACTIVE] < t[m[store + D_RECORD] + TM_CAPACITY]


@jit
def grant_queued(t, m, store, now):
    """The request at the head of a storage's FIFO gets a slot."""
    request = m[store + D_QUEUE_HEAD]
    m[store + D_QUEUE_HEAD] = m[request + R_LINK]
    settle_queue(m, store, now)
    m[store + D_QUEUED] -= 1
    slot = m[request + R_OWNER]
    unit = m[slot + I_UNIT]
    m[unit + U_QUEUED] -= 1
    if m[request + R_IS_READ] == 1 and m[unit + U_LAST] == m[slot + I_SEQ]:
        m[unit + U_UNGRANTED] -= 1
    grant(t, m, store, request, now)
    if m[unit + U_QUEUED] == 0 or m[unit + U_UNGRANTED] == 0:
        may_be_ready(t, m, unit, now)


@jit
def may_be_ready(t, m, unit, now):
    """A unit may have become ready: the stage that contains it may take something."""
    note_unit(t, m, unit, now)
    if unit_ready(t, m, unit, now):
        mark(m, t[m[unit + U_RECORD] + TU_STAGE])


@jit
def grant(t, m, store, request, now):
    """A request gets a slot: from here on its finish is known."""
    note_request(t, m, G_GRANTED, request)
    latency = m[request + R_LATENCY]
    if latency < 0:
        latency = fail(t, m, -1 - latency, m[request + R_TIMER])
    ready = now + latency
    if t[m[store + D_RECORD] + TM_SHARED] == 1:
        ready = max(ready, m[store + D_PORT_FREE])
        m[store + D_PORT_FREE] = ready + m[request + R_BEATS]
    m[store + D_ACTIVE] += 1
    schedule(m, request, TAG_REQUEST, ready + m[request + R_BEATS] - 1)
    begin_transfer(t, m, request, now)


@jit
def issue(t, m, slot, first, end, now):
    """Issue the requests ``first .. end - 1`` of an instance; returns how many found no slot."""
    waiting = 0
    request = slot + t[H_SLOT_REQUESTS] + first * R_SIZE
    for _ in range(first, end):
        store = m[request + R_STORE]
        if has_slot(t, m, store, request):
            grant(t, m, store, request, now)
        else:
            if m[store + D_QUEUED] == 0:
                m[store + D_QUEUE_HEAD] = request
            else:
                m[m[store + D_QUEUE_TAIL] + R_LINK] = request
            m[request + R_LINK] = NONE
            m[request + R_FINISH] = FOREVER
            note_request(t, m, G_QUEUED, request)
            m[store + D_QUEUE_TAIL] = request
            settle_queue(m, store, now)
            m[store + D_QUEUED] += 1
            waiting += 1
        request += R_SIZE
    if waiting > 0:
        m[m[slot + I_UNIT] + U_QUEUED] += waiting
    return waiting
