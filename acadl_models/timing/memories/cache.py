"""A set-associative cache, line by line.

A set is a list of lines in the order of replacement, as pycachesim keeps it (the cache simulator that the ACADL paper
names): that makes every policy a rule about two moves in a list, and hits and misses comparable one by one.

==========  =================================================  ============================================
policy      a line that is loaded                              a load that hits
==========  =================================================  ============================================
``LRU``     goes to the front; the last one gives way          moves the line to the front
``FIFO``    goes to the front; the last one gives way          moves nothing
``MRU``     takes the place of the last one                    moves the line to the front
``RANDOM``  takes a free place, or else one drawn by chance    moves nothing
==========  =================================================  ============================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum

from archloom.acadl_models.acadl.storages import ReplacementPolicy
from archloom.acadl_models.timing.result import CacheTiming

MULTIPLIER, MODULUS = 48271, 2**31 - 1
"""Park and Miller's minimal standard generator: the choices of the policy RANDOM."""


class Wait(Enum):
    """What happens to a request at a cache: it waits for a latency of the cache, or for others.

    ``REGISTER``: it waits until a miss-status register is free again. ``SLOT``: for a slot of the storage behind.
    ``ARRIVED``: it goes on, as the line for which it held both has come.
    """

    HIT = "hit_latency"
    MISS = "miss_latency"
    REGISTER = "register"
    SLOT = "slot"
    ARRIVED = "arrived"


@dataclass(eq=False)
class Line:
    """A line in the cache: ``number`` is its address divided by the size of a line."""

    number: int
    dirty: bool = False


