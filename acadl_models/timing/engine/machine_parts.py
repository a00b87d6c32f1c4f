"""Which records lie in the machine (``m``), how many of each, and the positions of its fields by kind.

A :class:`Group` has the positions of all fields of some kinds (:mod:`.fields`): what snapshots take, what moves, what
is compared and cleared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from archloom.acadl_models.timing.engine.fields import (
    NONE,
    Kind,
    Record,
    arrival,
    code,
    constant,
    counter,
    derived,
    effort,
    linked,
    scratch,
    sequence,
    shaped,
    state,
    time,
    until,
)
from archloom.acadl_models.timing.engine.layout import MAX_DIMS, STACK, CacheSpec, H, StoreKind, StoreSpec
from archloom.acadl_models.timing.engine.memory_state import POSTED_PER_LEVEL, Bank, Cache, Dram, Live, Look, Posted
from archloom.acadl_models.timing.engine.state import (
    WHEEL,
    Array,
    Ends,
    Flight,
    Link,
    Log,
    Loop,
    M,
    Name,
    Queue,
    Stage,
    Store,
    Unit,
)

# --- m: its parts ----------------------------------------------------------------------------------------------
Count = Callable[[Array], int]


@dataclass(frozen=True)
class MachinePart:
    """So many records, or words of one kind: ``position`` is the M field with their position.

    ``count``: the H field with their number, or what the tables say about it.
    """

    position: int
    contents: type[Record] | Kind
    count: int | Count

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Of the words of one record."""
        return (self.contents,) if isinstance(self.contents, Kind) else self.contents.kinds

    @cached_property
    def initial(self) -> tuple[int, ...] | None:
        """The words of one record before the first cycle; None where they are 0."""
        found = tuple(kind.initial for kind in self.kinds)
        return found if any(found) else None

    def number(self, t: Array) -> int:
        """How many records there are."""
        return int(t[self.count] if isinstance(self.count, int) else self.count(t))


def _caches(t: Array) -> Array:
    return t[t[H.CACHE_TABLE] :][: t[H.CACHES] * CacheSpec.SIZE].reshape(-1, CacheSpec.SIZE)


def _cache_lines(t: Array) -> int:
    return int((_caches(t)[:, CacheSpec.SETS] * _caches(t)[:, CacheSpec.WAYS]).sum())


def _registers(t: Array) -> int:
    return int(_caches(t)[:, CacheSpec.REGISTERS].sum())


def _most_stepping(t: Array) -> int:
    stores = t[t[H.STORE_TABLE] :][: t[H.STORES] * StoreSpec.SIZE].reshape(-1, StoreSpec.SIZE)
    return int(stores[stores[:, StoreSpec.KIND] == StoreKind.CACHED, StoreSpec.CAPACITY].sum())


