"""What Eyeriss's emission issues, as a nest of loops whose cycles :mod:`archloom.mapper.costs` estimates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.costs.rates import Issue, Loop, Number, Rates
from archloom.mapper.hardware import Hardware
from archloom.mapper.reuse import Int, ceil_div
from archloom.mapper.spans import kinds_of_shares
from archloom.uma_targets.eyeriss.plan import Machine, taps
from archloom.uma_targets.eyeriss.problem import VALUE_BYTES, Shape

Columns: TypeAlias = dict[str, NDArray[np.int64]]

STRIP_KINDS = 4
"""Strips of an image that are not alike, before each kind of which padding is cleared once: at its edge or not, along
rows and along columns. A free choice, not tuned: there may be one, where one strip is all, and up to nine."""


@dataclass(frozen=True)
class Tensors:
    """How values lie in DRAM: bytes of an operand's and of a result's, whether channels (of filters: filters) are
    neighbours or pixels are, and whether there is a bias."""

    item: int = VALUE_BYTES
    out_item: int = VALUE_BYTES
    channels_last: bool = False
    bias: bool = False


@dataclass(frozen=True, eq=False)
class Images:
    """Rows and columns of an ifmap, ``h`` and ``w``, and of its results, ``e`` and ``f``."""

    h: Int
    w: Int
    e: Int
    f: Int

    @staticmethod
    def of(shape: Shape) -> "Images":
        return Images(shape.h, shape.w, shape.e, shape.f)


def _reach(shape: Shape, outputs: Number, taps: float) -> Number:
    """Inputs that ``outputs`` neighbours with ``taps`` weights read, in the mean."""
    return (outputs - 1) * shape.stride + taps


@dataclass(frozen=True, eq=False)
class _Sizes:
    """Mean sizes of all candidates' strips and blocks, and what is issued for a block."""

    shape: Shape
    extents: Images
    machine: Machine
    tensors: Tensors
    near: int
    """cycles of a request to a buffer on chip beside those in which it moves words"""
    count: Number
    """blocks"""
    rows: Number
    f: Number
    segments: Number
    taken: tuple[Number, Number]
    """rows and columns of the ifmap that are there"""
    images: Number
    groups: Number
    """groups of the convolution in a block"""
    size: Number
    """filters of all groups of a block"""
    buffers: Number

    @staticmethod
    def of(c: Columns, shape: Shape, of: Images, machine: Machine, tensors: Tensors, near: int) -> "_Sizes":
        strips = ceil_div(of.e, np.minimum(c["segments"] * c["e"], of.e)), ceil_div(of.f, c["f"])
        runs, blocks, parts = ceil_div(shape.n, c["n"]), ceil_div(shape.m, c["m"]), ceil_div(shape.groups, c["g"])
        rows, f = of.e / strips[0], of.f / strips[1]

        def taken(size: Number, taps: int, extent: Number, count: Number) -> Number:
            return np.minimum(_reach(shape, size, taps), (extent + (count - 1) * max(0, taps - shape.stride)) / count)

        return _Sizes(
            shape, of, machine, tensors, near, strips[0] * strips[1] * runs * blocks * parts, rows, f,
            np.minimum(c["segments"], ceil_div(of.e, c["e"])),
            (taken(rows, shape.r, of.h, strips[0]), taken(f, shape.s, of.w, strips[1])), shape.n / runs,
            shape.groups / parts, shape.groups / parts * shape.m / blocks, c["buffers"])

    def load(self, times: Number, deep: Number) -> Issue:
        """Rows of the ifmaps of ``deep`` channels."""
        item, wide = self.tensors.item, self.taken[1]
        writes = self.near + deep * np.ceil(wide / self.machine.glb_port)
        if not self.tensors.channels_last:
            return Issue("load", times, wide * item, deep, beats=writes)
        whole = np.asarray(deep >= self.shape.c * self.shape.groups)
        return Issue("load", times, np.where(whole, deep * wide, deep) * item, np.where(whole, 1, wide), beats=writes)

    def load_sums(self, times: Number, filters: Number) -> Issue:
        """The bias for the sums of an image."""
        words = filters * self.rows * self.f * self.machine.psum_words
        item = VALUE_BYTES * self.machine.psum_words
        return Issue("load_sums", times, filters * item, beats=self.near + words / self.machine.glb_port)

    def clear(self, times: Number, planes: Number) -> Issue:
        """Zeros beside the rows of so many channels, before strips that are alike: a block's share of them."""
        rows = _reach(self.shape, self.rows, self.shape.r)
        return Issue("clear", times / np.maximum(self.count / STRIP_KINDS, 1), beats=self.near + planes * rows)

    def store(self, times: Number) -> Issue:
        reads = self.near + self.size * np.ceil(self.f * self.machine.psum_words / self.machine.glb_port)
        item = self.tensors.out_item
        if not self.tensors.channels_last:
            return Issue("store", times, self.f * item, self.size, beats=reads)
        whole = np.asarray(self.size >= self.shape.m * self.shape.groups)
        return Issue("store", times, np.where(whole, self.f * self.size, self.size) * item,
                     np.where(whole, 1, self.f), beats=reads)