@dataclass(eq=False)
class Cache:
    """A cache of ``sets`` sets with ``ways`` lines of ``line_bytes`` bytes, in front of ``backing`` or of a memory.

    ``hit_after_miss``: a request waits for the latency of a hit also after a miss. ``registers``: how many lines may be
    on their way at once, None for any number.
    """

    name: str
    sets: int
    ways: int
    line_bytes: int
    policy: ReplacementPolicy = ReplacementPolicy.LRU
    write_back: bool = True
    write_allocate: bool = True
    seed: int = 0
    backing: "Cache | None" = None
    hit_after_miss: bool = True
    registers: int | None = None
    read_hits: int = 0
    read_misses: int = 0
    write_hits: int = 0
    write_misses: int = 0
    evictions: int = 0
    write_backs: int = 0
    bytes_from_backing: int = 0
    bytes_to_backing: int = 0
    lines: list[list[Line | None]] = field(init=False)
    generator: int = field(init=False)
    on_the_way: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.lines = [[None] * self.ways for _ in range(self.sets)]
        self.generator = self.seed % (MODULUS - 1) + 1

    # --- requests -----------------------------------------------------------------------------------------------
    def serve(self, runs: Iterable[tuple[int, int]], is_read: bool) -> Iterator[tuple["Cache", Wait]]:
        """Serve a request in a slot: yields what it waits for, one after the other, until the first beat can move.

        ``runs`` are half-open ranges of bytes, ascending. The lines that they touch are looked up one after the other,
        each when the one before is there; a line that is missing is there when what is yielded for it is over.
        """
        missed = False
        for line, written in self._touched(runs):
            while self._must_wait(line, is_read):
                missed = True
                yield self, Wait.REGISTER
            if not self._look_up(line, is_read):
                missed = True
                yield from self._miss(line, is_read)
            if not is_read:
                self._write(line, written)
        if self.hit_after_miss or not missed:
            yield self, Wait.HIT

    def access(self, address: int, size: int, is_read: bool) -> None:
        """Read or write ``size`` bytes from ``address`` on, in no time and without a register."""
        for line, written in self._touched([(address, address + size)]):
            if not self._look_up(line, is_read) and (is_read or self.write_allocate):
                if self.backing is not None:
                    self.backing.access(line * self.line_bytes, self.line_bytes, is_read=True)
                self._bring(line)
            if not is_read:
                self._write(line, written)

    def figures(self) -> CacheTiming:
        """The counters so far."""
        return CacheTiming(
            self.name, self.read_hits, self.read_misses, self.write_hits, self.write_misses, self.evictions,
            self.write_backs, self.bytes_from_backing, self.bytes_to_backing,
        )

    # --- lines --------------------------------------------------------------------------------------------------
    def _touched(self, runs: Iterable[tuple[int, int]]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """The lines that byte ranges touch, ascending, each with the parts of the ranges in it."""
        found: dict[int, list[tuple[int, int]]] = {}
        for start, stop in runs:
            for line in range(start // self.line_bytes, (stop - 1) // self.line_bytes + 1):
                first = line * self.line_bytes
                found.setdefault(line, []).append((max(start, first), min(stop, first + self.line_bytes)))
        return iter(found.items())

    def _look_up(self, line: int, is_read: bool) -> bool:
        """Whether a line is there; a read that hits moves it as the policy says."""
        places, hit = self.lines[line % self.sets], self._place(line)
        if hit is None:
            self.read_misses += is_read
            self.write_misses += not is_read
            return False
        self.read_hits += is_read
        self.write_hits += not is_read
        if is_read and self.policy in (ReplacementPolicy.LRU, ReplacementPolicy.MRU):
            places.insert(0, places.pop(hit))
        return True

    def _place(self, line: int) -> int | None:
        """Where a line lies in its set; None if it is not there."""
        places = self.lines[line % self.sets]
        return next((k for k, held in enumerate(places) if held is not None and held.number == line), None)

    def _must_wait(self, line: int, is_read: bool) -> bool:
        """Whether a line is on its way, or would need a register while none is free."""
        if self._place(line) is not None:
            return False
        comes = is_read or self.write_allocate or self.write_back
        return line in self.on_the_way or (comes and len(self.on_the_way) == self.registers)

    def _miss(self, line: int, is_read: bool) -> Iterator[tuple["Cache", Wait]]:
        """A missing line comes from what is behind the cache, if a write does not do without it."""
        loads = is_read or self.write_allocate
        if loads or self.write_back:
            self.on_the_way.add(line)
        if loads and self.backing is None:
            yield self, Wait.SLOT
        yield self, Wait.MISS
        if loads:
            first = line * self.line_bytes
            if self.backing is not None:
                yield self, Wait.SLOT
                yield from self.backing.serve([(first, first + self.line_bytes)], is_read=True)
            self._bring(line)
        if loads or self.write_back:
            self.on_the_way.remove(line)
            yield self, Wait.ARRIVED

    def _bring(self, line: int) -> None:
        """A line that was read from behind comes in."""
        self.bytes_from_backing += self.line_bytes
        self._put(line)

    def _put(self, line: int) -> None:
        """A line comes into its set; another may give way. Where another request brought it meanwhile, it stays."""
        if self._place(line) is not None:
            return
        places = self.lines[line % self.sets]
        if self.policy is ReplacementPolicy.RANDOM:
            place = places.index(None) if None in places else self._draw()
            victim, places[place] = places[place], Line(line)
        else:
            victim = places.pop()
            places.insert(len(places) if self.policy is ReplacementPolicy.MRU else 0, Line(line))
        if victim is not None:
            self.evictions += 1
            if victim.dirty:
                self.write_backs += 1
                self._pass_on(victim.number * self.line_bytes, (victim.number + 1) * self.line_bytes)

    def _draw(self) -> int:
        self.generator = self.generator * MULTIPLIER % MODULUS
        return self.generator % self.ways

    def _write(self, line: int, written: list[tuple[int, int]]) -> None:
        """The parts of a line are written into it, or passed on to what is behind the cache."""
        if self.write_back:
            self._put(line)  # without write_allocate the line comes in without being loaded: it is only written
            held = next(h for h in self.lines[line % self.sets] if h is not None and h.number == line)
            held.dirty = True
        else:
            for start, stop in written:
                self._pass_on(start, stop)

    def _pass_on(self, start: int, stop: int) -> None:
        """Bytes go to what is behind the cache: a buffer hides the time that it takes."""
        self.bytes_to_backing += stop - start
        if self.backing is not None:
            self.backing.access(start, stop - start, is_read=False)
