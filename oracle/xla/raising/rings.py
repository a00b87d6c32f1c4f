"""Ring buffers as straight ones: a buffer whose slots are written in turn, each as a whole.

Write number c of a ring of P slots goes to slot (c + c0) % P. A read of slot s that follows W writes sees the last one
to that slot: the number c with (c + c0 - s) % P = 0 that is at least W - P and less than W. Where c is an affine form,
the ring is the same as a buffer with a row for each write, of which the read takes row c: addresses without modulo, and
rows that are written once. P rows in front stand for the slots as they are at the start.

Two forms are tried: c at a constant distance from W, and c that counts reads, as in a queue that runs empty.

Where that is not so, loops are cut into strips of as many iterations as a ring has slots, so that each iteration of a
strip has one slot: ``(w + c) % 2`` in an address is 0 or 1 by turns, and in a strip of two iterations a constant in
each. A buffer of two blocks, one of which is worked on while the other is moved, becomes two buffers that are written
every other time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from archloom.oracle import resolved
from archloom.oracle.affine import Affine, Div, Mod
from archloom.oracle.nests import loops, rewritten, size, touching, with_forms, with_windows
from archloom.oracle.resolved import Buffer, Read, ResolvedLoop, ResolvedNode, ResolvedStream, Window, Write
from archloom.oracle.xla.notation.expr import Ranges
from archloom.oracle.xla.notation.limits import USUAL, Limits
from archloom.oracle.xla.notation.variables import Strip


def without_rings(stream: ResolvedStream, limits: Limits = USUAL) -> ResolvedStream:
    """The stream with a row for each write in place of its ring buffers; the same stream if it has none."""
    for buffer in stream.buffers:
        if buffer.name != "hbm" and len(buffer.shape) > 1:
            straight = _straightened(stream, buffer, limits.ring_points)
            stream = straight or stream
    return stream


@dataclass(frozen=True)
class _Access:
    """A read or write of the ring, and how many writes and reads were before it, over loop variables."""

    statement: Read | Write
    writes: Affine
    reads: Affine

    @property
    def slot(self) -> Affine:
        return self.statement.window.offsets[0]

    @property
    def is_write(self) -> bool:
        return isinstance(self.statement, Write)


def _accesses(nodes: Sequence[ResolvedNode], buffer: str, writes: Affine, reads: Affine) -> Iterator[_Access]:
    """Those of a buffer in the order of the program; ``writes`` and ``reads`` were before."""
    for node in nodes:
        if isinstance(node, ResolvedLoop):
            (w, r), i = _count(node.body, buffer), Affine.variable(node.var)
            yield from _accesses(node.body, buffer, writes + i * w, reads + i * r)
            writes, reads = writes + w * node.extent, reads + r * node.extent
            continue
        for statement in node.touching(buffer):
            yield _Access(statement, writes, reads)
            write = isinstance(statement, Write)
            writes, reads = writes + write, reads + (not write)


def _count(nodes: Sequence[ResolvedNode], buffer: str) -> tuple[int, int]:
    """How many writes and reads one run of ``nodes`` makes."""
    writes = reads = 0
    for statement, around in touching(nodes, buffer):
        times = math.prod(loop.extent for loop in around)
        writes, reads = writes + isinstance(statement, Write) * times, reads + isinstance(statement, Read) * times
    return writes, reads


def _is_slot(access: _Access, buffer: Buffer) -> bool:
    """Whether an access lies in one slot, all of which it writes if it is a write."""
    window = access.statement.window
    if any(dim.axis == 0 and dim.extent > 1 for dim in window.dims):
        return False
    if isinstance(access.statement, Read):
        return True
    extents = {dim.axis: dim.extent for dim in window.dims if dim.extent > 1 and dim.stride == 1}
    return access.statement.kind == "write" and all(
        extents.get(axis, 1) == extent and window.offsets[axis] == Affine(0)
        for axis, extent in enumerate(buffer.shape) if axis
    )


def _straightened(stream: ResolvedStream, buffer: Buffer, points: int) -> ResolvedStream | None:
    slots = buffer.shape[0]
    ranges = {loop.var: (0, loop.extent - 1) for loop in loops(stream.body)}
    accesses = list(_accesses(stream.body, buffer.name, Affine(0), Affine(0)))
    if not all(_is_slot(a, buffer) for a in accesses) or all(a.slot.is_linear for a in accesses):
        return None
    starts = {_remainder(a.slot - a.writes, slots, ranges, points) for a in accesses if a.is_write}
    start = starts.pop() if len(starts) == 1 else None
    if start is None:
        return None
    rows = [_write_seen(access, start, slots, ranges, points) for access in accesses]
    known = [row + slots for row in rows if row is not None]
    if len(known) != len(rows):
        return None
    numbers = iter(known)

    def in_row(window: Window) -> Window:
        return window if window.buffer != buffer.name else replace(window, offsets=(next(numbers), *window.offsets[1:]))

    straight = replace(buffer, shape=(_count(stream.body, buffer.name)[0] + slots, *buffer.shape[1:]))
    return replace(
        stream, buffers=tuple(straight if b == buffer else b for b in stream.buffers),
        body=rewritten(stream.body, lambda instr: [with_windows(instr, lambda s: in_row(s.window))]),
    )


def _write_seen(access: _Access, start: int, slots: int, ranges: Ranges, points: int) -> Affine | None:
    """The number of the write that a touch makes or sees."""
    if access.is_write:
        return access.writes
    for count in (access.writes, access.reads):
        phase = _remainder(access.slot - start - count, slots, ranges, points)
        if phase is None:
            continue
        # count + phase is right modulo the slots; the one that the ring still holds
        low, high = (access.writes - count - phase).range(ranges)
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
    values = {int(form.evaluate(dict(zip(names, point, strict=True)))) % divisor for point in itertools.product(*spans)}
    return values.pop() if len(values) == 1 else None


def _atoms(form: Affine) -> Iterator[Div | Mod]:
    for atom, _ in form.terms:
        if not isinstance(atom, str):
            yield atom
            yield from _atoms(atom.numerator)


# --- strips -------------------------------------------------------------------------------------------------------


def in_strips(stream: ResolvedStream, buffer: str, limits: Limits = USUAL) -> ResolvedStream:
    """The stream with strips for the loops that walk around in rings of ``buffer``; the same stream if none does."""
    periods = _periods(stream.body, buffer, limits.strip_iterations)
    if not periods:
        return stream
    ranges = {loop.var: (0, loop.extent - 1) for loop in loops(stream.body)}
    body = _nodes(stream.body, periods, {}, ranges)
    return replace(stream, body=body) if size(body) <= limits.strip_instructions else stream


def _periods(nodes: tuple[ResolvedNode, ...], buffer: str, most: int) -> dict[str, int]:
    """After how many iterations of a loop, at most ``most``, the slots of the ring repeat, by the loop's variable."""
    found: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ResolvedLoop):
            parts = _periods(node.body, buffer, most)
        else:
            parts = {}
            for s in node.touching(buffer):
                for name, period in _slot_periods(s.window.offsets[0]):
                    parts[name] = math.lcm(parts.get(name, 1), period)
        for name, period in parts.items():
            found[name] = math.lcm(found.get(name, 1), period)
    return {name: period for name, period in found.items() if 1 < period <= most}


