"""Jitted: memories whose words are dealt out to channels (``timing.memories.channels`` has the plain model)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.jit import jit
from archloom.acadl_models.timing.engine.layout import *  # noqa: F403
from archloom.acadl_models.timing.engine.memory_layout import *  # noqa: F403


@jit
def over_channels(t, m, dram, tail, ready):
    """When the last word of a request has moved whose words can move from ``ready`` on, on each channel by itself."""
    record = t[H_DRAM_TABLE] + dram * TD_SIZE
    count = t[record + TD_BANK_COUNT]
    lanes = lanes_of(t, m, record, tail)
    channel = first_address(t, m, tail) // t[record + TD_ROW_WORDS] % count if lanes != NONE else 0
    states = m[M_BANKS] + t[record + TD_FIRST] * B_SIZE + B_FREE
    finish = ready
    for k in range(count):
        beats = t[lanes + k] if lanes != NONE else beats_on(t, m, record, tail, channel)
        if beats > 0:
            free = states + channel * B_SIZE
            end = max(ready, m[free]) + beats
            m[free] = end
            finish = max(finish, end - 1)
        channel = channel + 1 if channel + 1 < count else 0
    return finish


@jit
def lanes_of(t, m, record, tail):
    """The list of the beats of a request on the channels from its first word's on; NONE if they must be counted:
    it begins within what lies in one channel, or is a part of an access."""
    bank, access = m[tail + W_BANK], m[tail + W_ACCESS]
    first = m[tail + W_FIRST]
    if first < t[bank + TB_FIRST] or first + t[access + TA_SPAN] > t[bank + TB_END]:
        return NONE
    return t[bank + TB_LANES] if (first + t[bank + TB_BASE]) % t[record + TD_ROW_WORDS] == 0 else NONE


@jit
def first_address(t, m, tail):
    return m[tail + W_FIRST] + t[m[tail + W_BANK] + TB_BASE]


@jit
def beats_on(t, m, record, tail, channel):
    """Beats of a request on a channel, run by run."""
    bank, access = m[tail + W_BANK], m[tail + W_ACCESS]
    port = t[t[H_STORE_TABLE] + t[bank + TB_STORE] * TM_SIZE + TM_PORT]
    run, beats = t[access + TA_RUNS], 0
    for _ in range(t[access + TA_RUN_COUNT]):
        begin = m[tail + W_FIRST] + t[run]
        end = min(begin + t[run + 1], t[bank + TB_END]) + t[bank + TB_BASE]
        begin = max(begin, t[bank + TB_FIRST]) + t[bank + TB_BASE]
        if begin < end:
            words = words_before(t, record, end, channel) - words_before(t, record, begin, channel)
            beats -= -words * t[record + TD_BANK_COUNT] // port
        run += 2
    return beats


@jit
def words_before(t, record, address, channel):
    """Words of a channel below an address."""
    part = t[record + TD_ROW_WORDS]
    whole = part * t[record + TD_BANK_COUNT]
    return address // whole * part + min(max(address % whole - channel * part, 0), part)


@jit
def count_beats(t, m, request, tail):
    """The beats of a new request, on the channel that it takes for the longest, where its form does not say them."""
    store = m[request + R_STORE]
    record = t[H_DRAM_TABLE] + t[m[store + D_RECORD] + TM_STATE] * TD_SIZE
    if lanes_of(t, m, record, tail) != NONE:
        return
    beats = 0
    for channel in range(t[record + TD_BANK_COUNT]):
        beats = max(beats, beats_on(t, m, record, tail, channel))
    m[store + D_BEATS] += beats - m[request + R_BEATS]
    m[request + R_BEATS] = beats
    m[request + R_RATE] = m[request + R_BYTES] // beats
