"""Jitted: the four phases of a cycle (docs/timing_semantics.md), and when the next one is in which anything happens."""

from __future__ import annotations

from acadl_models.timing.engine.conflicts import find_blocker, leave_classes
from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.program import advance, fail, make_instance


# --- phase 1: completions --------------------------------------------------------------------------------------
@jit
def complete(t, m):
    """Requests end, instances in units move on, a fetch ends."""
    now = m[M_TIME]
    count = end_requests(t, m, now)
    count = end_processing(t, m, now, count)
    moving = m[M_MOVING]
    for k in range(count):
        progress(t, m, m[moving + k], now)
    if m[M_FETCH_END] == now:
        append_fetched(t, m)


@jit
def remember(m, count, slot):
    """Insert an instance into the list of those that move on, by program order."""
    moving = m[M_MOVING]
    k = count
    while k > 0 and m[m[moving + k - 1] + I_SEQ] > m[slot + I_SEQ]:
        m[moving + k] = m[moving + k - 1]
        k -= 1
    m[moving + k] = slot
    return count + 1


@jit
def end_requests(t, m, now):
    """Phase 1a: requests that end free their slots for those that wait; counts the instances that may move on."""
    count = 0
    for number in range(t[H_STORES]):
        store = m[M_STORES] + number * D_SIZE
        if m[store + D_NEXT] != now:
            continue
        m[M_CHANGED] = now
        nearest = FOREVER
        last = NONE
        request = m[store + D_HEAD]
        while request != NONE:
            link = m[request + R_LINK]
            if m[request + R_FINISH] == now:
                if last == NONE:
                    m[store + D_HEAD] = link
                else:
                    m[last + R_LINK] = link
                m[store + D_ACTIVE] -= 1
                slot = m[request + R_OWNER]
                m[slot + I_PENDING] -= 1
                if m[slot + I_PENDING] == 0:
                    count = remember(m, count, slot)
            else:
                last = request
                nearest = min(nearest, m[request + R_FINISH])
            request = link
        m[store + D_TAIL] = last
        m[store + D_NEXT] = nearest
        while m[store + D_QUEUED] > 0 and m[store + D_ACTIVE] < t[t[H_STORE_TABLE] + number * TM_SIZE + TM_CAPACITY]:
            grant_queued(t, m, store, number, now)
    return count


@jit
def settle_queue(m, store, now):
    """Complete the counter of waiting requests before their number changes."""
    m[store + D_QUEUE_CYCLES] += m[store + D_QUEUED] * (now - m[store + D_SINCE])
    m[store + D_SINCE] = now


@jit
def grant_queued(t, m, store, number, now):
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
    if m[unit + U_QUEUED] == 0 or m[unit + U_UNGRANTED] == 0:
        m[M_MOVES] = 1
    grant(t, m, store, number, request, now)


@jit
def grant(t, m, store, number, request, now):
    """A request gets a slot: from here on its finish is known."""
    latency = m[request + R_LATENCY]
    if latency < 0:
        latency = fail(t, m, -1 - latency, m[request + R_FINISH])
    ready = now + latency
    if t[t[H_STORE_TABLE] + number * TM_SIZE + TM_SHARED] == 1:
        ready = max(ready, m[store + D_PORT_FREE])
        m[store + D_PORT_FREE] = ready + m[request + R_BEATS]
    finish = ready + m[request + R_BEATS] - 1
    m[request + R_FINISH] = finish
    m[request + R_LINK] = NONE
    if m[store + D_ACTIVE] == 0:
        m[store + D_HEAD] = request
    else:
        m[m[store + D_TAIL] + R_LINK] = request
    m[store + D_TAIL] = request
    m[store + D_ACTIVE] += 1
    m[store + D_NEXT] = min(m[store + D_NEXT], finish)


