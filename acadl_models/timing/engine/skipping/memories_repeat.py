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

from archloom.acadl_models.timing.engine import layout, state
from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, BufferPart, CacheSpec, DramSpec, H, StoreSpec
from archloom.acadl_models.timing.engine.memory_state import Bank, Cache, Live, Tail, WayStep, WayStepKind
from archloom.acadl_models.timing.engine.phases.memories import bank_of, tail_of
from archloom.acadl_models.timing.engine.remembered import Memory
from archloom.acadl_models.timing.engine.skipping.moving import is_below, shifts_of
from archloom.acadl_models.timing.engine.skipping.ranges import range_of, value_ranges
from archloom.acadl_models.timing.engine.state import Instance, Loop, M


# --- proof -----------------------------------------------------------------------------------------------------
@jit
def repeatable(t, m, h, record, old, old_end, state, distance, times):
    """How many of the next ``times`` periods are proven to repeat the one since the machine at ``h[old]``."""
    periods = distance // t[record + layout.LoopSpec.REPEATS]
    if not go_round(t, record, periods) or not addresses_moved(t, m, h, record, periods, old_end):
        return 0
    now = m[state + Loop.ITERATION]
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
def go_round(t, record, periods):
    """Whether all accesses of a cache below a loop move by the same number of its sets."""
    first = t[record + layout.LoopSpec.FIRST_ACCESS]
    for cache in range(t[H.CACHES]):
        spec, found = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE, NONE
        for order in range(first, first + t[record + layout.LoopSpec.ACCESS_COUNT]):
            access = t[H.ACCESS_TABLE] + order * AccessSpec.SIZE
            bits = word_shift(t, record, periods, order) * t[access + AccessSpec.DATA_WIDTH]
            moved = bits // (8 * t[spec + CacheSpec.LINE]) % t[spec + CacheSpec.SETS]
            for k in range(t[access + AccessSpec.STORE_COUNT] if t[access + AccessSpec.PLACE] != NONE else 0):
                if goes_through(t, t[access + AccessSpec.STORES] + k * BufferPart.SIZE, cache):
                    if found != NONE and found != moved:
                        return False
                    found = moved
    return True


@jit
def goes_through(t, bank, cache):
    """Whether a cache is on the way to a part of a buffer."""
    way = t[bank + BufferPart.WAY]
    for level in range(t[way] if way != NONE else 0):
        if t[way + 1 + 3 * level] == cache:
            return True
    return False


@jit
def word_shift(t, record, periods, order):
    """By how many words so many periods of a loop move an access below it."""
    return periods * t[shifts_of(t, record, order) + t[H.MAX_AXES]]


@jit
def addresses_moved(t, m, h, record, periods, old_end):
    """Whether the addresses in flight have moved with their accesses."""
    old = old_end - h[Memory.ADDRESSES]
    slot = m[M.OLDEST]
    while slot != NONE:
        request = slot + t[H.SLOT_REQUESTS]
        for _ in range(m[slot + Instance.REQUESTS]):
            tail = tail_of(t, m, request)
            access = m[tail + Tail.ACCESS]
            if not is_below(t, record, t[access + AccessSpec.ORDER]):
                return False
            shift = word_shift(t, record, periods, t[access + AccessSpec.ORDER])
            if t[access + AccessSpec.PLACE] != NONE and m[tail + Tail.FIRST] - h[old] != shift:
                return False
            old += 1
            step = tail + Tail.LATENCIES + 2 * t[H.LEVELS]
            size = t[access + AccessSpec.DATA_WIDTH] // 8
            for _ in range(m[tail + Tail.DEPTH]):
                to = m[step + WayStep.TO] if m[step + WayStep.OP] == WayStepKind.READ else m[step + WayStep.FROM]
                if m[step + WayStep.FROM] - h[old] != shift * size or to - h[old + 1] != shift * size:
                    return False
                old += 2
                step += WayStep.SIZE
            request += state.Request.SIZE
        slot = m[slot + Instance.YOUNGER]
    return True


@jit
def memories_moved(t, m, h, record, old, periods, begin, end):
    """Whether one map takes accesses, lines and rows of each period to those of the next, up to an iteration."""
    live = live_places(t, m, record, periods, begin, end)
    if live == NONE or not are_apart(t, m, live):
        return False
    for cache in range(t[H.CACHES]):
        rotation = sets_moved(t, m, live, cache)
        if rotation == NONE or not lines_moved(t, m, h, old, live, cache, rotation):
            return False
    if not rows_moved(t, m, h, old, live):
        return False
    for cache in range(t[H.CACHES]):
        m[m[M.CACHES] + cache * Cache.SIZE + Cache.ROTATION] = sets_moved(t, m, live, cache)
    return True


