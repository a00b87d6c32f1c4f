"""Jitted, phase 2: stages take what their predecessors offer (docs/timing_semantics.md).

A stage is looked at in the cycles in which it is marked: something is newly offered to it, or it newly has room.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import FETCH, H, Instruction, OfferSpec, Route, SignatureSpec, StageSpec
from archloom.acadl_models.timing.engine.phases import agenda
from archloom.acadl_models.timing.engine.phases.accounting import leave_idle, note_hunger, settle_stage
from archloom.acadl_models.timing.engine.phases.log import note, note_step
from archloom.acadl_models.timing.engine.phases.values import latency_of
from archloom.acadl_models.timing.engine.state import Instance, Logged, M, Phase, Queue, Stage, Tag, Unit


@jit
def forward(t, m):
    """Each marked stage, receivers before senders, takes what is offered to it while it has room.

    What is offered to a stage that has had its turn is taken in the next cycle: it stays marked.
    """
    now = m[M.TIME]
    number = agenda.first_mark(t, m)
    while number != NONE:
        stage = m[M.STAGES] + number * Stage.SIZE
        record = m[stage + Stage.SPEC]
        while has_room(t, m, stage, record):
            slot = take(t, m, stage, record, number, now)
            if slot == NONE:
                break
            enter(t, m, stage, slot, number, now)
        agenda.unmark(m, number)
        number = agenda.next_mark(t, m, number)
    if t[H.IN_ORDER] == 1:
        while m[M.ISSUED] > 0 and issue_next(t, m, now):
            pass


@jit
def issue_next(t, m, now):
    """In order: pass on the oldest instance, which another one hid from its stage when that had its turn."""
    slot = m[M.ISSUED_FIRST]
    signature = t[m[slot + Instance.STATIC] + Instruction.SIGNATURE]
    record = t[H.SIGNATURE_TABLE] + signature * SignatureSpec.SIZE
    receivers = t[record + SignatureSpec.RECEIVERS]
    for k in range(receivers, receivers + t[record + SignatureSpec.RECEIVER_COUNT]):
        stage = m[M.STAGES] + t[k] * Stage.SIZE
        if has_room(t, m, stage, m[stage + Stage.SPEC]):
            m[M.CHANGED] = now
            take_issued(t, m, m[M.QUEUES] + signature * Queue.SIZE, now)
            enter(t, m, stage, slot, t[k], now)
            return True
    return False


@jit
def has_room(t, m, stage, record):
    return m[stage + Stage.COUNT] < t[record + StageSpec.DEPTH] and m[stage + Stage.UNREADY] == 0


# --- offers ----------------------------------------------------------------------------------------------------
@jit
def take(t, m, stage, record, number, now):
    """Take the instance that is offered and routed to a stage and wins the arbitration; ``NONE`` if there is none.

    The oldest in program order wins, or the oldest of the sender whose edge was made first.
    """
    senders = t[record + StageSpec.SENDERS]
    if t[record + StageSpec.SENDER_COUNT] != 1:
        source = arbitrate(t, m, senders, t[record + StageSpec.SENDER_COUNT], number)
    elif t[senders] == FETCH:
        source = oldest_issued(t, m, number)
    else:
        source = offering(t, m, t[senders], number)
    if source == NONE:
        return NONE
    m[M.CHANGED] = now
    return take_issued(t, m, source, now) if source >= 0 else take_head(t, m, ~source, now)


@jit
def offering(t, m, sender, number):
    """``~`` the record of a stage if it offers an instance that is routed to another one, or ``NONE``.

    So a source of instances is one word: a list of the issue buffer from 0 on, a stage below ``NONE``, as no stage lies
    at 0: the header does.
    """
    stage = m[M.STAGES] + sender * Stage.SIZE
    if m[stage + Stage.OFFERS] == 1 and next_route(t, m, m[stage + Stage.HEAD], number) != NONE:
        return ~stage
    return NONE


@jit
def arbitrate(t, m, senders, count, number):
    """The winner of several senders: a list of the issue buffer, or ``~`` the record of a stage; ``NONE`` if none."""
    best, winner = FOREVER, NONE
    for k in range(senders, senders + count):
        if t[k] == FETCH:
            source = oldest_issued(t, m, number)
            head = m[source + Queue.HEAD] if source != NONE else NONE
        else:
            source = offering(t, m, t[k], number)
            head = m[~source + Stage.HEAD] if source != NONE else NONE
        if head != NONE and m[head + Instance.SEQ] < best:
            best, winner = m[head + Instance.SEQ], source
        if best != FOREVER and t[H.EDGE_ORDER] == 1:
            break
    return winner


@jit
def oldest_issued(t, m, number):
    """The list of the issue buffer whose head is the oldest instance offered to a stage; ``NONE`` if there is none."""
    best, found = FOREVER, NONE
    record = t[H.OFFERS] + number * OfferSpec.SIZE
    if t[record + OfferSpec.ONLY] != NONE and t[H.IN_ORDER] == 0:
        queue = m[M.QUEUES] + t[record + OfferSpec.ONLY] * Queue.SIZE
        return queue if m[queue + Queue.HEAD] != NONE else NONE
    signatures = t[record + OfferSpec.SIGNATURES]
    for k in range(signatures, signatures + t[record + OfferSpec.SIGNATURE_COUNT]):
        queue = m[M.QUEUES] + t[k] * Queue.SIZE
        head = m[queue + Queue.HEAD]
        if head != NONE and m[head + Instance.SEQ] < best:
            best, found = m[head + Instance.SEQ], queue
    if t[H.IN_ORDER] == 1 and best != m[M.SEQ] - m[M.ISSUED] - m[M.UNDECODED]:
        return NONE  # an older instruction has not left the issue buffer
    return found


@jit
def take_issued(t, m, queue, now):
    """Take the head of a list of the issue buffer."""
    slot = m[queue + Queue.HEAD]
    m[queue + Queue.HEAD] = m[slot + Instance.LINK]
    m[M.ISSUED] -= 1
    m[M.ROOM] += 1
    if m[M.ISSUED] == 0:
        note_hunger(t, m, now)
    if t[H.IN_ORDER] == 1 and m[M.ISSUED] > 0:
        m[M.ISSUED_FIRST] = m[slot + Instance.YOUNGER]
        mark_receivers(t, m, m[slot + Instance.YOUNGER])
    return slot


@jit
def take_head(t, m, sender, now):
    """Take the head of a stage; the next one may be offered at once."""
    slot = m[sender + Stage.HEAD]
    m[sender + Stage.STALL] += now - m[sender + Stage.SINCE]
    m[sender + Stage.SINCE] = now
    m[sender + Stage.OFFERS] = 0
    count = m[sender + Stage.COUNT]
    if count == t[m[sender + Stage.SPEC] + StageSpec.DEPTH]:
        agenda.mark(m, m[sender + Stage.NUMBER])
    m[sender + Stage.COUNT] = count - 1
    m[sender + Stage.HEAD] = m[slot + Instance.LINK]
    if count > 1:
        leave = m[m[sender + Stage.HEAD] + Instance.LEAVE]
        if leave <= now:
            offer(t, m, sender, now)
        else:
            agenda.schedule(m, sender, Tag.STAGE, leave)
    return slot


@jit_inline
def offer(t, m, stage, now):
    """The head of a stage may leave: whoever may take it is marked."""
    m[stage + Stage.BUSY] += now - m[stage + Stage.SINCE]
    m[stage + Stage.SINCE] = now
    m[stage + Stage.OFFERS] = 1
    head = m[stage + Stage.HEAD]
    route = t[m[head + Instance.ROUTE] + Route.NEXT]
    if route != NONE:
        agenda.mark(m, t[route + Route.STAGE])
    else:
        mark_successors(t, m, stage, m[head + Instance.STATIC])


@jit
def mark_successors(t, m, stage, static):
    """Mark the stages to which another one may pass an instance."""
    record = m[stage + Stage.SPEC]
    receivers, count = t[record + StageSpec.RECEIVERS], t[record + StageSpec.RECEIVER_COUNT]
    if count <= t[static + Instruction.ROUTE_COUNT]:
        for k in range(receivers, receivers + count):
            agenda.mark(m, t[k])
        return
    route = t[static + Instruction.ROUTES]
    for _ in range(t[static + Instruction.ROUTE_COUNT]):
        receiver = m[M.STAGES] + t[route + Route.STAGE] * Stage.SIZE
        senders = t[m[receiver + Stage.SPEC] + StageSpec.SENDERS]
        for k in range(senders, senders + t[m[receiver + Stage.SPEC] + StageSpec.SENDER_COUNT]):
            if t[k] == m[stage + Stage.NUMBER]:
                agenda.mark(m, t[route + Route.STAGE])
        route += Route.SIZE


@jit
def arrive(t, m, slot):
    """An instance in the issue buffer is offered from now on."""
    queue = m[M.QUEUES] + t[m[slot + Instance.STATIC] + Instruction.SIGNATURE] * Queue.SIZE
    if m[queue + Queue.HEAD] == NONE:
        m[queue + Queue.HEAD] = slot
        mark_receivers(t, m, slot)
    else:
        m[m[queue + Queue.TAIL] + Instance.LINK] = slot
    m[queue + Queue.TAIL] = slot
    if m[M.ISSUED] == 0:
        m[M.ISSUED_FIRST] = slot
    m[M.ISSUED] += 1


@jit
def mark_receivers(t, m, slot):
    """Mark the stages to which the fetch stage may pass an instance."""
    route = t[m[slot + Instance.ROUTE] + Route.NEXT]
    if route != NONE:
        agenda.mark(m, t[route + Route.STAGE])
        return
    signature = t[m[slot + Instance.STATIC] + Instruction.SIGNATURE]
    record = t[H.SIGNATURE_TABLE] + signature * SignatureSpec.SIZE
    receivers = t[record + SignatureSpec.RECEIVERS]
    for k in range(receivers, receivers + t[record + SignatureSpec.RECEIVER_COUNT]):
        agenda.mark(m, t[k])


# --- arrivals --------------------------------------------------------------------------------------------------
@jit
def next_route(t, m, slot, number):
    """The record of an instance in a stage that follows the one where it is; ``NONE`` if it does not go there."""
    route = t[m[slot + Instance.ROUTE] + Route.NEXT]
    if route == NONE:
        return route_to(t, m[slot + Instance.STATIC], number)
    return route if t[route + Route.STAGE] == number else NONE


@jit
def route_to(t, static, number):
    """The record of an instruction in a stage; ``NONE`` if it does not go there."""
    low, high = 0, t[static + Instruction.ROUTE_COUNT]
    routes = t[static + Instruction.ROUTES]
    while high - low > 4:
        middle = (low + high) // 2
        if t[routes + middle * Route.SIZE + Route.STAGE] <= number:
            low = middle
        else:
            high = middle
    for k in range(low, high):
        if t[routes + k * Route.SIZE + Route.STAGE] == number:
            return routes + k * Route.SIZE
    return NONE


@jit_inline
def enter(t, m, stage, slot, number, now):
    """Hand an instance to the unit of a stage, or buffer it."""
    route = next_route(t, m, slot, number)
    m[slot + Instance.ROUTE] = route
    m[stage + Stage.HELD] += 1
    if t[route + Route.UNIT] != NONE and t[H.LATENCY_ADDED] == 0:
        hand_over(t, m, t[route + Route.UNIT], slot, now)
        return
    leave = now + latency_of(t, m, slot, t[route + Route.HELD])
    m[slot + Instance.LEAVE] = leave
    note(m, Logged.ENTERED, number, m[slot + Instance.SEQ], leave, 0, 0)
    m[slot + Instance.LINK] = NONE
    if m[stage + Stage.COUNT] == 0:
        m[stage + Stage.SINCE] = now
        m[stage + Stage.HEAD] = slot
        agenda.schedule(m, stage, Tag.STAGE, leave)
    else:
        m[m[stage + Stage.TAIL] + Instance.LINK] = slot
    m[stage + Stage.TAIL] = slot
    m[stage + Stage.COUNT] += 1


@jit_inline
def hand_over(t, m, number, slot, now):
    """A unit takes an instance; it is judged in phase 3."""
    unit = m[M.UNITS] + number * Unit.SIZE
    m[unit + Unit.WAITING] = slot
    m[unit + Unit.SCAN] = m[unit + Unit.LIST] = 0
    m[unit + Unit.JUDGED] = -1
    m[unit + Unit.TAKEN] += 1
    m[slot + Instance.UNIT] = unit
    m[slot + Instance.PHASE] = Phase.WAITING
    note_step(m, Logged.RECEIVED, slot)
    agenda.note_candidate(m, slot)
    leave_idle(m, unit, now)


@jit
def deliver(t, m, stage, now):
    """An execute stage has held the head for its latency: the unit takes it."""
    slot = m[stage + Stage.HEAD]
    settle_stage(m, stage, now)
    m[stage + Stage.COUNT] -= 1
    m[stage + Stage.HEAD] = m[slot + Instance.LINK]
    m[M.CHANGED] = now
    hand_over(t, m, t[m[slot + Instance.ROUTE] + Route.UNIT], slot, now)
