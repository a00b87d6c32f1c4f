"""Programs of many cores with semaphores: what instructions touch, by their TAIDL, becomes signals and waits.

Instructions of a queue are taken in order; those of different queues that touch the same place, one of which writes,
are kept in order by a signal of the earlier queue that the later one waits for. Of two such instructions, look at the
innermost loop (or the whole program) that both are in: once in each of its iterations the earlier queue signals, behind
what has the earlier instruction there, and the later queue waits, before what has the later one. If the later one
always comes some iterations after the earlier one, such as where blocks take turns, the first waits find that many
signals which are sent at the start. So every wait comes after its signal in the order of the program, and cores cannot
hang; :mod:`archloom.mapper.spatial.programs.deadlock` looks at the result all the same.

Loops over cores go over one instruction at a time, so that there is a place between any two; the loops in which tiles
pass from core to core are written out. Loops over time stay.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.machines.queues import QUEUES, Numbers, pair_keys
from archloom.mapper.spatial.programs.deadlock import check_handshakes
from archloom.mapper.spatial.programs.rewriting import Box, Path, boxes, distributed, looped, rewritten, unrolled
from archloom.mapper.spatial.programs.touches import Touches, conflicts, touches
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Loop, Node, Stream

# --- nests that are in a program -----------------------------------------------------------------------------------


TURNS = 4
"""Most iterations by which a queue may be ahead of another one."""

_MOST_WRITTEN_OUT = 8
"""Loops one within the other over cores that pass something on."""

_COUNT = len(QUEUES)


def signalled(stream: Stream, machine: Machine, what: str) -> Stream:
    """``stream`` with signals and waits, which are checked. MappingError, with the name of the plan ``what``, if a core
    has too few semaphores, or if the program cannot have any."""
    if not machine.semaphores:
        raise MappingError(f"{what} needs semaphores, of which a core has 0")
    program = _apart(_Program(stream, machine))
    needs = _without_covered(list(_needs(program)))
    count = sum(need.semaphores for need in needs)
    if count > machine.semaphores:
        raise MappingError(f"{what} needs {count} semaphores in a core, which has {machine.semaphores}")
    found = replace(stream, body=_Writer(program, needs).body())
    check_handshakes(found, machine, what)
    return found


@dataclass(frozen=True)
class _Static:
    """An instruction of a program's text: its number in each body, and the loops that it is in, from outside."""

    path: Path
    loops: tuple[Loop, ...]

    def executions(self, depth: int) -> int:
        """How often it comes in one execution of the body of that many loops."""
        return math.prod(loop.extent for loop in self.loops[depth:])


def _statics(nodes: tuple[Node, ...], path: Path = (), loops: tuple[Loop, ...] = ()) -> Iterator[_Static]:
    for number, node in enumerate(nodes):
        if isinstance(node, Loop):
            yield from _statics(node.body, (*path, number), (*loops, node))
        else:
            yield _Static((*path, number), loops)


@dataclass(frozen=True)
class _Program:
    """A program without semaphores, and what its instructions touch."""

    stream: Stream
    machine: Machine

    @cached_property
    def statics(self) -> list[_Static]:
        return list(_statics(self.stream.body))

    @cached_property
    def touches(self) -> Touches:
        return touches(self.stream, self.machine)

    @cached_property
    def instances(self) -> tuple[Numbers, Numbers]:
        """For each row of ``touches``: which of its instruction's instances it is of."""
        found = self.touches
        order = np.lexsort((found.position, found.source))
        source, position = found.source[order], found.position[order]
        new = np.diff(source, prepend=-1) != 0
        later = (np.diff(position, prepend=-1) != 0) & ~new
        number = np.cumsum(later)
        number -= np.maximum.accumulate(np.where(new, number, 0))
        mine = np.empty_like(number)
        mine[order] = number
        return mine, order

    @cached_property
    def over_cores(self) -> list[tuple[bool, ...]]:
        """For each instruction, which of its loops change its queue."""
        found = self.touches
        number, order = self.instances
        source, queue, number = found.source[order], found.queue[order], number[order]
        bounds = np.searchsorted(source, np.arange(len(self.statics) + 1))
        result = []
        for static, low, high in zip(self.statics, bounds[:-1], bounds[1:]):
            grid = np.empty(static.executions(0), np.int64)
            if low == high:
                result.append((False,) * len(static.loops))
                continue
            grid[number[low:high]] = queue[low:high]
            grid = grid.reshape([loop.extent for loop in static.loops])
            result.append(tuple(bool((grid != np.take(grid, [0], axis)).any()) for axis in range(len(static.loops))))
        return result

    @cached_property
    def nests(self) -> set[Path]:
        """Loops over cores."""
        return {static.path[:axis + 1] for static, over in zip(self.statics, self.over_cores)
                for axis, is_over in enumerate(over) if is_over}

    def outer(self, source: int) -> int:
        """In how many loops an instruction's nest of loops over cores is."""
        over = self.over_cores[source]
        return over.index(True) if True in over else len(over)

    @cached_property
    def rows(self) -> tuple[Numbers, Numbers]:
        """Rows of ``touches`` that must come one after the other, by the two instructions."""
        before, after = (np.concatenate(part) for part in zip(*conflicts(self.touches)))
        source = self.touches.source
        order = np.lexsort((source[after], source[before]))
        return before[order], after[order]

    def pairs(self) -> Iterator[tuple[int, int, Numbers, Numbers]]:
        """Pairs of instructions that depend on each other, and their rows."""
        before, after = self.rows
        source = self.touches.source
        keys = source[before] * len(self.statics) + source[after]
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        for low, high in zip(starts, [*starts[1:], len(keys)]):
            yield int(source[before[low]]), int(source[after[low]]), before[low:high], after[low:high]

    def execution(self, rows: Numbers, source: int, depth: int) -> Numbers:
        """Which execution of the body of so many loops instances of an instruction are in."""
        return self.instances[0][rows] // self.statics[source].executions(depth)


