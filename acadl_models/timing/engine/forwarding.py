"""Jitted, phase 2: stages take what their predecessors offer (docs/timing_semantics.md).

A stage is looked at in the cycles in which it is marked: something is newly offered to it, or it newly has room.
"""

from __future__ import annotations

from acadl_models.timing.engine.accounting import note_hunger, note_unit, settle_stage
from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.log import note, note_step
from acadl_models.timing.engine.marks import mark, next_mark, unmark
from acadl_models.timing.engine.order import note_candidate
from acadl_models.timing.engine.program import latency_of
from acadl_models.timing.engine.timers import schedule


@jit
def forward(t, m):
    """Each marked stage, receivers before senders, takes what is offered to it while it has room.

    What is offered to a stage that has had its turn is taken in the next cycle: it stays marked.
    """
    now = m[M_TIME]
    number = next_mark(t, m, 0)
    while number != NONE:
        stage = m[M_STAGES] + number * S_SIZE
        record = m[stage + S_RECORD]
        while has_room(t, m, stage, record):
            slot = take(t, m, stage, record, now)
            if slot == NONE:
                break
            enter(t, m, stage, slot, now)
        unmark(m, number)
        number = next_mark(t, m, number + 1)
    if t[H_IN_ORDER] == 1:
        while m[M_ISSUED] > 0 and issue_next(t, m, now):
            pass


@jit
def issue_next(t, m, now):
    """In order: pass on the oldest instance, which another one hid from its stage when that had its turn."""
    slot = m[M_ISSUED_FIRST]
    signature = t[t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE + TI_SIGNATURE]
    record = t[H_SIGNATURE_TABLE] + signature * TG_SIZE
    receivers = t[record + TG_RECEIVERS]
    for k in range(receivers, receivers + t[record + TG_RECEIVER_COUNT]):
        stage = m[M_STAGES] + t[k] * S_SIZE
        if has_room(t, m, stage, m[stage + S_RECORD]):
            m[M_CHANGED] = now
            take_issued(t, m, m[M_QUEUES] + signature * Q_SIZE, now)
            enter(t, m, stage, slot, now)
            return True
    return False


@jit
def has_room(t, m, stage, record):
    if m[stage + S_COUNT] >= t[record + TS_DEPTH]:
        return False
    units = t[record + TS_UNITS]
    for k in range(units, units + t[record + TS_UNIT_COUNT]):
        if m[m[M_UNITS] + t[k] * U_SIZE + U_DOING] != U_IDLE:
            return False
    return True


# --- offers ----------------------------------------------------------------------------------------------------
@jit
def take(t, m, stage, record, now):
    """Take the instance that is offered and routed to a stage and wins the arbitration; ``NONE`` if there is none.

    The oldest in program order wins, or the oldest of the sender whose edge was made first.
    """
    best, queue, winner = FOREVER, NONE, NONE
    senders = t[record + TS_SENDERS]
    for k in range(senders, senders + t[record + TS_SENDER_COUNT]):
        if t[k] == FETCH:
            found = oldest_issued(t, m, m[stage + S_NUMBER])
            if found != NONE and m[m[found + Q_HEAD] + I_SEQ] < best:
                best, queue, winner = m[m[found + Q_HEAD] + I_SEQ], found, NONE
        else:
            sender = m[M_STAGES] + t[k] * S_SIZE
            if m[sender + S_OFFERS] == 1:
                head = m[sender + S_HEAD]
                if m[head + I_SEQ] < best and route_to(t, m[head + I_STATIC], m[stage + S_NUMBER]) != NONE:
                    best, queue, winner = m[head + I_SEQ], NONE, sender
        if best != FOREVER and t[H_EDGE_ORDER] == 1:
            break
    if best == FOREVER:
        return NONE
    m[M_CHANGED] = now
    return take_issued(t, m, queue, now) if winner == NONE else take_head(t, m, winner, now)


