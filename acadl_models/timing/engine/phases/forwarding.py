"""Jitted, phase 2: stages take what their predecessors offer (docs/timing_semantics.md).

A stage is looked at in the cycles in which it is marked: something is newly offered to it, or it newly has room.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.accounting import leave_idle, note_hunger, settle_stage
from archloom.acadl_models.timing.engine.phases.log import note, note_step
from archloom.acadl_models.timing.engine.phases.marks import first_mark, mark, next_mark, unmark
from archloom.acadl_models.timing.engine.phases.order import note_candidate
from archloom.acadl_models.timing.engine.phases.timers import schedule
from archloom.acadl_models.timing.engine.phases.values import latency_of


@jit
def forward(t, m):
    """Each marked stage, receivers before senders, takes what is offered to it while it has room.

    What is offered to a stage that has had its turn is taken in the next cycle: it stays marked.
    """
    now = m[M_TIME]
    number = first_mark(t, m)
    while number != NONE:
        stage = m[M_STAGES] + number * S_SIZE
        record = m[stage + S_RECORD]
        while has_room(t, m, stage, record):
            slot = take(t, m, stage, record, number, now)
            if slot == NONE:
                break
            enter(t, m, stage, slot, number, now)
        unmark(m, number)
        number = next_mark(t, m, number)
    if t[H_IN_ORDER] == 1:
        while m[M_ISSUED] > 0 and issue_next(t, m, now):
            pass


@jit
def issue_next(t, m, now):
    """In order: pass on the oldest instance, which another one hid from its stage when that had its turn."""
    slot = m[M_ISSUED_FIRST]
    signature = t[m[slot + I_STATIC] + TI_SIGNATURE]
    record = t[H_SIGNATURE_TABLE] + signature * TG_SIZE
    receivers = t[record + TG_RECEIVERS]
    for k in range(receivers, receivers + t[record + TG_RECEIVER_COUNT]):
        stage = m[M_STAGES] + t[k] * S_SIZE
        if has_room(t, m, stage, m[stage + S_RECORD]):
            m[M_CHANGED] = now
            take_issued(t, m, m[M_QUEUES] + signature * Q_SIZE, now)
            enter(t, m, stage, slot, t[k], now)
            return True
    return False


@jit
def has_room(t, m, stage, record):
    return m[stage + S_COUNT] < t[record + TS_DEPTH] and m[stage + S_UNREADY] == 0


# --- offers ----------------------------------------------------------------------------------------------------
@jit
def take(t, m, stage, record, number, now):
    """Take the instance that is offered and routed to a stage and wins the arbitration; ``NONE`` if there is none.

    The oldest in program order wins, or the oldest of the sender whose edge was made first.
    """
    senders = t[record + TS_SENDERS]
    if t[record + TS_SENDER_COUNT] != 1:
        source = arbitrate(t, m, senders, t[record + TS_SENDER_COUNT], number)
    elif t[senders] == FETCH:
        source = oldest_issued(t, m, number)
    else:
        source = ~offering(t, m, t[senders], number)
    if source == NONE:
        return NONE
    m[M_CHANGED] = now
    return take_issued(t, m, source, now) if source >= 0 else take_head(t, m, ~source, now)


@jit
def offering(t, m, sender, number):
    """The record of a stage if it offers an instance that is routed to another one, or 0."""
    stage = m[M_STAGES] + sender * S_SIZE
    return stage if m[stage + S_OFFERS] == 1 and next_route(t, m, m[stage + S_HEAD], number) != NONE else 0


@jit
def arbitrate(t, m, senders, count, number):
    """The winner of several senders: a list of the issue buffer, or ``~`` the record of a stage; ``NONE`` if none."""
    best, winner = FOREVER, NONE
    for k in range(senders, senders + count):
        if t[k] == FETCH:
            source = oldest_issued(t, m, number)
            head = m[source + Q_HEAD] if source != NONE else NONE
        else:
            source = ~offering(t, m, t[k], number)
            head = m[~source + S_HEAD] if source != NONE else NONE
        if head != NONE and m[head + I_SEQ] < best:
            best, winner = m[head + I_SEQ], source
        if best != FOREVER and t[H_EDGE_ORDER] == 1:
            break
    return winner


@jit
def oldest_issued(t, m, number):
    """The list of the issue buffer whose head is the oldest instance offered to a stage; ``NONE`` if there is none."""
    best, found = FOREVER, NONE
    record = t[H_OFFERS] + number * TO_SIZE
    if t[record + TO_ONLY] != NONE and t[H_IN_ORDER] == 0:
        queue = m[M_QUEUES] + t[record + TO_ONLY] * Q_SIZE
        return queue if m[queue + Q_HEAD] != NONE else NONE
    signatures = t[record + TO_SIGNATURES]
    for k in range(signatures, signatures + t[record + TO_SIGNATURE_COUNT]):
        queue = m[M_QUEUES] + t[k] * Q_SIZE
        head = m[queue + Q_HEAD]
        if head != NONE and m[head + I_SEQ] < best:
            best, found = m[head + I_SEQ], queue
    if t[H_IN_ORDER] == 1 and best != m[M_SEQ] - m[M_ISSUED]:
        return NONE  # an older instruction has not left the issue buffer
    return found


@jit
def take_issued(t, m, queue, now):
    """Take the head of a list of the issue buffer."""
    slot = m[queue + Q_HEAD]
    m[queue + Q_HEAD] = m[slot + I_LINK]
    m[M_ISSUED] -= 1
    m[M_ROOM] += 1
    if m[M_ISSUED] == 0:
        note_hunger(t, m, now)
    if t[H_IN_ORDER] == 1 and m[M_ISSUED] > 0:
        m[M_ISSUED_FIRST] = m[slot + I_YOUNGER]
        mark_receivers(t, m, m[slot + I_YOUNGER])
    return slot


@jit
def take_head(t, m, sender, now):
    """Take the head of a stage; the next one may be offered at once."""
    slot = m[sender + S_HEAD]
    m[sender + S_STALL] += now - m[sender + S_SINCE]
    m[sender + S_SINCE] = now
    m[sender + S_OFFERS] = 0
    count = m[sender + S_COUNT]
    if count == t[m[sender + S_RECORD] + TS_DEPTH]:
        mark(m, m[sender + S_NUMBER])
    m[sender + S_COUNT] = count - 1
    m[sender + S_HEAD] = m[slot + I_LINK]
    if count > 1:
        leave = m[m[sender + S_HEAD] + I_LEAVE]
        if leave <= now:
            offer(t, m, sender, now)
        else:
            schedule(m, sender, TAG_STAGE, leave)
    return slot


@jit_inline
def offer(t, m, stage, now):
    """The head of a stage may leave: whoever may take it is marked."""
    m[stage + S_BUSY] += now - m[stage + S_SINCE]
    m[stage + S_SINCE] = now
    m[stage + S_OFFERS] = 1
    head = m[stage + S_HEAD]
    route = t[m[head + I_ROUTE] + TR_NEXT]
    if route != NONE:
        mark(m, t[route + TR_STAGE])
    else:
        mark_successors(t, m, stage, m[head + I_STATIC])


@jit
def mark_successors(t, m, stage, static):
    """Mark the stages to which another one may pass an instance."""
    record = m[stage + S_RECORD]
    receivers, count = t[record + TS_RECEIVERS], t[record + TS_RECEIVER_COUNT]
    if count <= t[static + TI_ROUTE_COUNT]:
        for k in range(receivers, receivers + count):
            mark(m, t[k])
        return
    route = t[static + TI_ROUTES]
    for _ in range(t[static + TI_ROUTE_COUNT]):
        receiver = m[M_STAGES] + t[route + TR_STAGE] * S_SIZE
        senders = t[m[receiver + S_RECORD] + TS_SENDERS]
        for k in range(senders, senders + t[m[receiver + S_RECORD] + TS_SENDER_COUNT]):
            if t[k] == m[stage + S_NUMBER]:
                mark(m, t[route + TR_STAGE])
        route += TR_SIZE


@jit
def arrive(t, m, slot):
    """A fetched instance enters the issue buffer."""
    queue = m[M_QUEUES] + t[m[slot + I_STATIC] + TI_SIGNATURE] * Q_SIZE
    if m[queue + Q_HEAD] == NONE:
        m[queue + Q_HEAD] = slot
        mark_receivers(t, m, slot)
    else:
        m[m[queue + Q_TAIL] + I_LINK] = slot
    m[queue + Q_TAIL] = slot
    if m[M_ISSUED] == 0:
        m[M_ISSUED_FIRST] = slot
    m[M_ISSUED] += 1


@jit
def mark_receivers(t, m, slot):
    """Mark the stages to which the fetch stage may pass an instance."""
    route = t[m[slot + I_ROUTE] + TR_NEXT]
    if route != NONE:
        mark(m, t[route + TR_STAGE])
        return
    signature = t[m[slot + I_STATIC] + TI_SIGNATURE]
    record = t[H_SIGNATURE_TABLE] + signature * TG_SIZE
    receivers = t[record + TG_RECEIVERS]
    for k in range(receivers, receivers + t[record + TG_RECEIVER_COUNT]):
        mark(m, t[k])


# --- arrivals --------------------------------------------------------------------------------------------------
@jit
def next_route(t, m, slot, number):
    """The record of an instance in a stage that follows the one where it is; ``NONE`` if it does not go there."""
    route = t[m[slot + I_ROUTE] + TR_NEXT]
    if route == NONE:
        return route_to(t, m[slot + I_STATIC], number)
    return route if t[route + TR_STAGE] == number else NONE


@jit
def route_to(t, static, number):
    """The record of an instruction in a stage; ``NONE`` if it does not go there."""
    low, high = 0, t[static + TI_ROUTE_COUNT]
    routes = t[static + TI_ROUTES]
    while high - low > 4:
        middle = (low + high) // 2
        if t[routes + middle * TR_SIZE + TR_STAGE] <= number:
            low = middle
        else:
            high = middle
    for k in range(low, high):
        if t[routes + k * TR_SIZE + TR_STAGE] == number:
            return routes + k * TR_SIZE
    return NONE


@jit_inline
def enter(t, m, stage, slot, number, now):
    """Hand an instance to the unit of a stage, or buffer it."""
    route = next_route(t, m, slot, number)
    m[slot + I_ROUTE] = route
    m[stage + S_HELD] += 1
    if t[route + TR_UNIT] != NONE and t[H_LATENCY_ADDED] == 0:
        hand_over(t, m, t[route + TR_UNIT], slot, now)
        return
    leave = now + latency_of(t, m, slot, t[route + TR_HELD])
    m[slot + I_LEAVE] = leave
    note(m, G_ENTERED, number, m[slot + I_SEQ], leave, 0, 0)
    m[slot + I_LINK] = NONE
    if m[stage + S_COUNT] == 0:
        m[stage + S_SINCE] = now
        m[stage + S_HEAD] = slot
        schedule(m, stage, TAG_STAGE, leave)
    else:
        m[m[stage + S_TAIL] + I_LINK] = slot
    m[stage + S_TAIL] = slot
    m[stage + S_COUNT] += 1


@jit_inline
def hand_over(t, m, number, slot, now):
    """A unit takes an instance; it is judged in phase 3."""
    unit = m[M_UNITS] + number * U_SIZE
    m[unit + U_WAITING] = slot
    m[unit + U_SCAN] = 0
    m[unit + U_JUDGED] = -1
    m[unit + U_TAKEN] += 1
    m[slot + I_UNIT] = unit
    m[slot + I_PHASE] = WAITING
    note_step(m, G_RECEIVED, slot)
    note_candidate(m, slot)
    leave_idle(m, unit, now)


@jit
def deliver(t, m, stage, now):
    """An execute stage has held the head for its latency: the unit takes it."""
    slot = m[stage + S_HEAD]
    settle_stage(m, stage, now)
    m[stage + S_COUNT] -= 1
    m[stage + S_HEAD] = m[slot + I_LINK]
    m[M_CHANGED] = now
    hand_over(t, m, t[m[slot + I_ROUTE] + TR_UNIT], slot, now)
