"""One pass of the array: a group of filters over one step of the channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from archloom.mapper.spans import Diagonals, Group, Span, diagonals
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.eyeriss.plan import RowStationary, taps
from archloom.uma_targets.eyeriss.problem import VALUE_BYTES
from archloom.uma_targets.kit.nest import Nodes, Piece, pieces, repeat

if TYPE_CHECKING:
    from archloom.uma_targets.eyeriss.emit import Block

Body: TypeAlias = Callable[[Affine, Affine, Affine, int], Nodes]
"""What is done for a PE, a row of the strip and so many filters from one of the pass on."""


@dataclass(frozen=True)
class Strip:
    """Where in the results the array works: rows from ``e0`` and columns from ``f0`` on."""

    rows: Span
    cols: Span
    e0: Affine
    f0: Affine

    @property
    def plane(self) -> int:
        """Words of one channel of an ifmap in the global buffer."""
        return self.rows.reach * self.cols.reach


@dataclass(frozen=True)
class Channels:
    """Channels that lie one behind the other, in ``groups`` of rows of sets that take as many."""

    groups: tuple[Group, ...]

    @property
    def size(self) -> int:
        return sum(group.size for group in self.groups)

    @property
    def each(self) -> int:
        """Of the row with most."""
        return max(group.each for group in self.groups)

    @property
    def down(self) -> int:
        """Rows of a set for one row of a filter."""
        return sum(group.down for group in self.groups)

    def before(self, group: Group) -> int:
        """Channels of the groups before one."""
        return group.first - self.groups[0].first


@dataclass(frozen=True)
class Step:
    """A part of the reduction of one ``group`` of a block: channels from ``c0`` on, and which weights of filters."""

    channels: Channels
    group: Affine
    c0: Affine
    row: int
    rows: int
    col: int
    cols: int
    starts: bool
    """whether no step of the group comes before"""
    buffer: Affine
    """words from the start of the ifmap buffers to the channels' ifmaps"""
    held: int
    """channels of an image that are there"""


@dataclass(frozen=True)
class Filters:
    """Filters in the array: those of a group from ``o0`` on, in ``groups`` of sets that take as many."""

    groups: tuple[Group, ...]
    o0: Affine
    local: Affine
    """number of the first within the block, whose groups follow one another"""

    @property
    def each(self) -> int:
        """Filters of the set with most."""
        return max(group.each for group in self.groups)

    @property
    def sets(self) -> int:
        return sum(group.down * group.across for group in self.groups)

    @property
    def size(self) -> int:
        """Filters of all sets."""
        return sum(group.size for group in self.groups)

    def before(self, group: Group) -> int:
        """Sets of the groups before one."""
        return sum(g.down * g.across for g in self.groups[:self.groups.index(group)])


