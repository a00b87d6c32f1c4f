"""Convolutions and GEMMs as streams of Eyeriss's primitives.

A strip of results is computed at a time. For each block of filters its partial sums stay in the global buffer while
the channels are gone through; a pass over the array then brings filters into the PEs' scratchpads, and the images of
the block through the array: ifmap rows go along the diagonals, each PE runs one primitive, sums go up the columns and
back to the global buffer. Rows and scratchpad slots alternate, so that a pass streams in while the one before computes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from archloom.mapper.spans import Group, Span, groups, shares, spans
from archloom.oracle.affine import Affine
from archloom.oracle.stream import Instr
from archloom.uma_targets.eyeriss.passes import Channels, Filters, Pass, Step, Strip
from archloom.uma_targets.eyeriss.plan import Bounds, RowStationary, check, taps
from archloom.uma_targets.eyeriss.problem import VALUE_BYTES, Output, Problem, image
from archloom.uma_targets.kit.gemm import LOWEST, Gemm
from archloom.uma_targets.kit.nest import Nodes, each, pieces, repeat

ISA = "eyeriss"


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
        for run in map(Channels, shares(self.problem.shape.c, self.mapping.q, self.mapping.r, 1)):
            first, count = run.groups[0].first, run.groups[0].count
            found += self._channels(run, Affine(first), self.problem.bias is None and not number, Affine(number))
            found += repeat("cb", count - 1, lambda i, run=run, number=number: self._channels(  # type: ignore[misc]
                run, (i + 1) * run.size, False, i + (number + 1)))
            number += count
        return found

    def _channels(self, channels: Channels, c0: Affine, fresh: bool, number: Affine) -> Nodes:
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

    def _load(self, channels: Channels, c0: Affine, buffer: Affine) -> Nodes:
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
        runs = list(shares(self.size, self.mapping.p, self.mapping.down, self.mapping.across))
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
            return Pass(self, step, Filters(run, self.o0 + local, local), (first + i) * self.images).nodes()

        return repeat("mg", run[0].count, one)

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
