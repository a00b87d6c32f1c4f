"""Jitted: walking the loop nest and making instances of its instructions."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.channels import count_beats
from archloom.acadl_models.timing.engine.phases.conflicts import enter_classes
from archloom.acadl_models.timing.engine.phases.values import latency_program, value_of


@jit
def set_iteration(t, m, loop, iteration):
    """Enter an iteration: the loop's variable, then every atom that depends on it."""
    record = t[H_LOOP_TABLE] + loop * TL_SIZE
    m[m[M_LOOPS] + loop * L_SIZE + L_ITERATION] = iteration
    values = m[M_VALUES]
    m[values + loop] = t[record + TL_START] + t[record + TL_STEP] * iteration
    atoms = t[record + TL_ATOMS]
    for k in range(t[record + TL_ATOM_COUNT]):
        value = t[atoms + k]
        atom = t[H_ATOM_TABLE] + (value - t[H_LOOPS]) * TQ_SIZE
        numerator = value_of(t, m, t[atom + TQ_EXPRESSION])
        quotient = numerator // t[atom + TQ_DIVISOR]
        m[values + value] = numerator - quotient * t[atom + TQ_DIVISOR] if t[atom + TQ_IS_MODULO] else quotient


@jit
def note_event(t, m, loop, event, matters):
    """What happened to a loop, for skipping; ``matters``: it is to be looked at in this cycle."""
    if m[M_REMEMBERS] == 0:
        return
    state = m[M_LOOPS] + loop * L_SIZE
    if m[state + L_EVENT] == 0:
        m[m[M_EVENTS] + m[M_EVENT_COUNT]] = loop
        m[M_EVENT_COUNT] += 1
    m[state + L_EVENT] = event
    m[M_EVENT] |= matters


@jit_inline
def advance(t, m):
    """Move the program position to the next instruction, through loop heads and back edges."""
    code = t[H_PROGRAM]
    pc = m[M_PC] + 1
    while True:
        operation, loop = t[code + 2 * pc], t[code + 2 * pc + 1]
        if operation == OP_INSTRUCTION or operation == OP_END:
            break
        state = m[M_LOOPS] + loop * L_SIZE
        record = t[H_LOOP_TABLE] + loop * TL_SIZE
        if operation == OP_LOOP:
            m[state + L_ENTRY_SEQ] = m[M_SEQ]
            note_event(t, m, loop, m[state + L_EVENT] | EVENT_ENTERED, t[record + TL_WATCHED])
            m[m[M_ITERATED] + t[record + TL_SITE]] += 1
            set_iteration(t, m, loop, 0)
            pc += 1
        elif m[state + L_ITERATION] + 1 < t[record + TL_EXTENT]:
            note_event(t, m, loop, m[state + L_EVENT] | EVENT_CROSSED, 1)
            m[M_ITERATIONS] += 1
            m[m[M_ITERATED] + t[record + TL_SITE]] += 1
            set_iteration(t, m, loop, m[state + L_ITERATION] + 1)
            pc = t[record + TL_BODY]
        else:
            note_event(t, m, loop, EVENT_LEFT, t[record + TL_WATCHED])
            pc += 1
    m[M_PC] = pc


@jit
def take_slot(t, m):
    """A free slot of the pool; ``NONE`` ends the run, which starts again with a larger pool."""
    slot = m[M_FREE]
    if slot != NONE:
        m[M_FREE] = m[slot + I_LINK]
        return slot
    if m[M_ACTIVE] == t[H_POOL]:
        m[M_STATUS] = POOL_FULL
        return NONE
    slot = m[M_SLOTS] + m[M_ACTIVE] * t[H_SLOT_SIZE]
    m[M_ACTIVE] += 1
    return slot


@jit
def make_instance(t, m):
    """An instance of the instruction at the program position, appended to the program order; returns its slot."""
    slot = take_slot(t, m)
    if slot == NONE:
        return slot
    record = t[t[H_PROGRAM] + 2 * m[M_PC] + 1]
    seq, older = m[M_SEQ], m[M_YOUNGEST]
    m[M_SEQ] = seq + 1
    m[slot + I_SEQ] = seq
    m[slot + I_STATIC] = record
    m[slot + I_PHASE] = BUFFERED
    m[slot + I_PENDING] = 0
    m[slot + I_END] = 0
    m[slot + I_LEAVE] = 0
    m[slot + I_LINK] = NONE
    m[slot + I_UNIT] = NONE
    m[slot + I_WAITERS] = NONE
    m[slot + I_ROUTE] = record + TI_FIRST - TR_NEXT
    m[slot + I_OLDER] = older
    m[slot + I_YOUNGER] = NONE
    m[M_YOUNGEST] = slot
    if older == NONE:
        m[M_OLDEST] = slot
    else:
        m[older + I_YOUNGER] = slot
    if t[record + TI_NODE_COUNT] > 0:
        enter_classes(t, m, slot, record)
    m[slot + I_READS] = m[slot + I_REQUESTS] = 0
    make_requests(t, m, slot, record)
    at = slot + t[H_SLOT_LATENCIES]
    for k in range(t[record + TI_LATENCY_COUNT]):
        m[at + k] = latency_program(t, m, t[t[record + TI_LATENCIES] + k], 0, 0)
    return slot


