"""Where things lie in the two integer arrays of the engine.

``t`` (tables) never changes during a run; ``m`` (machine) is its whole mutable state. Both are flat ``int64`` arrays:
jitted functions then pass two pointers instead of dozens, snapshots are slices, and compiling stays short. A record is
addressed by the position of its first field, so ``m[unit + U_READY]`` is the field ``ready`` of the unit at ``unit``.
"""

from __future__ import annotations

FOREVER = 1 << 62
"""A time that never comes."""

NONE = -1
"""No record: the end of a list, a missing link."""

# --- t: header -------------------------------------------------------------------------------------------------
(
    H_STAGES, H_STAGE_TABLE,  # number of stages, in the order of forwarding, and their records
    H_UNITS, H_UNIT_TABLE,
    H_STORES, H_STORE_TABLE,
    H_STATICS, H_STATIC_TABLE,  # instructions of the program text
    H_LOOPS, H_LOOP_TABLE,
    H_VALUES, H_ATOM_TABLE,  # values: loop variables first, then floor divisions and modulos (atoms)
    H_CLASSES,  # conflict classes: accesses of different classes never meet
    H_SIGNATURES, H_SIGNATURE_TABLE,  # sets of stages to which the fetch stage may pass an instruction
    H_OFFERS,  # the same by stage: TO records
    H_PROGRAM,  # code of the loop nest
    H_FETCH_WIDTH, H_FETCH_LATENCY, H_FETCH_FLIGHTS, H_ISSUE_SIZE,
    H_IN_ORDER, H_LATENCY_ADDED, H_EDGE_ORDER, H_READS_HOLD,  # parameters of the semantics (acadl.semantics)
    H_HISTORIES,  # loops that may repeat
    H_SITES,  # loops of the stream's text
    H_ACCESSES, H_PLACES,  # number of accesses and their records, by order
    H_TOTAL,  # instruction instances in the whole run
    H_MAX_ACCESSES, H_MAX_AXES, H_MAX_REQUESTS, H_MAX_LATENCIES,  # sizes of the parts of an instance
    H_SLOT_SIZE, H_SLOT_REQUESTS, H_SLOT_ACCESSES, H_ACCESS_SIZE, H_SLOT_LATENCIES,  # an instance and its parts
    H_POOL,  # instances that fit into the machine at once
    H_CACHES, H_CACHE_TABLE, H_DRAMS, H_DRAM_TABLE, H_LINKS, H_LINK_TABLE,  # memory_layout
    H_SPACES, H_SPACE_TABLE,  # address spaces (memories): bits of which lines and rows before them are whole parts
    H_LEVELS, H_HIT_AFTER_MISS, H_SLOT_TAILS, H_TAIL_SIZE, H_BANKS,
    H_PLACED,  # accesses with a place in such memories
    H_SIZE,
) = range(55)

# --- t: records ------------------------------------------------------------------------------------------------
(
    TS_DEPTH,
    TS_SENDERS, TS_SENDER_COUNT,  # in the order of the edges; FETCH stands for the fetch stage
    TS_RECEIVERS, TS_RECEIVER_COUNT,
    TS_SIZE,
) = range(6)
"""Stage; lists of numbers."""

TO_SIGNATURES, TO_SIGNATURE_COUNT, TO_ONLY, TO_SIZE = range(4)
"""What the fetch stage may pass to a stage: list of signatures; the only one, or NONE."""

FETCH = -1
"""Number of the fetch stage among senders."""

TU_CAPACITY, TU_PIPELINED, TU_STAGE, TU_SIZE = range(4)
"""Unit. ``PIPELINED``: it has an ``interval``; the stage that contains it."""

TG_RECEIVERS, TG_RECEIVER_COUNT, TG_SIZE = range(3)
"""Signature: numbers of stages."""

TR_NEXT, TR_STAGE, TR_UNIT, TR_HELD, TR_LATENCY, TR_INTERVAL, TR_SIZE = range(7)
"""An instruction in a stage: its record in the next stage, or NONE if there is no next one or more than one; the unit
that takes it or NONE, the latency of the stage, those of the unit. A latency is cycles, or below zero ``-1 -`` its
number among those that vary along loops."""