class _Pass:
    """What is issued for a group of ``sets`` times ``p`` filters and one of ``r`` times ``q`` channels."""

    def __init__(self, sizes: _Sizes, q: Number, r: Number, p: Number, sets: Number) -> None:
        self.sizes, self.q, self.p, self.sets = sizes, q, p, sets
        shape, machine = sizes.shape, sizes.machine
        r_taps, s_taps = taps(shape, machine)
        down, across = -(-shape.r // r_taps), -(-shape.s // s_taps)
        self.parts, high = down * across, shape.r / down
        self.s, self.used = shape.s / across, r * high
        self.ends = sets * sizes.rows
        self.pes = self.used * self.ends
        columns = sizes.rows / sizes.segments
        self.lines = sizes.segments * r * np.minimum((columns - 1) * shape.stride + high, columns * high)
        self.filters = self.used * sets
        self.issued = 2 * (self.filters + sizes.images * (self.pes + self.ends)) + sizes.images * self.lines
        self.places = np.maximum(1, machine.fglb_words // (p * q * s_taps))
        self.add_cycles = p * sizes.f
        self._one = {"psum_in": self._sums("psum_in"), "psum_out": self._sums("psum_out")}

    def conv(self, times: Number, units: Number) -> Issue:
        """Primitives, each in a PE of its own of so many ``units``."""
        return self._conv.many(times, units)

    def add(self, times: Number, units: Number) -> Issue:
        """Additions of the sums of one PE to those of another."""
        return self._add.many(times, units)

    def ifmap(self, times: Number) -> Issue:
        return self._ifmap.many(times)

    def filter(self, times: Number) -> Issue:
        return self._filter.many(times)

    def sums(self, mnemonic: str, times: Number) -> Issue:
        """Sums of PEs over the bus, which has a channel for each direction."""
        return self._one[mnemonic].many(times)

    def load_filter(self, times: Number) -> Issue:
        return self._load_filter.many(times)

    @cached_property
    def _conv(self) -> Issue:
        return Issue("conv", values={"p": self.p, "q": self.q, "s": self.s, "f": self.sizes.f})

    @cached_property
    def _add(self) -> Issue:
        return Issue("accumulate", values={"words": self.add_cycles})

    @cached_property
    def _ifmap(self) -> Issue:
        words = self.q * _reach(self.sizes.shape, self.sizes.f, self.s)
        return self._bus("ifmap", "ifmap_bus", words / self.sizes.machine.ifmap_bus, 0)

    @cached_property
    def _filter(self) -> Issue:
        words = self.p * self.q * self.s
        return self._bus("filter", "filter_bus", np.ceil(words / self.sizes.machine.filter_bus), 0)

    def _sums(self, mnemonic: str) -> Issue:
        machine = self.sizes.machine
        words = self.sizes.f * machine.psum_words
        return self._bus(mnemonic, f"psum_bus {mnemonic}", self.p * words / machine.psum_bus,
                         self.p * np.ceil(words / machine.glb_port))

    def _bus(self, mnemonic: str, bus: str, spent: Number, beats: Number) -> Issue:
        """What keeps a bus for ``spent`` cycles each time, and a port of the buffer for ``beats``."""
        return Issue(mnemonic, beats=self.sizes.near + np.maximum(spent, beats), links={bus: spent})

    @cached_property
    def _load_filter(self) -> Issue:
        tensors, shape = self.sizes.tensors, self.sizes.shape
        p, q, s = self.p, self.q, self.s
        writes = self.sizes.near + np.ceil(p * q * s / self.sizes.machine.glb_port)
        if tensors.channels_last:
            whole = p >= shape.m
            run = np.where(whole, p * q * s, p) * tensors.item
            return Issue("load_filter", 1, run, np.where(whole, 1, q * s), beats=writes)
        if shape.r == 1:
            return Issue("load_filter", 1, q * s * tensors.item, p, beats=writes)
        return Issue("load_filter", 1, s * tensors.item, p * q, beats=writes)

    def work(self, times: Number) -> tuple[Issue, ...]:
        """What images keep busy."""
        pes, ends = times * self.pes, times * self.ends
        return (self.conv(pes, self.pes), self.add(pes, self.pes), self.ifmap(times * self.lines),
                self.sums("psum_in", ends), self.sums("psum_out", ends))


def loops(
    c: Columns, shape: Shape, extents: Images, machine: Machine, tensors: Tensors, *, after: bool = False
) -> Loop:
    """Blocks of a strip, images and filters whose sums stay; groups of channels and parts of the filters; passes of a
    group of filters over them; images of a pass.

    Columns: those of a mapping; ``extents``, too, where images differ. Sizes are those of a mean strip and block: the
    last ones are smaller. ``after``: that follows another convolution, whose end hides the first filters.
    """
    hardware = machine.hardware
    sizes = _Sizes.of(c, shape, extents, machine, tensors, hardware.memory("glb").read_latency_cycles - 1)
    blocks = ceil_div(shape.m, c["m"])
    channels = [k for k in kinds_of_shares(shape.c, c["q"], c["r"]) if k[0].any()]
    filters = [(groups / blocks, p, sets) for groups, p, sets in kinds_of_shares(
        shape.m, c["p"], c["down"] * c["across"]) if groups.any()]
    between = sum(groups for groups, _, _ in filters)
    passes = [[_Pass(sizes, q, r, p, sets) for _, p, sets in filters] for _, q, r in channels]
    start = passes[0][0]
    counts = [[groups * count * start.parts * sizes.groups for groups, _, _ in filters] for count, _, _ in channels]
    together = c["g"] > 1  # channels of several groups of the convolution come at once
    deep = np.where(together, sizes.groups * shape.c, channels[0][1] * channels[0][2])
    places = int(c["sums"].max())
    apart = tensors.bias and places == 1  # a block begins when the results before have left
    if apart:  # but for the first image of the first pass, for which all waits
        counts[0][0] = np.maximum(counts[0][0] - 1 / sizes.images, 0)
    rows = sizes.images * sizes.taken[0]
    # filters come in turns with the first rows: of further passes, too, as far as they are issued and find places;
    # those of a block's first pass while sums of the one before leave
    every = sum(t * k.filters for ts, ks in zip(counts, passes) for t, k in zip(ts, ks))
    own = start.filters * np.maximum(np.maximum(0, 1 - start.places / start.filters), 0 if after else 1 / sizes.count)
    window = np.minimum(start.filters * hardware.issue_entries / start.issued, start.places)
    more = np.minimum(np.minimum(np.maximum(rows - own, 0), every), window)
    left = 1 - more / np.maximum(every, 1) if apart else np.ones_like(more)
    loads = [np.where(together, i == 0, count) for i, (count, _, _) in enumerate(channels)]
    first_rows = rows * (1 - 1 / (loads[0] * sizes.images)) if apart else rows
    reduction = []
    for i, (count, q, r) in enumerate(channels):
        steps = np.maximum(count * start.parts * sizes.groups, 1)
        here = _reduce(sizes, passes[i], [times / steps for times in counts[i]], between, left)
        # rows of the last image go to the PEs while those before are at work, and leave the place to the next channels
        occupied = 1 - 1 / np.maximum(between * start.parts * sizes.images, 1)
        load = sizes.load(np.where(together, 0, rows) if i else first_rows, q * r if i else deep)
        inner = Loop(np.where(together, count * sizes.groups, 1) * start.parts, (here,))
        reduction.append(Loop(
            np.where(together, 1, count), (inner,), first=(load,), slots=sizes.buffers, occupied=occupied))
    soon, has = start.p * start.sets, int(tensors.bias)
    bias = [sizes.load_sums(sizes.images * has, np.minimum(soon, sizes.size)),
            sizes.load_sums(sizes.images * has * np.maximum(sizes.size / soon - 1, 0), np.minimum(soon, sizes.size))]
    each = [(times * sizes.images, one) for ts, ones in zip(counts, passes) for times, one in zip(ts, ones)]
    first, waits = _begin(sizes, start, deep, own, more, hardware)
    waits = waits + start.add_cycles + _end(sizes, start, hardware)
    if apart:
        return _apart(sizes, start, each, (first, reduction, bias), waits)
    return _close(sizes, start, each, (first, reduction, bias), waits, places)


_Passes: TypeAlias = "Sequence[tuple[Number, _Pass]]"
"""Images of passes that are alike, and one of these."""

_Parts: TypeAlias = "tuple[Loop, list[Loop], list[Issue]]"
"""How a block begins, its reduction, and its bias: that of the first pass, and what comes later."""


def _apart(sizes: _Sizes, start: _Pass, each: _Passes, parts: _Parts, waits: Number) -> Loop:
    """Blocks of which each begins when the one before has ended: sums are there when the bias is, which comes when the
    results before have left."""
    first, reduction, (bias, later) = parts
    one, others = bias.many(1), bias.many(sizes.images - 1)
    rings = (_ring(one, start.sums("psum_in", start.ends), _sums(each, "psum_in")),
             _ring(one, start.sums("psum_in", 1), _products(each)))
    return Loop(sizes.count, (first, Loop(1, (*reduction, others, later))), rings=rings, waits=waits)


def _close(sizes: _Sizes, start: _Pass, each: _Passes, parts: _Parts, waits: Number, places: int) -> Loop:
    """Blocks of which one begins while results of those before leave, but whose sums take the ``places`` of those,
    segment by segment, and there row by row."""
    first, reduction, bias = parts
    columns, has = sizes.rows / sizes.segments, int(sizes.tensors.bias)
    store, out = sizes.store(columns), start.sums("psum_out", np.maximum((start.sets - 2) * columns + 1, 0))
    later = [(np.maximum(times - 1, 0) if one is start else times, one) for times, one in each]
    rings = [((store, out, *others), places) for others in (_sums(later, "psum_out"), _products(later))]
    if has:  # it comes when all results before have left
        rings.append(((sizes.store(sizes.images * sizes.rows), bias[0].many(1), start.sums("psum_in", 1),
                       *_products(each), start.sums("psum_out", start.ends)), places))
    others = sizes.images * sizes.rows * (1 - 1 / sizes.count)  # the stores of the last block are what is waited for
    body = *reduction, first.body[0], *bias, sizes.store(others)
    return Loop(1, (Loop(sizes.count, body, rings=tuple(rings)),), waits=waits, alone=(*first.alone, bias[0].many(has)))


def _ring(begin: Issue, own: Issue, others: Iterable[Issue]) -> tuple[tuple[Issue, ...], int]:
    """What one block and the next wait for, one after the other."""
    return (begin, own, *others), 1


def _sums(passes: _Passes, mnemonic: str) -> Iterator[Issue]:
    return (one.sums(mnemonic, times * one.ends) for times, one in passes)


def _products(passes: _Passes) -> Iterator[Issue]:
    return (issue for times, one in passes for issue in (one.conv(times, 1), one.add(times, 1)))


def _reduce(sizes: _Sizes, passes: list[_Pass], times: list[Number], between: Number, left: Number) -> Loop:
    """Passes of a block over one group of channels, of which as many as are ``between`` follow before the first sums
    are needed again; of the filter rows the share that is ``left`` comes from DRAM. They follow closely on one another,
    so an iteration is a mean one of them."""
    images, total = sizes.images, sum(times)
    mean = [(t / np.maximum(total, 1e-9), one) for t, one in zip(times, passes, strict=True)]
    alone = tuple(Loop(t, (), rings=(
        # filters have but one place in a PE: they come when the last product of the pass before is done
        ((one.filter(one.sets), one.conv(images, 1), one.add(images - 1, 1)), 1),
        # sums come back when all rows of PEs have added their part to them
        ((one.sums("psum_in", 1), one.add(one.used, 1), one.sums("psum_out", 1)), between),
        # rows of ifmaps have two places
        ((one.ifmap(images * one.lines), one.conv(images, 1)), 2),
    )) for t, one in mean)
    work = tuple(issue for t, one in mean for issue in (*one.work(t * images), one.filter(t * one.filters)))
    return Loop(total, (Loop(1, (*alone, *work)),), first=tuple(
        one.load_filter(t * one.filters * left) for t, one in mean))


def _begin(
    sizes: _Sizes, start: _Pass, deep: Number, own: Number, more: Number, hardware: Hardware
) -> tuple[Loop, Number]:
    """A block's first image of its first pass, with ``own`` filter rows from DRAM, ``more`` of later passes, and the
    ifmaps of ``deep`` channels; and for how long its sums go up the columns when its last products are done."""
    rates, shape, of = Rates(hardware), sizes.shape, sizes.extents
    padded = shape.top > 0 or shape.left > 0 or np.any(_reach(shape, of.e, shape.r) > of.h)
    cleared = sizes.clear(int(padded), sizes.buffers * sizes.images * deep)
    bias, row = sizes.load_sums(int(sizes.tensors.bias), start.p * start.sets), start.load_filter(1)
    strip = Loop(1, (
        cleared, bias, sizes.load(np.maximum(sizes.taken[0] - 1, 0), deep), start.load_filter(own + more),
        start.filter(start.filters), start.ifmap(np.maximum(start.lines - 1, 0))),
        alone=(sizes.load(1, deep), start.ifmap(1), start.conv(1, 1)))
    # sums go up the column while rows above still wait for filters or ifmaps
    filters = start.sets * np.maximum(rates.pace(start.filter(1)), rates.pace(row) * own / start.filters)
    lines = start.lines * rates.pace(start.ifmap(1)) / sizes.segments / start.used
    return strip, np.maximum(0, start.add_cycles - np.maximum(filters, lines)) * (start.used - 1)


def _end(sizes: _Sizes, last: _Pass, hardware: Hardware) -> Number:
    """Cycles of a block from when the last sums are in its last PEs."""
    rates = Rates(hardware)
    columns = sizes.rows / sizes.segments
    out, line, store = (rates.pace(issue) for issue in (last.sums("psum_out", 1), last.ifmap(1), sizes.store(1)))
    one_out, one_store = rates.latency(last.sums("psum_out", 1)), rates.latency(sizes.store(1))
    # columns of a set are done in the order in which their ifmaps come
    before = (last.sets - 1) * columns * out
    queued = (columns - 1) * np.maximum(0, out - line)
    spread = last.lines * line * (1 - 1 / sizes.segments)
    rows = sizes.images * sizes.rows
    each = before + queued + one_out + one_store
    segment = before + one_out + one_store + store * (columns - 1)
    every = before + one_out + one_store + store * (rows - 1) - spread
    return np.maximum(each, np.maximum(segment, every))
