"""The loop nest of a layer as it runs: what each loop and instruction reads and writes in one iteration.

Bytes are those of different elements: of a loop, the size of the tile that one iteration works on. All is read off the
layer's instruction stream (:mod:`.touched`), so it holds for every target, and is what the timing simulates.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from archloom.oracle.accesses import accesses, element_bits
from archloom.oracle.nests import walk
from archloom.oracle.records import plain
from archloom.oracle.resolved import ResolvedInstr, ResolvedNode, ResolvedStream
from archloom.oracle.stream import HbmTensor
from archloom.oracle.taidl.declarations import HBM
from archloom.oracle.validate import tensor_bytes
from archloom.tvm_backend.report.table import Column, count, render, size
from archloom.tvm_backend.report.touched import Runs, touched, union
from archloom.tvm_backend.report.uses import LoopUse

COLUMNS = (Column("loops and instructions"), Column("executed", "right"), Column("cycles", "right"),
           Column("reads", limit=32, listing=True), Column("writes", limit=32, listing=True))


@dataclass(frozen=True)
class Line:
    """A loop of ``extent`` iterations, or ``extent`` equal instructions one after the other.

    ``reads`` and ``writes``: bytes of different elements by tensor or buffer, of one iteration of a loop and of all
    of the instructions. ``at_most``: places where more is counted than is touched. ``executed``: iterations of the
    loop, or instructions, in the whole layer; ``cycles``: what the loop adds to those of the layer.
    """

    depth: int
    text: str
    extent: int
    executed: int
    reads: Mapping[str, int] = field(default_factory=dict)
    writes: Mapping[str, int] = field(default_factory=dict)
    at_most: tuple[str, ...] = ()
    is_loop: bool = False
    cycles: int | None = None


def nest(stream: ResolvedStream, cycles: int, loops: Sequence[LoopUse]) -> tuple[Line, ...]:
    """The lines of a stream's nest in their order; the first stands for all of it.

    ``cycles`` and ``loops`` are those of its layer's report.
    """
    reader = _Reader(stream, {use.name: use.cycles for use in loops})
    whole = Line(0, stream.name, 1, 1, is_loop=True, cycles=cycles)
    return (reader.line(whole, stream.body), *reader.lines(stream.body))


def text(lines: Sequence[Line]) -> str:
    """A table: loops as they nest, with what one iteration of each reads and writes."""
    return render(COLUMNS, [["  " * line.depth + _label(line), count(line.executed),
                             "" if line.cycles is None else count(line.cycles), _bytes(line, line.reads),
                             _bytes(line, line.writes)] for line in lines])


def to_json(lines: Sequence[Line]) -> list[dict[str, Any]]:
    """The lines as JSON objects, with the names of their fields."""
    return [plain(line) for line in lines]


def _label(line: Line) -> str:
    if line.is_loop and line.depth:
        return f"for {line.text} in [0:{line.extent})"
    return f"{line.text} ×{line.extent}" if line.extent > 1 else line.text


def _bytes(line: Line, found: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {'≤ ' if name in line.at_most else ''}{size(number)}" for name, number in found.items())


@dataclass(frozen=True, eq=False)
class _Reader:
    stream: ResolvedStream
    cycles: Mapping[str, int]
    """Of each loop by its place: the variables of the loops around it and its own, parted by slashes"""

    def lines(self, nodes: Sequence[ResolvedNode], around: tuple[str, ...] = (), times: int = 1) -> Iterator[Line]:
        """The lines of nodes that are executed so many times; equal mnemonics in a row share one."""
        depth = len(around) + 1
        for _, found in groupby(nodes, key=lambda n: n.mnemonic if isinstance(n, ResolvedInstr) else n.var):
            group = tuple(found)
            first = group[0]
            if isinstance(first, ResolvedInstr):
                yield self.line(Line(depth, first.mnemonic, len(group), times * len(group)), group)
                continue
            place, executed = (*around, first.var), times * first.extent
            loop = Line(depth, first.var, first.extent, executed, is_loop=True, cycles=self.cycles.get("/".join(place)))
            yield self.line(loop, first.body)
            yield from self.lines(first.body, place, executed)

    def line(self, line: Line, nodes: Sequence[ResolvedNode]) -> Line:
        """``line`` with what ``nodes`` touch when they are executed once."""
        extents = {loop.var: loop.extent for _, around in walk(nodes) for loop in around}
        reads: dict[str, list[Runs]] = {}
        writes: dict[str, list[Runs]] = {}
        for access in dict.fromkeys(access for instr, _ in walk(nodes) for access in accesses(instr)):
            buffer = self.stream.buffer(access.window.buffer)
            found = touched(access.window, buffer, extents)
            for kinds in [reads] * (access.kind != "write") + [writes] * (access.kind != "read"):
                kinds.setdefault(buffer.name, []).append(found)
        read, written = self.placed(reads), self.placed(writes)
        at_most = [name for name, runs in (*read.items(), *written.items()) if not runs.exact]
        return replace(line, reads=self.bytes(read), writes=self.bytes(written), at_most=tuple(dict.fromkeys(at_most)))

    def placed(self, sets: Mapping[str, Sequence[Runs]]) -> dict[str, Runs]:
        """What is touched of each buffer; of HBM, of each tensor there."""
        found = {self.shown(name): union(runs) for name, runs in sets.items()}
        memory = found.pop(HBM, None)
        if memory is None:
            return found
        tensors = {t.name: memory.within(t.address, t.address + tensor_bytes(t)) for t in self.tensors}
        rest = memory.count - sum(runs.count for runs in tensors.values())
        scratch = {HBM: Runs(np.zeros(1, np.int64), np.array([rest]), memory.exact)}
        return {name: runs for name, runs in {**tensors, **scratch, **found}.items() if runs.count}

    @property
    def tensors(self) -> tuple[HbmTensor, ...]:
        return (*self.stream.arguments, *self.stream.results)

    def shown(self, buffer: str) -> str:
        """A buffer's name, as TAIDL writes it (``$bias``) where a tensor has the same."""
        return f"${buffer}" if buffer in {t.name for t in self.tensors} else buffer

    def bytes(self, found: Mapping[str, Runs]) -> dict[str, int]:
        names = {self.shown(b.name): element_bits(b.dtype) for b in self.stream.buffers}
        return {name: runs.count * names.get(name, 8) // 8 for name, runs in found.items()}
