"""What lies where in the tables of the engine (``t``), which never change during a run.

The engine works on flat ``int64`` arrays: jitted functions then pass a pointer for each instead of dozens, snapshots
are slices, and compiling stays short. ``t`` is what lowering makes of a stream on a graph; ``m`` and ``h`` are in
:mod:`.state`. A record is addressed by the position of its first field, so ``t[unit + UnitSpec.STAGE]`` is the field
``STAGE`` of the record at ``unit``. The header ``H`` lies at position 0.
"""

from __future__ import annotations

from archloom.acadl_models.timing.engine.fields import Record, code, constant


class H(Record):
    """Header of the tables. ``..._TABLE``: position of the records of which the field before is the number."""

    STAGES = STAGE_TABLE = constant  # in the order of forwarding
    UNITS = UNIT_TABLE = constant
    STORES = STORE_TABLE = constant
    STATICS = STATIC_TABLE = constant  # instructions of the program text
    LOOPS = LOOP_TABLE = constant
    VALUES = ATOM_TABLE = constant  # values: loop variables first, then floor divisions and modulos (atoms)
    CLASSES = constant  # conflict classes: accesses of different classes never meet
    SIGNATURES = SIGNATURE_TABLE = constant  # sets of stages to which the fetch stage may pass an instruction
    OFFERS = constant  # the same by stage: OfferSpec records
    PROGRAM = constant  # code of the loop nest
    FETCH_WIDTH = FETCH_LATENCY = FETCH_FLIGHTS = ISSUE_SIZE = constant
    IN_ORDER = LATENCY_ADDED = EDGE_ORDER = constant  # parameters of the semantics (acadl.semantics)
    LATCHED = constant  # whether some accesses hold up later ones until they have started
    REORDER_ENTRIES = DECODE_WIDTH = COMMIT_WIDTH = constant  # 0 entries: no reorder buffer; widths FOREVER: any
    FILES = FILE_TABLE = constant  # renamed register files: how many physical registers are free at first
    NAMES = NAME_TABLE = constant  # their registers: the number of the file of each
    HISTORIES = constant  # loops that may repeat
    DEPTHS = constant  # loops around an instruction at most
    ENDS = constant  # lists of accesses that may conflict
    BUCKETED = constant  # whether some of them depend on where accesses lie
    SITES = SITE_COUNTERS = constant  # loops of the stream's text; these and one more for what lies in no loop
    ACCESSES = ACCESS_TABLE = constant  # number of accesses and their records, by order
    TOTAL = constant  # instruction instances in the whole run
    MAX_ACCESSES = MAX_AXES = MAX_OPERANDS = MAX_REQUESTS = MAX_LATENCIES = constant  # parts of an instance at most
    SLOT_SIZE = SLOT_ACCESSES = ACCESS_SIZE = SLOT_OPERANDS = constant  # an instance and its parts
    SLOT_REQUESTS = SLOT_LATENCIES = constant
    POOL = constant  # instances that fit into the machine at once
    CACHES = CACHE_TABLE = DRAMS = DRAM_TABLE = LINKS = LINK_TABLE = constant
    SPACES = SPACE_TABLE = constant  # address spaces (memories): bits of which their lines and rows are whole parts
    LEVELS = HIT_AFTER_MISS = SLOT_TAILS = TAIL_SIZE = BANKS = constant
    PLACED = constant  # accesses with a place in such memories
    LOOKS = constant  # room for what is asked of caches: a power of two, or 0
    GROUPS = constant  # GroupSpec records of each machine_parts.Group
    HEADERS = constant  # 1: the header of the machine counts as a part with one record


class GroupSpec(Record):
    """Fields of a group in the records of one part of the machine: the M field and the H field that say where these are
    and how many, the words of each, and how many fields follow. NONE for the part ends a group."""

    PART = COUNT = RECORD_SIZE = FIELDS = constant


class StageSpec(Record):
    """Stage; lists of numbers."""

    DEPTH = constant
    SENDERS = SENDER_COUNT = constant  # in the order of the edges; FETCH stands for the fetch stage
    RECEIVERS = RECEIVER_COUNT = constant


class OfferSpec(Record):
    """What the fetch stage may pass to a stage: list of signatures; the only one, or NONE."""

    SIGNATURES = SIGNATURE_COUNT = ONLY = constant


FETCH = -1
"""Number of the fetch stage among senders."""


class UnitSpec(Record):
    """Unit. ``PIPELINED``: it has an ``interval``; the stage that contains it; whether nobody waits for its reads."""

    CAPACITY = PIPELINED = STAGE = PREFETCHES = constant


