"""Convolutions and GEMMs as streams of Eyeriss's primitives.

A strip of results is computed at a time. For each block of filters (of one group of the convolution, or of several
whole ones, whose channels come at once) its partial sums stay in the global buffer while the channels are gone through;
a pass over the array then brings filters into the PEs' scratchpads, and the images of the block through the array:
ifmap rows go along the diagonals, each PE runs one primitive, sums go up the columns and back to the global buffer.
Rows and scratchpad slots alternate from the first block to the last, so that a pass streams in while the one before
computes; so do the places of ifmaps and of sums, where there are two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from archloom.mapper.reuse import ceil_div
from archloom.mapper.spans import Group, Span, shares, spans
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.eyeriss.passes import Channels, Filters, Pass, Step, Strip
from archloom.uma_targets.eyeriss.plan import Bounds, RowStationary, check, taps
from archloom.uma_targets.eyeriss.problem import VALUE_BYTES, Output, Problem, Shape, image
from archloom.uma_targets.kit.gemm import LOWEST, Gemm
from archloom.uma_targets.kit.nest import Nodes, each, pieces, repeat

ISA = "eyeriss"
START = Affine(0)


@dataclass(frozen=True)
class Emission:
    """A problem, how it is mapped, and the machine; ``before`` it so many strips of others, alike in all but their
    extents. The ``largest`` of them says where sums and ifmaps are, so that one may begin while another ends."""

    problem: Problem
    mapping: RowStationary
    machine: Bounds
    before: Affine = START
    largest: Shape | None = None

    def nodes(self) -> Nodes:
        """The whole problem. MappingError if the mapping does not fit."""
        check(self.mapping, self.problem.shape, self.machine)
        found, number = Nodes(), self.before
        for rows, cols in self._spans():
            found += self._strips(rows, cols, number)
            number = number + rows.count * cols.count
        return found

    @property
    def strips(self) -> int:
        """How many strips there are."""
        return sum(rows.count * cols.count for rows, cols in self._spans())

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Groups of the convolution, images and filters of a block, at most."""
        shape, mp = self.problem.shape, self.mapping
        return min(mp.g, shape.groups), min(mp.n, shape.n), min(mp.m, shape.m)

    @cached_property
    def places(self) -> tuple[int, int]:
        """Words of a place for ifmaps in the global buffer, and of one for the partial sums of a block."""
        return self.mapping.places(self.largest or self.problem.shape, self.machine)

    @property
    def ifmaps(self) -> int:
        """Where ifmaps begin in the global buffer: behind the sums."""
        return self.mapping.sums * self.places[1]

    def _spans(self) -> Iterator[tuple[Span, Span]]:
        shape, mp = self.problem.shape, self.mapping
        for rows in spans(shape.e, mp.strip, shape.stride, shape.r, shape.top, shape.h):
            for cols in spans(shape.f, mp.f, shape.stride, shape.s, shape.left, shape.w):
                yield rows, cols

    def _strips(self, rows: Span, cols: Span, number: Affine) -> Nodes:
        """Strips that are alike, the first of which has this number."""
        def strip(i: Affine, j: Affine) -> Strip:
            return Strip(rows, cols, i * rows.size + rows.first, j * cols.size + cols.first)

        return [*self.padding(strip(Affine(0), Affine(0))), *repeat("er", rows.count, lambda i: repeat(
            "fc", cols.count, lambda j: self._blocks(strip(i, j), number + i * cols.count + j)))]

    def padding(self, strip: Strip) -> Nodes:
        """Zeros where strips read beyond the image; loads never write there, and neither do sums."""
        rows, cols, wide = strip.rows, strip.cols, strip.cols.reach
        planes = self.sizes[1] * self.mapping.held(self.problem.shape)

        def clear(start: Affine, size: int, count: int, step: int) -> Nodes:
            return [Instr.make("clear", glb=start, n0=count, n1=size, g0=step, g1=1)] if size else []

        def each(buffer: Affine) -> Nodes:
            start = buffer * self.places[0] + self.ifmaps
            below, right = rows.skip + rows.take, cols.skip + cols.take
            return [
                *clear(start, rows.skip * wide, planes, strip.plane),
                *clear(start + below * wide, (rows.reach - below) * wide, planes, strip.plane),
                *clear(start, cols.skip, planes * rows.reach, wide),
                *clear(start + right, wide - right, planes * rows.reach, wide),
            ]

        return repeat("pb", self.mapping.buffers, each)

    def _blocks(self, strip: Strip, number: Affine) -> Nodes:
        """All groups, images and filters over one strip."""
        shape, (g, n, m) = self.problem.shape, self.sizes
        return each("group", pieces(shape.groups, g), lambda i, gs: each("ni", pieces(shape.n, n), lambda j, ns: each(
            "mb", pieces(shape.m, m), lambda k, ms: self.block(Block(
                self, strip, Part(i * g, gs.size), Part(j * n, ns.size), Part(k * m, ms.size),
                self.turn(number, (i, gs.size), (j, ns.size), k))))))

    def block(self, block: Block) -> Nodes:
        """One block."""
        return block.nodes()

    def turn(self, strip: Affine, group: tuple[Affine, int], image: tuple[Affine, int], filters: Affine) -> Turn:
        """What comes before a block of a strip, by its number among those of all groups, images and filters, and how
        many groups and images it has."""
        shape, (g, n, m) = self.problem.shape, self.sizes
        counts = ceil_div(shape.groups, g), ceil_div(shape.n, n), ceil_div(shape.m, m)
        fills = sum(run.count * self._fills(run.size) for run in pieces(shape.m, m))
        before = (strip * shape.groups + group[0] * g) * shape.n + image[0] * (n * group[1])
        return Turn(
            (before * fills + filters * (group[1] * image[1] * self._fills(m))) * (self.steps * self.parts),
            ((strip * counts[0] + group[0]) * counts[1] + image[0]) * counts[2] + filters)

    @property
    def steps(self) -> int:
        """Groups of channels, one of which the array takes at a time."""
        return ceil_div(self.problem.shape.c, self.mapping.q * self.mapping.r)

    @property
    def parts(self) -> int:
        """Parts of filters, one of which the array takes at a time."""
        shape, (r_taps, s_taps) = self.problem.shape, taps(self.problem.shape, self.machine)
        return ceil_div(shape.r, r_taps) * ceil_div(shape.s, s_taps)

    def _fills(self, filters: int) -> int:
        """How often the array is filled with so many filters of a group."""
        return ceil_div(filters, self.mapping.p * self.mapping.t)


