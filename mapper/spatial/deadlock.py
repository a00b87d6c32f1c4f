"""Whether programs of several cores that signal and wait for one another come to their end, found before they run.

Queues take their instructions in program order. Where every wait finds what it waits for among the signals before it in
program order, the first instruction that is left can always go on: there is no deadlock. That is so only if a count
cannot be taken by somebody else, so that each semaphore must have one queue that signals it and one that waits for it.
Then the n-th signal is what the n-th wait takes, and it is known which instructions come after which: of two that touch
the same tiles or sums of a core, one of which writes, the later must wait for a signal that follows the earlier.

All instances are looked at, as arrays: nothing here walks over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mapper.spatial.handshakes import QUEUES
from mapper.spatial.machine import Machine
from oracle.affine import Affine
from oracle.errors import MappingError
from oracle.stream import Instr, Loop, Node, Stream

Numbers = NDArray[np.int64]
NAMES = tuple(QUEUES)


@dataclass(frozen=True)
class Instances:
    """All instances of one instruction: their places in program order, and what varies the same way."""

    instr: Instr
    position: Numbers
    values: dict[str, Numbers]

    def __call__(self, form: Affine) -> Numbers:
        """The value of an expression in each of them."""
        found = form.evaluate(self.values)  # type: ignore[arg-type]
        return np.broadcast_to(np.asarray(found, np.int64), self.position.shape)

    def attribute(self, name: str) -> Numbers:
        return self(self.instr[name])


def instances(nodes: tuple[Node, ...]) -> Iterator[Instances]:
    """Every instruction of a program with its instances."""
    yield from _instances(nodes, np.zeros(1, np.int64), {})


def _instances(nodes: tuple[Node, ...], first: Numbers, values: dict[str, Numbers]) -> Iterator[Instances]:
    offset = 0
    for node in nodes:
        if isinstance(node, Instr):
            yield Instances(node, first + offset, values)
            offset += 1
            continue
        assert isinstance(node, Loop)
        size = _size(node.body)
        turns = np.arange(node.extent, dtype=np.int64)
        starts = ((first + offset)[:, None] + turns * size).ravel()
        inner = {name: np.repeat(v, node.extent) for name, v in values.items()}
        inner[node.var] = np.tile(node.start + turns * node.step, len(first))
        yield from _instances(node.body, starts, inner)
        offset += size * node.extent


def _size(nodes: tuple[Node, ...]) -> int:
    return sum(1 if isinstance(n, Instr) else n.extent * _size(n.body) for n in nodes)


@dataclass(frozen=True)
class Steps:
    """Signals or waits, one row for each semaphore of each: program order, queue and semaphore."""

    position: Numbers
    queue: Numbers
    semaphore: Numbers

    @staticmethod
    def of(parts: list[tuple[Numbers, Numbers, Numbers]]) -> "Steps":
        if not parts:
            return Steps(*[np.zeros(0, np.int64)] * 3)
        position, queue, semaphore = (np.concatenate(column) for column in zip(*parts, strict=True))
        order = np.lexsort((position, semaphore))
        return Steps(position[order], queue[order], semaphore[order])


def _expanded(found: Instances, *dims: tuple[str, str | int]) -> tuple[Numbers, Numbers, Numbers]:
    """Rows for all semaphores of an instruction; its counts are constants."""
    semaphore = found.attribute("semaphore")[:, None]
    for count, stride in dims:
        step = stride if isinstance(stride, int) else found.instr[stride].constant
        apart = np.arange(found.instr[count].constant, dtype=np.int64) * step
        semaphore = (semaphore[:, :, None] + apart).reshape(len(semaphore), -1)
    times = semaphore.shape[1]
    return np.repeat(found.position, times), np.repeat(found.attribute("queue"), times), semaphore.ravel()


def check_handshakes(stream: Stream, machine: Machine, what: str) -> None:
    """MappingError where a program with semaphores may hang, or a block may be written over that is still in use.

    ``what`` names the plan; the error has it, the core, the queue, the semaphore, and expected and found counts.
    """
    every = list(instances(stream.body))
    signals = Steps.of([_expanded(i, ("n0", "s0"), ("n1", "s1")) for i in every if i.instr.mnemonic == "signal"])
    waits = Steps.of([_expanded(i, ("count", 1)) for i in every if i.instr.mnemonic == "wait"])
    place = _Place(machine, what)
    _owners(signals, waits, place)
    _balance(signals, waits, place)
    _slots(every, signals, waits, place)


def check_arrivals(stream: Stream, machine: Machine, what: str) -> None:
    """MappingError where a core of a product uses a tile that nobody has sent it: it would wait for ever.

    Also for programs without semaphores, whose instructions wait for earlier ones that write what they read.
    """
    _arrivals(_touches(list(instances(stream.body)), machine), _Place(machine, what))


def _arrivals(touches: _Touches, place: _Place) -> None:
    tiles = place.machine.cores * place.machine.tiles
    first = np.diff(touches.tile, prepend=-1) != 0
    lost = first & ~touches.writes & (touches.tile < tiles)
    if lost.any():
        i = int(np.flatnonzero(lost)[np.argmin(touches.position[lost])])
        core, own = divmod(int(touches.tile[i]), place.machine.tiles)
        raise place.error(f"{place.queue(int(touches.queue[i]))} reads tile {own} of {place.core(core)}, which nobody "
                          "has written: expected a load, a multicast or a forward before it, found none")


@dataclass(frozen=True)
class _Place:
    """Names of queues and semaphores, for messages."""

    machine: Machine
    what: str

    def core(self, number: int) -> str:
        row, column = divmod(number, self.machine.columns)
        return f"core[{row}][{column}]"

    def queue(self, number: int) -> str:
        return f"the {NAMES[number % len(NAMES)]} queue of {self.core(number // len(NAMES))}"

    def semaphore(self, number: int) -> str:
        core, own = divmod(number, self.machine.semaphores)
        return f"semaphore {own} of {self.core(core)}"

    def error(self, text: str) -> MappingError:
        return MappingError(f"{self.what}: {text}")


def _owners(signals: Steps, waits: Steps, place: _Place) -> None:
    """Each semaphore has one queue that signals it, and one that waits for it."""
    for steps, verb in ((signals, "signalled"), (waits, "waited for")):
        differ = (np.diff(steps.semaphore) == 0) & (np.diff(steps.queue) != 0)
        if differ.any():
            i = int(np.argmax(differ))
            raise place.error(
                f"{place.semaphore(int(steps.semaphore[i]))} is {verb} by {place.queue(int(steps.queue[i]))} and by "
                f"{place.queue(int(steps.queue[i + 1]))}; expected one queue, so that no count is taken for another's")


def _number(steps: Steps) -> Numbers:
    """How many steps of the same semaphore there are up to each, itself included."""
    starts = np.flatnonzero(np.diff(steps.semaphore, prepend=-1))
    lengths = np.diff(np.append(starts, len(steps.semaphore)))
    return np.arange(1, len(steps.semaphore) + 1) - np.repeat(starts, lengths)


def _balance(signals: Steps, waits: Steps, place: _Place) -> None:
    """Every wait has as many signals before it as there are waits up to it."""
    needed = _number(waits)
    before = _count_before(signals, waits.semaphore, waits.position)
    lacking = before < needed
    if not lacking.any():
        return
    i = int(np.flatnonzero(lacking)[np.argmin(waits.position[lacking])])
    semaphore, queue = int(waits.semaphore[i]), int(waits.queue[i])
    total = int((signals.semaphore == semaphore).sum())
    text = (f"{place.queue(queue)} waits for signal {needed[i]} of {place.semaphore(semaphore)}, before which "
            f"{before[i]} are sent; expected at least {needed[i]}")
    if total < needed[i]:
        raise place.error(f"deadlock: {text} ({total} in the whole program)")
    circle = _circle(signals, waits, queue)
    if circle:
        raise place.error(f"deadlock: {text}; in a circle, " + ", ".join(
            f"{place.queue(a)} waits for {place.queue(b)}" for a, b in zip(circle, [*circle[1:], circle[0]])))
    raise place.error(f"deadlock: {text}; {total} in the whole program, of which the others come later")


def _count_before(signals: Steps, semaphore: Numbers, position: Numbers) -> Numbers:
    """Signals of each semaphore that come before a position in program order."""
    span = np.int64(max(int(signals.position.max(initial=0)), int(position.max(initial=0))) + 1)
    keys = signals.semaphore * span + signals.position
    return np.searchsorted(keys, semaphore * span + position) - np.searchsorted(keys, semaphore * span)


def _circle(signals: Steps, waits: Steps, start: int) -> list[int]:
    """Queues each of which waits for the next in a circle, if some do that with queue ``start``.

    Steps come after the step before them in their queue, and waits after the signal that they take: steps of a circle
    are strongly connected.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    sent, total = len(signals.position), len(signals.position) + len(waits.position)
    queue, position = (np.concatenate(pair) for pair in (
        (signals.queue, waits.queue), (signals.position, waits.position)))
    order = np.lexsort((position, queue))
    next_one = np.diff(queue[order]) == 0
    span = np.int64(total + 1)
    keys = signals.semaphore * span + _number(signals)
    wanted = waits.semaphore * span + _number(waits)
    at = np.minimum(np.searchsorted(keys, wanted), max(sent - 1, 0))
    met = np.flatnonzero(keys[at] == wanted)
    tails = np.concatenate((order[:-1][next_one], at[met]))
    heads = np.concatenate((order[1:][next_one], sent + met))
    edges = coo_matrix((np.ones(len(tails), np.int8), (tails, heads)), shape=(total, total))
    _, group = connected_components(edges, connection="strong")
    inside = met[(group[at[met]] == group[sent + met])]
    following = dict(zip(waits.queue[inside].tolist(), signals.queue[at[inside]].tolist(), strict=True))
    path = [start]
    while path[-1] in following:
        queue_after = following[path[-1]]
        if queue_after in path:
            return path[path.index(queue_after):]
        path.append(queue_after)
    return []


