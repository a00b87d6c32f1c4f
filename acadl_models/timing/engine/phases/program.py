"""Jitted: walking the loop nest and making instances of its instructions."""

from __future__ import annotations

from archloom.acadl_models.timing.engine import layout
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit, jit_inline
from archloom.acadl_models.timing.engine.layout import AccessSpec, AtomSpec, BufferPart, Code, H, Instruction, LoopSpec
from archloom.acadl_models.timing.engine.memory_state import Tail
from archloom.acadl_models.timing.engine.phases.channels import count_beats
from archloom.acadl_models.timing.engine.phases.conflicts import enter_classes
from archloom.acadl_models.timing.engine.phases.reordering import name_registers
from archloom.acadl_models.timing.engine.phases.values import latency_program, stands_for, value_of
from archloom.acadl_models.timing.engine.state import Instance, Loop, LoopEvent, M, Phase, Request, Status, Store


@jit
def set_iteration(t, m, loop, iteration):
    """Enter an iteration: the loop's variable, then every atom that depends on it."""
    record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
    m[m[M.LOOPS] + loop * Loop.SIZE + Loop.ITERATION] = iteration
    values = m[M.VALUES]
    m[values + loop] = t[record + LoopSpec.START] + t[record + LoopSpec.STEP] * iteration
    atoms = t[record + LoopSpec.ATOMS]
    for k in range(t[record + LoopSpec.ATOM_COUNT]):
        value = t[atoms + k]
        atom = t[H.ATOM_TABLE] + (value - t[H.LOOPS]) * AtomSpec.SIZE
        numerator = value_of(t, m, t[atom + AtomSpec.EXPRESSION])
        divisor = t[atom + AtomSpec.DIVISOR]
        quotient = numerator // divisor
        m[values + value] = numerator - quotient * divisor if t[atom + AtomSpec.IS_MODULO] == 1 else quotient


@jit
def note_event(t, m, loop, event, matters):
    """What happened to a loop, for skipping; ``matters``: it is to be looked at in this cycle."""
    if m[M.REMEMBERS] == 0:
        return
    state = m[M.LOOPS] + loop * Loop.SIZE
    if m[state + Loop.EVENT] == 0:
        m[m[M.EVENTS] + m[M.EVENT_COUNT]] = loop
        m[M.EVENT_COUNT] += 1
    m[state + Loop.EVENT] = event
    m[M.EVENT] |= matters


@jit_inline
def advance(t, m):
    """Move the program position to the next instruction, through loop heads and back edges."""
    code = t[H.PROGRAM]
    pc = m[M.PC] + 1
    while True:
        operation, loop = t[code + 2 * pc], t[code + 2 * pc + 1]
        if operation == Code.INSTRUCTION or operation == Code.END:
            break
        state = m[M.LOOPS] + loop * Loop.SIZE
        record = t[H.LOOP_TABLE] + loop * LoopSpec.SIZE
        if operation == Code.LOOP:
            m[state + Loop.ENTRY_SEQ] = m[M.SEQ]
            note_event(t, m, loop, m[state + Loop.EVENT] | LoopEvent.ENTERED, t[record + LoopSpec.WATCHED])
            m[m[M.ITERATED] + t[record + LoopSpec.SITE]] += 1
            set_iteration(t, m, loop, 0)
            pc += 1
        elif m[state + Loop.ITERATION] + 1 < t[record + LoopSpec.EXTENT]:
            note_event(t, m, loop, m[state + Loop.EVENT] | LoopEvent.CROSSED, 1)
            m[M.ITERATIONS] += 1
            m[m[M.ITERATED] + t[record + LoopSpec.SITE]] += 1
            set_iteration(t, m, loop, m[state + Loop.ITERATION] + 1)
            pc = t[record + LoopSpec.BODY]
        else:
            note_event(t, m, loop, LoopEvent.LEFT, t[record + LoopSpec.WATCHED])
            pc += 1
    m[M.PC] = pc


