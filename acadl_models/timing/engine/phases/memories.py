"""Jitted: what a request meets in a cache and in the banks of a DRAM (timing.memories has the plain models).

A granted request of a cache goes from look-up to look-up: its steps lie on a stack in its tail, so that it can wait for
a missing line at any cache on its way and go on from there.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine import layout, state
from archloom.acadl_models.timing.engine.fields import FOREVER, NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, BufferPart, CacheSpec, DramSpec, H
from archloom.acadl_models.timing.engine.memory_state import (
    Bank,
    Cache,
    Dram,
    LookFlag,
    LookOp,
    Tail,
    WayStep,
    WayStepKind,
)
from archloom.acadl_models.timing.engine.phases.lines import count_miss, hits, pass_on, put
from archloom.acadl_models.timing.engine.phases.looks import append, note
from archloom.acadl_models.timing.engine.phases.refills import (
    arrive,
    ask_behind,
    lacks_register,
    must_wait,
    register,
    wait_at,
)
from archloom.acadl_models.timing.engine.phases.values import fail, stands_for
from archloom.acadl_models.timing.engine.state import M, Request


# --- tails of requests -----------------------------------------------------------------------------------------
@jit
def tail_of(t, m, request):
    """The tail of a request."""
    owner = m[request + Request.OWNER]
    return owner + t[H.SLOT_TAILS] + (request - owner - t[H.SLOT_REQUESTS]) // Request.SIZE * t[H.TAIL_SIZE]


@jit
def has_steps(t, m, request):
    """Whether a granted request has to look on in a cache."""
    kind = t[m[m[request + Request.STORE] + state.Store.SPEC] + layout.StoreSpec.KIND]
    return kind == layout.StoreKind.CACHED and m[tail_of(t, m, request) + Tail.DEPTH] > 0


@jit
def way_latency(t, m, tail, level, is_miss):
    """The latency of a hit or of a miss in a cache on the way of a request."""
    code = t[t[m[tail + Tail.BUFFER_PART] + BufferPart.WAY] + 1 + 3 * level + 1 + is_miss]
    value = m[tail + Tail.LATENCIES + 2 * level + is_miss]
    if code < 0 and value < t[stands_for(code) + layout.LatencySpec.LEAST]:
        return fail(t, m, stands_for(code), value)
    return value


# --- caches ----------------------------------------------------------------------------------------------------
@jit
def begin_lines(t, m, tail):
    """A cache grants a request: what lies on its stack then."""
    m[tail + Tail.ORDER] = m[M.GRANTS]
    m[M.GRANTS] += 1
    push(t, m, tail, WayStepKind.LINES, 0, 0, m[tail + Tail.RUN])


@jit
def push(t, m, tail, op, level, first, last):
    step = tail + Tail.LATENCIES + 2 * t[H.LEVELS] + m[tail + Tail.DEPTH] * WayStep.SIZE
    m[step + WayStep.OP], m[step + WayStep.LEVEL], m[step + WayStep.FROM], m[step + WayStep.TO] = op, level, first, last
    m[step + WayStep.MISSED] = 0
    m[step + WayStep.AMONG] = NONE
    m[tail + Tail.DEPTH] += 1
    return step


@jit
def go_on(t, m, request, tail, now):
    """Take steps until one has to wait; returns until when, FOREVER where that depends on other requests, or with no
    steps left the time of the first beat."""
    way = t[m[tail + Tail.BUFFER_PART] + BufferPart.WAY]
    stack = tail + Tail.LATENCIES + 2 * t[H.LEVELS]
    while True:
        step = stack + (m[tail + Tail.DEPTH] - 1) * WayStep.SIZE
        op, level = m[step + WayStep.OP], m[step + WayStep.LEVEL]
        cache = t[way + 1 + 3 * level]
        if op <= WayStepKind.READ:
            if not look_for_next(t, m, request, tail, step, cache):
                m[tail + Tail.DEPTH] -= 1
                waits = m[step + WayStep.MISSED] == 0 or t[H.HIT_AFTER_MISS] == 1
                if waits or m[tail + Tail.DEPTH] == 0:
                    return now + way_latency(t, m, tail, level, 0) if waits else now
        elif op == WayStepKind.LOOK:
            if not look_again(t, m, request, tail, step, cache):
                return FOREVER
        elif op == WayStepKind.SLOT:
            m[tail + Tail.DEPTH] -= 1
            if not ask_behind(t, m, request, cache, now):
                return FOREVER
        elif op == WayStepKind.WAIT:
            m[tail + Tail.DEPTH] -= 1
            return now + way_latency(t, m, tail, level, 1)
        else:
            m[tail + Tail.DEPTH] -= 1
            come_in(t, m, tail, step, cache)


@jit
def look_for_next(t, m, request, tail, step, cache):
    """Look for the next line of a step, once more where it is not there; False: there is no further one."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    of_request = m[step + WayStep.OP] == WayStepKind.LINES
    line = next_line(t, m, tail, record, step) if of_request else next_whole_line(t, m, record, step)
    if line == NONE:
        return False
    is_write = of_request and m[request + Request.IS_READ] == 0
    first = line * t[record + CacheSpec.LINE]
    if not look(t, m, tail, cache, first, not is_write, 0):
        m[step + WayStep.MISSED] = 1
        push(t, m, tail, WayStepKind.LOOK, m[step + WayStep.LEVEL], first, 0)
    elif is_write:
        write_parts(t, m, tail, cache, line, m[step + WayStep.TO])
    return True


