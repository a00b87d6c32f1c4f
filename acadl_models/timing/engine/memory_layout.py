"""Where memories with state lie in the two arrays of the engine: caches, banks of DRAMs, links (see ``layout``).

What a request to one of them needs beyond :data:`layout.R_SIZE` lies in its *tail*, a record that the instances of a
program have only where the graph has such memories.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.layout import P_SIZE

# --- t: records ------------------------------------------------------------------------------------------------
PLAIN, CACHED, BANKED, INTERLEAVED = range(4)
"""``TM_KIND``: a storage with constant latencies, a cache, a DRAM with open rows, one with channels."""

TK_SETS, TK_WAYS, TK_LINE, TK_POLICY, TK_WRITE_BACK, TK_ALLOCATE, TK_NEXT, TK_SPACE, TK_SEED, TK_SIZE = range(10)
"""Cache: ``LINE`` in bytes, ``NEXT``: number of the cache behind it or NONE, ``SPACE``: number of the memory behind."""

LRU, FIFO, MRU, RANDOM = range(4)

TD_ROW_WORDS, TD_RCD, TD_RP, TD_RAS, TD_BANKS, TD_BANK_COUNT, TD_FIRST, TD_SPACE, TD_BITS, TD_SIZE = range(10)
"""DRAM: ``BANKS``: list of (first word, end); ``FIRST``: number of its first bank; ``BITS`` of a word. Channels are
banks without rows, ``ROW_WORDS`` what lies in one before the next."""

TN_BANDWIDTH, TN_LATENCY, TN_WINDOW, TN_SIZE = range(4)
"""Link."""

# --- m: records ------------------------------------------------------------------------------------------------
(
    CS_READ_HITS, CS_READ_MISSES, CS_WRITE_HITS, CS_WRITE_MISSES, CS_EVICTIONS, CS_WRITE_BACKS,  # counters
    CS_FROM_BACKING, CS_TO_BACKING,  # bytes
    CS_GENERATOR,
    CS_ROTATION,  # by how many sets a period that is skipped moves its lines
    CS_LINES,  # its sets, each a list of ways in the order of replacement: 2 * line + dirty, or NONE
    CS_SIZE,
) = range(12)
"""Cache."""

N_HITS, N_MISSES, N_CONFLICTS, N_SIZE = range(4)
"""DRAM: counters of segments by the state of the row."""

B_ROW, B_PRECHARGE, B_FREE, B_SIZE = range(4)
"""Bank of a DRAM: the open row or NONE, the first cycles in which it may be precharged and in which it is free.
Of a channel the last alone has a meaning."""

LS_FREE, LS_PORTS, LS_BYTES, LS_WAIT, LS_SIZE = 0, 2, 2 + 2 * P_SIZE, 4 + 2 * P_SIZE, 5 + 2 * P_SIZE
"""Link: when the channel of each direction (write, read) is free, a windowed link using the first alone; a P record for
each direction; counters: bytes of each, cycles that requests waited."""

(
    W_BANK, W_ACCESS,  # its records in t
    W_FIRST,  # number of the first word of the access in the buffer
    W_ORDER,  # how many requests had been granted by caches before it
    W_DEPTH,  # steps that are left, on a stack; 0: it is on its way to the end
    W_LATENCIES,  # of hit and miss of the caches on the way, where they vary; then the stack
) = range(6)
"""Tail of a request."""

SP_OP, SP_LEVEL, SP_FROM, SP_TO, SP_MISSED, SP_SIZE = range(6)
"""Step: what is to be done at which cache of the way, bytes, and whether a line of it was missing."""

STEP_LINES, STEP_READ, STEP_FILL, STEP_WRITE = range(4)
"""Look up the lines of the request from the byte ``FROM`` on (``TO``: number of the run), or those of a line that the
cache before it lacks; take the line at ``FROM`` in; write into it."""

STEPS_PER_LEVEL = 4
"""Steps that a cache on the way of a request adds to its stack at most."""

POSTED_PER_LEVEL = 6
"""The same of bytes that are passed on."""

V_OP, V_CACHE, V_FROM, V_TO, V_SIZE = range(5)
"""Step of bytes that are passed on, which takes no time."""

Y_LOW, Y_HIGH, Y_SHIFT, Y_SPACE, Y_BANK, Y_SIZE = range(6)
"""Access below a loop while it is proven that memories behave alike: first and last bit that share a line or a row with
it, bits by which it moves, its memory and its TB record."""