@jit
def oldest_issued(t, m, number):
    """The list of the issue buffer whose head is the oldest instance offered to a stage; ``NONE`` if there is none."""
    best, found = FOREVER, NONE
    record = t[H_OFFERS] + number * TO_SIZE
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
    settle_stage(m, sender, now)
    m[sender + S_OFFERS] = 0
    if m[sender + S_COUNT] == t[m[sender + S_RECORD] + TS_DEPTH]:
        mark(m, m[sender + S_NUMBER])
    m[sender + S_COUNT] -= 1
    m[sender + S_HEAD] = m[slot + I_LINK]
    if m[sender + S_COUNT] > 0:
        leave = m[m[sender + S_HEAD] + I_LEAVE]
        if leave <= now:
            offer(t, m, sender, now)
        else:
            schedule(m, sender, TAG_STAGE, leave)
    return slot


@jit
def offer(t, m, stage, now):
    """The head of a stage may leave: whoever may take it is marked."""
    settle_stage(m, stage, now)
    m[stage + S_OFFERS] = 1
    static = m[m[stage + S_HEAD] + I_STATIC]
    record = m[stage + S_RECORD]
    receivers, count = t[record + TS_RECEIVERS], t[record + TS_RECEIVER_COUNT]
    instruction = t[H_STATIC_TABLE] + static * TI_SIZE
    if count <= t[instruction + TI_ROUTE_COUNT]:
        for k in range(receivers, receivers + count):
            mark(m, t[k])
        return
    route = t[instruction + TI_ROUTES]
    for _ in range(t[instruction + TI_ROUTE_COUNT]):
        receiver = m[M_STAGES] + t[route + TR_STAGE] * S_SIZE
        senders = t[m[receiver + S_RECORD] + TS_SENDERS]
        for k in range(senders, senders + t[m[receiver + S_RECORD] + TS_SENDER_COUNT]):
            if t[k] == m[stage + S_NUMBER]:
                mark(m, t[route + TR_STAGE])
        route += TR_SIZE


@jit
def arrive(t, m, slot):
    """A fetched instance enters the issue buffer."""
    queue = m[M_QUEUES] + t[t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE + TI_SIGNATURE] * Q_SIZE
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
    signature = t[t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE + TI_SIGNATURE]
    record = t[H_SIGNATURE_TABLE] + signature * TG_SIZE
    receivers = t[record + TG_RECEIVERS]
    for k in range(receivers, receivers + t[record + TG_RECEIVER_COUNT]):
        mark(m, t[k])


# --- arrivals --------------------------------------------------------------------------------------------------
@jit
def route_to(t, static, number):
    """The record of an instruction in a stage; ``NONE`` if it does not go there."""
    instruction = t[H_STATIC_TABLE] + static * TI_SIZE
    low, high = 0, t[instruction + TI_ROUTE_COUNT]
    routes = t[instruction + TI_ROUTES]
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


@jit
def enter(t, m, stage, slot, now):
    """Hand an instance to the unit of a stage, or buffer it."""
    route = route_to(t, m[slot + I_STATIC], m[stage + S_NUMBER])
    m[slot + I_ROUTE] = route
    m[stage + S_HELD] += 1
    if t[route + TR_UNIT] != NONE and t[H_LATENCY_ADDED] == 0:
        hand_over(t, m, t[route + TR_UNIT], slot, now)
        return
    leave = now + latency_of(t, m, slot, t[route + TR_HELD])
    m[slot + I_LEAVE] = leave
    note(m, G_ENTERED, m[stage + S_NUMBER], m[slot + I_SEQ], leave, 0, 0)
    m[slot + I_LINK] = NONE
    if m[stage + S_COUNT] == 0:
        settle_stage(m, stage, now)
        m[stage + S_HEAD] = slot
        schedule(m, stage, TAG_STAGE, leave)
    else:
        m[m[stage + S_TAIL] + I_LINK] = slot
    m[stage + S_TAIL] = slot
    m[stage + S_COUNT] += 1


@jit
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
    note_unit(t, m, unit, now)


@jit
def deliver(t, m, stage, now):
    """An execute stage has held the head for its latency: the unit takes it."""
    slot = m[stage + S_HEAD]
    settle_stage(m, stage, now)
    m[stage + S_COUNT] -= 1
    m[stage + S_HEAD] = m[slot + I_LINK]
    m[M_CHANGED] = now
    hand_over(t, m, t[m[slot + I_ROUTE] + TR_UNIT], slot, now)
