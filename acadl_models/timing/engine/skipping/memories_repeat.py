"""Jitted: the proof that memories with state go on alike, and moving them on.

Between two passes of a loop every access has moved by a distance, and so have the lines in caches and the open rows.
That map of places takes the earlier state to the present one. It also takes every later access of one period to its
counterpart in the next, and everything that happens repeats with it, if

* it keeps lines, rows, sets and banks whole: distances are whole lines and rows, all accesses of a cache move by the
  same number of sets, and those of a DRAM stay in one bank, or begin in the channel in which they began;
* it is one map: what moves by different distances has no line or row in common, neither among what is touched from the
  earlier state on (the *live* places) nor with what caches and rows held then and hold now;
* generators of random choices stand where they stood.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.phases.memories import bank_of, tail_of
from archloom.acadl_models.timing.engine.skipping.memories_state import address_words
from archloom.acadl_models.timing.engine.skipping.moving import shifts_of
from archloom.acadl_models.timing.engine.skipping.ranges import range_of, value_ranges


# --- proof -----------------------------------------------------------------------------------------------------
@jit
def repeatable(t, m, h, record, old, old_end, state, distance, times):
    """How many of the next ``times`` periods are proven to repeat the one since the machine at ``h[old]``."""
    periods = distance // t[record + TL_REPEATS]
    if not addresses_moved(t, m, h, record, periods, old_end):
        return 0
    now = m[state + L_ITERATION]
    if not memories_moved(t, m, h, record, old, periods, now - distance, now):
        return 0
    if memories_moved(t, m, h, record, old, periods, now - distance, now + times * distance):
        return times
    low = 0
    while times - low > 1:
        middle = (low + times) // 2
        if memories_moved(t, m, h, record, old, periods, now - distance, now + middle * distance):
            low = middle
        else:
            times = middle
    return low


@jit
def word_shift(t, record, periods, order):
    """By how many words so many periods of a loop move an access below it."""
    return periods * t[shifts_of(t, record, order) + t[H_MAX_AXES]]


@jit
def is_below(t, record, order):
    first = t[record + TL_FIRST_ACCESS]
    return first <= order < first + t[record + TL_ACCESS_COUNT]


@jit
def addresses_moved(t, m, h, record, periods, old_end):
    """Whether the addresses in flight have moved with their accesses."""
    old = old_end - address_words(t, m)
    slot = m[M_OLDEST]
    while slot != NONE:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            tail = tail_of(t, m, request)
            access = m[tail + W_ACCESS]
            if not is_below(t, record, t[access + TA_ORDER]):
                return False
            shift = word_shift(t, record, periods, t[access + TA_ORDER])
            if t[access + TA_PLACE] != NONE and m[tail + W_FIRST] - h[old] != shift:
                return False
            old += 1
            step = tail + W_LATENCIES + 2 * t[H_LEVELS]
            size = t[access + TA_DATA_WIDTH] // 8
            for _ in range(m[tail + W_DEPTH]):
                to = m[step + SP_TO] if m[step + SP_OP] == STEP_READ else m[step + SP_FROM]
                if m[step + SP_FROM] - h[old] != shift * size or to - h[old + 1] != shift * size:
                    return False
                old += 2
                step += SP_SIZE
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
    return True


@jit
def memories_moved(t, m, h, record, old, periods, begin, end):
    """Whether one map takes accesses, lines and rows of each period to those of the next, up to an iteration."""
    live = live_places(t, m, record, periods, begin, end)
    if live == NONE or not are_apart(t, m, live):
        return False
    for cache in range(t[H_CACHES]):
        rotation = sets_moved(t, m, live, cache)
        if rotation == NONE or not lines_moved(t, m, h, old, live, cache, rotation):
            return False
    if not rows_moved(t, m, h, old, live):
        return False
    for cache in range(t[H_CACHES]):
        m[m[M_CACHES] + cache * CS_SIZE + CS_ROTATION] = sets_moved(t, m, live, cache)
    return True


@jit
def live_places(t, m, record, periods, begin, end):
    """Fill in what each access below a loop touches from the earlier state on; returns how many records, or NONE.

    NONE: an access moves by parts of lines or rows, or from bank to bank.
    """
    value_ranges(t, m, record, begin, end)
    count = 0
    first = t[record + TL_FIRST_ACCESS]
    for order in range(first, first + t[record + TL_ACCESS_COUNT]):
        access = t[t[H_PLACES] + order]
        if t[access + TA_PLACE] == NONE:
            continue
        low, high = range_of(t, m, t[access + TA_PLACE])
        shift = word_shift(t, record, periods, order)
        low, high = with_flight(t, m, access, low, high, shift)
        high += t[access + TA_SPAN] - 1
        bits = t[access + TA_DATA_WIDTH]
        for k in range(t[access + TA_STORE_COUNT]):
            bank = t[access + TA_STORES] + k * TB_SIZE
            space = t[bank + TB_SPACE]
            a, b = max(low, t[bank + TB_FIRST]), min(high, t[bank + TB_END] - 1)
            if space == NONE or a > b:
                continue
            if shift != 0 and not keeps_whole(t, access, bank, space, shift * bits, low, high):
                return NONE
            if t[t[H_STORE_TABLE] + t[bank + TB_STORE] * TM_SIZE + TM_KIND] == INTERLEAVED:
                continue  # what lies in which channel repeats, and channels hold nothing
            place = m[M_RANGES] + count * Y_SIZE
            grain = t[t[H_SPACE_TABLE] + space]
            m[place + Y_LOW] = (a + t[bank + TB_BASE]) * bits - grain + 1
            m[place + Y_HIGH] = (b + 1 + t[bank + TB_BASE]) * bits + grain - 2
            m[place + Y_SHIFT], m[place + Y_SPACE], m[place + Y_BANK] = shift * bits, space, bank
            count += 1
    return count


@jit
def with_flight(t, m, access, low, high, shift):
    """The range of the first words of an access, with those in flight now and at the earlier state."""
    slot = m[M_OLDEST]
    while slot != NONE:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            tail = tail_of(t, m, request)
            if m[tail + W_ACCESS] == access:
                low = min(low, m[tail + W_FIRST], m[tail + W_FIRST] - shift)
                high = max(high, m[tail + W_FIRST], m[tail + W_FIRST] - shift)
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
    return low, high


@jit
def keeps_whole(t, access, bank, space, shift, low, high):
    """Whether an access moves by whole lines and rows, inside of one storage and of one bank of a DRAM."""
    if shift % t[t[H_SPACE_TABLE] + space] != 0 or low < t[bank + TB_FIRST] or high >= t[bank + TB_END]:
        return False
    store = t[H_STORE_TABLE] + t[bank + TB_STORE] * TM_SIZE
    if t[store + TM_KIND] != BANKED:
        return True
    dram = t[H_DRAM_TABLE] + t[store + TM_STATE] * TD_SIZE
    return bank_of(t, dram, low + t[bank + TB_BASE]) == bank_of(t, dram, high + t[bank + TB_BASE])


@jit
def are_apart(t, m, live):
    """Whether accesses that move by different distances have no line and no row in common."""
    for k in range(live):
        a = m[M_RANGES] + k * Y_SIZE
        for j in range(k):
            b = m[M_RANGES] + j * Y_SIZE
            if (
                m[a + Y_SHIFT] != m[b + Y_SHIFT]
                and m[a + Y_SPACE] == m[b + Y_SPACE]
                and m[a + Y_LOW] <= m[b + Y_HIGH]
                and m[b + Y_LOW] <= m[a + Y_HIGH]
            ):
                return False
    return True


@jit
def sets_moved(t, m, live, cache):
    """By how many sets the accesses of a cache move, or NONE where they differ."""
    found = NONE
    record = t[H_CACHE_TABLE] + cache * TK_SIZE
    for k in range(live):
        place = m[M_RANGES] + k * Y_SIZE
        way = t[m[place + Y_BANK] + TB_WAY]
        for level in range(t[way] if way != NONE else 0):
            if t[way + 1 + 3 * level] == cache:
                moved = m[place + Y_SHIFT] // (8 * t[record + TK_LINE]) % t[record + TK_SETS]
                if found != NONE and found != moved:
                    return NONE
                found = moved
    return max(found, 0)


@jit
def is_moved(t, m, live, space, low, size, shift):
    """Whether a place of so many bits, which had moved by ``shift`` from ``low``, fits into the map of the accesses."""
    known = shift == 0
    for k in range(live):
        place = m[M_RANGES] + k * Y_SIZE
        if m[place + Y_SPACE] != space:
            continue
        if m[place + Y_SHIFT] == shift:
            known = True
            continue
        first, last = m[place + Y_LOW], m[place + Y_HIGH]
        if (low <= last and first < low + size) or (low + shift <= last and first < low + shift + size):
            return False
    return known


@jit
def lines_moved(t, m, h, old, live, cache, rotation):
    """Whether the lines of a cache have moved with the accesses, set by set and place by place."""
    record = t[H_CACHE_TABLE] + cache * TK_SIZE
    state = m[M_CACHES] + cache * CS_SIZE
    if m[state + CS_GENERATOR] != h[old + state + CS_GENERATOR]:
        return False
    sets, ways, bits = t[record + TK_SETS], t[record + TK_WAYS], 8 * t[record + TK_LINE]
    lines = m[state + CS_LINES]
    for number in range(sets):
        before, after = lines + number * ways, lines + (number + rotation) % sets * ways
        for k in range(ways):
            a, b = h[old + before + k], m[after + k]
            if a == NONE and b == NONE:
                continue
            if a == NONE or b == NONE or (a ^ b) & 1 == 1:
                return False
            if not is_moved(t, m, live, t[record + TK_SPACE], (a >> 1) * bits, bits, ((b >> 1) - (a >> 1)) * bits):
                return False
    return True


@jit
def rows_moved(t, m, h, old, live):
    """Whether the open rows of all banks have moved with the accesses."""
    for dram in range(t[H_DRAMS]):
        record = t[H_DRAM_TABLE] + dram * TD_SIZE
        size = t[record + TD_ROW_WORDS] * t[record + TD_BITS]
        for k in range(t[record + TD_BANK_COUNT]):
            bank = m[M_BANKS] + (t[record + TD_FIRST] + k) * B_SIZE
            a, b = h[old + bank + B_ROW], m[bank + B_ROW]
            if a == NONE and b == NONE:
                continue
            if a == NONE or b == NONE:
                return False
            low = t[t[record + TD_BANKS] + 2 * k] * t[record + TD_BITS] + a * size
            if not is_moved(t, m, live, t[record + TD_SPACE], low, size, (b - a) * size):
                return False
    return True


# --- skipping --------------------------------------------------------------------------------------------------
@jit
def move_memories(t, m, h, record, old, periods, times):
    """Move addresses in flight, lines and rows on by so many times what ``periods`` of a loop have moved them."""
    move_addresses(t, m, record, times * periods)
    for bank in range(m[M_BANKS], m[M_BANKS] + t[H_BANKS] * B_SIZE, B_SIZE):
        m[bank + B_ROW] += times * (m[bank + B_ROW] - h[old + bank + B_ROW])
    copy = h[HM_MACHINE]
    for cache in range(t[H_CACHES]):
        state, table = m[M_CACHES] + cache * CS_SIZE, t[H_CACHE_TABLE] + cache * TK_SIZE
        sets, ways, lines = t[table + TK_SETS], t[table + TK_WAYS], m[state + CS_LINES]
        rotation = m[state + CS_ROTATION]
        for k in range(lines, lines + sets * ways):
            h[copy + k] = m[k]
        for number in range(sets):
            after = lines + (number + rotation) % sets * ways
            target = lines + (number + rotation + times % sets * rotation) % sets * ways
            for k in range(ways):
                entry = h[copy + after + k]
                m[target + k] = entry + times * (entry - h[old + lines + number * ways + k])


@jit
def move_addresses(t, m, record, periods):
    slot = m[M_OLDEST]
    while slot != NONE:
        request = slot + t[H_SLOT_REQUESTS]
        for _ in range(m[slot + I_REQUESTS]):
            tail = tail_of(t, m, request)
            access = m[tail + W_ACCESS]
            if t[access + TA_PLACE] != NONE:
                shift = word_shift(t, record, periods, t[access + TA_ORDER])
                m[tail + W_FIRST] += shift
                step = tail + W_LATENCIES + 2 * t[H_LEVELS]
                for _ in range(m[tail + W_DEPTH]):
                    m[step + SP_FROM] += shift * (t[access + TA_DATA_WIDTH] // 8)
                    if m[step + SP_OP] == STEP_READ:
                        m[step + SP_TO] += shift * (t[access + TA_DATA_WIDTH] // 8)
                    step += SP_SIZE
            request += R_SIZE
        slot = m[slot + I_YOUNGER]