@dataclass(frozen=True)
class Turn:
    """How many images went through the array, and how many blocks there were, before: of two places they take turns."""

    passes: Affine
    blocks: Affine


@dataclass(frozen=True)
class Part:
    """``size`` of something, from ``first`` on."""

    first: Affine
    size: int


@dataclass(frozen=True)
class Block:
    """Groups, images and filters of each group whose partial sums of a strip are in the global buffer."""

    emission: Emission
    strip: Strip
    groups: Part
    images: Part
    filters: Part
    turn: Turn

    @property
    def problem(self) -> Problem:
        return self.emission.problem

    @property
    def mapping(self) -> RowStationary:
        return self.emission.mapping

    @property
    def size(self) -> int:
        """Filters of all groups."""
        return self.groups.size * self.filters.size

    @property
    def soon(self) -> int:
        """Filters of the first pass."""
        return min(self.filters.size, self.mapping.p * self.mapping.t)

    @property
    def channel(self) -> Affine:
        """Number of the first result's channel."""
        return self.groups.first * self.problem.shape.m + self.filters.first

    def place(self, image: Affine, filters: Affine | int) -> Affine:
        """Where the partial sums of a filter are, by its number among those of all groups."""
        return self.start + (image * self.size + filters) * self.sums

    @property
    def line(self) -> int:
        """Words of a row of partial sums."""
        return self.strip.cols.size * self.emission.machine.psum_words

    @property
    def sums(self) -> int:
        """Words of the partial sums of one filter and image."""
        return self.strip.rows.size * self.line

    @property
    def start(self) -> Affine:
        """Where the partial sums begin."""
        return (self.turn.blocks % self.mapping.sums) * self.emission.places[1]

    def nodes(self) -> Nodes:
        """Sums of all channels, from the bias on, and results."""
        return [*self._bias(0, self.soon), *self._reduction(), *self._store()]

    def _bias(self, first: Affine | int, count: int) -> Nodes:
        """What the sums of ``count`` filters from one on start from, which are counted over all groups."""
        bias, item = self.problem.bias, VALUE_BYTES * self.emission.machine.psum_words
        if bias is None:
            return []
        return repeat("bi", self.images.size, lambda n: [Instr.make(
            "load_sums", dram=bias + (self.channel + first) * item, glb=self.place(n, first), n0=count,
            n1=self.strip.rows.size * self.strip.cols.size, h0=item, h1=0, g0=self.sums,
        )])

    def _later_bias(self) -> Nodes:
        """That of all but the first pass, piece by piece: neither other loads nor passes wait for all of it."""
        return each("bf", pieces(self.size, self.soon, peel_first=True)[1:], lambda i, run: self._bias(
            i * self.soon, run.size))

    # --- the reduction over channels and weights -----------------------------------------------------------------

    def _reduction(self) -> Nodes:
        """All groups: of one the channels as they are needed, of several all of them at once."""
        if self.mapping.g == 1:
            return self._group(None, Affine(0))
        shape, buffer = self.problem.shape, self._buffer(self.turn.blocks)
        return [*self._load(Part(self.groups.first * shape.c, self.groups.size * shape.c), buffer), *self._later_bias(),
                *repeat("gb", self.groups.size, lambda g: self._group(buffer, g))]

    def _buffer(self, number: Affine) -> Affine:
        """Words from the start of the ifmaps to those that are loaded as number ``number``."""
        return (number % self.mapping.buffers) * self.emission.places[0]

    def _group(self, buffer: Affine | None, group: Affine) -> Nodes:
        """All channels of a group of the block, which are in a ``buffer`` or are loaded; the first of them alone, as
        they may start the sums."""
        found: Nodes = []
        number = 0
        for run in map(Channels, shares(self.problem.shape.c, self.mapping.q, self.mapping.r, 1)):
            first, count = run.groups[0].first, run.groups[0].count
            found += self._channels(run, buffer, group, Affine(first), not number, Affine(number))
            found += repeat("cb", count - 1, lambda i, run=run, number=number: self._channels(  # type: ignore[misc]
                run, buffer, group, (i + 1) * run.size, False, i + (number + 1)))
            number += count
        return found

    def _channels(
        self, channels: Channels, buffer: Affine | None, group: Affine, c0: Affine, first: bool, number: Affine
    ) -> Nodes:
        """Add the part of ``channels``, brought in where they are in no ``buffer``, to all sums of a group."""
        found, shape, held = Nodes(), self.problem.shape, self.groups.size * self.problem.shape.c
        if buffer is None:
            at, held = self._buffer(self.turn.blocks * self.emission.steps + number), channels.size
            found += self._load(Part(self.groups.first * shape.c + c0, held), at)
            found += self._later_bias() if first else []
        else:
            at = buffer + (group * shape.c + c0) * self.strip.plane
        r_taps, s_taps = taps(shape, self.emission.machine)
        for row in range(0, shape.r, r_taps):
            for col in range(0, shape.s, s_taps):
                step = Step(
                    channels, group, c0, row, min(r_taps, shape.r - row), col, min(s_taps, shape.s - col),
                    first and row == 0 and col == 0, at, held,
                )
                found += self._passes(step, group * self.emission.steps + number)
        return found

    def _load(self, channels: Part, buffer: Affine) -> Nodes:
        """The rows of the channels' ifmaps that lie in the image."""
        rows, cols, shape = self.strip.rows, self.strip.cols, self.problem.shape
        if not rows.take or not cols.take:
            return []
        y0 = self.strip.e0 * shape.stride + (rows.skip - shape.top)
        x0 = self.strip.f0 * shape.stride + (cols.skip - shape.left)
        steps = self.problem.ifmap.steps
        glb = buffer + (self.emission.ifmaps + rows.skip * cols.reach + cols.skip)
        return repeat("ln", self.images.size, lambda n: repeat("ly", rows.take, lambda y: [Instr.make(
            "load", dram=self.problem.ifmap.at(self.images.first + n, y0 + y, x0, channels.first),
            glb=glb + n * (channels.size * self.strip.plane) + y * cols.reach, n0=channels.size, n1=cols.take,
            h0=steps[3], h1=steps[2], g0=self.strip.plane, g1=1, item=self.problem.item,
        )]))

    def _passes(self, step: Step, number: Affine) -> Nodes:
        """All filters of a group over the step's channels."""
        runs = list(shares(self.filters.size, self.mapping.p, self.mapping.down, self.mapping.across))
        total = sum(run[0].count for run in runs)
        found: Nodes = []
        for index, run in enumerate(runs):
            done = sum(before[0].count for before in runs[:index])
            found += self._run(run, step, number * total + done)
        return found

    def _run(self, run: tuple[Group, ...], step: Step, first: Affine) -> Nodes:
        """Passes over sets that take so many filters, the first of which is pass number ``first``."""
        def one(i: Affine) -> Nodes:
            local = i * run[0].size
            filters = Filters(run, self.filters.first + local, step.group * self.filters.size + local)
            return Pass(self, step, filters, self.turn.passes + (first + i) * self.images.size).nodes()

        return repeat("mg", run[0].count, one)

    # --- results -------------------------------------------------------------------------------------------------

    def _store(self) -> Nodes:
        output, steps = self.problem.output, self.problem.ofmap.steps
        if output.scale_bits is None:
            mnemonic, how = "store", {"relu": int(output.relu)}
        else:
            mnemonic, how = "store_scaled", {"scale": output.scale_bits, "low": 0 if output.relu else LOWEST}
        return repeat("sn", self.images.size, lambda n: repeat("sy", self.strip.rows.size, lambda y: [Instr.make(
            mnemonic, dram=self.problem.ofmap.at(
                self.images.first + n, self.strip.e0 + y, self.strip.f0, self.channel),
            glb=self.place(n, 0) + y * self.line, n0=self.size, n1=self.strip.cols.size, h0=steps[3], h1=steps[2],
            g0=self.sums, **how,
        )]))


def product_nodes(
    gemm: Gemm, mapping: RowStationary, machine: Bounds, *, number: Affine = START, scaled: bool = True
) -> Nodes:
    """The product as an image of ``mapping.f`` pixels in a row, and what is left of its rows as another; sums leave as
    bytes where they are ``scaled``. ``number``: of the product in a batch."""
    rows, rest = divmod(gemm.m, mapping.f)
    output = Output(gemm.relu, gemm.scale_bits if scaled else None)
    images = [image(gemm, 0, rows, mapping.f, output)] if rows else []
    images += [image(gemm, gemm.m - rest, 1, rest, output)] if rest else []
    parts = [Emission(each, mapping, machine, largest=images[0].shape) for each in images]
    strips = [part.strips for part in parts]
    return [node for i, part in enumerate(parts) for node in replace(
        part, before=number * sum(strips) + sum(strips[:i])).nodes()]
