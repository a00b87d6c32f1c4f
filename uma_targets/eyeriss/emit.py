"""Convolutions and GEMMs as streams of Eyeriss's primitives.

A strip of results is computed at a time. For each block of filters its partial sums stay in the global buffer while
the channels are gone through; a pass over the array then brings filters into the PEs' scratchpads, and the images of
the block through the array: ifmap rows go along the diagonals, each PE runs one primitive, sums go up the columns and
back to the global buffer. Rows and scratchpad slots alternate, so that a pass streams in while the one before computes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

from archloom.mapper.spans import Diagonals, Group, Span, diagonals, groups, spans
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.eyeriss.plan import Bounds, RowStationary, check, taps
from archloom.uma_targets.eyeriss.problem import VALUE_BYTES, Output, Problem, image
from archloom.uma_targets.kit.gemm import LOWEST, Gemm
from archloom.uma_targets.kit.nest import Nodes, Piece, each, pieces, repeat

ISA = "eyeriss"
Body: TypeAlias = Callable[[Affine, Affine, Affine], Nodes]
"""What is done for a PE, a row of the strip and a filter of the group."""


@dataclass(frozen=True)
class Strip:
    """Where in the results the array works: rows from ``e0`` and columns from ``f0`` on."""

    rows: Span
    cols: Span
    e0: Affine
    f0: Affine


@dataclass(frozen=True)
class Emission:
    """A problem, how it is mapped, and the machine."""

    problem: Problem
    mapping: RowStationary
    machine: Bounds

    def nodes(self) -> Nodes:
        """The whole problem. MappingError if the mapping does not fit."""
        check(self.mapping, self.problem.shape, self.machine)
        shape, mp = self.problem.shape, self.mapping
        found: Nodes = []
        for rows in spans(shape.e, mp.strip, shape.stride, shape.r, shape.top, shape.h):
            for cols in spans(shape.f, mp.f, shape.stride, shape.s, shape.left, shape.w):
                found += self._strips(rows, cols)
        return found

    def _strips(self, rows: Span, cols: Span) -> Nodes:
        def strip(i: Affine, j: Affine) -> Nodes:
            where = Strip(rows, cols, i * rows.size + rows.first, j * cols.size + cols.first)
            return [n for run in groups(self.problem.shape.n, self.mapping.n, 1) for n in self._images(where, run)]

        return repeat("er", rows.count, lambda i: repeat("fc", cols.count, lambda j: strip(i, j)))

    def _images(self, strip: Strip, images: Group) -> Nodes:
        """All blocks of filters for each group of images of a run."""
        total, size = self.problem.shape.m, min(self.mapping.m, self.problem.shape.m)

        def blocks(image: Affine) -> Nodes:
            return each("mb", pieces(total, size), lambda b, run: Block(
                self, strip, image, images.each, b * size, run.size).nodes())

        return repeat("ni", images.count, lambda i: blocks(i * images.each + images.first))


@dataclass(frozen=True)
class Block:
    """``size`` filters from ``o0`` on and ``images`` images whose partial sums of a strip are in the global buffer."""

    emission: Emission
    strip: Strip
    image: Affine
    images: int
    o0: Affine
    size: int

    @property
    def problem(self) -> Problem:
        return self.emission.problem

    @property
    def mapping(self) -> RowStationary:
        return self.emission.mapping

    @property
    def plane(self) -> int:
        """Words of one channel of an ifmap in the global buffer."""
        return self.strip.rows.reach * self.strip.cols.reach

    @property
    def line(self) -> int:
        """Words of a row of partial sums."""
        return self.strip.cols.size * self.emission.machine.psum_words

    @property
    def sums(self) -> int:
        """Words of the partial sums of one filter and image."""
        return self.strip.rows.size * self.line

    @property
    def ifmaps(self) -> int:
        """Where the ifmaps begin: after the partial sums."""
        return self.images * self.size * self.sums

    def nodes(self) -> Nodes:
        """Padding, sums of all channels, results."""
        return [*self._padding(), *self._bias(), *self._reduction(), *self._store()]

    def _padding(self) -> Nodes:
        """Zeros where the strip reads beyond the image; loads never write there."""
        strip = self.strip
        if not (strip.rows.padded or strip.cols.padded):
            return []
        channels = self.mapping.buffers * self.images * self.mapping.q * self.mapping.r
        return repeat("z", channels, lambda i: [Instr.make(
            "clear", glb=i * self.plane + self.ifmaps, n0=strip.rows.reach, n1=strip.cols.reach,
            g0=strip.cols.reach, g1=1,
        )])

    def _bias(self) -> Nodes:
        bias = self.problem.bias
        if bias is None:
            return []
        item = VALUE_BYTES * self.emission.machine.psum_words
        return repeat("bi", self.images, lambda i: [Instr.make(
            "load_sums", dram=bias + self.o0 * item, glb=i * (self.size * self.sums), n0=self.size,
            n1=self.strip.rows.size * self.strip.cols.size, h0=item, h1=0, g0=self.sums,
        )])

    # --- the reduction over channels and weights -----------------------------------------------------------------

    def _reduction(self) -> Nodes:
        """All channels; the first group alone, as it may start the sums."""
        found: Nodes = []
        number = 0
        for run in groups(self.problem.shape.c, self.mapping.q, self.mapping.r):
            found += self._channels(run, Affine(run.first), self.problem.bias is None and not number, Affine(number))
            found += repeat("cb", run.count - 1, lambda i, run=run, number=number: self._channels(  # type: ignore[misc]
                run, (i + 1) * run.size + run.first, False, i + (number + 1)))
            number += run.count
        return found

    def _channels(self, channels: Group, c0: Affine, fresh: bool, number: Affine) -> Nodes:
        """Bring ``channels`` in and add their part to all sums of the block."""
        buffer = Affine(0)
        if self.mapping.buffers == 2:
            buffer = (number % 2) * (self.images * self.mapping.q * self.mapping.r * self.plane)
        found = self._load(channels, c0, buffer)
        shape = self.problem.shape
        r_taps, s_taps = taps(shape, self.emission.machine)
        for row in range(0, shape.r, r_taps):
            for col in range(0, shape.s, s_taps):
                step = Step(
                    channels, c0, row, min(r_taps, shape.r - row), col, min(s_taps, shape.s - col),
                    not fresh or row > 0 or col > 0, buffer,
                )
                found += self._passes(step, number)
        return found

    def _load(self, channels: Group, c0: Affine, buffer: Affine) -> Nodes:
        """The rows of the channels' ifmaps that lie in the image."""
        rows, cols, shape = self.strip.rows, self.strip.cols, self.problem.shape
        if not rows.take or not cols.take:
            return []
        y0 = self.strip.e0 * shape.stride + (rows.skip - shape.top)
        x0 = self.strip.f0 * shape.stride + (cols.skip - shape.left)
        steps = self.problem.ifmap.steps
        glb = buffer + (self.ifmaps + rows.skip * cols.reach + cols.skip)
        return repeat("ln", self.images, lambda n: repeat("ly", rows.take, lambda y: [Instr.make(
            "load", dram=self.problem.ifmap.at(self.image + n, y0 + y, x0, c0),
            glb=glb + n * (channels.size * self.plane) + y * cols.reach, n0=channels.size, n1=cols.take,
            h0=steps[3], h1=steps[2], g0=self.plane, g1=1, item=self.problem.item,
        )]))

    def _passes(self, step: Step, number: Affine) -> Nodes:
        """All filters of the block over the step's channels."""
        runs = list(groups(self.size, self.mapping.p, self.mapping.down, self.mapping.across))
        total = sum(run.count for run in runs)
        found: Nodes = []
        for index, run in enumerate(runs):
            done = sum(before.count for before in runs[:index])
            found += self._run(run, step, number * total + done)
        return found

    def _run(self, run: Group, step: Step, first: Affine) -> Nodes:
        """A pass for each group of filters of a run, the first of which is pass number ``first``."""
        def one(i: Affine) -> Nodes:
            local = i * run.size + run.first
            return Pass(self, step, Filters(run, self.o0 + local, local), (first + i) * self.images).nodes()

        return repeat("mg", run.count, one)

    # --- results -------------------------------------------------------------------------------------------------

    def _store(self) -> Nodes:
        output, steps = self.problem.output, self.problem.ofmap.steps
        if output.scale_bits is None:
            mnemonic, how = "store", {"relu": int(output.relu)}
        else:
            mnemonic, how = "store_scaled", {"scale": output.scale_bits, "low": 0 if output.relu else LOWEST}
        return repeat("sn", self.images, lambda n: repeat("sy", self.strip.rows.size, lambda y: [Instr.make(
            mnemonic, dram=self.problem.ofmap.at(self.image + n, self.strip.e0 + y, self.strip.f0, self.o0),
            glb=n * (self.size * self.sums) + y * self.line, n0=self.size, n1=self.strip.cols.size, h0=steps[3],
            h1=steps[2], g0=self.sums, **how,
        )]))