def _mark_words(t: Array) -> int:
    return -(-int(t[H.STAGES]) // 64)


PARTS: tuple[MachinePart, ...] = (
    MachinePart(M.STAGES, Stage, H.STAGES),
    MachinePart(M.UNITS, Unit, H.UNITS),
    MachinePart(M.STORES, Store, H.STORES),
    MachinePart(M.LOOPS, Loop, H.LOOPS),
    MachinePart(M.SPENT, counter, H.SITE_COUNTERS),  # cycles with the front directly in each loop of the text
    MachinePart(M.ITERATED, effort, H.SITES),  # iterations of each loop of the text begun one by one
    MachinePart(M.CACHES, Cache, H.CACHES),
    MachinePart(M.CACHE_LINES, Kind("place", NONE), _cache_lines),
    MachinePart(M.EXPECTED, scratch, _registers),  # lines on their way while a period is replayed, cache by cache
    MachinePart(M.DRAMS, Dram, H.DRAMS),
    MachinePart(M.BANKS, Bank, H.BANKS),
    MachinePart(M.LINKS, Link, H.LINKS),
    MachinePart(M.REST, derived, lambda t: 0),
    MachinePart(M.FLIGHTS, Flight, H.FETCH_FLIGHTS),
    MachinePart(M.REGISTERS, Kind("derived", NONE), _registers),
    MachinePart(M.VALUES, derived, H.VALUES),
    MachinePart(M.EVENTS, scratch, H.LOOPS),
    MachinePart(M.CLASSES, Ends, H.ENDS),
    MachinePart(M.FILES, derived, H.FILES),  # free physical registers
    MachinePart(M.NAMES, Name, H.NAMES),
    MachinePart(M.QUEUES, Queue, H.SIGNATURES),
    MachinePart(M.WHEEL, linked, lambda t: WHEEL),
    MachinePart(M.MARKS, shaped, _mark_words),  # in wide machines: a bit for each stage
    MachinePart(M.SUMMARY, shaped, lambda t: -(-_mark_words(t) // 64)),  # a bit for each word of these
    MachinePart(M.SLOTS, shaped, lambda t: t[H.POOL] * t[H.SLOT_SIZE]),  # see slot_kinds
    MachinePart(M.FIELDS, constant, lambda t: listed(t)),  # positions of the fields of each group
    MachinePart(M.STACK, scratch, lambda t: STACK),  # of latencies
    MachinePart(M.WORK, scratch, lambda t: 5 * MAX_DIMS),  # of phases.conflicts.is_sum
    MachinePart(M.MOVING, scratch, H.POOL),  # instances that move on in phase 1
    MachinePart(M.JUDGED, scratch, H.UNITS),  # instances that may start in phase 3
    MachinePart(M.FREED, scratch, H.STORES),  # storages with slots freed in phase 1
    MachinePart(M.STEPPING, scratch, _most_stepping),  # requests that look on in a cache in phase 1
    MachinePart(M.POSTED, Posted, lambda t: (t[H.LEVELS] + 1) * POSTED_PER_LEVEL),  # stack of bytes that are passed on
    MachinePart(M.RANGES, Live, H.PLACED),  # accesses of a loop in a proof
    MachinePart(M.LOW, scratch, H.VALUES),  # ranges of values in a proof
    MachinePart(M.HIGH, scratch, H.VALUES),
    MachinePart(M.DISTANCES, scratch, lambda t: t[H.CLASSES] * t[H.MAX_AXES]),  # by which conflict classes have moved
    MachinePart(M.KNOWN, scratch, H.CLASSES),  # whether these are known
    MachinePart(M.DISTANCE, scratch, lambda t: t[H.MAX_AXES] + 1),  # the one at hand: along each axis, and in words
    MachinePart(M.LOOKS, Look, H.LOOKS),  # what was asked of caches, in a ring
    MachinePart(M.LOG, Log, lambda t: 0),  # room for more where a window is looked at
)


# --- m: its fields by kind -------------------------------------------------------------------------------------
class Group(Record):
    """Fields that are treated alike over the whole machine; their positions lie from ``m[M.LISTS + ...]`` to the next.

    Those of instances are not among them: instances are walked in program order.
    """

    TIMES = SEQUENCES = COUNTERS = EFFORTS = STATES = UNTILS = ARRIVALS = code


_KINDS = ((time, until, arrival), (sequence,), (counter,), (effort,), (state,), (until,), (arrival,))
"""By group."""

_GROUPS = tuple(
    [
        (part, offsets)
        for part in (MachinePart(M.HEADER, M, H.HEADERS), *PARTS)
        if (offsets := [k for k, kind in enumerate(part.kinds) if kind.name in {found.name for found in kinds}])
    ]
    for kinds in _KINDS
)


def group_words() -> list[int]:
    """The ``GroupSpec`` records of each group with their fields, NONE behind each group."""
    words: list[int] = []
    for group in _GROUPS:
        for part, offsets in group:
            assert isinstance(part.count, int), part
            words += [part.position, part.count, len(part.kinds), len(offsets), *offsets]
        words.append(NONE)
    return words


def listed(t: Array) -> int:
    """Fields of all groups."""
    return sum(part.number(t) * len(offsets) for group in _GROUPS for part, offsets in group)