@jit
def take_slot(t, m):
    """A free slot of the pool; ``NONE`` ends the run, which starts again with a larger pool."""
    slot = m[M.FREE]
    if slot != NONE:
        m[M.FREE] = m[slot + Instance.LINK]
        return slot
    if m[M.ACTIVE] == t[H.POOL]:
        m[M.STATUS] = Status.POOL_FULL
        return NONE
    slot = m[M.SLOTS] + m[M.ACTIVE] * t[H.SLOT_SIZE]
    m[M.ACTIVE] += 1
    return slot


@jit_inline
def before_routes(record):
    """The Route record of an instance in the issue buffer: of it only ``NEXT`` is read, and that is ``FIRST``."""
    return record + Instruction.FIRST - layout.Route.NEXT


@jit
def make_instance(t, m):
    """An instance of the instruction at the program position, appended to the program order; returns its slot."""
    slot = take_slot(t, m)
    if slot == NONE:
        return slot
    record = t[t[H.PROGRAM] + 2 * m[M.PC] + 1]
    seq, older = m[M.SEQ], m[M.YOUNGEST]
    m[M.SEQ] = seq + 1
    m[slot + Instance.SEQ] = seq
    m[slot + Instance.STATIC] = record
    m[slot + Instance.PHASE] = Phase.BUFFERED
    m[slot + Instance.PENDING] = 0
    m[slot + Instance.END] = m[slot + Instance.FIRST] = m[slot + Instance.OPEN] = 0
    m[slot + Instance.LEAVE] = 0
    m[slot + Instance.LINK] = NONE
    m[slot + Instance.UNIT] = NONE
    m[slot + Instance.WAITERS] = NONE
    m[slot + Instance.ROUTE] = before_routes(record)
    m[slot + Instance.OLDER] = older
    m[slot + Instance.YOUNGER] = NONE
    m[M.YOUNGEST] = slot
    if older == NONE:
        m[M.OLDEST] = slot
    else:
        m[older + Instance.YOUNGER] = slot
    if m[M.OLDEST_LEFT] == NONE:
        m[M.OLDEST_LEFT] = slot
    if t[record + Instruction.NODE_COUNT] > 0:
        enter_classes(t, m, slot, record)
    if t[record + Instruction.OPERAND_COUNT] > 0:
        name_registers(t, m, slot, record)
    m[slot + Instance.READS] = m[slot + Instance.REQUESTS] = 0
    make_requests(t, m, slot, record)
    at = slot + t[H.SLOT_LATENCIES]
    for k in range(t[record + Instruction.LATENCY_COUNT]):
        m[at + k] = latency_program(t, m, t[t[record + Instruction.LATENCIES] + k], 0, 0)
    return slot


@jit
def make_requests(t, m, slot, record):
    """The requests of an instance, reads first, each in the order of accesses and banks."""
    part = t[record + Instruction.PARTS]
    end = part + t[record + Instruction.PART_COUNT]
    while part < end:
        access = t[part]
        bank = t[access + AccessSpec.STORES]
        first = 0
        if t[access + AccessSpec.WORD] != NONE:
            node = t[access + AccessSpec.WORD_NODE]
            first = value_of(t, m, t[access + AccessSpec.WORD]) if node == NONE else m[slot + node]
            bank = whole_bank(t, access, first)
        if bank != NONE:
            add_whole(t, m, slot, access, bank)
        else:
            split_request(t, m, slot, access, first)
        part += 1


@jit
def whole_bank(t, access, first):
    """The BufferPart of the bank that holds all of an access from ``first`` on; ``NONE`` if it must be searched."""
    shift = t[access + AccessSpec.BANK_SHIFT]
    if shift == NONE or first >> shift >= t[access + AccessSpec.STORE_COUNT]:
        return NONE
    bank = t[access + AccessSpec.STORES] + (first >> shift) * BufferPart.SIZE
    last = first + t[access + AccessSpec.SPAN]
    return bank if t[bank + BufferPart.FIRST] <= first and last <= t[bank + BufferPart.END] else NONE


