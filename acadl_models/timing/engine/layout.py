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
    H_SIGNATURES,  # sets of stages to which the fetch stage may pass an instruction
    H_PROGRAM,  # code of the loop nest
    H_ROUTE,  # [stage, static]: one of ROUTE_*
    H_STAGE_LATENCY,  # [stage, static]
    H_UNIT_LATENCY,  # [unit, static]
    H_UNIT_INTERVAL,  # [unit, static]
    H_TAKES,  # [stage, signature]: whether the fetch stage may pass it there
    H_MET, H_MET_SIZE,  # [access, access]: whether the two can touch a common element at all
    H_FETCH_WIDTH, H_FETCH_LATENCY, H_ISSUE_SIZE,
    H_HISTORIES,  # loops that may repeat
    H_PLACES,  # records of all accesses, by order
    H_TOTAL,  # instruction instances in the whole run
    H_MAX_ACCESSES, H_MAX_AXES, H_MAX_REQUESTS, H_MAX_LATENCIES,  # sizes of the parts of an instance
    H_SLOT_SIZE, H_SLOT_REQUESTS, H_SLOT_ACCESSES, H_ACCESS_SIZE, H_SLOT_LATENCIES,  # an instance and its parts
    H_POOL,  # instances that fit into the machine at once
    H_SIZE,
) = range(39)

# --- t: records ------------------------------------------------------------------------------------------------
TS_DEPTH, TS_UNITS, TS_UNIT_COUNT, TS_PREDS, TS_PRED_COUNT, TS_FETCHES, TS_SIZE = range(7)
"""Stage. ``UNITS`` and ``PREDS`` point to lists of numbers; ``FETCHES``: the fetch stage is a predecessor."""

TU_CAPACITY, TU_PIPELINED, TU_SIZE = range(3)
"""Unit. ``PIPELINED``: it has an ``interval``."""

TM_CAPACITY, TM_PORT, TM_SHARED, TM_SIZE = range(4)
"""Storage: most requests at once, words per beat, one port for all requests."""

TI_SIGNATURE, TI_ACCESSES, TI_ACCESS_COUNT, TI_LATENCIES, TI_LATENCY_COUNT, TI_SIZE = range(6)
"""Instruction of the program text. ``LATENCIES`` points to the programs of the latencies that vary along loops."""

(
    TA_KIND,  # READ, WRITE or ACCUMULATE
    TA_CLASS,  # conflict class or NONE
    TA_AXES,  # number of axes that decide about conflicts
    TA_EXPRESSIONS,  # list of expressions, one for each such axis
    TA_PATTERNS,  # list of patterns, one for each such axis
    TA_STORES,  # list of TB records: one, or the banks
    TA_STORE_COUNT,
    TA_WORD,  # expression of the first word, or NONE where one storage holds the whole buffer
    TA_WORD_AXIS,  # the deciding axis with the same expression, or NONE
    TA_BANK_WORDS,  # words of each bank where all hold as many, else 0
    TA_RUNS, TA_RUN_COUNT,  # list of (first word, number of words) relative to the access
    TA_SPAN,  # words from the first to the last, both included
    TA_WORDS,  # distinct words
    TA_DATA_WIDTH,
    TA_ORDER,  # number among all accesses of the program
    TA_SIZE,
) = range(17)
"""Access of an instruction of the program text."""

READ, WRITE, ACCUMULATE = 0, 1, 2

TB_STORE, TB_FIRST, TB_END, TB_BEATS, TB_LATENCY, TB_SIZE = range(6)
"""Part of a buffer in one storage: its words, the beats of a whole access there, and the latency: cycles, or below zero
``-1 -`` the position of a program."""

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
    TL_SHIFTS,  # those constants: for each access one for each axis, and one for its word
    TL_CLASHES, TL_CLASH_COUNT,  # pairs of records of accesses below it that may meet and do not move together
    TL_MOVING, TL_MOVING_COUNT,  # records of accesses below it that move through banks
    TL_HISTORY,  # number of its ring of snapshots
    TL_PARENT,  # the loop around it or NONE
    TL_WATCHED,  # whether its iterations are long enough to be remembered
    TL_FIRST_ACCESS, TL_ACCESS_COUNT,  # the accesses below it, by order
    TL_SIZE,
) = range(20)
"""Loop."""

