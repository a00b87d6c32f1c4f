"""Jitted: walking the loop nest and making instances of its instructions."""

from __future__ import annotations

from acadl_models.timing.engine.jit import jit
from acadl_models.timing.engine.layout import *  # noqa: F403
from acadl_models.timing.engine.memory_layout import *  # noqa: F403


@jit
def value_of(t, m, expression):
    """The value of an affine expression at the present values of loop variables and atoms."""
    values = m[M_VALUES]
    total = t[expression + TX_CONSTANT]
    at = expression + TX_LIST
    for _ in range(t[expression + TX_TERMS]):
        total += m[values + t[at]] * t[at + 1]
        at += 2
    return total


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


@jit
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
def latency_program(t, m, program, words, size):
    """Run the program of a latency."""
    at = program + TC_CODE
    end = at + 2 * t[program + TC_LENGTH]
    top = m[M_STACK] - 1
    while at < end:
        operation, operand = t[at], t[at + 1]
        at += 2
        if operation <= X_BYTES:
            top += 1
            if operation == X_NUMBER:
                m[top] = operand
            elif operation == X_EXPRESSION:
                m[top] = value_of(t, m, operand)
            else:
                m[top] = words if operation == X_WORDS else size
        elif operation == X_JUMP:
            at = program + TC_CODE + 2 * operand
        elif operation == X_JUMP_IF_ZERO:
            top -= 1
            if m[top + 1] == 0:
                at = program + TC_CODE + 2 * operand
        elif operation == X_NOT or operation == X_NEG:
            m[top] = -m[top] if operation == X_NEG else int(m[top] == 0)
        else:
            top -= 1
            if (operation == X_FLOORDIV or operation == X_MOD or operation == X_CDIV) and m[top + 1] == 0:
                return DIVIDES_BY_ZERO
            m[top] = binary(operation, m[top], m[top + 1])
    return m[top]


@jit
def fail(t, m, program, value):
    """Stop the run: a latency has no legal value. Returns one, for the rest of the cycle."""
    if m[M_STATUS] == RUNNING:
        m[M_STATUS] = BAD_LATENCY
        m[M_OBJECT] = t[program + TC_OBJECT]
        m[M_VALUE] = value
    return 1


@jit
def latency_of(t, m, slot, code):
    """A latency of an instance: cycles, or evaluated when the instance was made."""
    if code >= 0:
        return code
    latency = m[slot + t[H_SLOT_LATENCIES] - 1 - code]
    program = t[t[t[H_STATIC_TABLE] + m[slot + I_STATIC] * TI_SIZE + TI_LATENCIES] - 1 - code]
    return latency if latency >= t[program + TC_LEAST] else fail(t, m, program, latency)