def _apart(program: _Program) -> _Program:
    """Each loop over cores goes over one instruction; one whose instructions pass something on is written out."""
    for _ in range(_MOST_WRITTEN_OUT):
        serial = set(_serial(program))
        if not serial:
            return _Program(replace(program.stream, body=distributed(program.stream.body, program.nests)),
                            program.machine)
        program = _Program(replace(program.stream, body=unrolled(program.stream.body, serial)), program.machine)
    raise MappingError(f"{program.stream.name}: cores that depend on each other in too many loops")


def _serial(program: _Program) -> Iterator[Path]:
    """Nests over cores in one execution of which an instruction depends on a later one or on itself, of other cores."""
    queue = program.touches.queue
    for source, target, before, after in program.pairs():
        mine, theirs = program.statics[source], program.statics[target]
        if source < target or not mine.loops:
            continue
        depth = min(program.outer(source), program.outer(target))
        if depth >= min(len(mine.loops), len(theirs.loops)) or mine.path[:depth + 1] != theirs.path[:depth + 1]:
            continue
        if source == target:
            apart = queue[before] != queue[after]
            before, after = before[apart], after[apart]
        if (program.execution(before, source, depth) == program.execution(after, target, depth)).any():
            yield mine.path[:depth + 1]


# --- what has to wait for what -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Need:
    """Queues ``pairs[:, 0]`` signal behind node ``behind`` of the body at ``body`` what queues ``pairs[:, 1]`` wait for
    ``later`` iterations later before node ``before``; ``loops``: those that the body is in."""

    body: Path
    loops: tuple[Loop, ...]
    behind: int
    before: int
    later: int
    pairs: Numbers
    where: Numbers
    """Cores of their semaphores, and the numbers of the pairs among those of the core."""

    @property
    def turns(self) -> int:
        """Semaphores of a pair; one that is signalled anew only when it was waited for holds nobody back."""
        return min(self.later or 2, math.prod(loop.extent for loop in self.loops))

    @property
    def peers(self) -> int:
        return int(self.where[:, 1].max(initial=0)) + 1

    @property
    def semaphores(self) -> int:
        return self.turns * self.peers

    def covers(self, other: "_Need") -> bool:
        """Whether who waits for this waits for the other, too."""
        turn = 0 if self.before <= other.before else -1
        mine, theirs = (turn - self.later, self.behind), (-other.later, other.behind)
        return mine >= theirs and bool(np.isin(pair_keys(*other.pairs.T), pair_keys(*self.pairs.T)).all())


def _needs(program: _Program) -> Iterator[_Need]:
    queue, machine = program.touches.queue, program.machine
    merged: dict[tuple[Path, int, int, int, int], tuple[tuple[Loop, ...], list[Numbers]]] = {}
    for source, target, before, after in program.pairs():
        apart = queue[before] != queue[after]
        before, after = before[apart], after[apart]
        if not len(before):
            continue
        mine, theirs = program.statics[source], program.statics[target]
        depth = _common(mine.path, theirs.path, min(program.outer(source), program.outer(target)))
        distance = program.execution(after, target, depth) - program.execution(before, source, depth)
        later = min(int(distance.min()), TURNS)
        behind, ahead = mine.path[depth], theirs.path[depth]
        if later < int(behind >= ahead):
            raise MappingError(f"{program.stream.name}: cores that work on the same in one loop cannot have semaphores")
        keys = np.unique(np.stack([queue[before], queue[after]], 1), axis=0)
        kinds = keys % _COUNT
        for kind in np.unique(kinds, axis=0):
            these = keys[(kinds == kind).all(axis=1)]
            key = (mine.path[:depth], behind, ahead, later, int(kind[0]) * _COUNT + int(kind[1]))
            merged.setdefault(key, (mine.loops[:depth], []))[1].append(these)
    for (body, behind, ahead, later, _), (loops, parts) in merged.items():
        pairs = np.unique(np.concatenate(parts), axis=0)
        yield _Need(body, loops, behind, ahead, later, pairs, _places(pairs, machine))


