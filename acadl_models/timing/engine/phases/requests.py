"""Jitted: requests to storages: slots, FIFOs, and when a granted request finishes."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import H, LinkSpec, StoreKind, StoreSpec, UnitSpec
from archloom.acadl_models.timing.engine.memory_state import Tail
from archloom.acadl_models.timing.engine.phases import memories
from archloom.acadl_models.timing.engine.phases.accounting import note_unit, settle_queue
from archloom.acadl_models.timing.engine.phases.agenda import note_mover, schedule, sort
from archloom.acadl_models.timing.engine.phases.channels import over_channels
from archloom.acadl_models.timing.engine.phases.links import is_exclusive, link_of, send
from archloom.acadl_models.timing.engine.phases.log import note_carried, note_request
from archloom.acadl_models.timing.engine.phases.refills import next_woken
from archloom.acadl_models.timing.engine.phases.reordering import end_lingering
from archloom.acadl_models.timing.engine.phases.slots import free_slot, has_slot, is_refill, queue
from archloom.acadl_models.timing.engine.phases.streaming import note_end
from archloom.acadl_models.timing.engine.phases.transfers import begin_transfer
from archloom.acadl_models.timing.engine.phases.values import fail, stands_for
from archloom.acadl_models.timing.engine.state import Instance, Logged, M, Phase, Request, Store, Tag, Unit


@jit
def end_request(m, request, now):
    """Phase 1a: a request ends and frees its slot; whoever it belongs to may move on, if it has not long ago."""
    free_slot(m, m[request + Request.STORE])
    slot = m[request + Request.OWNER]
    m[slot + Instance.PENDING] -= 1
    if m[slot + Instance.PENDING] == 0:
        if m[slot + Instance.PHASE] == Phase.LINGERING:
            end_lingering(m, slot, now)
        elif m[slot + Instance.PHASE] != Phase.PROCESSING and m[slot + Instance.PHASE] != Phase.FINISHED:
            note_mover(m, slot)


@jit
def grant_freed(t, m, now):
    """Freed slots take the requests that wait, storage by storage."""
    freed, count = m[M.FREED], m[M.FREES]
    m[M.FREES] = 0
    sort(m, freed, count)  # in the order of the storages
    for k in range(count):
        store = m[freed + k]
        m[store + Store.FREED] = 0
        while m[store + Store.QUEUED] > 0 and has_slot(t, m, store, m[store + Store.QUEUE_HEAD]):
            grant_queued(t, m, store, now)


@jit
def grant_queued(t, m, store, now):
    """The request at the head of a storage's FIFO gets a slot."""
    request = m[store + Store.QUEUE_HEAD]
    m[store + Store.QUEUE_HEAD] = m[request + Request.LINK]
    settle_queue(m, store, now)
    m[store + Store.QUEUED] -= 1
    if is_refill(m, store, request):
        m[store + Store.ACTIVE] += 1
        look_on(t, m, request, now)
        return
    slot = m[request + Request.OWNER]
    unit = m[slot + Instance.UNIT]
    m[unit + Unit.QUEUED] -= 1
    if m[request + Request.IS_READ] == 1 and m[unit + Unit.LAST] == m[slot + Instance.SEQ]:
        m[unit + Unit.UNGRANTED] -= 1
        if m[unit + Unit.UNGRANTED] == 0 and t[m[unit + Unit.SPEC] + UnitSpec.PREFETCHES] == 1:
            note_mover(m, slot)
    grant(t, m, store, request, now)
    if m[unit + Unit.QUEUED] == 0 or m[unit + Unit.UNGRANTED] == 0:
        note_unit(t, m, unit, now)


@jit_inline
def grant(t, m, store, request, now):
    """A request gets a slot: from here on the time of its end, or of the next look-up in a cache, is known."""
    note_request(t, m, Logged.GRANTED, request)
    m[store + Store.ACTIVE] += 1
    record = m[store + Store.SPEC]
    if t[record + StoreSpec.SIMPLE] == 1:
        latency = m[request + Request.LATENCY]
        if latency < 0:
            latency = fail(t, m, stands_for(latency), m[request + Request.ILLEGAL])
        first = now + latency
        if t[record + StoreSpec.SHARED] == 1:
            first = max(first, m[store + Store.PORT_FREE])
            m[store + Store.PORT_FREE] = first + m[request + Request.BEATS]
        schedule(m, request, Tag.REQUEST, first + m[request + Request.BEATS] - 1)
        begin_transfer(t, m, request, now)
        if m[m[request + Request.OWNER] + Instance.OPEN] > 0:
            note_end(t, m, request, now)
        return
    grant_general(t, m, store, request, now)