@jit
def binary(operation, a, b):
    if operation == X_ADD:
        return a + b
    if operation == X_SUB:
        return a - b
    if operation == X_MUL:
        return a * b
    if operation == X_FLOORDIV:
        return a // b
    if operation == X_MOD:
        return a - (a // b) * b
    if operation == X_CDIV:
        return -(-a // b)
    if operation == X_MIN:
        return min(a, b)
    if operation == X_MAX:
        return max(a, b)
    return compare(operation, a, b)


@jit
def compare(operation, a, b):
    if operation == X_LT:
        return int(a < b)
    if operation == X_LE:
        return int(a <= b)
    if operation == X_GT:
        return int(a > b)
    if operation == X_GE:
        return int(a >= b)
    if operation == X_EQ:
        return int(a == b)
    return int(a != b)


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
    static = t[t[H_PROGRAM] + 2 * m[M_PC] + 1]
    m[slot + I_SEQ] = m[M_SEQ]
    m[M_SEQ] += 1
    m[slot + I_STATIC] = static
    m[slot + I_PHASE] = BUFFERED
    m[slot + I_PENDING] = 0
    m[slot + I_END] = 0
    m[slot + I_LEAVE] = 0
    m[slot + I_LINK] = NONE
    m[slot + I_UNIT] = NONE
    m[slot + I_WAITERS] = NONE
    m[slot + I_OLDER] = m[M_YOUNGEST]
    m[slot + I_YOUNGER] = NONE
    if m[M_YOUNGEST] == NONE:
        m[M_OLDEST] = slot
    else:
        m[m[M_YOUNGEST] + I_YOUNGER] = slot
    m[M_YOUNGEST] = slot
    record = t[H_STATIC_TABLE] + static * TI_SIZE
    enter_accesses(t, m, slot, record)
    make_requests(t, m, slot, record)
    at = slot + t[H_SLOT_LATENCIES]
    for k in range(t[record + TI_LATENCY_COUNT]):
        m[at + k] = latency_program(t, m, t[t[record + TI_LATENCIES] + k], 0, 0)
    return slot


@jit
def enter_accesses(t, m, slot, record):
    """Put the accesses that may conflict into the lists of their class and kind."""
    node = slot + t[H_SLOT_ACCESSES]
    for k in range(t[record + TI_ACCESS_COUNT]):
        access = t[record + TI_ACCESSES] + k * TA_SIZE
        conflict_class = t[access + TA_CLASS]
        if conflict_class != NONE:
            expressions = t[access + TA_EXPRESSIONS]
            for axis in range(t[access + TA_AXES]):
                m[node + A_OFFSETS + axis] = value_of(t, m, t[expressions + axis])
            m[node + A_OWNER] = slot
            m[node + A_ACCESS] = access
            if t[access + TA_KIND] == READ and t[H_READS_HOLD] == READS_NEVER:
                node += t[H_ACCESS_SIZE]
                continue
            ends = m[M_CLASSES] + (3 * conflict_class + t[access + TA_KIND]) * C_SIZE
            m[node + A_OLDER] = m[ends + C_LAST]
            m[node + A_YOUNGER] = NONE
            if m[ends + C_LAST] == NONE:
                m[ends + C_FIRST] = node
            else:
                m[m[ends + C_LAST] + A_YOUNGER] = node
            m[ends + C_LAST] = node
        node += t[H_ACCESS_SIZE]


@jit
def make_requests(t, m, slot, record):
    """The requests of an instance, reads first, each in the order of accesses and banks."""
    count = 0
    for is_read in (1, 0):
        for k in range(t[record + TI_ACCESS_COUNT]):
            access = t[record + TI_ACCESSES] + k * TA_SIZE
            if (t[access + TA_KIND] == READ) != (is_read == 1):
                continue
            if t[access + TA_WORD] == NONE:
                for b in range(t[access + TA_STORE_COUNT]):
                    bank = t[access + TA_STORES] + b * TB_SIZE
                    add_request(t, m, slot, count, access, bank, t[access + TA_WORDS], t[bank + TB_BEATS])
                    count += 1
            else:
                count = split_request(t, m, slot, k, count, access)
        if is_read:
            m[slot + I_READS] = count
    m[slot + I_REQUESTS] = count


@jit
def split_request(t, m, slot, k, count, access):
    """Requests of an access to banks: one for each bank that holds a part."""
    axis = t[access + TA_WORD_AXIS]
    node = slot + t[H_SLOT_ACCESSES] + k * t[H_ACCESS_SIZE]
    first = value_of(t, m, t[access + TA_WORD]) if axis == NONE else m[node + A_OFFSETS + axis]
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
            add_request(t, m, slot, count, access, bank, t[access + TA_WORDS], t[bank + TB_BEATS])
            return count + 1
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
            add_request(t, m, slot, count, access, bank, words, beats)
            count += 1
    return count


@jit
def add_request(t, m, slot, number, access, bank, words, beats):
    request = slot + t[H_SLOT_REQUESTS] + number * R_SIZE
    store = m[M_STORES] + t[bank + TB_STORE] * D_SIZE
    is_read = t[access + TA_KIND] == READ
    size = -(-words * t[access + TA_DATA_WIDTH] // 8)
    latency = t[bank + TB_LATENCY]
    m[request + R_FINISH] = 0
    if latency < 0:
        program = -1 - latency
        latency = latency_program(t, m, program, words, size)
        if latency < t[program + TC_LEAST]:
            m[request + R_TIMER] = latency  # an error only if it is used: see grant()
            latency = -1 - program
    m[request + R_STORE] = store
    m[request + R_BEATS] = beats
    m[request + R_BYTES] = size
    if beats == words and t[access + TA_DATA_WIDTH] & 7 == 0:
        m[request + R_RATE] = t[access + TA_DATA_WIDTH] >> 3
    else:
        m[request + R_RATE] = size if beats == 1 else size // beats
    m[request + R_LATENCY] = latency
    m[request + R_OWNER] = slot
    m[request + R_IS_READ] = is_read
    m[store + D_BEATS] += beats
    if is_read:
        m[store + D_READS] += 1
        m[store + D_BYTES_READ] += size
        m[store + D_WORDS_READ] += words
    else:
        m[store + D_WRITES] += 1
        m[store + D_BYTES_WRITTEN] += size
        m[store + D_WORDS_WRITTEN] += words
    if t[H_TAIL_SIZE] > 0:
        make_tail(t, m, slot, number, access, bank, words, size)


@jit
def make_tail(t, m, slot, number, access, bank, words, size):
    """What a new request needs at memories with state."""
    tail = slot + t[H_SLOT_TAILS] + number * t[H_TAIL_SIZE]
    m[tail + W_BANK], m[tail + W_ACCESS] = bank, access
    m[tail + W_FIRST] = 0 if t[access + TA_PLACE] == NONE else value_of(t, m, t[access + TA_PLACE])
    m[tail + W_ORDER] = m[tail + W_DEPTH] = 0
    way = t[bank + TB_WAY]
    if way != NONE:
        for k in range(2 * t[way]):
            code = t[way + 1 + 3 * (k // 2) + 1 + k % 2]
            m[tail + W_LATENCIES + k] = code if code >= 0 else latency_program(t, m, -1 - code, words, size)