TM_CAPACITY, TM_PORT, TM_SHARED, TM_SERIAL, TM_KIND, TM_STATE, TM_LINKS, TM_SIMPLE, TM_SIZE = range(9)
"""Storage: most requests at once, words per beat, one port for all requests, no two requests carry words at once; the
kind of its state and its number among those of its kind (memory_layout); table of the link for each unit and direction,
or NONE; whether it has neither state nor links."""

(
    TI_LOOP,  # the innermost loop around it or NONE
    TI_SIGNATURE,
    TI_ROUTES, TI_ROUTE_COUNT,  # TR records of the stages into which it may come, by ascending stage
    TI_ACCESSES, TI_ACCESS_COUNT,
    TI_LATENCIES, TI_LATENCY_COUNT,  # programs of the latencies that vary along loops
    TI_SITE,  # the loop of the text around it; their number if there is none
    TI_FIRST,  # its record in the stage to which the fetch stage passes it, or NONE if there are more than one
    TI_NODES, TI_NODE_COUNT,  # TE records: its accesses that may conflict
    TI_CHECKS, TI_CHECK_COUNT,  # TV records: the lists in which it may meet anything
    TI_PARTS, TI_PART_COUNT,  # records of its accesses to storages, reads first
    TI_SIZE,
) = range(17)
"""Instruction of the program text."""

TE_NODE, TE_ACCESS, TE_ENDS, TE_SIZE = range(4)
"""Access that may conflict: where it lies in an instance, its TA record, and the C record, counted from the first, of
the list that it enters, or NONE if it enters none."""

TV_ENDS, TV_NODE, TV_MET, TV_REACH, TV_SIZE = range(5)
"""List that is searched for conflicts: its C record, counted from the first; where the access lies in the instance that
is judged, its ``TA_MET`` and ``TA_REACH``."""

(
    TA_KIND,  # READ, WRITE or ACCUMULATE
    TA_CLASS,  # conflict class or NONE
    TA_MET, TA_RANK,  # which of its class, by rank, it can meet at all (NONE: any), and its own rank
    TA_AXES,  # number of axes that decide about conflicts
    TA_EXPRESSIONS,  # list of expressions, one for each such axis
    TA_PATTERNS,  # list of patterns, one for each such axis; then the span of each
    TA_DENSE,  # all of them are dense
    TA_REACH,  # span along the first such axis, or FOREVER
    TA_STORES,  # list of TB records: one, or the banks
    TA_STORE_COUNT,
    TA_WORD,  # expression of the first word, or NONE where one storage holds the whole buffer
    TA_WORD_NODE,  # where in an instance the offset of a deciding axis has the same value, or NONE
    TA_BANK_SHIFT,  # a bank holds 2 ** shift words if all hold as many, else NONE
    TA_RUNS, TA_RUN_COUNT,  # list of (first word, number of words) relative to the access
    TA_SPAN,  # words from the first to the last, both included
    TA_WORDS,  # distinct words
    TA_DATA_WIDTH,
    TA_ORDER,  # number among all accesses of the program
    TA_PLACE,  # expression of the first word where a cache or a DRAM must know it, or NONE
    TA_SIZE,
) = range(22)
"""Access of an instruction of the program text."""

READ, WRITE, ACCUMULATE = 0, 1, 2

READS_UNTIL_FINISH, READS_UNTIL_START, READS_NEVER = range(3)
"""How long a read holds up later writes to the same place."""

(
    TB_STORE, TB_FIRST, TB_END, TB_BEATS, TB_BYTES, TB_RATE, TB_LATENCY, TB_BASE, TB_WAY, TB_SPACE, TB_LANES, TB_SIZE,
) = range(12)
"""Part of a buffer in one storage: its words, the beats and bytes of a whole access there and the whole bytes in each
of its beats, and the latency: cycles, or below zero
``-1 -`` the position of a program. ``BASE`` makes addresses of the words; ``WAY``: the caches on the way: how many,
then for each its number and the latencies of a hit and of a miss; NONE without any. ``SPACE``: number of the memory, if
caches, banks or channels must know its addresses, or NONE. ``LANES``: the beats of a whole access on each channel,
from the one on in which it begins at its first word; NONE without channels."""