@jit
def grant_general(t, m, store, request, now):
    """The same where the storage has state or links."""
    m[store + Store.EXCLUSIVE] = int(is_exclusive(t, m, store, request))
    kind = t[m[store + Store.SPEC] + StoreSpec.KIND]
    if kind == StoreKind.CACHED:
        memories.begin_lines(t, m, memories.tail_of(t, m, request))
        look_on(t, m, request, now)
        return
    latency = m[request + Request.LATENCY]
    if latency < 0:
        latency = fail(t, m, stands_for(latency), m[request + Request.ILLEGAL])
    time = now + latency
    if kind == StoreKind.BANKED:
        time = memories.open_rows(t, m, store, memories.tail_of(t, m, request), latency, now)
        time += 1 - m[request + Request.BEATS]
    carry(t, m, store, request, time, now)


@jit
def look_on(t, m, request, now):
    """A request takes steps in caches until it has to wait, or has all its lines."""
    tail = memories.tail_of(t, m, request)
    time = memories.go_on(t, m, request, tail, now)
    if m[tail + Tail.DEPTH] == 0:
        carry(t, m, m[request + Request.STORE], request, time, now)
    elif time == FOREVER:
        m[request + Request.FINISH] = FOREVER
    else:
        schedule(m, request, Tag.REQUEST, time)


@jit
def carry(t, m, store, request, ready, now):
    """The words of a request can move from ``ready`` on: its end is known."""
    finish = arrival(t, m, store, request, ready)
    if finish > now:
        schedule(m, request, Tag.REQUEST, finish)
    else:
        m[request + Request.FINISH] = now
    begin_transfer(t, m, request, now)
    if m[m[request + Request.OWNER] + Instance.OPEN] > 0:
        note_end(t, m, request, now)
    if finish == now:  # a miss that ends without the latency of a hit
        end_request(m, request, now)


@jit
def arrival(t, m, store, request, ready):
    """When the last word of a request has moved whose first one can move from ``ready`` on: over port and link."""
    record = m[store + Store.SPEC]
    if t[record + StoreSpec.KIND] == StoreKind.INTERLEAVED:
        finish = over_channels(t, m, t[record + StoreSpec.STATE], memories.tail_of(t, m, request), ready)
    else:
        first = ready
        if t[record + StoreSpec.SHARED] == 1:
            first = max(ready, m[store + Store.PORT_FREE])
            m[store + Store.PORT_FREE] = first + m[request + Request.BEATS]
        finish = first + m[request + Request.BEATS] - 1
    link = link_of(t, m, store, request)
    if link == NONE:
        return finish
    start = send(t, m, link, m[request + Request.BYTES], m[request + Request.IS_READ], ready)
    m[request + Request.SENT] = start
    m[request + Request.SEND_WAIT] = start - ready
    table = t[H.LINK_TABLE] + link * LinkSpec.SIZE
    note_carried(t, m, request, link, t[table + LinkSpec.BANDWIDTH])
    cycles = -(-m[request + Request.BYTES] // t[table + LinkSpec.BANDWIDTH])
    return max(finish, start + cycles - 1 + t[table + LinkSpec.LATENCY])


@jit
def note_look(m, request):
    """A request looks on in a cache in this cycle."""
    m[m[M.STEPPING] + m[M.STEPS]] = request
    m[M.STEPS] += 1


@jit
def take_steps(t, m, now):
    """Requests look on in caches: by storages, in the order in which they got their slots."""
    list_, count = m[M.STEPPING], m[M.STEPS]
    m[M.STEPS] = 0
    for k in range(1, count):
        request = m[list_ + k]
        j = k - 1
        while j >= 0 and comes_later(t, m, m[list_ + j], request):
            m[list_ + j + 1] = m[list_ + j]
            j -= 1
        m[list_ + j + 1] = request
    for k in range(count):
        look_on(t, m, m[list_ + k], now)
        while m[M.WOKEN] != NONE:
            look_on(t, m, next_woken(m), now)


@jit
def comes_later(t, m, request, other):
    """Whether a request looks on after another in the same cycle."""
    if m[request + Request.STORE] != m[other + Request.STORE]:
        return m[request + Request.STORE] > m[other + Request.STORE]
    return m[memories.tail_of(t, m, request) + Tail.ORDER] > m[memories.tail_of(t, m, other) + Tail.ORDER]


@jit
def issue(t, m, slot, first, end, now):
    """Issue the requests ``first .. end - 1`` of an instance; returns how many found no slot."""
    waiting = 0
    request = slot + t[H.SLOT_REQUESTS] + first * Request.SIZE
    for _ in range(first, end):
        store = m[request + Request.STORE]
        if m[store + Store.QUEUED] == 0 and has_slot(t, m, store, request):
            grant(t, m, store, request, now)
        else:
            queue(m, store, request, now)
            note_request(t, m, Logged.QUEUED, request)
            waiting += 1
        request += Request.SIZE
    if waiting > 0:
        m[m[slot + Instance.UNIT] + Unit.QUEUED] += waiting
    return waiting
