"""Whether programs of several cores that signal and wait for one another come to their end, found before they run.

Queues take their instructions in program order. Where every wait finds what it waits for among the signals before it in
program order, the first instruction that is left can always go on: there is no deadlock. That is so only if a count
cannot be taken by somebody else, so that each semaphore must have one queue that signals it and one that waits for it.
Then the n-th signal is what the n-th wait takes, and it is known which instructions come after which: of two that touch
the same tiles or sums of a core, one of which writes, the later must wait for a signal that follows the earlier.

All instances are looked at, as arrays: nothing here walks over them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.machines.queues import Numbers, core_name, pair_keys, queue_name
from archloom.mapper.spatial.programs.touches import Instances, Touches, conflicts, instances, place_name, touches
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream


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
    _slots(touches(stream, machine), signals, waits, place)


def check_arrivals(stream: Stream, machine: Machine, what: str) -> None:
    """MappingError where a core of a product uses a tile that nobody has sent it: it would wait for ever.

    Also for programs without semaphores, whose instructions wait for earlier ones that write what they read.
    """
    _arrivals(touches(stream, machine), _Place(machine, what))


def _arrivals(found: Touches, place: _Place) -> None:
    tiles = place.machine.cores * place.machine.tiles
    lost = found.new & ~found.writes & (found.place < tiles)
    if lost.any():
        i = int(np.flatnonzero(lost)[np.argmin(found.position[lost])])
        who = place.queue(int(found.queue[i])) if place.machine.semaphores else "an instruction"
        what = place_name(int(found.place[i]), found, place.machine)
        raise place.error(f"{who} reads {what}, which nobody has written: expected a load, a multicast or a forward "
                          "before it, found none")


@dataclass(frozen=True)
class _Place:
    """Names of queues and semaphores, for messages."""

    machine: Machine
    what: str

    def queue(self, number: int) -> str:
        return queue_name(number, self.machine)

    def semaphore(self, number: int) -> str:
        core, own = divmod(number, self.machine.semaphores)
        return f"semaphore {own} of {core_name(core, self.machine)}"

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


# --- tiles, sums and statistics ------------------------------------------------------------------------------------


def _slots(found: Touches, signals: Steps, waits: Steps, place: _Place) -> None:
    """Nobody writes over a tile that is in use, or uses one that is not there yet."""
    _arrivals(found, place)
    for before, after in conflicts(found):
        apart = found.queue[before] != found.queue[after]
        before, after = before[apart], after[apart]
        ordered = _ordered(found, before, after, signals, waits)
        if not ordered.all():
            i = int(np.flatnonzero(~ordered)[np.argmin(found.position[after[~ordered]])])
            a, b = int(before[i]), int(after[i])
            verb, done = ("writes" if found.writes[b] else "reads"), "written" if found.writes[a] else "read"
            what = place_name(int(found.place[b]), found, place.machine)
            raise place.error(
                f"{place.queue(int(found.queue[b]))} {verb} {what}, which {place.queue(int(found.queue[a]))} may not "
                f"have {done} yet: expected a wait for its signal, found none")


def _ordered(found_in: Touches, before: Numbers, after: Numbers, signals: Steps, waits: Steps) -> NDArray[np.bool_]:
    """Whether the later of two rows waits for a signal that the queue of the earlier one sends after it.

    A semaphore of theirs: the last wait before ``after`` must take a signal that comes after ``before``.
    """
    found: NDArray[np.bool_] = np.zeros(before.shape, np.bool_)
    if not (len(before) and len(signals.semaphore) and len(waits.semaphore)):
        return found
    semaphores, first = np.unique(waits.semaphore, return_index=True)
    where = np.searchsorted(signals.semaphore, semaphores)
    sent = np.minimum(where, len(signals.semaphore) - 1)
    known = signals.semaphore[sent] == semaphores
    owners = np.stack([signals.queue[sent], waits.queue[first]], 1)[known]
    keys = pair_keys(*owners.T)
    order = np.argsort(keys, kind="stable")
    keys, numbers = keys[order], semaphores[known][order]
    wanted = pair_keys(found_in.queue[before], found_in.queue[after])
    low, high = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
    for turn in range(int((high - low).max(initial=0))):
        open_ = np.flatnonzero(~found & (low + turn < high))
        semaphore = numbers[low[open_] + turn]
        taken = _count_before(waits, semaphore, found_in.position[after[open_]])
        sent_before = _count_before(signals, semaphore, found_in.position[before[open_]])
        found[open_] = np.greater(taken, sent_before)
    return found