TC_LEAST, TC_OBJECT, TC_LENGTH, TC_CODE = range(4)
"""Latency that varies along loops or with the request: a program for a stack machine, pairs (operation, operand)."""

(
    X_NUMBER, X_EXPRESSION, X_WORDS, X_BYTES, X_ADD, X_SUB, X_MUL, X_FLOORDIV, X_MOD, X_CDIV,
    X_LT, X_LE, X_GT, X_GE, X_EQ, X_NE, X_NOT, X_NEG, X_MIN, X_MAX, X_JUMP, X_JUMP_IF_ZERO,
) = range(22)
STACK = 64
"""Depth of that machine's stack."""

MAX_DIMS = 24
"""Progressions in the patterns of two accesses together."""

TP_SPAN, TP_DENSE, TP_DIMS, TP_LIST = range(4)
"""Pattern: a sum of progressions; then ``DIMS`` pairs (stride, extent) by ascending stride."""

TX_CONSTANT, TX_TERMS, TX_LIST = range(3)
"""Expression ``constant + sum(coefficient * value)``; then ``TERMS`` pairs (value, coefficient)."""

(
    TL_START, TL_STEP, TL_EXTENT,
    TL_BODY, TL_END,  # program positions of its first operation and of its back edge
    TL_ATOMS, TL_ATOM_COUNT,  # the atoms to evaluate when its variable changes
    TL_PERIOD,  # after so many iterations every address below it has moved by a constant (0: never)
    TL_REPEATS,  # the same, whatever the number of iterations (0: never)
    TL_SHIFTS,  # those constants: for each access below it one for each axis, and one for its word
    TL_CLASHES, TL_CLASH_COUNT,  # pairs of records of accesses below it that may meet and do not move together
    TL_MOVING, TL_MOVING_COUNT,  # records of accesses below it that move through banks
    TL_HISTORY,  # number of its ring of snapshots
    TL_PARENT,  # the loop around it or NONE
    TL_WATCHED,  # whether its iterations are long enough to be remembered
    TL_FIRST_ACCESS, TL_ACCESS_COUNT,  # the accesses below it, by order
    TL_SITE,  # its loop of the text
    TL_SIZE,
) = range(21)
"""Loop."""

TQ_IS_MODULO, TQ_DIVISOR, TQ_EXPRESSION, TQ_SIZE = range(4)
"""Atom: ``expression // divisor`` or ``expression % divisor``."""

OP_INSTRUCTION, OP_LOOP, OP_BACK, OP_END = range(4)
"""Code of the loop nest: pairs (operation, operand)."""

# --- m: header -------------------------------------------------------------------------------------------------
(
    M_TIME,
    M_STATUS,
    M_REMEMBERS,  # loop events are noted
    M_EVENT,  # a watched loop was entered or left, or a back edge was passed, in this cycle
    M_EVENT_COUNT,  # loops in M_EVENTS
    M_OBJECT, M_VALUE,  # what an error is about
    M_PC,
    M_FETCHING, M_FETCH_FIRST, M_FETCH_NEXT,  # fetches under way, the first that ends, the record of the next
    M_ROOM,  # free places of the issue buffer: neither taken nor reserved for a fetch under way
    M_FETCH_END,  # when the first fetch ends
    M_MARKED, M_WIDE,  # stages that may take something: a bit for each, or in wide machines how many
    M_AGAIN,  # another fetch may start in the next cycle
    M_LEFT,  # instances not yet asked for by a fetch
    M_ISSUED, M_ISSUED_FIRST,  # instances in the issue buffer; the oldest of them, where they leave in order
    M_SEQ,
    M_FREE,  # list of free slots
    M_OLDEST, M_YOUNGEST,  # instances in program order
    M_HUNGRY, M_HUNGRY_SINCE,  # whether the issue buffer is empty although instructions are left, and since when
    M_FRONT, M_FRONT_SINCE,  # the loop of the text with the oldest instruction that is not finished, and since when
    M_ACTIVE,  # first slot never used so far
    M_FINISHED, M_FETCHED,
    M_FETCHES, M_FETCH_BUSY, M_STARVED,  # counters; cycles with a fetch under way
    M_LAST_FETCH,  # end of the last fetch
    M_LATEST,  # time of the last completion
    M_CHANGED,  # time of the last change of anything
    M_STEPPED,  # instances that were simulated one by one
    M_ITERATIONS,  # back edges that were passed one by one
    M_SKIPS,
    M_BASE, M_HORIZON,  # the time at place 0 of the wheel; timers before the horizon are on the wheel
    M_PAUSE,  # the run stops before this cycle, and may be resumed
    M_LOGGING, M_LOGGED, M_LOG_ROOM,  # whether a log is written, its records, and how many of them make the run stop
    M_BITS,  # places of the wheel that are taken: four words
) = range(46)