TQ_IS_MODULO, TQ_DIVISOR, TQ_EXPRESSION, TQ_SIZE = range(4)
"""Atom: ``expression // divisor`` or ``expression % divisor``."""

OP_INSTRUCTION, OP_LOOP, OP_BACK, OP_END = range(4)
"""Code of the loop nest: pairs (operation, operand)."""

ROUTE_NONE, ROUTE_BUFFER, ROUTE_UNIT = 0, 1, 2
"""An instruction does not go to a stage, is buffered there, or is taken by its unit ``route - ROUTE_UNIT``."""

# --- m: header -------------------------------------------------------------------------------------------------
(
    M_TIME,
    M_STATUS,
    M_EVENT,  # a watched loop was entered or left, or its back edge was passed, in this cycle
    M_OBJECT, M_VALUE,  # what an error is about
    M_PC,
    M_FETCH_END, M_FETCH_COUNT,
    M_LEFT,  # instances not yet asked for by a fetch
    M_ISSUED,  # instances in the issue buffer
    M_SEQ,
    M_FREE,  # list of free slots
    M_OLDEST, M_YOUNGEST,  # instances in program order
    M_AGAIN,  # the next cycle has something to do
    M_MOVES,  # instructions may move, start or be fetched in this cycle
    M_MOVE_TIME,  # when they may next, without a completion before
    M_SINCE,  # up to when the counters of fetch, stages and units are complete
    M_STALLED,  # no fetch is under way although instructions are left
    M_ACTIVE,  # first slot never used so far
    M_FINISHED, M_FETCHED,
    M_FETCHES, M_FETCH_STALL,  # counters
    M_LATEST,  # time of the last completion
    M_CHANGED,  # time of the last change of anything
    M_STEPPED,  # instances that were simulated one by one
    M_SKIPS,
    # where the parts of the machine lie
    M_STAGES, M_UNITS, M_STORES, M_VALUES, M_LOOPS, M_CLASSES, M_QUEUES, M_STACK, M_WORK,
    M_LOW, M_HIGH, M_SHIFTS, M_SHIFTED, M_MOVING, M_SLOTS,
    M_SIZE,
) = range(44)

COUNTERS = (M_FINISHED, M_FETCHED, M_FETCHES, M_FETCH_STALL)
"""What a skipped period adds to, beside the counters of stages, units and storages."""

DIVIDES_BY_ZERO = -(1 << 62)
"""Stands for the value of a latency that divides by zero."""

RUNNING, DONE, DEADLOCK, POOL_FULL, BAD_LATENCY = range(5)

# --- m: records ------------------------------------------------------------------------------------------------
L_ITERATION, L_ENTRY_SEQ, L_EVENT, L_SIZE = range(4)
"""Loop: iteration number, sequence number at its entry, what happened to it in this cycle (``EVENT_*``)."""

EVENT_ENTERED, EVENT_CROSSED, EVENT_LEFT = 1, 2, 4

Q_HEAD, Q_TAIL, Q_SIZE = range(3)
"""Issue buffer: one list for each signature, linked by ``I_LINK``."""

S_COUNT, S_HEAD, S_TAIL, S_STALLED, S_STALL, S_HELD, S_SIZE = range(7)
"""Stage: a list of instances linked by ``I_LINK``; whether its head could leave; counters: cycles in which it could,
instances it held."""

(
    U_WAITING,  # the instance that waits for its dependences
    U_SCAN, U_BLOCKER, U_BLOCKER_SEQ,  # how far its conflicts are judged: the list, the instance found there
    U_CLEAR,  # nothing earlier conflicts with it: it starts in this cycle
    U_COUNT, U_HEAD,  # instances inside, linked by I_LINK
    U_READY,  # start of the last instance plus interval
    U_LAST, U_UNGRANTED,  # its sequence number, its read requests without a slot
    U_QUEUED,  # requests of all instances inside without a slot
    U_NEXT,  # earliest end of a processing
    U_DOING,  # the counter of the cycles up to the next change
    U_TAKEN, U_IDLE, U_BUSY, U_DEPENDENCY, U_STORAGE,  # counters
    U_SIZE,
) = range(19)
"""Unit."""