# --- tiles and sums ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Touches:
    """Reads and writes of tiles and sums, a row for each."""

    tile: Numbers
    position: Numbers
    queue: Numbers
    writes: NDArray[np.bool_]


def _slots(every: list[Instances], signals: Steps, waits: Steps, place: _Place) -> None:
    """Nobody writes over a tile that is in use, or uses one that is not there yet."""
    touches = _touches(every, place.machine)
    _arrivals(touches, place)
    for before, after in _conflicts(touches):
        mine, theirs = touches.queue[before], touches.queue[after]
        apart = mine != theirs
        before, after = before[apart], after[apart]
        ordered = _ordered(touches, before, after, signals, waits)
        if not ordered.all():
            i = int(np.flatnonzero(~ordered)[np.argmin(touches.position[after[~ordered]])])
            a, b = int(before[i]), int(after[i])
            tile, verb = int(touches.tile[b]), "writes" if touches.writes[b] else "reads"
            machine = place.machine
            tiles = machine.cores * machine.tiles
            core, own = divmod(tile - tiles, machine.sums) if tile >= tiles else divmod(tile, machine.tiles)
            what = "sum" if tile >= tiles else "tile"
            done = "written" if touches.writes[a] else "read"
            raise place.error(
                f"{place.queue(int(touches.queue[b]))} {verb} {what} {own} of {place.core(core)}, which "
                f"{place.queue(int(touches.queue[a]))} may not have {done} yet: expected a wait for its signal, found "
                "none")


