"""Jitted: memories whose words are dealt out to channels (``timing.memories.channels`` has the plain model)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import NONE
from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import AccessSpec, BufferPart, DramSpec, H, StoreSpec
from archloom.acadl_models.timing.engine.memory_state import Bank, Tail
from archloom.acadl_models.timing.engine.state import M, Request, Store


@jit
def over_channels(t, m, dram, tail, ready):
    """When the last word of a request has moved whose words can move from ``ready`` on, on each channel by itself."""
    record = t[H.DRAM_TABLE] + dram * DramSpec.SIZE
    count = t[record + DramSpec.BANK_COUNT]
    lanes = lanes_of(t, m, record, tail)
    channel = 0
    if lanes != NONE:
        first = m[tail + Tail.FIRST] + t[m[tail + Tail.BUFFER_PART] + BufferPart.BASE]
        channel = first // t[record + DramSpec.ROW_WORDS] % count
    states = m[M.BANKS] + t[record + DramSpec.FIRST] * Bank.SIZE + Bank.FREE
    finish = ready
    for k in range(count):
        beats = t[lanes + k] if lanes != NONE else beats_on(t, m, record, tail, channel)
        if beats > 0:
            free = states + channel * Bank.SIZE
            end = max(ready, m[free]) + beats
            m[free] = end
            finish = max(finish, end - 1)
        channel = channel + 1 if channel + 1 < count else 0
    return finish


@jit
def lanes_of(t, m, record, tail):
    """The list of the beats of a request on the channels from its first word's on; NONE if they must be counted:
    it begins within what lies in one channel, or is a part of an access."""
    bank, access = m[tail + Tail.BUFFER_PART], m[tail + Tail.ACCESS]
    first = m[tail + Tail.FIRST]
    if first < t[bank + BufferPart.FIRST] or first + t[access + AccessSpec.SPAN] > t[bank + BufferPart.END]:
        return NONE
    begins = (first + t[bank + BufferPart.BASE]) % t[record + DramSpec.ROW_WORDS] == 0
    return t[bank + BufferPart.LANES] if begins else NONE


@jit
def beats_on(t, m, record, tail, channel):
    """Beats of a request on a channel, run by run."""
    bank, access = m[tail + Tail.BUFFER_PART], m[tail + Tail.ACCESS]
    port = t[t[H.STORE_TABLE] + t[bank + BufferPart.STORE] * StoreSpec.SIZE + StoreSpec.PORT]
    run, beats = t[access + AccessSpec.RUNS], 0
    for _ in range(t[access + AccessSpec.RUN_COUNT]):
        begin = m[tail + Tail.FIRST] + t[run]
        end = min(begin + t[run + 1], t[bank + BufferPart.END]) + t[bank + BufferPart.BASE]
        begin = max(begin, t[bank + BufferPart.FIRST]) + t[bank + BufferPart.BASE]
        if begin < end:
            words = words_before(t, record, end, channel) - words_before(t, record, begin, channel)
            beats -= -words * t[record + DramSpec.BANK_COUNT] // port
        run += 2
    return beats


@jit
def words_before(t, record, address, channel):
    """Words of a channel below an address."""
    part = t[record + DramSpec.ROW_WORDS]
    whole = part * t[record + DramSpec.BANK_COUNT]
    return address // whole * part + min(max(address % whole - channel * part, 0), part)


@jit
def count_beats(t, m, request, tail):
    """The beats of a new request, on the channel that it takes for the longest, where its form does not say them."""
    store = m[request + Request.STORE]
    record = t[H.DRAM_TABLE] + t[m[store + Store.SPEC] + StoreSpec.STATE] * DramSpec.SIZE
    if lanes_of(t, m, record, tail) != NONE:
        return
    beats = 0
    for channel in range(t[record + DramSpec.BANK_COUNT]):
        beats = max(beats, beats_on(t, m, record, tail, channel))
    m[store + Store.BEATS] += beats - m[request + Request.BEATS]
    m[request + Request.BEATS] = beats
    m[request + Request.RATE] = m[request + Request.BYTES] // beats