(
    D_ACTIVE, D_HEAD, D_TAIL,  # requests with a slot, in the order in which they got it, linked by R_LINK
    D_QUEUED, D_QUEUE_HEAD, D_QUEUE_TAIL,  # requests that wait, linked by R_LINK
    D_NEXT,  # earliest finish
    D_PORT_FREE,
    D_SINCE,  # up to when QUEUE_CYCLES is complete
    D_READS, D_WRITES, D_BYTES_READ, D_BYTES_WRITTEN, D_BEATS, D_QUEUE_CYCLES,  # counters
    D_SIZE,
) = range(16)
"""Storage."""

(
    I_SEQ, I_STATIC, I_PHASE, I_PENDING, I_END, I_LEAVE, I_LINK, I_OLDER, I_YOUNGER, I_UNIT, I_READS, I_REQUESTS,
    I_ORDINAL,
    I_SIZE,
) = range(14)
"""Instance of an instruction; then its requests, its accesses and its latencies that vary."""

BUFFERED, WAITING, READING, PROCESSING, WRITING = range(5)

R_STORE, R_BEATS, R_LATENCY, R_FINISH, R_LINK, R_OWNER, R_IS_READ, R_SIZE = range(8)
"""Request of an instance; reads come first."""

A_OLDER, A_YOUNGER, A_OWNER, A_ACCESS, A_OFFSETS = range(5)
"""Access of an instance: links in its conflict class and kind; then one offset for each axis."""

C_FIRST, C_LAST, C_SIZE = range(3)
"""Ends of a list of accesses of one conflict class and one kind."""

# --- h: what is remembered of the run --------------------------------------------------------------------------
SNAPSHOTS = 8
"""Snapshots of each loop that are compared with the present state."""

TRANSITIONS = 96
"""Transitions from one loop event to the next that are remembered."""

LEAST_BODY = 48
"""A transition takes as long as stepping some dozen instances: loops with shorter iterations are not remembered."""

STATE_WORDS = 4096
"""Longest relative state that is compared."""

MOST_MACHINE_WORDS = 65536
"""Largest machine that is remembered as the end of a transition."""

SNAPSHOT_WORDS, TRANSITION_WORDS = 1 << 21, 1 << 21
"""Room for the contents of snapshots and of transitions; the oldest give way."""

(
    HM_LOOPS,  # HL records
    HM_SCRATCH,  # the state at hand
    HM_RINGS,  # K records of each loop that may repeat
    HM_INDEX,  # HT records
    HM_NEXT,  # the next of them to be used
    HM_MACHINE,  # a copy of the machine up to its slots
    HM_SNAPSHOTS, HM_SNAPSHOTS_USED, HM_SNAPSHOTS_SIZE,  # room for contents: begin, words given away so far, size
    HM_TRANSITIONS, HM_TRANSITIONS_USED, HM_TRANSITIONS_SIZE,
    HM_SIZE,
) = range(13)

HL_SNAPSHOTS, HL_ACTIVATION, HL_MISSES, HL_SAMPLED, HL_PENDING, HL_SIZE = range(6)
"""Loop: snapshots since its entry, the sequence number of that entry, snapshots without a match, instances stepped at
the last one, the transition that begins at its last event."""

HT_VALID, HT_LOOP, HT_HASH, HT_LENGTH, HT_OFFSETS, HT_BEGIN, HT_END, HT_END_WORDS, HT_SIZE = range(9)
"""Transition: complete or not, of which loop, hash and size of its first state, and the places of the machine up to its
slots with that state, and of the whole machine at its end."""

K_HASH, K_LENGTH, K_OFFSETS, K_ITERATION, K_PLACE, K_SIZE = range(6)
"""Snapshot: hash and length of the relative state, number of offsets after it, iteration, and the place of the machine
up to its slots, the state and the offsets of the accesses in flight."""