@jit
def issue(t, m, slot, first, end, now):
    """Issue the requests ``first .. end - 1`` of an instance; returns how many found no slot."""
    waiting = 0
    for k in range(first, end):
        request = slot + t[H_SLOT_REQUESTS] + k * R_SIZE
        number = m[request + R_STORE]
        store = m[M_STORES] + number * D_SIZE
        if m[store + D_ACTIVE] < t[t[H_STORE_TABLE] + number * TM_SIZE + TM_CAPACITY]:
            grant(t, m, store, number, request, now)
            continue
        if m[store + D_QUEUED] == 0:
            m[store + D_QUEUE_HEAD] = request
        else:
            m[m[store + D_QUEUE_TAIL] + R_LINK] = request
        m[request + R_LINK] = NONE
        m[store + D_QUEUE_TAIL] = request
        settle_queue(m, store, now)
        m[store + D_QUEUED] += 1
        waiting += 1
    if waiting > 0:
        m[m[slot + I_UNIT] + U_QUEUED] += waiting
        m[M_MOVES] = 1
    return waiting


@jit
def end_processing(t, m, now, count):
    """Instances whose processing ends now, added to those that may move on."""
    for number in range(t[H_UNITS]):
        unit = m[M_UNITS] + number * U_SIZE
        if m[unit + U_NEXT] != now:
            continue
        m[M_CHANGED] = now
        nearest = FOREVER
        slot = m[unit + U_HEAD]
        while slot != NONE:
            if m[slot + I_PHASE] == PROCESSING:
                if m[slot + I_END] == now:
                    count = remember(m, count, slot)
                else:
                    nearest = min(nearest, m[slot + I_END])
            slot = m[slot + I_LINK]
        m[unit + U_NEXT] = nearest
    return count


@jit
def latency_in(t, m, slot, table, row):
    """A latency of an instance: from the table, or evaluated when it was made."""
    static = m[slot + I_STATIC]
    latency = t[table + row * t[H_STATICS] + static]
    if latency >= 0:
        return latency
    number = -1 - latency
    latency = m[slot + t[H_SLOT_LATENCIES] + number]
    program = t[t[t[H_STATIC_TABLE] + static * TI_SIZE + TI_LATENCIES] + number]
    return latency if latency >= t[program + TC_LEAST] else fail(t, m, program, latency)


@jit
def progress(t, m, slot, now):
    """Phase 1b: an instance whose step ended goes to the next step, through steps of no cycles."""
    phase = m[slot + I_PHASE]
    if phase == READING:
        process(t, m, slot, now)
    elif phase == PROCESSING:
        write(t, m, slot, now)
    else:
        finish(t, m, slot, now)