def _touches(every: list[Instances], machine: Machine) -> _Touches:
    parts: list[tuple[Numbers, Numbers, Numbers, NDArray[np.bool_]]] = []
    for found in every:
        for first, dims, writes in _windows(found, machine.cores * machine.tiles):
            tiles = first[:, None]
            for count, stride in dims:
                tiles = (tiles[:, :, None] + np.arange(count, dtype=np.int64) * stride).reshape(len(tiles), -1)
            times = tiles.shape[1]
            queue = np.repeat(_queue(found, machine), times)
            parts.append((tiles.ravel(), np.repeat(found.position, times), queue, np.full(queue.shape, writes)))
    empty = np.zeros(0, np.int64)
    parts.append((empty, empty, empty, empty.astype(np.bool_)))
    tile, position, queue = (np.concatenate([part[i] for part in parts]) for i in range(3))
    written = np.concatenate([part[3] for part in parts])
    order = np.lexsort((position, tile))
    return _Touches(tile[order], position[order], queue[order], written[order])


def _windows(found: Instances, sums: int) -> Iterator[tuple[Numbers, list[tuple[int, int]], bool]]:
    """What an instruction touches: first tiles, counts with their strides, and whether it writes. Sums come after all
    tiles, from number ``sums`` on."""
    instr, name = found.instr, found.instr.mnemonic

    def number(attribute: str) -> int:
        return instr[attribute].constant

    if name == "load" or name.startswith("multicast_"):
        dims = [(number(n), number(s)) for n, s in (("n0", "s0"), ("n1", "s1"))
                if any(key == n for key, _ in instr.attributes)]
        yield found.attribute("l1"), [*dims, (number("rows") * number("cols"), 1)], True
    elif name == "forward":
        yield found.attribute("source"), [(number("count"), 1)], False
        yield found.attribute("target"), [(number("count"), 1)], True
    elif name == "matmul":
        yield found.attribute("a"), [(number("m") * number("k"), 1)], False
        yield found.attribute("b"), [(number("k") * number("n"), 1)], False
        yield found.attribute("c") + sums, [(number("m") * number("n"), 1)], True
    elif name == "reduce":
        yield found.attribute("source") + sums, [(number("count"), 1)], False
        yield found.attribute("target") + sums, [(number("count"), 1)], True
    elif name == "clear":
        yield found.attribute("acc") + sums, [(number("count"), 1)], True
    elif name == "store":
        yield found.attribute("acc") + sums, [(number("rows") * number("cols"), 1)], True


