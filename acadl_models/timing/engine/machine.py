"""The arrays of a run before its first cycle: the machine, and room for what skipping remembers."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Iterator

import numpy as np

from archloom.acadl_models.timing.engine import fields, remembered, state
from archloom.acadl_models.timing.engine.fields import NONE, PLAIN_MODE, Kind, Record
from archloom.acadl_models.timing.engine.layout import CacheSpec, H, StageSpec, StoreSpec, UnitSpec
from archloom.acadl_models.timing.engine.machine_parts import PARTS
from archloom.acadl_models.timing.engine.memory_state import Cache, Tail, WayStep
from archloom.acadl_models.timing.engine.remembered import Memory, Room
from archloom.acadl_models.timing.engine.skipping.snapshot import state_words
from archloom.acadl_models.timing.engine.state import Array, M, Stage, Unit
from archloom.acadl_models.timing.memories.cache import MODULUS

LOOKS = len(PARTS) - 2
"""The place of that part among the others: the last but the log."""
assert PARTS[LOOKS].position == M.LOOKS and PARTS[-1].position == M.LOG


def new_machine(t: Array, log: int = 0, *, lasts: bool = True) -> Array:
    """The state before the first cycle; ``log``: records for which the log has room. One that does not last lies where
    the one before it in this thread did."""
    sizes = [len(part.kinds) * part.number(t) for part in PARTS]
    sizes[-1] = log * state.Log.SIZE
    words = M.SIZE + sum(sizes)
    m = np.zeros(words, np.int64) if lasts else _cleared(words, sizes[LOOKS] + sizes[-1])
    m[: M.SIZE] = M.initial
    position = int(M.SIZE)
    for part, size in zip(PARTS, sizes):
        m[part.position] = position
        if part.initial:
            m[position : position + size].reshape(-1, len(part.initial))[:] = part.initial
        position += size
    stages, units = records_of(m, M.STAGES, t[H.STAGES], Stage), records_of(m, M.UNITS, t[H.UNITS], Unit)
    stores = records_of(m, M.STORES, t[H.STORES], state.Store)
    stages[:, Stage.NUMBER] = np.arange(len(stages))
    stages[:, Stage.SPEC] = t[H.STAGE_TABLE] + StageSpec.SIZE * stages[:, Stage.NUMBER]
    units[:, Unit.SPEC] = t[H.UNIT_TABLE] + UnitSpec.SIZE * np.arange(len(units))
    units[:, Unit.DOING] = Unit.IDLE
    containing = records_of(t, H.UNIT_TABLE, t[H.UNITS], UnitSpec)[:, UnitSpec.STAGE]
    units[:, Unit.STAGE] = m[M.STAGES] + Stage.SIZE * containing
    stores[:, state.Store.SPEC] = t[H.STORE_TABLE] + StoreSpec.SIZE * np.arange(len(stores))
    line, register = m[M.CACHE_LINES], m[M.REGISTERS]
    specs = records_of(t, H.CACHE_TABLE, t[H.CACHES], CacheSpec)
    for cache, spec in zip(records_of(m, M.CACHES, t[H.CACHES], Cache), specs):
        cache[Cache.GENERATOR] = spec[CacheSpec.SEED] % (MODULUS - 1) + 1
        cache[Cache.LINES], cache[Cache.REGISTERS] = line, register
        line += spec[CacheSpec.SETS] * spec[CacheSpec.WAYS]
        register += spec[CacheSpec.REGISTERS]
    m[m[M.FILES] :][: t[H.FILES]] = t[t[H.FILE_TABLE] :][: t[H.FILES]]
    m[M.ROOM], m[M.WIDE] = t[H.ISSUE_SIZE], t[H.STAGES] > 64
    m[M.LEFT], m[M.FRONT] = t[H.TOTAL], t[H.SITES]
    return _checked(t, m) if PLAIN_MODE else m


def records_of(array: Array, field: int, count: int, record: type[Record]) -> Array:
    """So many records, from the position on that a field of the header has, int64 [record, field]."""
    return array[array[field] : array[field] + count * record.SIZE].reshape(-1, record.SIZE)


def new_memory(t: Array, m: Array, skip: bool) -> Array:
    """Room for what is remembered of a run; none without skipping."""
    if not skip:
        return np.empty(0, np.int64)
    bound = int(state_words(t, int(t[H.POOL])))
    state_size = min(max(bound, remembered.LEAST_STATE_WORDS), remembered.MOST_STATE_WORDS)
    rest, depths = int(m[M.REST]), int(t[H.DEPTHS])
    sizes = {
        Memory.LOOPS: int(t[H.LOOPS]) * remembered.LoopMemory.SIZE,
        Memory.INDEX: depths * remembered.TRANSITIONS * remembered.Transition.SIZE,
        Memory.NEXT: depths,
        Memory.SNAPSHOTS: depths * Room.SIZE,
        Memory.TRANSITIONS: depths * Room.SIZE,
        Memory.SCRATCH: state_size,
        Memory.MACHINE: rest,
        Memory.RINGS: int(t[H.HISTORIES]) * remembered.SNAPSHOTS * remembered.Snapshot.SIZE,
    }
    rooms = {
        Memory.SNAPSHOTS: max(remembered.SNAPSHOT_WORDS, 4 * (state_size + rest)),
        Memory.TRANSITIONS: remembered.TRANSITION_WORDS,
    }
    h = _room(Memory.SIZE + sum(sizes.values()) + depths * sum(rooms.values()))
    h[: Memory.SIZE] = 0
    position = int(Memory.SIZE)
    for field, size in sizes.items():
        h[field] = position
        position += size
    h[Memory.STATE_SIZE] = state_size
    h[h[Memory.LOOPS] : h[Memory.SCRATCH]] = 0
    for field, words in rooms.items():
        for room in records_of(h, field, depths, Room):
            room[Room.BEGIN], room[Room.WORDS] = position, words
            position += words
    records_of(h, Memory.LOOPS, t[H.LOOPS], remembered.LoopMemory)[:] = remembered.LoopMemory.initial
    return h


_rooms = threading.local()
"""Each thread keeps its rooms between runs: fresh pages would cost as much as a short run."""

LARGEST_KEPT = 1 << 24
"""Words of the largest machine whose room is kept, and cleared for the next run: of larger ones, 128 MiB, most is never
touched, as slots of instances have room for the thousands of requests of a few of them. A free choice."""


def _room(words: int, name: str = "memory") -> Array:
    room: Array | None = getattr(_rooms, name, None)
    if room is None or len(room) < words:
        room = np.empty(words, np.int64)
        setattr(_rooms, name, room)
    return room


def _cleared(words: int, written: int) -> Array:
    """Room for a machine, whose last ``written`` words are written before they are read: they stay as they are."""
    if words - written > LARGEST_KEPT:
        return _untouched(words)
    m = _room(words, "machine")[:words]
    m[: words - written] = 0
    return m


def _untouched(words: int) -> Array:
    """Words that are 0, of which pages that nobody writes are never there: NumPy asks for pages of 2 MiB."""
    try:
        return np.frombuffer(mmap.mmap(-1, 8 * words), np.int64)
    except OSError as error:
        raise MemoryError(f"{8 * words:,} bytes for a machine: {error}") from error


# --- what is in it ---------------------------------------------------------------------------------------------
def alive(m: Array) -> Iterator[int]:
    """The slots of the instances in flight, in program order."""
    slot = int(m[M.OLDEST])
    while slot != NONE:
        yield slot
        slot = int(m[slot + state.Instance.YOUNGER])


def held(m: Array, number: int) -> Iterator[int]:
    """The slots of the instances that a stage holds."""
    stage = int(m[M.STAGES]) + number * Stage.SIZE
    slot = int(m[stage + Stage.HEAD])
    for _ in range(int(m[stage + Stage.COUNT])):
        yield slot
        slot = int(m[slot + state.Instance.LINK])


# --- names of the words ----------------------------------------------------------------------------------------
def machine_words(t: Array, m: Array) -> list[tuple[str, Kind]]:
    """The name and the kind of each word of a machine."""
    words = _words_of(M)
    for part in PARTS:
        assert m[part.position] == len(words), part
        if part.position == M.SLOTS:
            words += _slot_words(t) * int(t[H.POOL])
        elif part.position == M.LOG:
            words += _words_of(state.Log) * ((len(m) - len(words)) // state.Log.SIZE)
        else:
            each = [("", part.contents)] if isinstance(part.contents, Kind) else _words_of(part.contents)
            words += each * part.number(t)
    return words


def _slot_words(t: Array) -> list[tuple[str, Kind]]:
    """Names and kinds of the words of an instance with all that follows it, as far as there is room for it."""
    levels = int(t[H.LEVELS])
    steps = (int(t[H.TAIL_SIZE]) - Tail.SIZE - 2 * levels) // WayStep.SIZE
    accesses = _words_of(state.Access) + [("", fields.place)] * int(t[H.ACCESS_SIZE] - state.Access.SIZE)
    latency = [("", fields.state)]
    tail = _words_of(Tail) + latency * 2 * levels + _words_of(WayStep) * steps
    requests = int(t[H.MAX_REQUESTS])
    return [
        *_words_of(state.Instance), *accesses * int(t[H.MAX_ACCESSES]),
        *_words_of(state.Operand) * int(t[H.MAX_OPERANDS]), *_words_of(state.Request) * requests,
        *latency * int(t[H.MAX_LATENCIES]), *tail * (requests if t[H.TAIL_SIZE] else 0),
    ]  # fmt: skip


def _words_of(record: type[Record]) -> list[tuple[str, Kind]]:
    return list(zip(record.labels, record.kinds))


def _checked(t: Array, m: Array) -> Array:
    """A machine that knows its words, for the plain mode."""
    from archloom.acadl_models.timing.engine.plain import Machine

    machine = m.view(Machine)
    words = machine_words(t, m)
    machine.labels = [name for name, _ in words]
    begins = [int(m[part.position]) for part in PARTS]
    machine.parts = {int(p.position): (a, b) for p, a, b in zip(PARTS, begins, [*begins[1:], len(m)])}
    return machine
