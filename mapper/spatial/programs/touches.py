"""What the instructions of a program of many cores touch, as their ISA tells it: all instances, as arrays.

Nothing here knows an instruction but ``launch``: windows of TAIDL are evaluated over all values of the loops.

Memory is looked at on machines with semaphores, where nothing else keeps a load behind the store of what it loads.
Programs that load what they store, or store it twice, are rare: whether one does is seen from the first and last bytes
of runs, and only then are its bytes places, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.machines.queues import BUFFERS, Numbers, core_name
from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Read, ResolvedInstr, ResolvedNode, Window, Write
from archloom.oracle.stream import Instr, Loop, Node, Stream
from archloom.oracle.taidl.isa import HBM

MOST_PARTS = 1 << 24
"""Places of memory that are looked at one by one."""


@dataclass(frozen=True)
class Instances:
    """All instances of one instruction: their places in program order, and what varies the same way."""

    instr: Instr
    position: Numbers
    values: dict[str, Numbers]

    def __call__(self, form: Affine) -> Numbers:
        """The value of an expression in each of them."""
        return evaluated(form, self.values, self.position.shape)

    def attribute(self, name: str) -> Numbers:
        return self(self.instr[name])


def evaluated(form: Affine, values: dict[str, Numbers], shape: tuple[int, ...]) -> Numbers:
    """An expression for many values of its variables."""
    return np.broadcast_to(np.asarray(form.evaluate(values), np.int64), shape)


def instances(nodes: tuple[Node, ...]) -> Iterator[Instances]:
    """Every instruction of a program with its instances."""
    for node, position, values in _instances(nodes, np.zeros(1, np.int64), {}):
        assert isinstance(node, Instr)
        yield Instances(node, position, values)


def _instances(
    nodes: tuple[Node, ...] | tuple[ResolvedNode, ...], first: Numbers, values: dict[str, Numbers]
) -> Iterator[tuple[Node | ResolvedNode, Numbers, dict[str, Numbers]]]:
    offset = 0
    for node in nodes:
        if isinstance(node, (Instr, ResolvedInstr)):
            yield node, first + offset, values
            offset += 1
            continue
        turns = np.arange(node.extent, dtype=np.int64)
        size = _size(node.body)
        starts = ((first + offset)[:, None] + turns * size).ravel()
        inner = {name: np.repeat(v, len(turns)) for name, v in values.items()}
        begin, step = (node.start, node.step) if isinstance(node, Loop) else (0, 1)
        inner[node.var] = np.tile(begin + turns * step, len(first))
        yield from _instances(node.body, starts, inner)
        offset += size * len(turns)


def _size(nodes: tuple[Node, ...] | tuple[ResolvedNode, ...]) -> int:
    return sum(1 if isinstance(n, (Instr, ResolvedInstr)) else n.extent * _size(n.body) for n in nodes)


@dataclass(frozen=True)
class Touches:
    """Reads and writes of places, a row for each, by place and then in program order. Places are numbered through
    BUFFERS, one after the other; queues are -1 on machines without semaphores.

    ``source`` numbers the instructions of the program as they stand in its text; an instruction that reads and writes
    a place has one row, which writes. ``memory``: the address of the first place of memory, which come after those of
    cores, and their bytes.
    """

    place: Numbers
    position: Numbers
    queue: Numbers
    source: Numbers
    writes: NDArray[np.bool_]
    memory: tuple[int, int] = (0, 1)

    @property
    def new(self) -> NDArray[np.bool_]:
        """Rows that are the first of their place."""
        found: NDArray[np.bool_] = np.diff(self.place, prepend=-1) != 0
        return found


def touches(stream: Stream, machine: Machine) -> Touches:
    """Those of a stream's instructions but ``launch``; MappingError for one that is in no queue of a machine with
    semaphores."""
    resolved = resolve(stream, taidl.load(stream.isa, **dict(stream.parameters)))
    parts: list[tuple[Numbers, ...]] = []
    far: list[_Runs] = []
    for node, position, values in _instances(resolved.body, np.zeros(1, np.int64), {}):
        assert isinstance(node, ResolvedInstr)
        if node.mnemonic != "launch":
            parts += _rows(node, position, values, machine)
            far += _runs(node, position, values, machine)
    memory, added = _in_memory(far, sum(sizes(machine).values()) * machine.cores, stream.name)
    parts += added
    if not parts:
        none = np.zeros(0, np.int64)
        return Touches(none, none, none, none, none == 0)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    place, position, queue, source, reads = columns
    order = np.lexsort((reads, position, place))
    place, position, queue, source, reads = (column[order] for column in columns)
    first = (np.diff(place, prepend=-1) != 0) | (np.diff(position, prepend=-1) != 0)
    return Touches(place[first], position[first], queue[first], source[first], reads[first] == 0, memory)


def sizes(machine: Machine) -> dict[str, int]:
    """Places of each buffer in a core."""
    return dict(zip(BUFFERS, (machine.tiles, machine.sums, machine.stats)))


def firsts(machine: Machine) -> dict[str, int]:
    """The number of each buffer's first place."""
    found, first = {}, 0
    for name, size in sizes(machine).items():
        found[name], first = first, first + size * machine.cores
    return found


