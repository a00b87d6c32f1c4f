"""Jitted: what a request meets in a cache, in the banks of a DRAM and on a link (timing.memories has the plain models).

A granted request of a cache goes from look-up to look-up: its steps lie on a stack in its tail, so that it can wait for
a missing line at any cache on its way and go on from there.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.lines import look_up, pass_on, put, put_written
from archloom.acadl_models.timing.engine.phases.transfers import note_level
from archloom.acadl_models.timing.engine.phases.values import fail


# --- tails of requests -----------------------------------------------------------------------------------------
@jit
def tail_of(t, m, request):
    """The tail of a request."""
    owner = m[request + R_OWNER]
    return owner + t[H_SLOT_TAILS] + (request - owner - t[H_SLOT_REQUESTS]) // R_SIZE * t[H_TAIL_SIZE]


@jit
def has_steps(t, m, request):
    """Whether a granted request has to look on in a cache."""
    kind = t[m[m[request + R_STORE] + D_RECORD] + TM_KIND]
    return kind == CACHED and m[tail_of(t, m, request) + W_DEPTH] > 0


@jit
def way_latency(t, m, tail, level, is_miss):
    """The latency of a hit or of a miss in a cache on the way of a request."""
    code = t[t[m[tail + W_BANK] + TB_WAY] + 1 + 3 * level + 1 + is_miss]
    value = m[tail + W_LATENCIES + 2 * level + is_miss]
    if code < 0 and value < t[-1 - code + TC_LEAST]:
        return fail(t, m, -1 - code, value)
    return value


# --- caches ----------------------------------------------------------------------------------------------------
@jit
def begin_lines(t, m, request, tail, now):
    """A cache grants a request; returns the time of its next step, or with no steps left that of its first beat."""
    m[tail + W_ORDER] = m[M_GRANTS]
    m[M_GRANTS] += 1
    push(t, m, tail, STEP_LINES, 0, 0, 0)
    return go_on(t, m, request, tail, now)


@jit
def push(t, m, tail, op, level, first, last):
    step = tail + W_LATENCIES + 2 * t[H_LEVELS] + m[tail + W_DEPTH] * SP_SIZE
    m[step + SP_OP], m[step + SP_LEVEL], m[step + SP_FROM], m[step + SP_TO] = op, level, first, last
    m[step + SP_MISSED] = 0
    m[tail + W_DEPTH] += 1


@jit
def go_on(t, m, request, tail, now):
    """Take steps until one has to wait; returns until when, or with no steps left the time of the first beat."""
    way = t[m[tail + W_BANK] + TB_WAY]
    is_read = m[request + R_IS_READ]
    stack = tail + W_LATENCIES + 2 * t[H_LEVELS]
    while True:
        step = stack + (m[tail + W_DEPTH] - 1) * SP_SIZE
        op, level = m[step + SP_OP], m[step + SP_LEVEL]
        cache = t[way + 1 + 3 * level]
        record = t[H_CACHE_TABLE] + cache * TK_SIZE
        if op <= STEP_READ:
            line = next_line(t, m, tail, record, step) if op == STEP_LINES else next_whole_line(t, m, record, step)
            if line == NONE:
                m[tail + W_DEPTH] -= 1
                waits = m[step + SP_MISSED] == 0 or t[H_HIT_AFTER_MISS] == 1
                if waits or m[tail + W_DEPTH] == 0:
                    return now + way_latency(t, m, tail, level, 0) if waits else now
            elif look_up(t, m, cache, line, op == STEP_READ or is_read == 1):
                if op == STEP_LINES and is_read == 0:
                    write_parts(t, m, tail, cache, line, m[step + SP_TO])
            else:
                m[step + SP_MISSED] = 1
                miss(t, m, tail, level, record, line, op == STEP_LINES and is_read == 0)
                return now + way_latency(t, m, tail, level, 1)
        else:
            m[tail + W_DEPTH] -= 1
            line = m[step + SP_FROM] // t[record + TK_LINE]
            if op == STEP_FILL:
                m[m[M_CACHES] + cache * CS_SIZE + CS_FROM_BACKING] += t[record + TK_LINE]
                put(t, m, cache, line, 0)
            else:
                write_parts(t, m, tail, cache, line, m[stack + SP_TO])


@jit
def miss(t, m, tail, level, record, line, is_write):
    """What is to be done when the latency of a miss is over: load the line through the caches behind, then write."""
    way = t[m[tail + W_BANK] + TB_WAY]
    size = t[record + TK_LINE]
    if is_write:
        push(t, m, tail, STEP_WRITE, level, line * size, 0)
    if not is_write or t[record + TK_ALLOCATE] == 1:
        push(t, m, tail, STEP_FILL, level, line * size, 0)
        if level + 1 < t[way]:
            push(t, m, tail, STEP_READ, level + 1, line * size, (line + 1) * size)


@jit
def next_whole_line(t, m, record, step):
    """The next line of a range of bytes, or NONE."""
    if m[step + SP_FROM] >= m[step + SP_TO]:
        return NONE
    line = m[step + SP_FROM] // t[record + TK_LINE]
    m[step + SP_FROM] = (line + 1) * t[record + TK_LINE]
    return line


@jit
def part(t, m, tail, run):
    """The bytes of a run of a request that lie in its storage."""
    bank, access = m[tail + W_BANK], m[tail + W_ACCESS]
    first = m[tail + W_FIRST] + t[t[access + TA_RUNS] + 2 * run]
    last = first + t[t[access + TA_RUNS] + 2 * run + 1]
    size = t[access + TA_DATA_WIDTH] // 8
    return (max(first, t[bank + TB_FIRST]) + t[bank + TB_BASE]) * size, (
        min(last, t[bank + TB_END]) + t[bank + TB_BASE]
    ) * size


@jit
def next_line(t, m, tail, record, step):
    """The next line that a request touches, or NONE; the step remembers the run that it begins with."""
    count = t[m[tail + W_ACCESS] + TA_RUN_COUNT]
    run = m[step + SP_TO]
    while run < count:
        first, last = part(t, m, tail, run)
        first = max(first, m[step + SP_FROM])
        if first < last:
            line = first // t[record + TK_LINE]
            m[step + SP_FROM] = (line + 1) * t[record + TK_LINE]
            m[step + SP_TO] = run
            return line
        run += 1
    m[step + SP_TO] = run
    return NONE


@jit
def write_parts(t, m, tail, cache, line, run):
    """Write what a request writes into a line, from a run on; or pass it on."""
    record = t[H_CACHE_TABLE] + cache * TK_SIZE
    if t[record + TK_WRITE_BACK] == 1:
        put_written(t, m, cache, line)
        return
    begin = line * t[record + TK_LINE]
    end = begin + t[record + TK_LINE]
    while run < t[m[tail + W_ACCESS] + TA_RUN_COUNT]:
        first, last = part(t, m, tail, run)
        first, last = max(first, begin), min(last, end)
        if first < last:
            pass_on(t, m, cache, first, last)
        elif first >= end:
            break
        run += 1


# --- DRAM banks ------------------------------------------------------------------------------------------------
@jit
def open_rows(t, m, store, tail, latency, now):
    """When the last word of a request that a DRAM grants now has moved: row by row, bank by bank."""
    dram = t[m[store + D_RECORD] + TM_STATE]
    record = t[H_DRAM_TABLE] + dram * TD_SIZE
    bank_record, access = m[tail + W_BANK], m[tail + W_ACCESS]
    port = t[m[store + D_RECORD] + TM_PORT]
    time = finish = now
    bank = row = NONE
    beats = 0
    for run in range(t[access + TA_RUN_COUNT]):
        word = m[tail + W_FIRST] + t[t[access + TA_RUNS] + 2 * run]
        end = min(word + t[t[access + TA_RUNS] + 2 * run + 1], t[bank_record + TB_END]) + t[bank_record + TB_BASE]
        word = max(word, t[bank_record + TB_FIRST]) + t[bank_record + TB_BASE]
        while word < end:
            other = bank_of(t, record, word)
            start = t[t[record + TD_BANKS] + 2 * other]
            other_row = (word - start) // t[record + TD_ROW_WORDS]
            if other != bank or other_row != row:
                if bank != NONE:
                    time, finish = access_row(t, m, dram, record, bank, row, beats, latency, time, finish)
                bank, row, beats = other, other_row, 0
            stop = min(end, start + (row + 1) * t[record + TD_ROW_WORDS], t[t[record + TD_BANKS] + 2 * bank + 1])
            beats += -(-(stop - word) // port)
            word = stop
    time, finish = access_row(t, m, dram, record, bank, row, beats, latency, time, finish)
    return finish


@jit
def bank_of(t, record, word):
    """The bank that holds a word."""
    bank = 0
    while not t[t[record + TD_BANKS] + 2 * bank] <= word < t[t[record + TD_BANKS] + 2 * bank + 1]:
        bank += 1
    return bank


@jit
def access_row(t, m, dram, record, bank, row, beats, latency, time, finish):
    """Move the beats of one segment; returns when the next may begin, and when the last word so far has moved."""
    state = m[M_BANKS] + (t[record + TD_FIRST] + bank) * B_SIZE
    counters = m[M_DRAMS] + dram * N_SIZE
    time = max(time, m[state + B_FREE])
    if m[state + B_ROW] == row:
        m[counters + N_HITS] += 1
    else:
        if m[state + B_ROW] == NONE:
            m[counters + N_MISSES] += 1
        else:
            m[counters + N_CONFLICTS] += 1
            time = max(time, m[state + B_PRECHARGE]) + t[record + TD_RP]
        m[state + B_ROW] = row
        m[state + B_PRECHARGE] = time + t[record + TD_RAS]
        time += t[record + TD_RCD]
    m[state + B_FREE] = time + beats
    return time + beats, max(finish, time + latency + beats - 1)


# --- links -----------------------------------------------------------------------------------------------------
@jit
def link_of(t, m, store, request):
    """The link over which a request comes, or NONE."""
    table = t[m[store + D_RECORD] + TM_LINKS]
    if table == NONE:
        return NONE
    unit = (m[m[request + R_OWNER] + I_UNIT] - m[M_UNITS]) // U_SIZE
    return t[table + 2 * unit + m[request + R_IS_READ]]


@jit
def is_exclusive(t, m, store, request):
    """Whether a request must have its storage to itself."""
    link = link_of(t, m, store, request)
    return link != NONE and t[t[H_LINK_TABLE] + link * TN_SIZE + TN_WINDOW] == 1


@jit
def send(t, m, link, size, is_read, ready):
    """Carry bytes over a link that can go from ``ready`` on; returns when they begin."""
    record = t[H_LINK_TABLE] + link * TN_SIZE
    state = m[M_LINKS] + link * LS_SIZE
    free = state + LS_FREE
    if is_read == 1 and t[record + TN_WINDOW] == 0:
        free += 1
    bandwidth = t[record + TN_BANDWIDTH]
    cycles = -(-size // bandwidth)
    start = max(ready, m[free])
    m[free] = start + cycles
    m[state + LS_WAIT] += start - ready
    m[state + LS_BYTES + is_read] += size
    port = state + LS_PORTS + is_read * P_SIZE
    m[port + P_BUSY] += cycles
    if size >= bandwidth:
        note_level(m, port, bandwidth, size // bandwidth)
    if size % bandwidth > 0:
        note_level(m, port, size % bandwidth, 1)
    return start