class SignatureSpec(Record):
    """Signature: numbers of stages."""

    RECEIVERS = RECEIVER_COUNT = constant


class Route(Record):
    """An instruction in a stage: its record in the next stage, or NONE if there is no next one or more than one; the
    unit that takes it or NONE, the latency of the stage, those of the unit. A latency is cycles, or below zero ``-1 -``
    its number among those that vary along loops. ``FIRST``: FOREVER where the unit stores and forwards."""

    NEXT = STAGE = UNIT = HELD = LATENCY = INTERVAL = FIRST = constant


class StoreSpec(Record):
    """Storage: most requests at once, words per beat, one port for all requests, no two requests carry words at once;
    the kind of its state and its number among those of its kind; table of the link for each unit and direction, or
    NONE; whether it has neither state nor links."""

    CAPACITY = PORT = SHARED = SERIAL = KIND = STATE = LINKS = SIMPLE = constant


class StoreKind(Record):
    """A storage with constant latencies, a cache, a DRAM with open rows, one with channels."""

    PLAIN = CACHED = BANKED = INTERLEAVED = code


class Instruction(Record):
    """Instruction of the program text."""

    LOOP = constant  # the innermost loop around it or NONE
    SIGNATURE = constant
    ROUTES = ROUTE_COUNT = constant  # Route records of the stages into which it may come, by ascending stage
    ACCESSES = ACCESS_COUNT = constant
    LATENCIES = LATENCY_COUNT = constant  # programs of the latencies that vary along loops
    SITE = constant  # the loop of the text around it; their number if there is none
    FIRST = constant  # its record in the stage to which the fetch stage passes it; NONE if there are more than one
    OPERANDS = OPERAND_COUNT = constant  # OperandSpec records: the renamed registers that it names
    NODES = NODE_COUNT = constant  # NodeSpec records: its accesses that may conflict
    CHECKS = CHECK_COUNT = constant  # CheckSpec records: the lists in which it may meet anything
    PARTS = PART_COUNT = constant  # records of its accesses to storages, reads first


class OperandSpec(Record):
    """Renamed register that an instruction names: OperandKind; its number is the sum ``FIRST`` and ``OTHER``."""

    KIND = FIRST = OTHER = constant


class OperandKind(Record):
    """A register is read, written as a whole, written in part, accumulated into."""

    READ = WRITE = MERGE = ADD = code


class NodeSpec(Record):
    """Access that may conflict: where it lies in an instance, its AccessSpec record, and the Ends record, counted from
    the first, of the first list of its class and kind, or NONE if it enters none; the BucketSpec of its class; until
    when it holds up later ones."""

    NODE = ACCESS = ENDS = BUCKETS = HOLDS = constant


class CheckSpec(Record):
    """Lists of a class and kind that are searched for conflicts: the Ends record of the first, counted from the first
    of all; where the access lies in the instance that is judged, its ``MET`` and ``REACH``; the BucketSpec."""

    ENDS = NODE = MET = REACH = BUCKETS = constant


class BucketSpec(Record):
    """How the accesses of a class are dealt out to lists, by where they begin along the first axis that decides: those
    in ``LENGTH`` places from ``BASE`` on are in the second list, and so on to ``COUNT`` lists more than one. The first
    list has all that lie in several such ranges."""

    BASE = LENGTH = COUNT = constant


class AccessSpec(Record):
    """Access of an instruction of the program text."""

    KIND = constant  # AccessKind
    CLASS = constant  # conflict class or NONE
    MET = RANK = constant  # which of its class, by rank, it can meet at all (NONE: any), and its own rank
    AXES = constant  # number of axes that decide about conflicts
    EXPRESSIONS = constant  # list of sums, one for each such axis
    PATTERNS = constant  # list of patterns, one for each such axis; then the span of each
    DENSE = constant  # all of them are dense
    REACH = constant  # span along the first such axis, or FOREVER
    STORES = STORE_COUNT = constant  # list of BufferPart records: one, or the banks
    WORD = constant  # sum: the first word, or NONE where one storage holds the whole buffer
    WORD_NODE = constant  # where in an instance the offset of a deciding axis has the same value, or NONE
    BANK_SHIFT = constant  # a bank holds 2 ** shift words if all hold as many, else NONE
    RUNS = RUN_COUNT = constant  # list of (first word, number of words) relative to the access
    SPAN = constant  # words from the first to the last, both included
    WORDS = constant  # distinct words
    DATA_WIDTH = constant
    ORDER = constant  # number among all accesses of the program
    PLACE = constant  # sum: the first word where a cache or a DRAM must know it, or NONE


class AccessKind(Record):
    """What an access does to its elements."""

    READ = WRITE = ACCUMULATE = code


