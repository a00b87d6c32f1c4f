"""Ring buffers as straight ones: a buffer whose slots are written in turn, each as a whole.

Write number c of a ring of P slots goes to slot (c + c0) % P. A read of slot s that follows W writes sees the last one
to that slot: the number c with (c + c0 - s) % P = 0 that is at least W - P and less than W. Where c is an affine form,
the ring is the same as a buffer with a row for each write, of which the read takes row c: addresses without modulo, and
rows that are written once. P rows in front stand for the slots as they are at the start.

Two forms are tried: c at a constant distance from W, and c that counts reads, as in a queue that runs empty.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from archloom.oracle.affine import Affine, Div, Mod
from archloom.oracle.nests import rewritten, with_windows
from archloom.oracle.resolved import Buffer, Read, ResolvedLoop, ResolvedNode, ResolvedStream, Window, Write
from archloom.oracle.xla.notation.expr import Range, Ranges
from archloom.oracle.xla.notation.limits import USUAL, Limits


def without_rings(stream: ResolvedStream, limits: Limits = USUAL) -> ResolvedStream:
    """The stream with a row for each write in place of its ring buffers; the same stream if it has none."""
    for buffer in stream.buffers:
        if buffer.name != "hbm" and len(buffer.shape) > 1:
            straight = _straightened(stream, buffer, limits.ring_points)
            stream = straight or stream
    return stream


@dataclass(frozen=True)
class _Counts:
    """Writes and reads of the ring, over loop variables."""

    writes: Affine
    reads: Affine

    def plus(self, other: "_Counts", times: Affine | int = 1) -> "_Counts":
        if isinstance(times, Affine):
            return _Counts(self.writes + times * int(other.writes), self.reads + times * int(other.reads))
        return _Counts(self.writes + other.writes * times, self.reads + other.reads * times)


@dataclass(frozen=True)
class _Access:
    """A place that touches the ring: its slot, and what was done before."""

    slot: Affine
    before: _Counts
    is_write: bool


NOTHING = _Counts(Affine(0), Affine(0))


@dataclass
class _Walk:
    """The touches of one buffer in the order of the program; ``fits`` is false where it is no ring."""

    buffer: Buffer
    touches: list[_Access] = field(default_factory=list)
    ranges: dict[str, Range] = field(default_factory=dict)
    fits: bool = True

    def nodes(self, nodes: tuple[ResolvedNode, ...], before: _Counts) -> _Counts:
        """What was done when ``nodes`` have run."""
        for node in nodes:
            if isinstance(node, ResolvedLoop):
                self.fits &= (node.start, node.step) == (0, 1)
                self.ranges[node.var] = (0, node.extent - 1)
                each = self._count(node.body)
                self.nodes(node.body, before.plus(each, Affine.variable(node.var)))
                before = before.plus(each, node.extent)
            else:
                for statement in node.touching(self.buffer.name):
                    before = self._touch(statement, before)
        return before

    def _count(self, nodes: tuple[ResolvedNode, ...]) -> _Counts:
        """What one run of ``nodes`` does."""
        total = NOTHING
        for node in nodes:
            if isinstance(node, ResolvedLoop):
                total = total.plus(self._count(node.body), node.extent)
            else:
                for statement in node.touching(self.buffer.name):
                    total = total.plus(_one(statement))
        return total

    def _touch(self, statement: Read | Write, before: _Counts) -> _Counts:
        write = isinstance(statement, Write)
        self.fits &= _is_slot(statement.window, self.buffer, whole=write)
        self.fits &= not (isinstance(statement, Write) and statement.kind != "write")
        self.touches.append(_Access(statement.window.offsets[0], before, write))
        return before.plus(_one(statement))


def _one(statement: Read | Write) -> _Counts:
    write = isinstance(statement, Write)
    return _Counts(Affine(int(write)), Affine(int(not write)))


def _is_slot(window: Window, buffer: Buffer, *, whole: bool) -> bool:
    """Whether a window lies in one slot; all of it, if ``whole``."""
    if any(dim.axis == 0 and dim.extent > 1 for dim in window.dims):
        return False
    if not whole:
        return True
    extents = {dim.axis: dim.extent for dim in window.dims if dim.extent > 1 and dim.stride == 1}
    return all(
        extents.get(axis, 1) == extent and window.offsets[axis] == Affine(0)
        for axis, extent in enumerate(buffer.shape) if axis
    )


def _straightened(stream: ResolvedStream, buffer: Buffer, points: int) -> ResolvedStream | None:
    walk, slots = _Walk(buffer), buffer.shape[0]
    total = walk.nodes(stream.body, NOTHING)
    if not walk.fits or all(access.slot.is_linear for access in walk.touches):
        return None
    starts = {_remainder(t.slot - t.before.writes, slots, walk.ranges, points) for t in walk.touches if t.is_write}
    start = starts.pop() if len(starts) == 1 else None
    if start is None:
        return None
    rows = [_write_seen(access, start, slots, walk.ranges, points) for access in walk.touches]
    known = [row + slots for row in rows if row is not None]
    if len(known) != len(rows):
        return None
    numbers = iter(known)

    def in_row(window: Window) -> Window:
        return window if window.buffer != buffer.name else replace(window, offsets=(next(numbers), *window.offsets[1:]))

    straight = replace(buffer, shape=(int(total.writes) + slots, *buffer.shape[1:]))
    return replace(
        stream, buffers=tuple(straight if b == buffer else b for b in stream.buffers),
        body=rewritten(stream.body, lambda instr: [with_windows(instr, lambda s: in_row(s.window))]),
    )


def _write_seen(access: _Access, start: int, slots: int, ranges: Ranges, points: int) -> Affine | None:
    """The number of the write that a touch makes or sees."""
    if access.is_write:
        return access.before.writes
    for count in (access.before.writes, access.before.reads):
        phase = _remainder(access.slot - start - count, slots, ranges, points)
        if phase is None:
            continue
        # count + phase is right modulo the slots; the one that the ring still holds
        low, high = (access.before.writes - count - phase).range(ranges)
        seen = count + phase + (low - 1) // slots * slots
        if high - low < slots and (high - 1) // slots == (low - 1) // slots:
            return seen
    return None


def _remainder(form: Affine, divisor: int, ranges: Ranges, points: int) -> int | None:
    """``form % divisor`` if it is the same for all values of its variables.

    Its value modulo ``divisor`` repeats along each variable with the least common multiple of all divisors, so that one
    period of each shows all values. None, too, where that takes more than ``points``.
    """
    atoms = list(_atoms(form))
    if any(isinstance(atom, Div) for atom in atoms):
        return None
    period = math.lcm(divisor, *(atom.divisor for atom in atoms))
    names = sorted(form.variables())
    spans = [range(min(period, ranges[name][1] + 1)) for name in names]
    if math.prod(len(span) for span in spans) > points:
        return None
    values = {
        int(form.evaluate(dict(zip(names, point, strict=True)))) % divisor for point in itertools.product(*spans)}
    return values.pop() if len(values) == 1 else None


def _atoms(form: Affine) -> Iterator[Div | Mod]:
    for atom, _ in form.terms:
        if not isinstance(atom, str):
            yield atom
            yield from _atoms(atom.numerator)