@dataclass(frozen=True)
class Step:
    """A part of the reduction: channels from ``c0`` on, and which weights of the filters."""

    channels: Group
    c0: Affine
    row: int
    rows: int
    col: int
    cols: int
    accumulates: bool
    buffer: Affine
    """words from the start of the ifmap buffers to the channels' ifmaps"""


@dataclass(frozen=True)
class Filters:
    """A group of filters in the array: those from ``o0`` on."""

    group: Group
    o0: Affine
    local: Affine
    """number of the first within the block"""


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

    def segments(self) -> tuple[Piece, ...]:
        """The segments of the strip, of so many columns each; the last may have fewer."""
        return pieces(self.block.strip.rows.size, self.mapping.e)

    def pe(self, segment: Affine | int, down: Affine | int, across: Affine | int, row: Affine | int) -> Affine:
        """Number of the first PE of a row of a set."""
        sets = Affine.of(segment) * self.mapping.down + down
        return (sets * self.tower + row) * self.cols + Affine.of(across) * self.mapping.e

    def nodes(self) -> Nodes:
        """Filters into the scratchpads, then the images."""
        return [*self._filters(), *repeat("im", self.block.images, self._image)]

    # --- filters -------------------------------------------------------------------------------------------------

    def _filters(self) -> Nodes:
        group, step, shape = self.filters.group, self.step, self.block.problem.shape
        tensor = self.block.problem.filters
        words = group.each * step.channels.each * step.cols
        slots = max(1, self.block.emission.machine.fglb_words // words)
        segments = -(-self.block.strip.rows.size // self.mapping.e)
        columns = min(self.mapping.e, self.block.strip.rows.size)
        s_row, s_col = tensor.steps[2], tensor.steps[3]
        assert step.row + step.rows <= shape.r

        def row(d: Affine, a: Affine, ch: Affine, i: Affine) -> Nodes:
            number = ((ch * step.rows + i) * group.down + d) * group.across + a
            slot = (number % slots) * words
            first = self.filters.o0 + (d * group.across + a) * group.each
            return [
                Instr.make(
                    "load_filter", dram=tensor.at(first, step.c0 + ch * step.channels.each, i + step.row, step.col),
                    fglb=slot, n0=group.each, n1=step.channels.each, n2=step.cols, h0=tensor.steps[0],
                    h1=tensor.steps[1], h2=s_col if step.cols > 1 else max(s_col, s_row, VALUE_BYTES),
                    item=self.block.problem.item,
                ),
                Instr.make(
                    "filter", fglb=slot, words=words, pe=self.pe(0, d, a, ch * step.rows + i), n0=segments, n1=columns,
                    s0=self.mapping.down * self.tower * self.cols, s1=1,
                ),
            ]

        # the lowest row first: it is the first to finish the pass before, as sums go up
        return repeat("fr", step.channels.down, lambda ch: repeat("fi", step.rows, lambda i: repeat(
            "fd", group.down, lambda d: repeat("fa", group.across, lambda a: row(d, a, ch, i)))))

    # --- images --------------------------------------------------------------------------------------------------

    def _image(self, n: Affine) -> Nodes:
        slot = (self.turn + n) % 2
        found = self._ifmaps(n, slot)
        if self.step.accumulates:
            found += self._sets(lambda pe, y, o: [Instr.make(
                "psum_in", **self._sums(n, y, o), pe=pe, slot=slot, p=self.filters.group.each,
                f=self.block.strip.cols.size)], 0)
        found += self._rows(slot)
        if self.step.accumulates:
            found += self._sets(lambda pe, y, o: [Instr.make("accumulate_in", pe=pe, slot=slot, words=self._words)], 0)
        found += self._up(slot)
        return found + self._sets(lambda pe, y, o: [Instr.make(
            "psum_out", **self._sums(n, y, o), pe=pe, slot=slot, p=self.filters.group.each,
            f=self.block.strip.cols.size)], self.used - 1)

    @property
    def _words(self) -> int:
        return self.filters.group.each * self.block.strip.cols.size

    def _ifmaps(self, n: Affine, slot: Affine) -> Nodes:
        """Each ifmap row to the PEs of its diagonals."""
        step, block, group = self.step, self.block, self.filters.group
        stride, reach = block.problem.shape.stride, block.strip.cols.reach
        width = block.problem.shape.reach(block.strip.cols.size, step.cols)
        base = step.buffer + n * (step.channels.size * block.plane) + (block.ifmaps + step.row * reach + step.col)

        def send(segment: Affine | int, ch: Affine, y: Affine, first: Affine, count: int) -> Nodes:
            row = (Affine.of(segment) * (self.mapping.e * stride) + y) * reach
            return [Instr.make(
                "ifmap", glb=base + ch * (step.channels.each * block.plane) + row, q=step.channels.each, width=width,
                gq=block.plane, gw=1, pe=self.pe(segment, 0, 0, ch * step.rows) + first, slot=slot, n0=group.down,
                n1=group.across, n2=count, s0=self.tower * self.cols, s1=self.mapping.e,
                s2=max(0, stride * self.cols - 1),
            )]

        def along(segments: Piece, run: Diagonals) -> Nodes:
            return repeat("sg", segments.count, lambda g: repeat("dr", step.channels.down, lambda ch: repeat(
                "dy", run.count, lambda y: send(
                    g + segments.first, ch, y + run.y, y * run.step + run.pe, run.length))))

        return [
            node for segments in self.segments()
            for run in diagonals(segments.size, step.rows, stride, self.cols) for node in along(segments, run)
        ]

    def _rows(self, slot: Affine) -> Nodes:
        """One primitive in each PE."""
        step, shape = self.step, self.block.problem.shape

        def conv(pe: Affine, y: Affine, o: Affine) -> Nodes:
            return [Instr.make(
                "conv", pe=pe, slot=slot, p=self.filters.group.each, q=step.channels.each, s=step.cols,
                f=self.block.strip.cols.size, stride=shape.stride,
            )]

        return repeat("i", self.used, lambda i: self._sets(conv, i))

    def _up(self, slot: Affine) -> Nodes:
        """Sums up the columns, from the lowest row to the highest."""
        def add(pe: Affine, y: Affine, o: Affine) -> Nodes:
            return [Instr.make("accumulate", pe=pe, source=pe - self.cols, slot=slot, words=self._words)]

        # no loop: a sum that loop iterations pass on is a recurrence, a few rows of sums are one contraction
        return [node for row in range(1, self.used) for node in self._sets(add, row)]

    def _sums(self, n: Affine, y: Affine, o: Affine) -> dict[str, Affine | int]:
        """Where the partial sums of row ``y`` of the strip and filters from ``o`` of the group on are."""
        block = self.block
        number = n * block.size + self.filters.local + o
        return {"glb": number * block.sums + y * block.line, "gp": block.sums}

    def _sets(self, body: Body, row: Affine | int) -> Nodes:
        """``body`` for the PEs of one row of all sets."""
        group = self.filters.group

        def one(g: Affine, d: Affine, a: Affine, j: Affine) -> Nodes:
            y = g * self.mapping.e + j
            return body(self.pe(g, d, a, row) + j, y, (d * group.across + a) * group.each)

        def columns(segments: Piece) -> Nodes:
            return repeat("g", segments.count, lambda g: repeat("d", group.down, lambda d: repeat(
                "a", group.across, lambda a: repeat("j", segments.size, lambda j: one(
                    g + segments.first, d, a, j)))))

        return [node for segments in self.segments() for node in columns(segments)]


def product_nodes(gemm: Gemm, mapping: RowStationary, machine: Bounds, *, scaled: bool = True) -> Nodes:
    """The product as an image of ``mapping.f`` pixels in a row, and what is left of its rows as another; sums leave as
    bytes where they are ``scaled``."""
    rows, rest = divmod(gemm.m, mapping.f)
    output, nodes = Output(gemm.relu, gemm.scale_bits if scaled else None), Nodes()
    if rows:
        nodes += Emission(image(gemm, 0, rows, mapping.f, output), mapping, machine).nodes()
    if rest:
        single = replace(mapping, f=rest, e=1, segments=1)
        nodes += Emission(image(gemm, gemm.m - rest, 1, rest, output), single, machine).nodes()
    return nodes