@jit
def process(t, m, slot, now):
    """All reads have ended: process for the latency of the unit."""
    unit = m[slot + I_UNIT]
    latency = latency_in(t, m, slot, t[H_UNIT_LATENCY], (unit - m[M_UNITS]) // U_SIZE)
    m[slot + I_PHASE] = PROCESSING
    m[slot + I_END] = now + latency
    if latency == 0:
        write(t, m, slot, now)
    else:
        m[unit + U_NEXT] = min(m[unit + U_NEXT], now + latency)


@jit
def write(t, m, slot, now):
    """Processing has ended: issue the writes."""
    reads, requests = m[slot + I_READS], m[slot + I_REQUESTS]
    if reads == requests:
        finish(t, m, slot, now)
        return
    m[slot + I_PHASE] = WRITING
    m[slot + I_PENDING] = requests - reads
    issue(t, m, slot, reads, requests, now)


@jit
def finish(t, m, slot, now):
    """Release the conflicts and the slot of an instance and take it out of its unit."""
    unit = m[slot + I_UNIT]
    m[unit + U_COUNT] -= 1
    other = m[unit + U_HEAD]
    if other == slot:
        m[unit + U_HEAD] = m[slot + I_LINK]
    else:
        while m[other + I_LINK] != slot:
            other = m[other + I_LINK]
        m[other + I_LINK] = m[slot + I_LINK]
    leave_classes(t, m, slot)
    older, younger = m[slot + I_OLDER], m[slot + I_YOUNGER]
    if older == NONE:
        m[M_OLDEST] = younger
    else:
        m[older + I_YOUNGER] = younger
    if younger == NONE:
        m[M_YOUNGEST] = older
    else:
        m[younger + I_OLDER] = older
    m[slot + I_SEQ] = NONE
    m[slot + I_LINK] = m[M_FREE]
    m[M_FREE] = slot
    m[M_FINISHED] += 1
    m[M_LATEST] = now
    m[M_MOVES] = 1


@jit
def append_fetched(t, m):
    """Phase 1d: the fetched instructions enter the issue buffer."""
    for _ in range(m[M_FETCH_COUNT]):
        slot = make_instance(t, m)
        if m[M_STATUS] != RUNNING:
            return
        signature = t[t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE + TI_SIGNATURE]
        queue = m[M_QUEUES] + signature * Q_SIZE
        if m[queue + Q_HEAD] == NONE:
            m[queue + Q_HEAD] = slot
        else:
            m[m[queue + Q_TAIL] + I_LINK] = slot
        m[queue + Q_TAIL] = slot
        m[M_ISSUED] += 1
        advance(t, m)
    m[M_FETCHED] += m[M_FETCH_COUNT]
    m[M_STEPPED] += m[M_FETCH_COUNT]
    m[M_FETCH_END] = NONE
    m[M_CHANGED] = m[M_TIME]
    m[M_MOVES] = 1


# --- phase 2: forwarding ---------------------------------------------------------------------------------------
@jit
def forward(t, m):
    """Each stage, receivers before senders, takes what is offered to it while it has room."""
    now = m[M_TIME]
    for number in range(t[H_STAGES]):
        stage = m[M_STAGES] + number * S_SIZE
        record = t[H_STAGE_TABLE] + number * TS_SIZE
        while has_room(t, m, stage, record, now):
            source = oldest_offer(t, m, number, record, now)
            if source == NONE:
                break
            place(t, m, number, stage, take(t, m, source, now), now)


@jit
def unit_ready(t, m, number, now):
    """Phase 1c: whether a unit would take an instruction."""
    unit = m[M_UNITS] + number * U_SIZE
    if m[unit + U_WAITING] != NONE:
        return False
    record = t[H_UNIT_TABLE] + number * TU_SIZE
    if t[record + TU_PIPELINED] == 0:
        return m[unit + U_COUNT] == 0
    return now >= m[unit + U_READY] and m[unit + U_UNGRANTED] == 0 and m[unit + U_COUNT] < t[record + TU_CAPACITY]


@jit
def has_room(t, m, stage, record, now):
    if m[stage + S_COUNT] >= t[record + TS_DEPTH]:
        return False
    for k in range(t[record + TS_UNIT_COUNT]):
        if not unit_ready(t, m, t[t[record + TS_UNITS] + k], now):
            return False
    return True


@jit
def oldest_offer(t, m, number, record, now):
    """Where the oldest instance lies that is offered and routed to a stage: a signature's list in the issue buffer
    (its number), or stage ``s`` (the number of signatures plus ``s``); ``NONE`` if there is none."""
    best, source = FOREVER, NONE
    signatures = t[H_SIGNATURES]
    if t[record + TS_FETCHES] == 1:
        for signature in range(signatures):
            head = m[m[M_QUEUES] + signature * Q_SIZE + Q_HEAD]
            takes = t[t[H_TAKES] + number * signatures + signature]
            if head != NONE and takes == 1 and m[head + I_SEQ] < best:
                best, source = m[head + I_SEQ], signature
    for k in range(t[record + TS_PRED_COUNT]):
        sender = t[t[record + TS_PREDS] + k]
        head = m[m[M_STAGES] + sender * S_SIZE + S_HEAD]
        if head != NONE and m[head + I_LEAVE] <= now and m[head + I_SEQ] < best:
            if t[t[H_ROUTE] + number * t[H_STATICS] + m[head + I_STATIC]] != ROUTE_NONE:
                best, source = m[head + I_SEQ], signatures + sender
    return source


@jit
def take(t, m, source, now):
    """Take the head of a list of the issue buffer or of a stage."""
    signatures = t[H_SIGNATURES]
    m[M_CHANGED] = now
    if source < signatures:
        queue = m[M_QUEUES] + source * Q_SIZE
        slot = m[queue + Q_HEAD]
        m[queue + Q_HEAD] = m[slot + I_LINK]
        m[M_ISSUED] -= 1
        return slot
    sender = m[M_STAGES] + (source - signatures) * S_SIZE
    slot = m[sender + S_HEAD]
    m[sender + S_HEAD] = m[slot + I_LINK]
    m[sender + S_COUNT] -= 1
    if m[sender + S_COUNT] > 0 and m[m[sender + S_HEAD] + I_LEAVE] <= now:
        m[M_AGAIN] = 1  # a stage that had its turn may take the new head in the next cycle
    return slot


@jit
def place(t, m, number, stage, slot, now):
    """Hand an instance to the unit of a stage, or buffer it."""
    route = t[t[H_ROUTE] + number * t[H_STATICS] + m[slot + I_STATIC]]
    m[stage + S_HELD] += 1
    if route >= ROUTE_UNIT:
        unit = m[M_UNITS] + (route - ROUTE_UNIT) * U_SIZE
        m[unit + U_WAITING] = slot
        m[unit + U_SCAN] = 0
        m[unit + U_BLOCKER] = NONE
        m[unit + U_BLOCKER_SEQ] = -1
        m[unit + U_TAKEN] += 1
        m[slot + I_UNIT] = unit
        m[slot + I_PHASE] = WAITING
        return
    m[slot + I_LEAVE] = now + latency_in(t, m, slot, t[H_STAGE_LATENCY], number)
    m[slot + I_LINK] = NONE
    if m[stage + S_COUNT] == 0:
        m[stage + S_HEAD] = slot
    else:
        m[m[stage + S_TAIL] + I_LINK] = slot
    m[stage + S_TAIL] = slot
    m[stage + S_COUNT] += 1


# --- phase 3: start --------------------------------------------------------------------------------------------
@jit
def start(t, m):
    """Waiting instances whose conflicts are over start, in program order."""
    now = m[M_TIME]
    clear = 0
    for number in range(t[H_UNITS]):
        unit = m[M_UNITS] + number * U_SIZE
        if m[unit + U_WAITING] != NONE and not blocked(t, m, unit):
            m[unit + U_CLEAR] = 1
            clear += 1
    for _ in range(clear):
        first = NONE
        for number in range(t[H_UNITS]):
            unit = m[M_UNITS] + number * U_SIZE
            if m[unit + U_CLEAR] == 1 and (
                first == NONE or m[m[unit + U_WAITING] + I_SEQ] < m[m[first + U_WAITING] + I_SEQ]
            ):
                first = unit
        m[first + U_CLEAR] = 0
        begin(t, m, first, now)


@jit
def blocked(t, m, unit):
    """Whether the instance that waits at a unit conflicts with an earlier one that is not finished."""
    blocker = m[unit + U_BLOCKER]
    if blocker != NONE and m[blocker + I_SEQ] == m[unit + U_BLOCKER_SEQ]:
        return True
    return find_blocker(t, m, unit)


@jit
def begin(t, m, unit, now):
    """Start the instance that waits at a unit: issue its reads."""
    slot = m[unit + U_WAITING]
    number = (unit - m[M_UNITS]) // U_SIZE
    m[M_CHANGED] = now
    m[unit + U_WAITING] = NONE
    m[slot + I_LINK] = m[unit + U_HEAD]
    m[unit + U_HEAD] = slot
    m[unit + U_COUNT] += 1
    m[unit + U_LAST] = m[slot + I_SEQ]
    m[unit + U_UNGRANTED] = 0
    if t[t[H_UNIT_TABLE] + number * TU_SIZE + TU_PIPELINED] == 1:
        m[unit + U_READY] = now + latency_in(t, m, slot, t[H_UNIT_INTERVAL], number)
    reads = m[slot + I_READS]
    if reads == 0:
        process(t, m, slot, now)
        return
    m[slot + I_PHASE] = READING
    m[slot + I_PENDING] = reads
    m[unit + U_UNGRANTED] = issue(t, m, slot, 0, reads, now)


# --- phase 4: fetch --------------------------------------------------------------------------------------------
@jit
def fetch(t, m):
    """Start a fetch if none is under way and the issue buffer has room for it."""
    count = min(t[H_FETCH_WIDTH], m[M_LEFT])
    if m[M_FETCH_END] == NONE and count > 0 and t[H_ISSUE_SIZE] - m[M_ISSUED] >= count:
        m[M_FETCH_END] = m[M_TIME] + t[H_FETCH_LATENCY]
        m[M_FETCH_COUNT] = count
        m[M_CHANGED] = m[M_TIME]
        m[M_LEFT] -= count
        m[M_FETCHES] += 1


# --- time ------------------------------------------------------------------------------------------------------
@jit
def next_time(t, m):
    """The next cycle in which anything can happen; ``FOREVER`` if nothing can."""
    after = m[M_MOVE_TIME]
    if m[M_FETCH_END] != NONE:
        after = min(after, m[M_FETCH_END])
    for store in range(m[M_STORES], m[M_STORES] + t[H_STORES] * D_SIZE, D_SIZE):
        after = min(after, m[store + D_NEXT])
    for unit in range(m[M_UNITS], m[M_UNITS] + t[H_UNITS] * U_SIZE, U_SIZE):
        after = min(after, m[unit + U_NEXT])
    return after


@jit
def settle_counters(t, m):
    """Add the cycles since the last change to the counters of what fetch, stages and units were doing."""
    cycles = m[M_TIME] - m[M_SINCE]
    m[M_SINCE] = m[M_TIME]
    m[M_FETCH_STALL] += m[M_STALLED] * cycles
    for stage in range(m[M_STAGES], m[M_STAGES] + t[H_STAGES] * S_SIZE, S_SIZE):
        m[stage + S_STALL] += m[stage + S_STALLED] * cycles
    for unit in range(m[M_UNITS], m[M_UNITS] + t[H_UNITS] * U_SIZE, U_SIZE):
        m[unit + m[unit + U_DOING]] += cycles


@jit
def look_ahead(t, m):
    """What fetch, stages and units do from now on, and when instructions may move next without a completion before."""
    now = m[M_TIME]
    after = now + 1 if m[M_AGAIN] == 1 else FOREVER
    m[M_STALLED] = int(m[M_FETCH_END] == NONE and m[M_LEFT] > 0)
    for stage in range(m[M_STAGES], m[M_STAGES] + t[H_STAGES] * S_SIZE, S_SIZE):
        m[stage + S_STALLED] = 0
        if m[stage + S_COUNT] > 0:
            leave = m[m[stage + S_HEAD] + I_LEAVE]
            if leave > now:
                after = min(after, leave)
            else:
                m[stage + S_STALLED] = 1
    for number in range(t[H_UNITS]):
        unit = m[M_UNITS] + number * U_SIZE
        m[unit + U_DOING] = doing(t, m, number, unit, now)
        if m[unit + U_READY] > now:
            after = min(after, m[unit + U_READY])
    m[M_MOVE_TIME] = after


@jit
def doing(t, m, number, unit, now):
    """The counter of what a unit does after the phases of a cycle."""
    if m[unit + U_WAITING] != NONE:
        return U_DEPENDENCY
    if t[t[H_UNIT_TABLE] + number * TU_SIZE + TU_PIPELINED] == 1:
        if now < m[unit + U_READY]:
            return U_BUSY
        return U_IDLE if unit_ready(t, m, number, now) else U_STORAGE
    if m[unit + U_COUNT] == 0:
        return U_IDLE
    return U_STORAGE if m[unit + U_QUEUED] > 0 else U_BUSY