@jit
def live_places(t, m, record, periods, begin, end):
    """Fill in what each access below a loop touches from the earlier state on; returns how many records, or NONE.

    NONE: an access moves by parts of lines or rows, or from bank to bank.
    """
    value_ranges(t, m, record, begin, end)
    count = 0
    first = t[record + layout.LoopSpec.FIRST_ACCESS]
    for order in range(first, first + t[record + layout.LoopSpec.ACCESS_COUNT]):
        access = t[H.ACCESS_TABLE] + order * AccessSpec.SIZE
        if t[access + AccessSpec.PLACE] == NONE:
            continue
        low, high = range_of(t, m, t[access + AccessSpec.PLACE])
        shift = word_shift(t, record, periods, order)
        low, high = with_flight(t, m, access, low, high, shift)
        high += t[access + AccessSpec.SPAN] - 1
        bits = t[access + AccessSpec.DATA_WIDTH]
        for k in range(t[access + AccessSpec.STORE_COUNT]):
            bank = t[access + AccessSpec.STORES] + k * BufferPart.SIZE
            space = t[bank + BufferPart.SPACE]
            a, b = max(low, t[bank + BufferPart.FIRST]), min(high, t[bank + BufferPart.END] - 1)
            if space == NONE or a > b:
                continue
            if shift != 0 and not keeps_whole(t, access, bank, space, shift * bits, low, high):
                return NONE
            store = t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * StoreSpec.SIZE
            kind = t[store + StoreSpec.KIND]
            if kind == layout.StoreKind.INTERLEAVED or kind == layout.StoreKind.PLAIN:
                continue  # what lies in which channel and how in bursts repeats, and neither holds anything
            place = m[M.RANGES] + count * Live.SIZE
            grain = t[t[H.SPACE_TABLE] + space]
            m[place + Live.LOW] = (a + t[bank + BufferPart.BASE]) * bits - grain + 1
            m[place + Live.HIGH] = (b + 1 + t[bank + BufferPart.BASE]) * bits + grain - 2
            m[place + Live.SHIFT], m[place + Live.SPACE], m[place + Live.BUFFER_PART] = shift * bits, space, bank
            count += 1
    return count


@jit
def with_flight(t, m, access, low, high, shift):
    """The range of the first words of an access, with those in flight now and at the earlier state."""
    slot = m[M.OLDEST]
    while slot != NONE:
        request = slot + t[H.SLOT_REQUESTS]
        for _ in range(m[slot + Instance.REQUESTS]):
            tail = tail_of(t, m, request)
            if m[tail + Tail.ACCESS] == access:
                low = min(low, m[tail + Tail.FIRST], m[tail + Tail.FIRST] - shift)
                high = max(high, m[tail + Tail.FIRST], m[tail + Tail.FIRST] - shift)
            request += state.Request.SIZE
        slot = m[slot + Instance.YOUNGER]
    return low, high


@jit
def keeps_whole(t, access, bank, space, shift, low, high):
    """Whether an access moves by whole lines and rows, inside of one storage and of one bank of a DRAM."""
    if shift % t[t[H.SPACE_TABLE] + space] != 0 or not lies_in(t, bank, low, high):
        return False
    store = t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * StoreSpec.SIZE
    if t[store + StoreSpec.KIND] != layout.StoreKind.BANKED:
        return True
    dram = t[H.DRAM_TABLE] + t[store + StoreSpec.STATE] * DramSpec.SIZE
    return bank_of(t, dram, low + t[bank + BufferPart.BASE]) == bank_of(t, dram, high + t[bank + BufferPart.BASE])


@jit
def lies_in(t, bank, low, high):
    """Whether words lie in one part of a buffer."""
    return t[bank + BufferPart.FIRST] <= low and high < t[bank + BufferPart.END]


@jit
def are_apart(t, m, live):
    """Whether accesses that move by different distances have no line and no row in common."""
    for k in range(live):
        a = m[M.RANGES] + k * Live.SIZE
        for j in range(k):
            b = m[M.RANGES] + j * Live.SIZE
            if (
                m[a + Live.SHIFT] != m[b + Live.SHIFT]
                and m[a + Live.SPACE] == m[b + Live.SPACE]
                and m[a + Live.LOW] <= m[b + Live.HIGH]
                and m[b + Live.LOW] <= m[a + Live.HIGH]
            ):
                return False
    return True


@jit
def sets_moved(t, m, live, cache):
    """By how many sets the accesses of a cache move, or NONE where they differ."""
    found = NONE
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    for k in range(live):
        place = m[M.RANGES] + k * Live.SIZE
        if goes_through(t, m[place + Live.BUFFER_PART], cache):
            moved = m[place + Live.SHIFT] // (8 * t[record + CacheSpec.LINE]) % t[record + CacheSpec.SETS]
            if found != NONE and found != moved:
                return NONE
            found = moved
    return max(found, 0)