@jit
def split_request(t, m, slot, access, first):
    """Requests of an access to banks: one for each bank that holds a part."""
    last = first + t[access + AccessSpec.SPAN]
    shift = t[access + AccessSpec.BANK_SHIFT]
    for b in range(first >> shift if shift != NONE else 0, t[access + AccessSpec.STORE_COUNT]):
        bank = t[access + AccessSpec.STORES] + b * BufferPart.SIZE
        low, high = t[bank + BufferPart.FIRST], t[bank + BufferPart.END]
        if last <= low:
            break
        if first >= high:
            continue
        if low <= first and last <= high:
            add_whole(t, m, slot, access, bank)
            return
        if t[bank + BufferPart.LINE] > 0:
            add_lines(t, m, slot, access, bank)
            continue
        if t[bank + BufferPart.BURST] > 1:
            add_bursts(t, m, slot, access, bank)
            continue
        port = t[t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * layout.StoreSpec.SIZE + layout.StoreSpec.PORT]
        words = beats = 0
        run = t[access + AccessSpec.RUNS]
        for _ in range(t[access + AccessSpec.RUN_COUNT]):
            n = min(first + t[run] + t[run + 1], high) - max(first + t[run], low)
            if n > 0:
                words += n
                beats += -(-n // port)
            run += 2
        if words > 0:
            size = -(-words * t[access + AccessSpec.DATA_WIDTH] // 8)
            add_request(t, m, slot, access, bank, words, beats, size, size // beats)


@jit_inline
def add_whole(t, m, slot, access, bank):
    """The request of an access that lies in one bank, or one for each line."""
    if t[bank + BufferPart.LINE] > 0:
        add_lines(t, m, slot, access, bank)
        return
    if t[bank + BufferPart.BURST] > 1:
        add_bursts(t, m, slot, access, bank)
        return
    words = t[access + AccessSpec.WORDS]
    add_request(
        t, m, slot, access, bank, words, t[bank + BufferPart.BEATS], t[bank + BufferPart.BYTES],
        t[bank + BufferPart.RATE],
    )


@jit
def add_bursts(t, m, slot, access, bank):
    """The request of an access for all bursts that its runs touch, as far as these lie in a bank."""
    size, base = t[bank + BufferPart.BURST], t[bank + BufferPart.BASE]
    port = t[t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * layout.StoreSpec.SIZE + layout.StoreSpec.PORT]
    first = value_of(t, m, t[access + AccessSpec.PLACE])
    words = beats = 0
    run = t[access + AccessSpec.RUNS]
    for _ in range(t[access + AccessSpec.RUN_COUNT]):
        low = max(first + t[run], t[bank + BufferPart.FIRST]) + base
        high = min(first + t[run] + t[run + 1], t[bank + BufferPart.END]) + base
        if low < high:
            whole = -(-high // size) * size - low // size * size
            words += whole
            beats += -(-whole // port)
        run += 2
    if words > 0:
        moved = -(-words * t[access + AccessSpec.DATA_WIDTH] // 8)
        add_request(t, m, slot, access, bank, words, beats, moved, moved // beats)


@jit
def add_lines(t, m, slot, access, bank):
    """Requests of an access to a cache, one for each line, as far as it lies in a bank."""
    size, base = t[bank + BufferPart.LINE], t[bank + BufferPart.BASE]
    port = t[t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * layout.StoreSpec.SIZE + layout.StoreSpec.PORT]
    first = value_of(t, m, t[access + AccessSpec.PLACE])
    line, words, beats, begun = NONE, 0, 0, 0
    run = t[access + AccessSpec.RUNS]
    for number in range(t[access + AccessSpec.RUN_COUNT]):
        word = max(first + t[run], t[bank + BufferPart.FIRST])
        end = min(first + t[run] + t[run + 1], t[bank + BufferPart.END])
        while word < end:
            if (word + base) // size != line:
                add_line(t, m, slot, access, bank, first, line, words, beats, begun)
                line, words, beats, begun = (word + base) // size, 0, 0, number
            stop = min(end, (line + 1) * size - base)
            words += stop - word
            beats += -(-(stop - word) // port)
            word = stop
        run += 2
    add_line(t, m, slot, access, bank, first, line, words, beats, begun)


@jit
def add_line(t, m, slot, access, bank, first, line, words, beats, run):
    """The request of an access for a line, of so many words from a run on; for none without words."""
    if words == 0:
        return
    number, size = m[slot + Instance.REQUESTS], -(-words * t[access + AccessSpec.DATA_WIDTH] // 8)
    add_request(t, m, slot, access, bank, words, beats, size, size // beats)
    tail = slot + t[H.SLOT_TAILS] + number * t[H.TAIL_SIZE]
    m[tail + Tail.LOW] = line * t[bank + BufferPart.LINE] - t[bank + BufferPart.BASE] - first
    m[tail + Tail.HIGH] = m[tail + Tail.LOW] + t[bank + BufferPart.LINE]
    m[tail + Tail.RUN] = run


@jit_inline
def add_request(t, m, slot, access, bank, words, beats, size, rate):
    """A request of a new instance; it counts as soon as it is known."""
    number = m[slot + Instance.REQUESTS]
    m[slot + Instance.REQUESTS] = number + 1
    request = slot + t[H.SLOT_REQUESTS] + number * Request.SIZE
    store = m[M.STORES] + t[bank + BufferPart.STORE] * Store.SIZE
    is_read = int(t[access + AccessSpec.KIND] == layout.AccessKind.READ)
    latency = t[bank + BufferPart.LATENCY]
    if latency < 0:
        program = stands_for(latency)
        latency = latency_program(t, m, program, words, size)
        if latency < t[program + layout.LatencySpec.LEAST]:
            m[request + Request.ILLEGAL] = latency  # an error only if it is used: see grant()
            latency = stands_for(program)
    m[request + Request.FINISH] = 0
    m[request + Request.STORE] = store
    m[request + Request.BEATS] = beats
    m[request + Request.BYTES] = size
    m[request + Request.RATE] = rate
    m[request + Request.LATENCY] = latency
    m[request + Request.OWNER] = slot
    m[request + Request.IS_READ] = is_read
    m[slot + Instance.READS] += is_read
    m[store + Store.BEATS] += beats
    counters = store + Store.WRITES - is_read
    m[counters] += 1
    m[counters + Store.BYTES_READ - Store.READS] += size
    m[counters + Store.WORDS_READ - Store.READS] += words
    if t[H.TAIL_SIZE] > 0:
        make_tail(t, m, slot, number, access, bank, words, size)


@jit
def make_tail(t, m, slot, number, access, bank, words, size):
    """What a new request needs at memories with state."""
    tail = slot + t[H.SLOT_TAILS] + number * t[H.TAIL_SIZE]
    m[tail + Tail.BUFFER_PART], m[tail + Tail.ACCESS] = bank, access
    m[tail + Tail.FIRST] = 0 if t[access + AccessSpec.PLACE] == NONE else value_of(t, m, t[access + AccessSpec.PLACE])
    m[tail + Tail.LOW], m[tail + Tail.HIGH] = 0, t[access + AccessSpec.SPAN]
    m[tail + Tail.RUN] = m[tail + Tail.ORDER] = m[tail + Tail.DEPTH] = 0
    if t[bank + BufferPart.LANES] != NONE:
        count_beats(t, m, slot + t[H.SLOT_REQUESTS] + number * Request.SIZE, tail)
    way = t[bank + BufferPart.WAY]
    if way != NONE:
        for k in range(2 * t[way]):
            code = t[way + 1 + 3 * (k // 2) + 1 + k % 2]
            m[tail + Tail.LATENCIES + k] = code if code >= 0 else latency_program(t, m, stands_for(code), words, size)