def _common(mine: Path, theirs: Path, most: int) -> int:
    """How many loops two instructions are in together, but loops over cores."""
    depth = 0
    while depth < min(len(mine), len(theirs)) - 1 and mine[depth] == theirs[depth] and depth < most:
        depth += 1
    return depth


def _places(pairs: Numbers, machine: Machine) -> Numbers:
    """In which core the semaphore of a pair is, and its number there."""
    core = machine.queues.cores_of(pairs)
    order = np.lexsort((pairs[:, 0], pairs[:, 1], core))
    new = np.diff(core[order], prepend=-1) != 0
    number = np.arange(len(core))
    rank = np.empty_like(core)
    rank[order] = number - np.maximum.accumulate(np.where(new, number, 0))
    return np.stack([core, rank], 1)


def _without_covered(needs: list[_Need]) -> list[_Need]:
    """Needs that no other one meets."""
    by_body: dict[tuple[Path, int], list[_Need]] = {}
    for need in needs:
        kind = int(need.pairs[0, 0] % _COUNT) * _COUNT + int(need.pairs[0, 1] % _COUNT)
        by_body.setdefault((need.body, kind), []).append(need)
    found = []
    for group in by_body.values():
        kept: list[_Need] = []
        for need in group:
            if any(other.covers(need) for other in kept):
                continue
            kept = [other for other in kept if not need.covers(other)] + [need]
        found += kept
    return sorted(found, key=lambda need: (need.body, need.before, need.behind, need.later))


# --- writing them down ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Writer:
    program: _Program
    needs: list[_Need]

    @cached_property
    def bases(self) -> list[int]:
        """The first semaphore of each need, in every core."""
        counts = [need.semaphores for need in self.needs]
        return [int(first) for first in np.cumsum([0, *counts])[:-1]]

    def body(self) -> tuple[Node, ...]:
        """The program; before all else, the signals that are there at the start."""
        ahead: dict[Path, list[Node]] = {}
        behind: dict[Path, list[Node]] = {}
        first: list[Node] = []
        for need, base in zip(self.needs, self.bases):
            turn = self.turn(need)
            ahead.setdefault((*need.body, need.before), []).extend(self.waits(need, base, turn))
            behind.setdefault((*need.body, need.behind), []).extend(self.signals(need, base, turn))
            if need.later:
                first += self.at_start(need, base)
        found = rewritten(self.program.stream.body, lambda here, node: [
            *ahead.get(here, ()), node, *behind.get(here, ())])
        return (found[0], *first, *found[1:])

    def turn(self, need: _Need) -> Affine:
        """Which of its semaphores an iteration has."""
        number = Affine(0)
        for loop in need.loops:
            along = (Affine.variable(loop.var) - loop.start) // loop.step if loop.step > 0 else (
                (-Affine.variable(loop.var) + loop.start) // -loop.step)
            number = number * loop.extent + along
        return number % need.turns * need.peers if need.turns > 1 else Affine(0)

    def rows(self, need: _Need, base: int, queue: int) -> Numbers:
        """Queues and semaphores."""
        each = self.program.machine.semaphores
        found = np.stack([need.pairs[:, queue], need.where[:, 0] * each + need.where[:, 1] + base], 1)
        return found[np.lexsort((found[:, 1], found[:, 0]))]

    def waits(self, need: _Need, base: int, turn: Affine) -> Iterator[Node]:
        for box in boxes(self.rows(need, base, 1)):
            count, dims = 1, list(box.dims)
            if dims and dims[-1][1].tolist() == [0, 1]:
                count = dims.pop()[0]
            yield looped(Box(box.first, tuple(dims)), lambda row, count=count: Instr.make(  # type: ignore[misc]
                "wait", queue=row[0], semaphore=row[1] + turn, count=count))

    def signals(self, need: _Need, base: int, turn: Affine) -> Iterator[Node]:
        yield from _sent(self.rows(need, base, 0), turn)

    def at_start(self, need: _Need, base: int) -> Iterator[Node]:
        """A signal for each turn, as if there had been iterations before."""
        rows = self.rows(need, base, 0)
        times = np.arange(need.turns, dtype=np.int64) * need.peers
        every = np.repeat(rows, need.turns, axis=0)
        every[:, 1] += np.tile(times, len(rows))
        yield from _sent(every[np.lexsort((every[:, 1], every[:, 0]))], Affine(0))


def _sent(rows: Numbers, turn: Affine) -> Iterator[Node]:
    for box in boxes(rows):
        dims, to = list(box.dims), [(1, 0), (1, 0)]
        for place in (1, 0):
            if dims and dims[-1][1][0] == 0:
                count, step = dims.pop()
                to[place] = count, int(step[1])
        (n0, s0), (n1, s1) = to
        yield looped(Box(box.first, tuple(dims)), lambda row, n0=n0, s0=s0, n1=n1, s1=s1: Instr.make(  # type: ignore[misc]
            "signal", queue=row[0], semaphore=row[1] + turn, n0=n0, s0=s0, n1=n1, s1=s1))