@jit
def is_moved(t, m, live, space, low, size, shift):
    """Whether a place of so many bits, which had moved by ``shift`` from ``low``, fits into the map of the accesses."""
    known = shift == 0
    for k in range(live):
        place = m[M.RANGES] + k * Live.SIZE
        if m[place + Live.SPACE] != space:
            continue
        if m[place + Live.SHIFT] == shift:
            known = True
            continue
        first, last = m[place + Live.LOW], m[place + Live.HIGH]
        if (low <= last and first < low + size) or (low + shift <= last and first < low + shift + size):
            return False
    return known


@jit
def lines_moved(t, m, h, old, live, cache, rotation):
    """Whether the lines of a cache have moved with the accesses, set by set and place by place."""
    record = t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
    state = m[M.CACHES] + cache * Cache.SIZE
    if m[state + Cache.GENERATOR] != h[old + state + Cache.GENERATOR]:
        return False
    sets, ways, bits = t[record + CacheSpec.SETS], t[record + CacheSpec.WAYS], 8 * t[record + CacheSpec.LINE]
    lines = m[state + Cache.LINES]
    for number in range(sets):
        before, after = lines + number * ways, lines + (number + rotation) % sets * ways
        for k in range(ways):
            a, b = h[old + before + k], m[after + k]
            if a == NONE and b == NONE:
                continue
            if a == NONE or b == NONE or (a ^ b) & 1 == 1:
                return False
            shift = ((b >> 1) - (a >> 1)) * bits
            if not is_moved(t, m, live, t[record + CacheSpec.SPACE], (a >> 1) * bits, bits, shift):
                return False
    return True


@jit
def rows_moved(t, m, h, old, live):
    """Whether the open rows of all banks have moved with the accesses."""
    for dram in range(t[H.DRAMS]):
        record = t[H.DRAM_TABLE] + dram * DramSpec.SIZE
        size = t[record + DramSpec.ROW_WORDS] * t[record + DramSpec.BITS]
        for k in range(t[record + DramSpec.BANK_COUNT]):
            bank = m[M.BANKS] + (t[record + DramSpec.FIRST] + k) * Bank.SIZE
            a, b = h[old + bank + Bank.ROW], m[bank + Bank.ROW]
            if a == NONE and b == NONE:
                continue
            if a == NONE or b == NONE:
                return False
            low = t[t[record + DramSpec.BANKS] + 2 * k] * t[record + DramSpec.BITS] + a * size
            if not is_moved(t, m, live, t[record + DramSpec.SPACE], low, size, (b - a) * size):
                return False
    return True


# --- skipping --------------------------------------------------------------------------------------------------
@jit
def move_memories(t, m, h, record, old, periods, times):
    """Move addresses in flight, lines and rows on by so many times what ``periods`` of a loop have moved them."""
    move_addresses(t, m, record, times * periods)
    for bank in range(m[M.BANKS], m[M.BANKS] + t[H.BANKS] * Bank.SIZE, Bank.SIZE):
        m[bank + Bank.ROW] += times * (m[bank + Bank.ROW] - h[old + bank + Bank.ROW])
    copy = h[Memory.MACHINE]
    for cache in range(t[H.CACHES]):
        state, table = m[M.CACHES] + cache * Cache.SIZE, t[H.CACHE_TABLE] + cache * CacheSpec.SIZE
        sets, ways, lines = t[table + CacheSpec.SETS], t[table + CacheSpec.WAYS], m[state + Cache.LINES]
        rotation = m[state + Cache.ROTATION]
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
    """Move addresses in flight on with their accesses, by whole lines and rows: those that are left out of parts of
    them, where a loop is taken in proportion, decide nothing but where in its lines a request begins."""
    slot = m[M.OLDEST]
    while slot != NONE:
        request = slot + t[H.SLOT_REQUESTS]
        for _ in range(m[slot + Instance.REQUESTS]):
            tail = tail_of(t, m, request)
            access = m[tail + Tail.ACCESS]
            if t[access + AccessSpec.PLACE] != NONE:
                shift = word_shift(t, record, periods, t[access + AccessSpec.ORDER])
                shift = whole_shift(t, m[tail + Tail.BUFFER_PART], shift, t[access + AccessSpec.DATA_WIDTH])
                m[tail + Tail.FIRST] += shift
                step = tail + Tail.LATENCIES + 2 * t[H.LEVELS]
                for _ in range(m[tail + Tail.DEPTH]):
                    m[step + WayStep.FROM] += shift * (t[access + AccessSpec.DATA_WIDTH] // 8)
                    if m[step + WayStep.OP] == WayStepKind.READ:
                        m[step + WayStep.TO] += shift * (t[access + AccessSpec.DATA_WIDTH] // 8)
                    step += WayStep.SIZE
            request += state.Request.SIZE
        slot = m[slot + Instance.YOUNGER]


@jit
def whole_shift(t, bank, shift, width):
    """The words of the whole lines and rows in a shift of words of so many bits, towards where they came from."""
    space = t[bank + BufferPart.SPACE]
    if space == NONE:
        return shift
    grain = t[t[H.SPACE_TABLE] + space]
    return shift - shift * width % grain // width if shift > 0 else shift + -shift * width % grain // width