def _slot_periods(form: Affine) -> Iterator[tuple[str, int]]:
    for atom, _ in form.terms:
        if isinstance(atom, Mod) and atom.numerator.is_linear:
            for name, factor in atom.numerator.terms:
                assert isinstance(name, str)
                yield name, atom.divisor // math.gcd(atom.divisor, factor)


def _nodes(
    nodes: tuple[ResolvedNode, ...], periods: Mapping[str, int], known: Mapping[str, Affine],
    ranges: Mapping[str, tuple[int, int]], suffix: str = "",
) -> tuple[ResolvedNode, ...]:
    """The nodes with loops in strips; ``suffix`` keeps the variables of a body's copies apart."""
    found: list[ResolvedNode] = []
    for node in nodes:
        if isinstance(node, resolved.ResolvedInstr):
            found.append(with_forms(node, lambda f: f.substitute(known).simplify(ranges)) if known else node)
            continue
        period = periods.get(node.var, 1)
        strips = node.extent // period
        if period == 1:
            name = node.var + suffix
            inner = {**known, node.var: Affine.variable(name)} if suffix else known
            body = _nodes(node.body, periods, inner, {**ranges, name: ranges[node.var]}, suffix)
            found.append(replace(node, var=name, body=body))
            continue

        strip: str = Strip(f"{node.var}{suffix}'")
        first = strips * period if strips > 1 else 0
        copies = [(Affine.variable(strip) * period + i, {strip: (0, strips - 1)}) for i in range(period) if first]
        copies += [(Affine(i), {}) for i in range(first, node.extent)]
        bodies = [
            _nodes(node.body, periods, {**known, node.var: value}, {**ranges, **own}, f"{suffix}'{i}")
            for i, (value, own) in enumerate(copies)]
        if first:
            found.append(ResolvedLoop(strip, strips, tuple(n for body in bodies[:period] for n in body)))
        found += [n for body in bodies[period if first else 0:] for n in body]
    return tuple(found)