def _rows(
    instr: ResolvedInstr, position: Numbers, values: dict[str, Numbers], machine: Machine
) -> Iterator[tuple[Numbers, ...]]:
    size, base = sizes(machine), firsts(machine)
    windows = [(s.window, isinstance(s, Read)) for s in instr.statements
               if isinstance(s, (Read, Write)) and s.window.buffer in size]
    if not windows:
        return

    queue = _queue(instr, position, values, machine)
    source = np.full(position.shape, instr.source, np.int64)
    for window, reads in dict.fromkeys(windows):
        place = _places(window, values, position.shape) + base[window.buffer]
        times = place.shape[1]
        yield (place.ravel(), np.repeat(position, times), np.repeat(queue, times), np.repeat(source, times),
               np.full(place.size, int(reads)))


def _queue(instr: ResolvedInstr, position: Numbers, values: dict[str, Numbers], machine: Machine) -> Numbers:
    """The queue of each instance."""
    if not machine.semaphores:
        return np.full(position.shape, -1, np.int64)
    size = sizes(machine)

    def core(kind: type[Read] | type[Write]) -> Numbers | None:
        window = next((s.window for s in instr.statements if isinstance(s, kind) and s.window.buffer in size), None)
        return None if window is None else evaluated(window.offsets[0], values, position.shape) // size[window.buffer]

    return machine.queues.queue_of(instr.mnemonic, core(Read), core(Write))


def _places(window: Window, values: dict[str, Numbers], shape: tuple[int, ...]) -> Numbers:
    """Rows of a buffer, for each instance."""
    found = evaluated(window.offsets[0], values, shape)[:, None]
    for dim in window.dims:
        if dim.axis == 0 and dim.extent > 1:
            apart = np.arange(dim.extent, dtype=np.int64) * dim.stride
            found = (found[:, :, None] + apart).reshape(len(found), -1)
    return found


def conflicts(found: Touches) -> Iterator[tuple[Numbers, Numbers]]:
    """Rows that must come one after the other: a touch and the write before it, a write and the reads before it.

    A write that follows reads comes after the write before those if they do.
    """
    n = len(found.place)
    rows, new = np.arange(n), found.new
    # the last write at or before each row, of the same place
    start = np.maximum.accumulate(np.where(new, rows, 0))
    last = np.maximum.accumulate(np.where(found.writes, rows, -1))
    previous = np.concatenate(([-1], last[:-1])) if n else last
    has = (previous >= start) & (~found.writes | (previous == rows - 1))
    yield previous[has], rows[has]
    # the next write after each read, of the same place
    ahead = np.minimum.accumulate(np.where(found.writes, rows, n)[::-1])[::-1] if n else rows
    end = np.append(np.flatnonzero(new)[1:], n)[np.cumsum(new) - 1] if n else rows
    reads = ~found.writes & (ahead < end)
    yield rows[reads], ahead[reads]


