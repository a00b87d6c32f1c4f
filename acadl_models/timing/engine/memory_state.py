"""What lies in the machine (``m``) of memories with state: caches, banks of DRAMs, and the steps that requests have
before them there (:mod:`.state` has all else)."""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import (
    NONE,
    Record,
    code,
    constant,
    counter,
    derived,
    linked,
    place,
    scratch,
    shaped,
    starting,
    state,
    until,
)


class Cache(Record):
    """Cache."""

    READ_HITS = READ_MISSES = WRITE_HITS = WRITE_MISSES = EVICTIONS = WRITE_BACKS = counter
    FROM_BACKING = TO_BACKING = counter  # bytes
    GENERATOR = place
    WAIT_HEAD = WAIT_TAIL = linked  # requests that wait for a register, linked by Request.LINK
    TAKEN = derived  # registers of lines on their way: the first of REGISTERS
    REGISTERS = constant  # for each the step with which its line comes in
    ROTATION = scratch  # by how many sets a period that is skipped moves its lines
    COMING = scratch  # while one is replayed, how many lines are on their way
    LINES = constant  # its sets, each a list of ways in the order of replacement: 2 * line + dirty, or NONE


class Look(Record):
    """What was asked of a cache (``LookOp``), by which access, from which byte on, and more about it."""

    OP = CACHE = ACCESS = FROM = MORE = scratch


class LookOp(Record):
    """``Look.OP``, and what ``MORE`` is: a look-up (``IS_READ``, ``FOUND``, ``COUNTS``: whether a miss is counted); one
    that asks whether it must wait (``FOUND``: it must, ``FULL``: all registers are taken that it would need one of, and
    times ``AMONG`` one more than where its line stands among those on their way);
    a line that comes in (``DIRTY``, ``LOADED``); bytes that are passed on (how many); a line that is on its way from
    now on; one that has come."""

    LOOK = AGAIN = PUT = PASS = REGISTER = ARRIVE = code


class LookFlag(Record):
    """Of ``Look.MORE``."""

    FOUND, IS_READ, COUNTS, FULL, DIRTY, LOADED, AMONG = 1, 2, 4, 8, 16, 32, 64


MOST_LOOKS = 1 << 19
"""Of what was asked of caches, what is remembered: periods with more than half of that are not replayed. A free
choice."""


class Dram(Record):
    """DRAM: counters of segments by the state of the row."""

    HITS = MISSES = CONFLICTS = counter


class Bank(Record):
    """Bank of a DRAM: the open row or NONE, the first cycles in which it may be precharged and in which it is free.
    Of a channel the last alone has a meaning."""

    ROW = starting(place, NONE)
    PRECHARGE = FREE = until


class Tail(Record):
    """Of a request, where the graph has memories with state; then the latencies of hit and miss of the caches on the
    way, where they vary, and the stack of its ``WayStep`` records."""

    BUFFER_PART = ACCESS = derived  # its records in t
    FIRST = place  # number of the first word of the access in the buffer
    LOW = HIGH = shaped  # its words that the request is for: from LOW on, to before HIGH, counted from FIRST
    RUN = derived  # the first run of the access with such a word
    ORDER = shaped  # how many requests had been granted by caches before it
    DEPTH = shaped  # steps that are left, on a stack; 0: it is on its way to the end
    LATENCIES = state.times(0)


class WayStep(Record):
    """Step: what is to be done at which cache of the way, bytes, and whether a line of it was missing."""

    OP = LEVEL = shaped
    FROM = TO = place
    MISSED = shaped
    AMONG = derived  # of a look-up that waits: where its line stands among those on their way, if it has not moved


class WayStepKind(Record):
    """Look up the lines of the request from the byte ``FROM`` on (``TO``: number of the run), or those of a line that
    the cache before it lacks; take the line at ``FROM`` in; write into it; look for it once more, as it was not there;
    take a slot of the storage behind for it; wait for the latency of a miss."""

    LINES = READ = FILL = WRITE = LOOK = SLOT = WAIT = code


STEPS_PER_LEVEL = 4
"""Steps that a cache on the way of a request adds to its stack at most."""


POSTED_PER_LEVEL = 6
"""The same of bytes that are passed on."""


class Posted(Record):
    """Step of bytes that are passed on, which takes no time."""

    OP = CACHE = FROM = TO = scratch


class Live(Record):
    """Access below a loop while it is proven that memories behave alike: first and last bit that share a line or a row
    with it, bits by which it moves, its memory and its BufferPart record."""

    LOW = HIGH = SHIFT = SPACE = BUFFER_PART = scratch