@jit
def look(t, m, tail, cache, first, is_read, counts):
    """Whether the line at a byte is there, which is noted: with ``counts`` as what else counts as a miss."""
    found = hits(t, m, cache, first // t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.LINE], is_read)
    more = LookFlag.FOUND * int(found) + LookFlag.IS_READ * int(is_read) + counts
    note(t, m, tail, LookOp.LOOK, cache, first, more)
    return found


@jit
def look_again(t, m, request, tail, step, cache):
    """Look for the line of a step, which becomes steps of a miss if it is not there; False: it must wait for that."""
    level, first = m[step + WayStep.LEVEL], m[step + WayStep.FROM]
    line = first // t[t[H.CACHE_TABLE] + cache * CacheSpec.SIZE + CacheSpec.LINE]
    is_write = level == 0 and m[request + Request.IS_READ] == 0
    waits = must_wait(t, m, cache, is_write, step)
    if m[M.REMEMBERS] == 1:
        more = LookFlag.FOUND * int(waits) + LookFlag.FULL * int(lacks_register(t, m, cache, is_write))
        more += LookFlag.AMONG * (m[step + WayStep.AMONG] + 1)
        append(t, m, LookOp.AGAIN, cache, m[tail + Tail.ACCESS], first, more)
    if waits:
        wait_at(m, cache, request)
        return False
    m[tail + Tail.DEPTH] -= 1
    if not look(t, m, tail, cache, first, not is_write, LookFlag.COUNTS):
        miss(t, m, tail, level, cache, first, is_write)
    elif is_write:
        write_parts(t, m, tail, cache, line, m[tail + Tail.LATENCIES + 2 * t[H.LEVELS] + WayStep.TO])
    return True


@jit
def miss(t, m, tail, level, cache, first, is_write):
    """What is to be done, the last first: load the line from behind, in a slot there, take it in, and write."""
    count_miss(m, cache, not is_write)
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    loads = not is_write or t[record + CacheSpec.ALLOCATE] == 1
    comes = NONE
    if is_write:
        comes = push(t, m, tail, WayStepKind.WRITE, level, first, 0)
    if loads:
        comes = push(t, m, tail, WayStepKind.FILL, level, first, 0)
    if loads or t[record + CacheSpec.WRITE_BACK] == 1:
        register(m, cache, comes)
        note(t, m, tail, LookOp.REGISTER, cache, first, 0)
    if loads and t[record + CacheSpec.NEXT] != NONE:
        push(t, m, tail, WayStepKind.READ, level + 1, first, first + t[record + CacheSpec.LINE])
        push(t, m, tail, WayStepKind.SLOT, level, first, 0)
    push(t, m, tail, WayStepKind.WAIT, level, first, 0)
    if loads and t[record + CacheSpec.NEXT] == NONE:
        push(t, m, tail, WayStepKind.SLOT, level, first, 0)


@jit
def come_in(t, m, tail, step, cache):
    """The line of a step comes into a cache, from behind or to be written."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    first = m[step + WayStep.FROM]
    line = first // t[record + CacheSpec.LINE]
    if m[step + WayStep.OP] == WayStepKind.FILL:
        m[m[M.CACHES] + cache * Cache.SIZE + Cache.FROM_BACKING] += t[record + CacheSpec.LINE]
        put(t, m, cache, line, 0)
        note(t, m, tail, LookOp.PUT, cache, first, LookFlag.LOADED)
        note(t, m, tail, LookOp.ARRIVE, cache, first, 0)
        arrive(t, m, cache, step, True)
        return
    write_parts(t, m, tail, cache, line, m[tail + Tail.LATENCIES + 2 * t[H.LEVELS] + WayStep.TO])
    if t[record + CacheSpec.ALLOCATE] == 0 and t[record + CacheSpec.WRITE_BACK] == 1:
        note(t, m, tail, LookOp.ARRIVE, cache, first, 0)
        arrive(t, m, cache, step, False)


@jit
def next_whole_line(t, m, record, step):
    """The next line of a range of bytes, or NONE."""
    if m[step + WayStep.FROM] >= m[step + WayStep.TO]:
        return NONE
    line = m[step + WayStep.FROM] // t[record + CacheSpec.LINE]
    m[step + WayStep.FROM] = (line + 1) * t[record + CacheSpec.LINE]
    return line


@jit
def part(t, m, tail, run):
    """The bytes of a run of an access that a request is for, and that lie in its storage."""
    bank, access = m[tail + Tail.BUFFER_PART], m[tail + Tail.ACCESS]
    first = t[t[access + AccessSpec.RUNS] + 2 * run]
    last = min(first + t[t[access + AccessSpec.RUNS] + 2 * run + 1], m[tail + Tail.HIGH]) + m[tail + Tail.FIRST]
    first = max(first, m[tail + Tail.LOW]) + m[tail + Tail.FIRST]
    size = t[access + AccessSpec.DATA_WIDTH] // 8
    first, last = max(first, t[bank + BufferPart.FIRST]), min(last, t[bank + BufferPart.END])
    return (first + t[bank + BufferPart.BASE]) * size, (last + t[bank + BufferPart.BASE]) * size


@jit
def next_line(t, m, tail, record, step):
    """The next line that a request touches, or NONE; the step remembers the run that it begins with."""
    count, begins = t[m[tail + Tail.ACCESS] + AccessSpec.RUN_COUNT], t[m[tail + Tail.ACCESS] + AccessSpec.RUNS]
    run = m[step + WayStep.TO]
    while run < count and t[begins + 2 * run] < m[tail + Tail.HIGH]:  # runs ascend
        first, last = part(t, m, tail, run)
        first = max(first, m[step + WayStep.FROM])
        if first < last:
            line = first // t[record + CacheSpec.LINE]
            m[step + WayStep.FROM] = (line + 1) * t[record + CacheSpec.LINE]
            m[step + WayStep.TO] = run
            return line
        run += 1
    m[step + WayStep.TO] = run
    return NONE


@jit
def write_parts(t, m, tail, cache, line, run):
    """Write what a request writes into a line, from a run on; or pass it on."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    if t[record + CacheSpec.WRITE_BACK] == 1:
        put(t, m, cache, line, 1)
        note(t, m, tail, LookOp.PUT, cache, line * t[record + CacheSpec.LINE], LookFlag.DIRTY)
        return
    begin = line * t[record + CacheSpec.LINE]
    end = begin + t[record + CacheSpec.LINE]
    while run < t[m[tail + Tail.ACCESS] + AccessSpec.RUN_COUNT]:
        first, last = part(t, m, tail, run)
        first, last = max(first, begin), min(last, end)
        if first < last:
            pass_on(t, m, cache, first, last)
            note(t, m, tail, LookOp.PASS, cache, first, last - first)
        elif first >= end:
            break
        run += 1


# --- DRAM banks ------------------------------------------------------------------------------------------------
@jit
def open_rows(t, m, store, tail, latency, now):
    """When the last word of a request that a DRAM grants now has moved: row by row, bank by bank."""
    dram = t[m[store + state.Store.SPEC] + layout.StoreSpec.STATE]
    record = t[H.DRAM_TABLE] + dram * DramSpec.SIZE
    bank_record, access = m[tail + Tail.BUFFER_PART], m[tail + Tail.ACCESS]
    port = t[m[store + state.Store.SPEC] + layout.StoreSpec.PORT]
    time = finish = now
    bank = row = NONE
    beats = 0
    for run in range(t[access + AccessSpec.RUN_COUNT]):
        word = m[tail + Tail.FIRST] + t[t[access + AccessSpec.RUNS] + 2 * run]
        end = min(word + t[t[access + AccessSpec.RUNS] + 2 * run + 1], t[bank_record + BufferPart.END])
        end += t[bank_record + BufferPart.BASE]
        word = max(word, t[bank_record + BufferPart.FIRST]) + t[bank_record + BufferPart.BASE]
        while word < end:
            other = bank_of(t, record, word)
            start = t[t[record + DramSpec.BANKS] + 2 * other]
            other_row = (word - start) // t[record + DramSpec.ROW_WORDS]
            if other != bank or other_row != row:
                if bank != NONE:
                    time, finish = access_row(t, m, dram, record, bank, row, beats, latency, time, finish)
                bank, row, beats = other, other_row, 0
            stop = min(
                end, start + (row + 1) * t[record + DramSpec.ROW_WORDS], t[t[record + DramSpec.BANKS] + 2 * bank + 1]
            )
            beats += -(-(stop - word) // port)
            word = stop
    time, finish = access_row(t, m, dram, record, bank, row, beats, latency, time, finish)
    return finish


@jit
def bank_of(t, record, word):
    """The bank that holds a word."""
    bank = 0
    while not t[t[record + DramSpec.BANKS] + 2 * bank] <= word < t[t[record + DramSpec.BANKS] + 2 * bank + 1]:
        bank += 1
    return bank


@jit
def access_row(t, m, dram, record, bank, row, beats, latency, time, finish):
    """Move the beats of one segment; returns when the next may begin, and when the last word so far has moved."""
    state = m[M.BANKS] + (t[record + DramSpec.FIRST] + bank) * Bank.SIZE
    counters = m[M.DRAMS] + dram * Dram.SIZE
    time = max(time, m[state + Bank.FREE])
    if m[state + Bank.ROW] == row:
        m[counters + Dram.HITS] += 1
    else:
        if m[state + Bank.ROW] == NONE:
            m[counters + Dram.MISSES] += 1
        else:
            m[counters + Dram.CONFLICTS] += 1
            time = max(time, m[state + Bank.PRECHARGE]) + t[record + DramSpec.RP]
        m[state + Bank.ROW] = row
        m[state + Bank.PRECHARGE] = time + t[record + DramSpec.RAS]
        time += t[record + DramSpec.RCD]
    m[state + Bank.FREE] = time + beats
    return time + beats, max(finish, time + latency + beats - 1)