class Holds(Record):
    """How long an access holds up later ones to the same place."""

    UNTIL_FINISH = UNTIL_START = NEVER = code


class BufferPart(Record):
    """Part of a buffer in one storage: its words, the beats and bytes of a whole access there and the whole bytes in
    each of its beats, and the latency: cycles, or below zero ``-1 -`` the position of a program. ``BASE`` makes
    addresses of the words; ``WAY``: the caches on the way: how many, then for each its number and the latencies of a
    hit and of a miss; NONE without any. ``SPACE``: number of the memory, if caches, banks or channels must know its
    addresses, or NONE. ``LANES``: the beats of a whole access on each channel, from the one on in which it begins at
    its first word; NONE without channels. ``LINE``: words of a line of a cache where each has a request of its own, or
    0. ``BURST``: words of those that must be counted for each access, or 1."""

    STORE = FIRST = END = BEATS = BYTES = RATE = LATENCY = BASE = WAY = SPACE = LANES = LINE = BURST = constant


class LatencySpec(Record):
    """Latency that varies along loops or with the request: a program for a stack machine; then ``LENGTH`` pairs
    (operation, operand)."""

    LEAST = OBJECT = LENGTH = constant
    CODE = constant.times(0)


class Operation(Record):
    """Of that machine."""

    NUMBER = EXPRESSION = WORDS = BYTES = ADD = MUL = FLOORDIV = MOD = MIN = MAX = JUMP = JUMP_IF_ZERO = code
    LT = LE = EQ = NE = code  # comparisons with 0


STACK = 64
"""Depth of that machine's stack."""

MAX_DIMS = 24
"""Progressions in the patterns of two accesses together."""


class PatternSpec(Record):
    """Pattern: a sum of progressions; then ``DIMS`` pairs (stride, extent) by ascending stride."""

    SPAN = DENSE = DIMS = constant
    LIST = constant.times(0)


class Sum(Record):
    """Affine expression ``constant + sum(coefficient * value)``; then ``TERMS`` pairs (value, coefficient)."""

    CONSTANT = TERMS = constant
    LIST = constant.times(0)


class LoopSpec(Record):
    """Loop."""

    START = STEP = EXTENT = constant
    LIMIT = constant  # iterations in which everything below it moves as stated, the extent or fewer
    EACH = constant  # instances of an iteration
    BODY = END = constant  # program positions of its first operation and of its back edge
    ATOMS = ATOM_COUNT = constant  # the atoms to evaluate when its variable changes
    PERIOD = constant  # after so many iterations every address below it has moved by a constant (0: never)
    REPEATS = constant  # the same, whatever the number of iterations (0: never)
    SHIFTS = constant  # those constants: for each access below it one for each axis, and one for its word
    CLASHES = CLASH_COUNT = constant  # pairs of records of accesses below it that may meet and do not move together
    MOVING = MOVING_COUNT = constant  # records of accesses below it that move through banks
    HISTORY = constant  # number of its ring of snapshots, or NONE where none is taken
    PARENT = constant  # the loop around it or NONE
    DEPTH = constant  # how many loops are around it
    WATCHED = constant  # whether its iterations are long enough to be remembered
    FIRST_ACCESS = ACCESS_COUNT = constant  # the accesses below it, by order
    SITE = constant  # its loop of the text


class AtomSpec(Record):
    """Atom: ``expression // divisor`` or ``expression % divisor``."""

    IS_MODULO = DIVISOR = EXPRESSION = constant


class Code(Record):
    """Code of the loop nest: pairs (operation, operand)."""

    INSTRUCTION = LOOP = BACK = END = code


class CacheSpec(Record):
    """Cache: ``LINE`` in bytes, ``NEXT``: number of the cache behind it or NONE, ``SPACE``: number of the memory
    behind; miss-status registers, no more than requests can take; number of the storage behind."""

    SETS = WAYS = LINE = POLICY = WRITE_BACK = ALLOCATE = NEXT = SPACE = SEED = REGISTERS = BEHIND = constant


class Policy(Record):
    """Of replacement."""

    LRU = FIFO = MRU = RANDOM = code


class DramSpec(Record):
    """DRAM: ``BANKS``: list of (first word, end); ``FIRST``: number of its first bank; ``BITS`` of a word. Channels are
    banks without rows, ``ROW_WORDS`` what lies in one before the next."""

    ROW_WORDS = RCD = RP = RAS = BANKS = BANK_COUNT = FIRST = SPACE = BITS = constant


class LinkSpec(Record):
    """Link."""

    BANDWIDTH = LATENCY = WINDOW = constant
