"""Programs: streams bound to graphs, as both simulators walk them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import ArchitectureGraph, Bank, FunctionalUnit, InstructionFetchStage
from archloom.acadl_models.timing.memories.channels import Interleaving
from archloom.acadl_models.timing.renaming import Named, named
from archloom.oracle.accesses import Kind, element_bits
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import Access, Buffer, ResolvedInstr, ResolvedStream
from archloom.oracle.windows import contiguous, linear, positions


def word_axes(buffer: Buffer, data_width: int) -> int | None:
    """How many leading axes of the buffer number its words: the axes after them make up one word of ``data_width``.

    None if no such split exists: a word is then no whole number of elements along the last axes.
    """
    bits = element_bits(buffer.dtype)
    for axes in range(len(buffer.shape), -1, -1):
        if bits == data_width:
            return axes
        if axes:
            bits *= buffer.shape[axes - 1]
    return None


@dataclass(frozen=True)
class Request:
    """What one access of one instance asks of one storage.

    ``runs``: the maximal runs of contiguous words as (address in the memory, words), ascending, with all of the bursts
    that each touches. ``beats``: on the port
    of the storage, or on that of its channels that takes the longest.
    """

    storage: str
    is_read: bool
    words: int
    beats: int
    bytes: int
    runs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Place:
    """Where the accesses of some units to ``buffer`` go; register files and resets have no ``banks``: they take no
    requests. ``tracked``: their elements decide about conflicts; ``renamed``: the registers that they name do.
    ``write_after_read`` and ``forwards_sums``: of the storages that hold the buffer.

    ``banks`` name the storages that serve the requests, with the words of the buffer that each serves: the memories in
    which the buffer lies, or the caches before them over which the units reach them. ``paths`` has, for each bank, the
    storages from the one that serves to the memory; ``bases``, what makes a row of the buffer an address in it;
    ``channels``, how the words of one that serves are dealt out, or None; ``lines``, the words of a line where each has
    a request of its own, else 0; ``bursts``, of how many words those are that requests ask for.
    """

    buffer: str
    tracked: bool
    banks: tuple[Bank, ...]
    data_width: int
    port_widths: tuple[int, ...] = ()
    paths: tuple[tuple[str, ...], ...] = ()
    bases: tuple[int, ...] = ()
    channels: tuple[Interleaving | None, ...] = ()
    lines: tuple[int, ...] = ()
    bursts: tuple[int, ...] = ()
    renamed: bool = False
    write_after_read: str = "finished"
    forwards_sums: bool = True

    @cached_property
    def has_bursts(self) -> bool:
        """Whether requests are for several words together."""
        return max(self.bursts, default=1) > 1


@dataclass(frozen=True, eq=False)
class AccessPlan:
    """An access of a static instruction, and where it goes."""

    access: Access
    buffer: Buffer
    place: Place

    @property
    def is_read(self) -> bool:
        return self.access.kind == "read"

    @property
    def kind(self) -> Kind:
        """How it is ordered: an accumulation that waits for others is a write that needs what was there."""
        return self.access.kind if self.place.forwards_sums or self.is_read else "write"

    @cached_property
    def element_offset(self) -> Affine:
        """Row-major number of the window's first element in the buffer."""
        return linear(self.access.window.offsets, self.buffer.shape)

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """Distinct row-major numbers of the window's elements relative to the first, ascending."""
        return positions(self.access.window.dims, self.buffer.shape, len(self.buffer.shape))

    @cached_property
    def named(self) -> Named | None:
        """The renamed registers that it names; None where the place in a register depends on loops."""
        per = self.place.data_width // element_bits(self.buffer.dtype)
        dims, adds = self.access.window.dims, self.access.kind == "accumulate"
        return named(self.element_offset, dims, self.buffer.shape, per, adds=adds)

    @cached_property
    def word_offset(self) -> Affine:
        """Address of the window's first word."""
        axes = word_axes(self.buffer, self.place.data_width)
        return linear(self.access.window.offsets[:axes], self.buffer.shape[:axes])

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """Distinct word addresses relative to the first, ascending."""
        axes = word_axes(self.buffer, self.place.data_width)
        assert axes is not None
        return positions(self.access.window.dims, self.buffer.shape, axes)

    def requests(self, values: Mapping[str, int]) -> list[Request]:
        """The requests of the instance at these loop values, by ascending rows and lines."""
        place = self.place
        if not place.banks:
            return []
        words = self.words + self.word_offset.evaluate(values)
        found = []
        each = zip(place.banks, place.port_widths, place.bases, place.channels, place.lines, place.bursts, strict=True)
        for bank, port_width, base, channels, line, burst in each:
            inside = words[(words >= bank.start) & (words < (bank.stop or 0))] + base
            for part in _by_lines(inside, line) if line else [inside]:
                if len(part):
                    runs = whole_bursts(contiguous(part), burst)
                    count = sum(size for _, size in runs)
                    whole = sum(-(-size // port_width) for _, size in runs)
                    beats = whole if channels is None else max(channels.beats(runs))
                    size = -(-count * place.data_width // 8)
                    found.append(Request(bank.storage, self.is_read, count, beats, size, runs))
        return found


def whole_bursts(runs: Iterable[tuple[int, int]], words: int) -> tuple[tuple[int, int], ...]:
    """Runs (first word, number of words) with all of the bursts of so many words in which each begins and ends."""
    whole = ((first // words * words, -(-(first + size) // words) * words) for first, size in runs)
    return tuple([(begin, end - begin) for begin, end in whole])


def _by_lines(addresses: NDArray[np.int64], line: int) -> list[NDArray[np.int64]]:
    """Ascending addresses, apart by lines of so many words."""
    return np.split(addresses, np.flatnonzero(np.diff(addresses // line)) + 1)


@dataclass(frozen=True, eq=False)
class StaticInstruction:
    """An instruction of the resolved stream, or one of several into which the binder unrolled it.

    ``takers`` has the unit that takes it in each stage that contains one; ``routed`` names the stages into which it
    may be forwarded. Where loops were unrolled, the attributes and registers of ``node`` and the windows of ``plans``
    are those of this copy; the statements of ``node`` stay those of the stream, whose instruction is ``origin``, and
    ``fixed`` has the values of the stream's variables of unrolled loops. ``names`` has the attributes, registers and
    parameters that latencies on its way may name.
    """

    index: int
    origin: ResolvedInstr
    plans: tuple[AccessPlan, ...]
    takers: Mapping[str, FunctionalUnit]
    routed: frozenset[str]
    names: Mapping[str, Affine]
    fixed: tuple[tuple[str, Affine], ...] = ()

    @property
    def mnemonic(self) -> str:
        return self.origin.mnemonic

    @cached_property
    def node(self) -> ResolvedInstr:
        """The instruction; of a copy it is written when it is asked for."""
        of, values = self.origin, dict(self.fixed)
        if not values:
            return of
        return ResolvedInstr(
            of.mnemonic, tuple([(name, e.substitute(values)) for name, e in of.attributes]),
            tuple([(name, e.substitute(values)) for name, e in of.registers]), of.statements, of.source)

    def environment(self, parameters: Mapping[str, int], values: Mapping[str, int]) -> dict[str, int]:
        """What a latency may name: attributes before registers before the ISA's parameters."""
        found = dict(parameters)
        found.update((name, e.evaluate(values)) for name, e in self.node.registers)
        found.update((name, e.evaluate(values)) for name, e in self.node.attributes)
        return found


@dataclass(frozen=True)
class StaticLoop:
    """A loop over static instructions; ``source`` is the number of the stream's loop in the order of its text.

    The pieces into which a loop was taken apart share its number.
    """

    var: str
    values: range
    body: tuple["StaticNode", ...]
    source: int = -1


def limits(values: range) -> tuple[int, int]:
    """The least and the greatest of some values."""
    return min(values[0], values[-1]), max(values[0], values[-1])


StaticNode: TypeAlias = Union[StaticInstruction, StaticLoop]


@dataclass(frozen=True, eq=False)
class Program:
    """A stream bound to a graph."""

    graph: ArchitectureGraph
    stream: ResolvedStream
    fetch: InstructionFetchStage
    body: tuple[StaticNode, ...]
    instructions: tuple[StaticInstruction, ...]

    @property
    def count(self) -> int:
        """Instruction instances of a run."""
        return _count(self.body)

    @property
    def parameters(self) -> dict[str, int]:
        return dict(self.stream.parameters)

    @cached_property
    def names(self) -> "Locator":
        """Finds instances by their number."""
        return Locator(self.body)

    def instances(self) -> Iterator[tuple[StaticInstruction, dict[str, int]]]:
        """Every instance in program order with its loop values; for the reference simulator."""
        return _instances(self.body, {})


def _count(body: tuple[StaticNode, ...]) -> int:
    return sum(len(n.values) * _count(n.body) if isinstance(n, StaticLoop) else 1 for n in body)


def _instances(
    body: tuple[StaticNode, ...], values: dict[str, int]
) -> Iterator[tuple[StaticInstruction, dict[str, int]]]:
    for node in body:
        if isinstance(node, StaticInstruction):
            fixed = {name: value.evaluate(values) for name, value in node.fixed}
            yield node, {**values, **fixed} if fixed else values
        else:
            for value in node.values:
                yield from _instances(node.body, {**values, node.var: value})


class Locator:
    """Finds the instance with a number in program order without walking the instances before it."""

    def __init__(self, body: tuple[StaticNode, ...]) -> None:
        self.body = body
        self._inner = {k: Locator(n.body) for k, n in enumerate(body) if not isinstance(n, StaticInstruction)}
        sizes = [self._size(k) for k in range(len(body))]
        self._ends = list(accumulate(sizes))
        self.size = self._ends[-1] if sizes else 0

    def _size(self, k: int) -> int:
        node = self.body[k]
        return 1 if isinstance(node, StaticInstruction) else len(node.values) * self._inner[k].size

    def find(self, number: int) -> tuple[StaticInstruction, Mapping[str, int]]:
        """The instruction and the values of its loops; IndexError if there is no such number."""
        static, values = self.walk(number)
        return static, {**values, **{name: value.evaluate(values) for name, value in static.fixed}}

    def walk(self, number: int) -> tuple[StaticInstruction, dict[str, int]]:
        """The same without the values of loops that binding has taken apart."""
        if not 0 <= number < self.size:
            raise IndexError(number)
        k = bisect_right(self._ends, number)
        node = self.body[k]
        if isinstance(node, StaticInstruction):
            return node, {}
        inner = self._inner[k]
        iteration, rest = divmod(number - (self._ends[k] - len(node.values) * inner.size), inner.size)
        static, values = inner.walk(rest)
        return static, {node.var: node.values[iteration], **values}
