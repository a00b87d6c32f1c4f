"""What lies where in the machine (``m``), the whole mutable state of a run: its records, but for those of memories with
state (:mod:`.memory_state`).

Every field of the machine is declared once, with its kind (:mod:`.fields`). What is done with a field when periods
are skipped follows from its kind. Which records lie in ``m`` is in :mod:`.machine_parts`; the header ``M`` lies at
position 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.timing.engine.fields import (
    FOREVER,
    NONE,
    Record,
    arrival,
    code,
    constant,
    control,
    counter,
    derived,
    effort,
    linked,
    peak,
    place,
    records,
    scratch,
    sequence,
    shaped,
    starting,
    state,
    time,
    until,
)

Array = NDArray[np.int64]


# --- m: records of the machine ---------------------------------------------------------------------------------
WHEEL = 256
"""Cycles that the timing wheel spans."""

MOST_IN_FLIGHT = 1 << 30
"""More instances than any machine holds at once."""


class M(Record):
    """Header of the machine; the positions of its parts are those of ``PARTS``."""

    HEADER = constant  # 0: where the header itself lies, as a part
    TIME = time
    STATUS = control
    REMEMBERS = constant  # loop events are noted
    EVENT = scratch  # a watched loop was entered or left, or a back edge was passed, in this cycle
    EVENT_COUNT = scratch  # loops in EVENTS
    OBJECT = VALUE = control  # what an error is about
    PC = state
    FETCHING = state  # fetches under way
    FETCH_FIRST = FETCH_NEXT = derived  # the record of the first that ends, that of the next; the order alone matters
    FETCH_END = starting(time, FOREVER)  # when the first fetch ends
    ROOM = derived  # free places of the issue buffer: neither taken nor reserved for a fetch under way
    MARKED = shaped  # stages that may take something: a bit for each, or in wide machines how many
    WIDE = constant
    AGAIN = state  # another fetch may start in the next cycle, or more commit, or are decoded
    UNDECODED = state  # instances in the issue buffer that are not offered yet
    DECODING = linked  # the oldest of them
    LEFT = counter  # instances not yet asked for by a fetch
    ISSUED = derived  # instances in the issue buffer that are offered
    ISSUED_FIRST = derived  # the oldest of them, where they leave in order
    SEQ = sequence
    FREE = linked  # free slots
    OLDEST = YOUNGEST = linked  # instances in program order
    OLDEST_LEFT = linked  # the oldest of them that is not done: before it are those whose requests are left alone
    LINGERING = derived  # how many there are of these
    HUNGRY = derived  # whether the issue buffer is empty although instructions are left
    HUNGRY_SINCE = time
    FRONT = derived  # the loop of the text with the oldest instruction that is not finished
    FRONT_SINCE = time
    ACTIVE = derived  # first slot never used so far
    FINISHED = counter  # or, with a reorder buffer, committed
    FETCHED = FETCHES = FETCH_BUSY = STARVED = counter  # BUSY: cycles with a fetch under way
    LAST_FETCH = time  # end of the last fetch
    LATEST = time  # of the last completion
    CHANGED = time  # of the last change of anything
    STEPPED = effort  # instances that were simulated one by one
    ITERATIONS = effort  # back edges that were passed one by one
    SKIPS = effort
    BASE = time  # the time at place 0 of the wheel
    HORIZON = starting(time, WHEEL)  # timers before it are on the wheel
    PAUSE = starting(control, FOREVER)  # the run stops before this cycle, and may be resumed
    MOST_STEPPED = starting(effort, FOREVER)  # the same when so many were simulated one by one
    LOGGING = LOGGED = control  # whether a log is written, its records
    LOG_ROOM = starting(control, FOREVER)  # how many of them make the run stop
    BITS = derived.times(WHEEL // 64)  # places of the wheel that are taken
    FAR = linked  # timers from the horizon on
    FAR_TIME = starting(time, FOREVER)  # the earliest time among them
    ORIGIN = scratch  # a sequence number before those of all instances in flight
    MOVERS = FREES = TO_JUDGE = STEPS = scratch  # how many are in MOVING, FREED, JUDGED, STEPPING
    LISTS = constant.times(8)  # where in FIELDS each Group begins, and where the last one ends
    WOKEN = WOKEN_LAST = linked  # requests that look again in this cycle, linked by Request.LINK
    GRANTS = derived  # requests granted by caches so far: of it, what came after a request that looks on matters
    PROPORTION = control  # a Proportion: whether what takes long is taken in proportion, and whether anything was
    WHOLE = BEGIN = PART = SEEN = PARTS = LATE = control  # what is long (result.Patience)
    LOOKED = effort  # what was asked of caches so far: the last of it is in LOOKS
    LOOKS_SINCE = effort  # from which on nothing is missing there
    ASKED = effort  # how much of it was asked of later periods, without stepping any
    # where the parts lie, as PARTS has them
    STAGES = UNITS = STORES = LOOPS = SPENT = ITERATED = constant
    CACHES = CACHE_LINES = EXPECTED = DRAMS = BANKS = LINKS = constant
    REST = constant  # with the header all before this is kept of the begin of a period
    FLIGHTS = REGISTERS = VALUES = EVENTS = CLASSES = FILES = NAMES = QUEUES = constant
    WHEEL = MARKS = SUMMARY = SLOTS = constant
    FIELDS = STACK = WORK = MOVING = JUDGED = FREED = STEPPING = POSTED = RANGES = constant
    LOW = HIGH = DISTANCES = KNOWN = DISTANCE = constant
    LOOKS = LOG = constant


class Status(Record):
    """``M.STATUS``."""

    RUNNING = DONE = DEADLOCK = POOL_FULL = BAD_LATENCY = PAUSED = code


class Proportion(Record):
    """``M.PROPORTION``."""

    NEVER = ALLOWED = TAKEN = code


class Skip(Record):
    """Why periods may be skipped: they are proven to repeat, caches were asked, or the rest is taken to be alike."""

    PROVEN = REPLAYED = IN_PROPORTION = code


NO_DIVISOR = -(1 << 62)
"""Stands for the value of a latency that divides by a number that is not positive."""


class Loop(Record):
    """Loop: iteration number, sequence number at its entry, what happened to it in this cycle (``LoopEvent``)."""

    ITERATION = ENTRY_SEQ = place
    EVENT = scratch


class LoopEvent(Record):
    """Flags of ``Loop.EVENT``."""

    ENTERED, CROSSED, LEFT = 1, 2, 4


class Flight(Record):
    """Fetch under way: its end, instances that it brings."""

    END = time
    COUNT = shaped


class Queue(Record):
    """Issue buffer: one list for each signature, linked by ``Instance.LINK``."""

    HEAD = TAIL = linked


class Stage(Record):
    """Stage."""

    DUE = time  # from when on its head may leave (a timer)
    TIMER = linked
    SPEC = NUMBER = constant
    UNREADY = derived  # how many of its units are not ready
    COUNT = derived
    HEAD = TAIL = linked  # instances linked by Instance.LINK
    OFFERS = derived  # whether its head may leave
    SINCE = time  # up to when it is counted what the stage does
    STALL = BUSY = HELD = counter  # cycles in which its head could leave, in which it could not yet, instances held


class Unit(Record):
    """Unit."""

    READY = until  # start of the last instance plus interval (a timer)
    TIMER = linked
    SPEC = constant
    STAGE = constant  # the stage that contains it
    WAITING = linked  # the instance that waits for its dependences
    SCAN = derived  # how far its conflicts are judged: the CheckSpec record
    LIST = derived  # which of the lists there
    JUDGED = sequence  # the sequence number in it
    NEXT = linked  # the next unit that waits for the same instance
    COUNT = derived  # instances inside
    LAST = starting(sequence, NONE)  # the last one that started
    UNGRANTED = state  # its read requests without a slot
    QUEUED = derived  # requests of all instances inside without a slot
    DOING = derived  # the counter of what it does
    SINCE = time  # from when on that is not counted
    FED = derived  # M.STARVED at that time
    TAKEN = IDLE = STARVED = BUSY = DEPENDENCY = STORAGE = counter


class Port(Record):
    """What one direction of a storage carries: bytes in a cycle at present, and since when; the most so far, and in how
    many cycles; cycles in which it carries anything."""

    LEVEL = derived
    SINCE = time
    PEAK = PEAK_CYCLES = BUSY = peak


class Store(Record):
    """Storage; its counters."""

    SPEC = constant
    ACTIVE = derived  # requests with a slot
    QUEUED = derived  # requests that wait
    QUEUE_HEAD = QUEUE_TAIL = linked  # linked by Request.LINK
    FREED = scratch  # a slot was freed in this cycle
    PORT_FREE = arrival
    EXCLUSIVE = state  # a request over a windowed link has it to itself
    SINCE = time  # up to when QUEUE_CYCLES is complete
    PORTS = records(Port, 2)  # writes, reads
    READS = WRITES = BYTES_READ = BYTES_WRITTEN = WORDS_READ = WORDS_WRITTEN = BEATS = QUEUE_CYCLES = counter


class Link(Record):
    """Link: when the channel of each direction (write, read) is free, a windowed link using the first alone; what each
    carries; counters: bytes of each, cycles that requests waited."""

    FREE = arrival.times(2)
    PORTS = records(Port, 2)
    BYTES = counter.times(2)
    WAIT = counter


class Instance(Record):
    """Instance of an instruction; then its accesses, its operands, its requests, its latencies that vary and the tails
    of the requests."""

    END = until  # of processing (a timer)
    TIMER = linked
    SEQ = sequence
    STATIC = PHASE = PENDING = state
    LEAVE = until
    LINK = OLDER = YOUNGER = linked
    UNIT = state
    FIRST = until  # where it streams: when its first result is there at the earliest; END says so of the last
    OPEN = derived  # the same: its reads whose end is not known
    ROUTE = derived  # its Route record in the stage where it is; in the issue buffer see phases.program.before_routes
    WAITERS = linked  # units whose instances wait for this one, linked by Unit.NEXT
    READS = REQUESTS = derived
    ORDINAL = scratch


class Phase(Record):
    """``Instance.PHASE``."""

    BUFFERED = WAITING = READING = PROCESSING = WRITING = FINISHED = code
    LINGERING = code  # done, but for requests that nobody waits for


class Request(Record):
    """Request of an instance; reads come first. ``FINISH`` is FOREVER while it waits for a slot or a register.
    ``RATE``: whole bytes in each of its beats. Where ``LATENCY`` is no legal value (below zero: ``-1 -`` the position
    of its program), ``ILLEGAL`` has what it came to. ``EDGE``: when it next begins to carry more or fewer bytes in a
    cycle (a timer). ``SENT``: when its link begins to carry it, and the cycles that it waited for that."""

    FINISH = until
    TIMER = linked
    STORE = BEATS = BYTES = LATENCY = state
    LINK = linked
    OWNER = IS_READ = derived
    EDGE = time
    EDGE_TIMER = linked
    SENT = time
    SEND_WAIT = RATE = ILLEGAL = derived


class Tag(Record):
    """What a timer is about. Lists of timers hold ``8 * position of the record + tag``; the record begins with the time
    and the link of its timer."""

    STAGE = UNIT = REQUEST = INSTANCE = EDGE = code


class Access(Record):
    """Access of an instance: links in its conflict class and kind, and the Ends of that list, or NONE where it is in
    none; then one offset for each axis, room for one at least: places."""

    OLDER = YOUNGER = ENDS = linked
    OWNER = ACCESS = derived
    OFFSETS = place.times(0)


class Operand(Record):
    """Renamed register that an instance names: OperandKind; the Name record; the last instance before that wrote it or
    accumulated into it, if that was in flight, and its operand; where the free registers of its file are counted, of
    which it takes one, or NONE."""

    KIND = FILE = state
    NAME = derived
    FROM = ENTRY = linked


class Name(Record):
    """Renamed register: the last instance in flight that writes it or accumulates into it, and its operand."""

    OWNER = ENTRY = linked


class Ends(Record):
    """Ends of a list of accesses of one conflict class and one kind, and where there are many of one part of a buffer.
    """

    FIRST = LAST = linked


class Log(Record):
    """Record of the log: what happened when to which instance in which object (its number), and more about it."""

    KIND = TIME = OBJECT = SEQ = A = B = C = control


class Logged(Record):
    """``Log.KIND``, and what ``A``, ``B`` and ``C`` are."""

    FETCH = code  # a fetch begins: its end, instances
    FETCHED = code
    ENTERED = code  # a stage buffers an instance: until when at least
    RECEIVED = STARTED = PROCESSING = WRITING = FINISHED = code  # steps in a unit
    QUEUED = GRANTED = TRANSFER = code  # of a request: its number, finish, and bytes * BEATS_ROOM + 2 * beats + is_read
    CARRIED = code  # by a link: cycles waited, begin, and bytes * BEATS_ROOM + 2 * bandwidth + is_read


BEATS_ROOM = 1 << 31