@dataclass(frozen=True)
class Pass:
    """One group of filters over one step's channels; ``turn`` numbers the images that go through the array."""

    block: Block
    step: Step
    filters: Filters
    turn: Affine

    @property
    def mapping(self) -> RowStationary:
        return self.block.mapping

    @property
    def cols(self) -> int:
        return self.block.emission.machine.cols

    @property
    def tower(self) -> int:
        """Rows of the array that a set takes."""
        r_taps, _ = taps(self.block.problem.shape, self.block.emission.machine)
        return self.mapping.r * r_taps

    @property
    def used(self) -> int:
        """Rows of a set that work in this pass."""
        return self.step.channels.down * self.step.rows

    @property
    def accumulates(self) -> bool:
        """Whether there are partial sums in the global buffer."""
        return not self.step.starts or self.block.problem.bias is not None

    def segments(self) -> tuple[Piece, ...]:
        """The segments of the strip, of so many columns each; the last may have fewer."""
        return pieces(self.block.strip.rows.size, self.mapping.e)

    def pe(self, segment: Affine | int, down: Affine | int, across: Affine | int, row: Affine | int) -> Affine:
        """Number of the first PE of a row of a set."""
        sets = Affine.of(segment) * self.mapping.down + down
        return (sets * self.tower + row) * self.cols + Affine.of(across) * self.mapping.e

    def nodes(self) -> Nodes:
        """Filters into the scratchpads, then the images."""
        return [*self._filters(), *repeat("im", self.block.images.size, self._image)]

    # --- filters -------------------------------------------------------------------------------------------------

    def _filters(self) -> Nodes:
        step, shape = self.step, self.block.problem.shape
        tensor, place = self.block.problem.filters, self.filters.each * step.channels.each * step.cols
        slots = max(1, self.block.emission.machine.fglb_words // place)
        segments = -(-self.block.strip.rows.size // self.mapping.e)
        columns = min(self.mapping.e, self.block.strip.rows.size)
        s_row, s_col, number = tensor.steps[2], tensor.steps[3], self.block.groups.first + step.group
        assert step.row + step.rows <= shape.r

        def row(deep: Group, group: Group, d: Affine, a: Affine, ch: Affine, i: Affine) -> Nodes:
            of_group, high = d * group.across + a, (ch + deep.top) * step.rows + i
            slot = ((high * self.filters.sets + of_group + self.filters.before(group)) % slots) * place
            first, c0 = self.filters.o0 + of_group * group.each + group.first, step.c0 + step.channels.before(deep)
            return [
                Instr.make(
                    "load_filter", dram=tensor.at(first, c0 + ch * deep.each, i + step.row, step.col, number),
                    fglb=slot, n0=group.each, n1=deep.each, n2=step.cols, h0=tensor.steps[0],
                    h1=tensor.steps[1], h2=s_col if step.cols > 1 else max(s_col, s_row, VALUE_BYTES),
                    item=self.block.problem.item,
                ),
                Instr.make(
                    "filter", fglb=slot, words=group.each * deep.each * step.cols,
                    pe=self.pe(0, d + group.top, a + group.left, high), n0=segments, n1=columns,
                    s0=self.mapping.down * self.tower * self.cols, s1=1,
                ),
            ]

        # the lowest row first: it is the first to finish the pass before, as sums go up
        return [node for deep in step.channels.groups for node in repeat(
            "fr", deep.down, lambda ch, deep=deep: repeat("fi", step.rows, lambda i: [  # type: ignore[misc]
                node for group in self.filters.groups for node in repeat(
                    "fd", group.down, lambda d, group=group: repeat(  # type: ignore[misc]
                        "fa", group.across, lambda a: row(deep, group, d, a, ch, i)))]))]

    # --- images --------------------------------------------------------------------------------------------------

    def _image(self, n: Affine) -> Nodes:
        slot, wide = (self.turn + n) % 2, self.block.strip.cols.size
        found = self._ifmaps(n, slot)
        if self.accumulates:
            found += self._sets(lambda pe, y, o, p: [Instr.make(
                "psum_in", **self._sums(n, y, o), pe=pe, slot=slot, p=p, f=wide)], 0)
        found += self._rows(slot)
        if self.accumulates:
            found += self._sets(lambda pe, y, o, p: [Instr.make("accumulate_in", pe=pe, slot=slot, words=p * wide)], 0)
        found += self._up(slot)
        return found + self._sets(lambda pe, y, o, p: [Instr.make(
            "psum_out", **self._sums(n, y, o), pe=pe, slot=slot, p=p, f=wide)], self.used - 1)

    def _ifmaps(self, n: Affine, slot: Affine) -> Nodes:
        """Each ifmap row to the PEs of its diagonals."""
        step, block, groups = self.step, self.block, self.filters.groups
        down, across = max(g.top + g.down for g in groups), max(g.left + g.across for g in groups)
        stride, reach = block.problem.shape.stride, block.strip.cols.reach
        width = block.problem.shape.reach(block.strip.cols.size, step.cols)
        plane, start = block.strip.plane, block.emission.ifmaps
        base = step.buffer + n * (step.held * plane) + (start + step.row * reach + step.col)

        def send(deep: Group, segment: Affine | int, ch: Affine, y: Affine, first: Affine, count: int) -> Nodes:
            row = (Affine.of(segment) * (self.mapping.e * stride) + y) * reach
            channel = ch * deep.each + step.channels.before(deep)
            return [Instr.make(
                "ifmap", glb=base + channel * plane + row, q=deep.each, width=width, gq=plane, gw=1,
                pe=self.pe(segment, 0, 0, (ch + deep.top) * step.rows) + first, slot=slot, n0=down,
                n1=across, n2=count, s0=self.tower * self.cols, s1=self.mapping.e,
                s2=max(0, stride * self.cols - 1),
            )]

        def along(segments: Piece, run: Diagonals) -> Nodes:
            return repeat("sg", segments.count, lambda g: [node for deep in step.channels.groups for node in repeat(
                "dr", deep.down, lambda ch, deep=deep: repeat("dy", run.count, lambda y: send(  # type: ignore[misc]
                    deep, g + segments.first, ch, y + run.y, y * run.step + run.pe, run.length)))])

        return [
            node for segments in self.segments()
            for run in diagonals(segments.size, step.rows, stride, self.cols) for node in along(segments, run)
        ]

    def _rows(self, slot: Affine) -> Nodes:
        """One primitive in each PE."""
        step, shape = self.step, self.block.problem.shape

        def conv(pe: Affine, p: int, q: int) -> Nodes:
            return [Instr.make(
                "conv", pe=pe, slot=slot, p=p, q=q, s=step.cols, f=self.block.strip.cols.size, stride=shape.stride)]

        return [node for deep in step.channels.groups for node in repeat(
            "i", deep.down * step.rows, lambda i, deep=deep: self._sets(  # type: ignore[misc]
                lambda pe, y, o, p: conv(pe, p, deep.each), i + deep.top * step.rows))]

    def _up(self, slot: Affine) -> Nodes:
        """Sums up the columns, from the lowest row to the highest."""
        def add(pe: Affine, y: Affine, o: Affine, p: int) -> Nodes:
            return [Instr.make("accumulate", pe=pe, source=pe - self.cols, slot=slot,
                               words=p * self.block.strip.cols.size)]

        # no loop: a sum that loop iterations pass on is a recurrence, a few rows of sums are one contraction
        return [node for row in range(1, self.used) for node in self._sets(add, row)]

    def _sums(self, n: Affine, y: Affine, o: Affine) -> dict[str, Affine | int]:
        """Where the partial sums of row ``y`` of the strip and filters from ``o`` of the pass on are."""
        block = self.block
        return {"glb": block.place(n, self.filters.local + o) + y * block.line, "gp": block.sums}

    def _sets(self, body: Body, row: Affine | int) -> Nodes:
        """``body`` for the PEs of one row of all sets."""
        def one(group: Group, g: Affine, d: Affine, a: Affine, j: Affine) -> Nodes:
            y = g * self.mapping.e + j
            return body(self.pe(g, d + group.top, a + group.left, row) + j, y,
                        (d * group.across + a) * group.each + group.first, group.each)

        def columns(segments: Piece, group: Group) -> Nodes:
            return repeat("g", segments.count, lambda g: repeat("d", group.down, lambda d: repeat(
                "a", group.across, lambda a: repeat("j", segments.size, lambda j: one(
                    group, g + segments.first, d, a, j)))))

        return [node for segments in self.segments() for group in self.filters.groups
                for node in columns(segments, group)]