MOST_IN_FLIGHT = 1 << 30
"""More instances than any machine holds at once."""

WHEEL = 256
"""Cycles that the timing wheel spans."""

(
    M_FAR, M_FAR_TIME,  # list of timers from the horizon on, and the earliest time among them
    M_ORIGIN,  # a sequence number before those of all instances in flight
    M_MOVERS, M_FREES, M_TO_JUDGE,  # how many instances are in M_MOVING, storages in M_FREED, instances in M_JUDGED
    # where the parts of the machine lie
    M_STAGES, M_UNITS, M_STORES, M_LOOPS,  # with the header: all that is kept of the begin of a period
    M_CACHES, M_CACHE_LINES, M_DRAMS, M_BANKS, M_LINKS,  # as these (memory_layout)
    M_SPENT, M_ITERATED,  # for each loop of the text: cycles with the front directly in it, iterations begun one by one
    M_REST, M_FLIGHTS, M_VALUES, M_EVENTS, M_CLASSES, M_QUEUES, M_WHEEL,
    M_MARKS, M_SUMMARY,  # in wide machines: a bit for each stage, a bit for each word of these
    M_GRANTS,  # requests granted by caches so far
    M_STEPS,  # requests in M_STEPPING
    M_SLOTS,
    # of no meaning from one cycle to the next: stack of latencies, work space, instances that move on in phase 1 and
    # those that may start in phase 3, storages with slots freed in phase 1; requests that look on in a cache in phase
    # 1, stack of bytes that are passed on, accesses of a loop in a proof
    M_STACK, M_WORK, M_MOVING, M_JUDGED, M_FREED, M_STEPPING, M_POSTED, M_RANGES,
    M_LOW, M_HIGH, M_SHIFTS, M_SHIFTED,  # ranges of values, distances of conflict classes
    M_LOG,
    M_SIZE,
) = range(M_BITS + WHEEL // 64, M_BITS + WHEEL // 64 + 43)

COUNTERS = (M_FINISHED, M_FETCHED, M_FETCHES, M_FETCH_BUSY, M_STARVED)
"""What a skipped period adds to, beside the counters of stages, units and storages."""

DIVIDES_BY_ZERO = -(1 << 62)
"""Stands for the value of a latency that divides by zero."""

RUNNING, DONE, DEADLOCK, POOL_FULL, BAD_LATENCY, PAUSED = range(6)

# --- m: records ------------------------------------------------------------------------------------------------
L_ITERATION, L_ENTRY_SEQ, L_EVENT, L_SIZE = range(4)
"""Loop: iteration number, sequence number at its entry, what happened to it in this cycle (``EVENT_*``)."""

EVENT_ENTERED, EVENT_CROSSED, EVENT_LEFT = 1, 2, 4

F_END, F_COUNT, F_SIZE = range(3)
"""Fetch under way: its end, instances that it brings."""

Q_HEAD, Q_TAIL, Q_SIZE = range(3)
"""Issue buffer: one list for each signature, linked by ``I_LINK``."""

(
    S_DUE, S_TIMER, S_RECORD, S_NUMBER, S_UNREADY, S_COUNT, S_HEAD, S_TAIL, S_OFFERS, S_SINCE, S_STALL, S_BUSY, S_HELD,
    S_SIZE,
) = range(14)
"""Stage: the time from which its head may leave (a timer); its record in ``t``; how many of its units are not ready; a
list of instances linked by ``I_LINK``; whether its head may leave, and up to when it is counted what the stage does;
counters: cycles in which it could leave, in which it could not yet, instances held."""

(
    U_READY, U_TIMER,  # start of the last instance plus interval (a timer)
    U_RECORD,
    U_STAGE,  # the stage that contains it
    U_WAITING,  # the instance that waits for its dependences
    U_SCAN, U_JUDGED,  # how far its conflicts are judged: the TV record, the sequence number there
    U_NEXT,  # the next unit that waits for the same instance
    U_COUNT,  # instances inside
    U_LAST, U_UNGRANTED,  # sequence number of the last one that started, its read requests without a slot
    U_QUEUED,  # requests of all instances inside without a slot
    U_DOING, U_SINCE,  # the counter of what it does, and from when on that is not counted
    U_FED,  # M_STARVED at that time
    U_TAKEN, U_IDLE, U_STARVED, U_BUSY, U_DEPENDENCY, U_STORAGE,  # counters
    U_SIZE,
) = range(22)
"""Unit."""

(
    D_RECORD,
    D_ACTIVE,  # requests with a slot
    D_QUEUED, D_QUEUE_HEAD, D_QUEUE_TAIL,  # requests that wait, linked by R_LINK
    D_FREED,  # a slot was freed in this cycle
    D_PORT_FREE,
    D_EXCLUSIVE,  # a request over a windowed link has it to itself
    D_SINCE,  # up to when QUEUE_CYCLES is complete
    D_PORTS,  # two P records: writes, reads
) = range(10)

P_LEVEL, P_SINCE, P_PEAK, P_PEAK_CYCLES, P_BUSY, P_SIZE = range(6)
"""What one direction of a storage carries: bytes in a cycle at present, and since when; the most so far, and in how
many cycles; cycles in which it carries anything."""

(
    D_READS, D_WRITES, D_BYTES_READ, D_BYTES_WRITTEN, D_WORDS_READ, D_WORDS_WRITTEN, D_BEATS, D_QUEUE_CYCLES,
    D_SIZE,
) = range(D_PORTS + 2 * P_SIZE, D_PORTS + 2 * P_SIZE + 9)
"""Storage; its counters."""

(
    I_END, I_TIMER,  # end of processing (a timer)
    I_SEQ, I_STATIC, I_PHASE, I_PENDING, I_LEAVE, I_LINK, I_OLDER, I_YOUNGER, I_UNIT,
    I_ROUTE,  # its TR record in the stage where it is; in the issue buffer what has TI_FIRST as TR_NEXT
    I_WAITERS,  # units whose instances wait for this one, linked by U_NEXT
    I_READS, I_REQUESTS, I_ORDINAL,
    I_SIZE,
) = range(17)
"""Instance of an instruction; then its requests, its accesses and its latencies that vary."""

BUFFERED, WAITING, READING, PROCESSING, WRITING = range(5)

(
    R_FINISH, R_TIMER, R_STORE, R_BEATS, R_BYTES, R_LATENCY, R_LINK, R_OWNER, R_IS_READ, R_EDGE, R_EDGE_TIMER,
    R_SENT, R_SEND_WAIT,
    R_RATE,
    R_SIZE,
) = range(15)
"""Request of an instance; reads come first. ``FINISH`` is FOREVER while it waits for a slot. ``RATE``: whole bytes in
each of its beats. Where ``LATENCY`` is no legal value (below zero: ``-1 -`` the position of its program), ``TIMER`` has
what it came to. ``EDGE``: when it next
begins to carry more or fewer bytes in a cycle (a timer). ``SENT``: when its link begins to carry it, and the cycles
that it waited for that."""

TAG_STAGE, TAG_UNIT, TAG_REQUEST, TAG_INSTANCE, TAG_EDGE = range(5)
"""What a timer is about. Lists of timers hold ``8 * position of the record + tag``; the record begins with the time and
the link of its timer."""

A_OLDER, A_YOUNGER, A_OWNER, A_ACCESS, A_OFFSETS = range(5)
"""Access of an instance: links in its conflict class and kind; then one offset for each axis, room for one at least."""

C_FIRST, C_LAST, C_SIZE = range(3)
"""Ends of a list of accesses of one conflict class and one kind."""

G_KIND, G_TIME, G_OBJECT, G_SEQ, G_A, G_B, G_C, G_SIZE = range(8)
"""Record of the log: what happened when to which instance in which object (its number), and more about it."""

(
    G_FETCH,  # a fetch begins: its end, instances
    G_FETCHED,
    G_ENTERED,  # a stage buffers an instance: until when at least
    G_RECEIVED, G_STARTED, G_PROCESSING, G_WRITING, G_FINISHED,  # steps in a unit
    # steps of a request: its number, finish, and bytes * BEATS_ROOM + 2 * beats + is_read
    G_QUEUED, G_GRANTED, G_TRANSFER,
    # a link carries a request: cycles that it waited, when it begins, bytes * BEATS_ROOM + 2 * bandwidth + is_read
    G_CARRIED,
) = range(12)

BEATS_ROOM = 1 << 31

# --- h: what is remembered of the run --------------------------------------------------------------------------
SNAPSHOTS = 16
"""Snapshots of each loop that are compared with the present state."""

TRANSITIONS = 96
"""Transitions from one loop event to the next that are remembered."""

LEAST_RUN = 24
"""Loops of fewer instances, all iterations together, are not compared with earlier passes: stepping is as fast."""

LEAST_BODY = 48
"""A transition takes as long as stepping some dozen instances: loops with shorter iterations are not remembered."""

LEAST_STATE_WORDS, MOST_STATE_WORDS = 4096, 1 << 21
"""Room for a relative state: what the graph may need, within these bounds. Longer states are not compared."""

MANY_IN_FLIGHT = 256
"""Where more instances are in flight, a comparison takes as long as stepping as many: they become rarer."""

MOST_MACHINE_WORDS = 65536
"""Largest machine that is remembered as the end of a transition."""

SNAPSHOT_WORDS, TRANSITION_WORDS = 1 << 21, 1 << 21
"""Room for the contents of snapshots and of transitions; the oldest give way."""

(
    HM_LOOPS,  # HL records
    HM_SCRATCH, HM_STATE_SIZE,  # the state at hand, and the room for it
    HM_RINGS,  # K records of each loop that may repeat
    HM_INDEX,  # HT records
    HM_NEXT,  # the next of them to be used
    HM_MACHINE,  # a copy of the machine up to M_REST
    HM_SNAPSHOTS, HM_SNAPSHOTS_USED, HM_SNAPSHOTS_SIZE,  # room for contents: begin, words given away so far, size
    HM_TRANSITIONS, HM_TRANSITIONS_USED, HM_TRANSITIONS_SIZE,
    HM_SIZE,
) = range(14)

HL_SNAPSHOTS, HL_ACTIVATION, HL_MISSES, HL_SAMPLED, HL_PENDING, HL_SIZE = range(6)
"""Loop: snapshots since its entry, the sequence number of that entry, snapshots without a match, instances stepped at
the last one, the transition that begins at its last event."""

HT_VALID, HT_LOOP, HT_HASH, HT_LENGTH, HT_OFFSETS, HT_BEGIN, HT_END, HT_SIZE = range(8)
"""Transition: complete or not, of which loop, hash and size of its first state, and the places of the machine up to
M_REST with that state, and of the whole machine at its end."""

K_HASH, K_LENGTH, K_OFFSETS, K_ITERATION, K_PLACE, K_SIZE = range(6)
"""Snapshot: hash and length of the relative state, number of offsets after it, iteration, and the place of the machine
up to M_REST, the state and the offsets of the accesses in flight."""