@jit
def make_requests(t, m, slot, record):
    """The requests of an instance, reads first, each in the order of accesses and banks."""
    part = t[record + TI_PARTS]
    end = part + t[record + TI_PART_COUNT]
    while part < end:
        access = t[part]
        bank = t[access + TA_STORES]
        first = 0
        if t[access + TA_WORD] != NONE:
            node = t[access + TA_WORD_NODE]
            first = value_of(t, m, t[access + TA_WORD]) if node == NONE else m[slot + node]
            bank = whole_bank(t, access, first)
        if bank != NONE:
            add_whole(t, m, slot, access, bank)
        else:
            split_request(t, m, slot, access, first)
        part += 1


@jit
def whole_bank(t, access, first):
    """The TB record of the bank that holds all of an access from ``first`` on; ``NONE`` if it must be searched."""
    shift = t[access + TA_BANK_SHIFT]
    if shift == NONE or first >> shift >= t[access + TA_STORE_COUNT]:
        return NONE
    bank = t[access + TA_STORES] + (first >> shift) * TB_SIZE
    return bank if t[bank + TB_FIRST] <= first and first + t[access + TA_SPAN] <= t[bank + TB_END] else NONE


@jit
def split_request(t, m, slot, access, first):
    """Requests of an access to banks: one for each bank that holds a part."""
    last = first + t[access + TA_SPAN]
    shift = t[access + TA_BANK_SHIFT]
    for b in range(first >> shift if shift != NONE else 0, t[access + TA_STORE_COUNT]):
        bank = t[access + TA_STORES] + b * TB_SIZE
        low, high = t[bank + TB_FIRST], t[bank + TB_END]
        if last <= low:
            break
        if first >= high:
            continue
        if low <= first and last <= high:
            add_whole(t, m, slot, access, bank)
            return
        port = t[t[H_STORE_TABLE] + t[bank + TB_STORE] * TM_SIZE + TM_PORT]
        words = beats = 0
        run = t[access + TA_RUNS]
        for _ in range(t[access + TA_RUN_COUNT]):
            n = min(first + t[run] + t[run + 1], high) - max(first + t[run], low)
            if n > 0:
                words += n
                beats += -(-n // port)
            run += 2
        if words > 0:
            size = -(-words * t[access + TA_DATA_WIDTH] // 8)
            add_request(t, m, slot, access, bank, words, beats, size, size // beats)


@jit_inline
def add_whole(t, m, slot, access, bank):
    """The request of an access that lies in one bank."""
    words = t[access + TA_WORDS]
    add_request(t, m, slot, access, bank, words, t[bank + TB_BEATS], t[bank + TB_BYTES], t[bank + TB_RATE])


@jit_inline
def add_request(t, m, slot, access, bank, words, beats, size, rate):
    """A request of a new instance; it counts as soon as it is known."""
    number = m[slot + I_REQUESTS]
    m[slot + I_REQUESTS] = number + 1
    request = slot + t[H_SLOT_REQUESTS] + number * R_SIZE
    store = m[M_STORES] + t[bank + TB_STORE] * D_SIZE
    is_read = int(t[access + TA_KIND] == READ)
    latency = t[bank + TB_LATENCY]
    if latency < 0:
        program = -1 - latency
        latency = latency_program(t, m, program, words, size)
        if latency < t[program + TC_LEAST]:
            m[request + R_TIMER] = latency  # an error only if it is used: see grant()
            latency = -1 - program
    m[request + R_FINISH] = 0
    m[request + R_STORE] = store
    m[request + R_BEATS] = beats
    m[request + R_BYTES] = size
    m[request + R_RATE] = rate
    m[request + R_LATENCY] = latency
    m[request + R_OWNER] = slot
    m[request + R_IS_READ] = is_read
    m[slot + I_READS] += is_read
    m[store + D_BEATS] += beats
    counters = store + D_WRITES - is_read
    m[counters] += 1
    m[counters + D_BYTES_READ - D_READS] += size
    m[counters + D_WORDS_READ - D_READS] += words
    if t[H_TAIL_SIZE] > 0:
        make_tail(t, m, slot, number, access, bank, words, size)


@jit
def make_tail(t, m, slot, number, access, bank, words, size):
    """What a new request needs at memories with state."""
    tail = slot + t[H_SLOT_TAILS] + number * t[H_TAIL_SIZE]
    m[tail + W_BANK], m[tail + W_ACCESS] = bank, access
    m[tail + W_FIRST] = 0 if t[access + TA_PLACE] == NONE else value_of(t, m, t[access + TA_PLACE])
    m[tail + W_ORDER] = m[tail + W_DEPTH] = 0
    if t[bank + TB_LANES] != NONE:
        count_beats(t, m, slot + t[H_SLOT_REQUESTS] + number * R_SIZE, tail)
    way = t[bank + TB_WAY]
    if way != NONE:
        for k in range(2 * t[way]):
            code = t[way + 1 + 3 * (k // 2) + 1 + k % 2]
            m[tail + W_LATENCIES + k] = code if code >= 0 else latency_program(t, m, -1 - code, words, size)