_OF_SUMS = {"reduce": ("target", "adder"), "clear": ("acc", "matrix"), "store": ("acc", "writer")}
"""Whose queue an instruction on sums is in: that of the core of this attribute, and of this unit."""


def _queue(found: Instances, machine: Machine) -> Numbers:
    """The queue of the unit that takes each instance."""
    name, count = found.instr.mnemonic, len(NAMES)
    if name in _OF_SUMS:
        attribute, queue = _OF_SUMS[name]
        return found.attribute(attribute) // machine.sums * count + QUEUES[queue]
    attribute = {"forward": "source", "matmul": "a"}.get(name, "l1")
    core = found.attribute(attribute) // machine.tiles
    if name == "forward":
        apart = found.attribute("target") // machine.tiles - core
        south = (apart == machine.columns) & (machine.columns > 1) | (machine.columns == 1)
        return core * count + np.where(south, QUEUES["south"], QUEUES["east"])
    if name == "multicast_row":
        return core // machine.columns * machine.columns * count + QUEUES["row"]
    if name == "multicast_column":
        return core % machine.columns * count + QUEUES["column"]
    if name in ("multicast_down", "multicast_across"):
        return np.full_like(core, QUEUES[name.removeprefix("multicast_")])
    return core * count + (QUEUES["matrix"] if name == "matmul" else QUEUES["reader"])


def _conflicts(touches: _Touches) -> Iterator[tuple[Numbers, Numbers]]:
    """Rows that must come one after the other: a touch and the write before it, a write and the reads before it.

    A write that follows reads comes after the write before those if they do.
    """
    n = len(touches.tile)
    rows = np.arange(n)
    new = np.diff(touches.tile, prepend=-1) != 0
    # the last write at or before each row, of the same tile
    start = np.maximum.accumulate(np.where(new, rows, 0))
    last = np.maximum.accumulate(np.where(touches.writes, rows, -1))
    previous = np.concatenate(([-1], last[:-1])) if n else last
    has = (previous >= start) & (~touches.writes | (previous == rows - 1))
    yield previous[has], rows[has]
    # the next write after each read, of the same tile
    ahead = np.minimum.accumulate(np.where(touches.writes, rows, n)[::-1])[::-1] if n else rows
    end = np.append(np.flatnonzero(new)[1:], n)[np.cumsum(new) - 1] if n else rows
    reads = ~touches.writes & (ahead < end)
    yield rows[reads], ahead[reads]


def _ordered(touches: _Touches, before: Numbers, after: Numbers, signals: Steps, waits: Steps) -> NDArray[np.bool_]:
    """Whether the later of two rows waits for a signal that the queue of the earlier one sends after it.

    A semaphore of theirs: the last wait before ``after`` must take a signal that comes after ``before``.
    """
    found: NDArray[np.bool_] = np.zeros(before.shape, np.bool_)
    if not len(before):
        return found
    if not len(signals.semaphore) or not len(waits.semaphore):
        return found
    semaphores, first = np.unique(waits.semaphore, return_index=True)
    where = np.searchsorted(signals.semaphore, semaphores)
    sent = np.minimum(where, len(signals.semaphore) - 1)
    known = signals.semaphore[sent] == semaphores
    owners = np.stack([signals.queue[sent], waits.queue[first]], 1)[known]
    keys = owners[:, 0] * (1 << 31) + owners[:, 1]
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], semaphores[known][order]
    wanted = touches.queue[before] * (1 << 31) + touches.queue[after]
    low, high = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
    for turn in range(int((high - low).max(initial=0))):
        open_ = np.flatnonzero(~found & (low + turn < high))
        semaphore = numbers[low[open_] + turn]
        taken = _count_before(waits, semaphore, touches.position[after[open_]])
        sent_before = _count_before(signals, semaphore, touches.position[before[open_]])
        found[open_] = np.greater(taken, sent_before)
    return found
