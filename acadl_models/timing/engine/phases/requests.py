"""Jitted: requests to storages: slots, FIFOs, and when a granted request finishes."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.accounting import note_unit, settle_queue
from archloom.acadl_models.timing.engine.phases.channels import over_channels
from archloom.acadl_models.timing.engine.phases.log import note_carried, note_request
from archloom.acadl_models.timing.engine.phases.memories import (
    begin_lines,
    go_on,
    is_exclusive,
    link_of,
    open_rows,
    send,
    tail_of,
)
from archloom.acadl_models.timing.engine.phases.order import note_mover
from archloom.acadl_models.timing.engine.phases.timers import schedule
from archloom.acadl_models.timing.engine.phases.transfers import begin_transfer
from archloom.acadl_models.timing.engine.phases.values import fail


@jit
def end_request(m, request):
    """Phase 1a: a request ends and frees its slot; whoever it belongs to may move on."""
    store = m[request + R_STORE]
    m[store + D_ACTIVE] -= 1
    m[store + D_EXCLUSIVE] = 0
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
    if m[store + D_ACTIVE] >= t[m[store + D_RECORD] + TM_CAPACITY]:
        return False
    if t[m[store + D_RECORD] + TM_LINKS] == NONE or m[store + D_ACTIVE] == 0:
        return True
    return m[store + D_EXCLUSIVE] == 0 and not is_exclusive(t, m, store, request)


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
        note_unit(t, m, unit, now)


@jit_inline
def grant(t, m, store, request, now):
    """A request gets a slot: from here on the time of its end, or of the next look-up in a cache, is known."""
    note_request(t, m, G_GRANTED, request)
    m[store + D_ACTIVE] += 1
    record = m[store + D_RECORD]
    if t[record + TM_SIMPLE] == 1:
        latency = m[request + R_LATENCY]
        if latency < 0:
            latency = fail(t, m, -1 - latency, m[request + R_TIMER])
        first = now + latency
        if t[record + TM_SHARED] == 1:
            first = max(first, m[store + D_PORT_FREE])
            m[store + D_PORT_FREE] = first + m[request + R_BEATS]
        schedule(m, request, TAG_REQUEST, first + m[request + R_BEATS] - 1)
        begin_transfer(t, m, request, now)
        return
    grant_general(t, m, store, request, now)


@jit
def grant_general(t, m, store, request, now):
    """The same where the storage has state or links."""
    m[store + D_EXCLUSIVE] = int(is_exclusive(t, m, store, request))
    kind = t[m[store + D_RECORD] + TM_KIND]
    if kind == CACHED:
        tail = tail_of(t, m, request)
        time = begin_lines(t, m, request, tail, now)
        if m[tail + W_DEPTH] > 0:
            schedule(m, request, TAG_REQUEST, time)
            return
    else:
        latency = m[request + R_LATENCY]
        if latency < 0:
            latency = fail(t, m, -1 - latency, m[request + R_TIMER])
        time = now + latency
        if kind == BANKED:
            time = open_rows(t, m, store, tail_of(t, m, request), latency, now) - m[request + R_BEATS] + 1
    carry(t, m, store, request, time, now)


@jit
def carry(t, m, store, request, ready, now):
    """The words of a request can move from ``ready`` on: its end is known."""
    finish = arrival(t, m, store, request, ready)
    if finish > now:
        schedule(m, request, TAG_REQUEST, finish)
        begin_transfer(t, m, request, now)
    else:  # a miss that ends without the latency of a hit
        m[request + R_FINISH] = now
        begin_transfer(t, m, request, now)
        end_request(m, request)


@jit
def arrival(t, m, store, request, ready):
    """When the last word of a request has moved whose first one can move from ``ready`` on: over port and link."""
    record = m[store + D_RECORD]
    if t[record + TM_KIND] == INTERLEAVED:
        finish = over_channels(t, m, t[record + TM_STATE], tail_of(t, m, request), ready)
    else:
        first = ready
        if t[record + TM_SHARED] == 1:
            first = max(ready, m[store + D_PORT_FREE])
            m[store + D_PORT_FREE] = first + m[request + R_BEATS]
        finish = first + m[request + R_BEATS] - 1
    link = link_of(t, m, store, request)
    if link == NONE:
        return finish
    start = send(t, m, link, m[request + R_BYTES], m[request + R_IS_READ], ready)
    m[request + R_SENT] = start
    m[request + R_SEND_WAIT] = start - ready
    table = t[H_LINK_TABLE] + link * TN_SIZE
    note_carried(t, m, request, link, t[table + TN_BANDWIDTH])
    return max(finish, start - (-m[request + R_BYTES] // t[table + TN_BANDWIDTH]) - 1 + t[table + TN_LATENCY])


@jit
def note_look(m, request):
    """A request looks on in a cache in this cycle."""
    m[m[M_STEPPING] + m[M_STEPS]] = request
    m[M_STEPS] += 1


@jit
def take_steps(t, m, now):
    """Requests look on in caches: by storages, in the order in which they got their slots."""
    list_, count = m[M_STEPPING], m[M_STEPS]
    m[M_STEPS] = 0
    for k in range(1, count):
        request = m[list_ + k]
        j = k - 1
        while j >= 0 and comes_later(t, m, m[list_ + j], request):
            m[list_ + j + 1] = m[list_ + j]
            j -= 1
        m[list_ + j + 1] = request
    for k in range(count):
        request = m[list_ + k]
        tail = tail_of(t, m, request)
        time = go_on(t, m, request, tail, now)
        if m[tail + W_DEPTH] == 0:
            carry(t, m, m[request + R_STORE], request, time, now)
        else:
            schedule(m, request, TAG_REQUEST, time)


@jit
def comes_later(t, m, request, other):
    """Whether a request looks on after another in the same cycle."""
    if m[request + R_STORE] != m[other + R_STORE]:
        return m[request + R_STORE] > m[other + R_STORE]
    return m[tail_of(t, m, request) + W_ORDER] > m[tail_of(t, m, other) + W_ORDER]


@jit
def issue(t, m, slot, first, end, now):
    """Issue the requests ``first .. end - 1`` of an instance; returns how many found no slot."""
    waiting = 0
    request = slot + t[H_SLOT_REQUESTS] + first * R_SIZE
    for _ in range(first, end):
        store = m[request + R_STORE]
        if m[store + D_QUEUED] == 0 and has_slot(t, m, store, request):
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