def place_name(place: int, found: Touches, machine: Machine) -> str:
    """What lies at a place, such as ``tile 3 of core[0][1]``, or ``bytes 64 to 127 of memory``."""
    size, base = sizes(machine), firsts(machine)
    beyond = place - sum(size.values()) * machine.cores
    if beyond >= 0:
        first, each = found.memory
        return f"bytes {first + beyond * each} to {first + beyond * each + each - 1} of memory"
    buffer = next(name for name in reversed(BUFFERS) if place >= base[name])
    core, own = divmod(place - base[buffer], size[buffer])
    kinds = dict(zip(BUFFERS, ("tile", "sum", "statistic")))
    return f"{kinds[buffer]} {own} of {core_name(core, machine)}"


# --- memory --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Runs:
    """Bytes of memory that follow one another, which instances of an instruction read or write: a row for each run."""

    start: Numbers
    size: int
    position: Numbers
    queue: Numbers
    source: int
    reads: bool

    @property
    def end(self) -> Numbers:
        return self.start + self.size

    def meets(self, other: "_Runs") -> bool:
        """Whether the first and the last byte of all lie around some of the other's."""
        return bool(self.start.min() < other.end.max() and other.start.min() < self.end.max())


def _runs(instr: ResolvedInstr, position: Numbers, values: dict[str, Numbers], machine: Machine) -> Iterator[_Runs]:
    for statement in instr.statements if machine.semaphores and len(position) else ():
        if isinstance(statement, (Read, Write)) and statement.window.buffer == HBM:
            start, size = _bytes(statement.window, values, position.shape)
            times = start.shape[1]
            queue = _queue(instr, position, values, machine)
            yield _Runs(start.ravel(), size, np.repeat(position, times), np.repeat(queue, times), instr.source,
                        isinstance(statement, Read))


def _bytes(window: Window, values: dict[str, Numbers], shape: tuple[int, ...]) -> tuple[Numbers, int]:
    """Where the runs of each instance begin, and the bytes of each: axes without gaps between their steps are one."""
    start, size = evaluated(window.offsets[0], values, shape)[:, None], 1
    for dim in sorted(window.dims, key=lambda dim: abs(dim.stride)):
        reach = dim.stride * (dim.extent - 1)
        if abs(dim.stride) <= size:
            start, size = start + min(reach, 0), size + abs(reach)
        else:
            start = (start[:, :, None] + np.arange(dim.extent, dtype=np.int64) * dim.stride).reshape(len(start), -1)
    return start, size


def _in_memory(far: list[_Runs], first: int, name: str) -> tuple[tuple[int, int], list[tuple[Numbers, ...]]]:
    """Touches of bytes that one instruction writes and another one touches, as places from ``first`` on."""
    writes = [runs for runs in far if not runs.reads]
    far = writes + [runs for runs in far if runs.reads and any(runs.meets(other) for other in writes)]
    if not far:
        return (0, 1), []
    start, end, reads = (np.concatenate(column) for column in zip(*(
        (r.start, r.end, np.full(r.start.shape, r.reads)) for r in far), strict=True))
    order = np.argsort(start, kind="stable")
    start, end, reads = start[order], end[order], reads[order]
    touched, written = (np.maximum.accumulate(np.where(kind, end, 0))[:-1] for kind in (True, ~reads))
    if not (np.where(reads[1:], written, touched) > start[1:]).any():
        return (0, 1), []
    low = int(start[0])
    each = int(np.gcd.reduce(np.concatenate((start - low, [r.size for r in far]))))
    count = int((end - start).sum()) // each
    if count > MOST_PARTS:
        raise MappingError(f"{name}: what it stores it also loads or stores again, in {count} parts of {each} bytes; "
                           f"expected at most {MOST_PARTS}")
    rows: list[tuple[Numbers, ...]] = []
    for runs in far:
        times = runs.size // each
        place = (first + (runs.start - low) // each)[:, None] + np.arange(times)
        rows.append((place.ravel(), np.repeat(runs.position, times), np.repeat(runs.queue, times),
                     np.full(place.size, runs.source), np.full(place.size, int(runs.reads))))
    return (low, each), rows
