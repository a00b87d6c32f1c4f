"""The mapping space of Eyeriss: row-stationary mappings of convolutions and of products.

The dataflow is the hardware's: filter rows along the array's rows, ifmap rows along its diagonals. What there is to
choose are the paper's parameters (:class:`~archloom.uma_targets.eyeriss.plan.RowStationary`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.costs.pipeline import cycles
from archloom.mapper.mapping import Mapping
from archloom.mapper.reuse import ceil_div
from archloom.mapper.space import Columns as Mapped
from archloom.mapper.space import Space, SpaceBuilder, Table, select
from archloom.mapper.spans import kinds_of_shares
from archloom.uma_targets.eyeriss.loops import Columns, Images, Tensors, loops
from archloom.uma_targets.eyeriss.plan import Machine, RowStationary, planes, taps
from archloom.uma_targets.eyeriss.problem import Shape, image_shape

Estimates: TypeAlias = NDArray[np.float64]

PRODUCT_WIDTHS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Pixels in a row of the image that the rows of A become, besides all of them."""

DENSE, ROWS = Tensors(), Tensors(channels_last=True)
"""Values of 16 bits without a bias: pixels, and channels, are neighbours in DRAM."""

_BUFFERS = ("words of the global buffer (glb_kib)", "words of a primitive (row_words)",
            "words of the filter buffer (filter_glb_kib)")


def convolutions(name: str, shape: Shape, machine: Machine, tensors: Tensors = DENSE) -> Space:
    """Mappings of a convolution; MappingError if none fits."""
    builder, extents = _builder(name, machine), Images.of(shape)

    def estimate(c: Mapped) -> Estimates:
        return cycles(loops(dict(c), shape, extents, machine, tensors), machine.hardware)

    def table(widths: tuple[int, ...]) -> Table:
        columns, needs = _columns(shape, machine, widths)
        return _table("conv2d", shape, columns, needs, estimate)

    even = {-(-shape.f // parts) for parts in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256) if parts <= shape.f}
    builder.add(table(tuple(sorted(even))))
    if not builder.tables:
        builder.add(table(tuple(width for width in _NARROW if width <= shape.f)))
    return builder.build()


def products(
    name: str, sizes: tuple[int, int, int], machine: Machine, tensors: Tensors = ROWS, *, batch: int = 1
) -> Space:
    """Mappings of ``batch`` products of m, n, k, as images of any width; MappingError if none fits. What is left over
    of a last row of pixels follows as an image of its own."""
    m, n, k = sizes
    builder, shape = _builder(name, machine), image_shape(m, 1, n, k)
    parts = []
    for width in sorted({w for w in PRODUCT_WIDTHS if w <= m} | {m}):
        columns, needs = _columns(image_shape(m // width, width, n, k), machine, (width,))
        parts.append((columns | {_ROWS: np.full_like(columns["f"], m // width)}, needs))

    def estimate(c: Mapped) -> Estimates:
        image = Images(c[_ROWS], c["f"], c[_ROWS], c["f"])
        found = cycles(loops(dict(c), shape, image, machine, tensors), machine.hardware)
        over = m - c[_ROWS] * c["f"]
        left = np.flatnonzero(over)
        if len(left):
            found, rest, one = np.broadcast_to(found, over.shape).copy(), over[left], np.ones_like(left)
            last = {**select(c, left), "f": rest, "e": one, "segments": one}
            found[left] += cycles(
                loops(last, shape, Images(one, rest, one, rest), machine, tensors, after=True), machine.hardware)
        return found

    columns, needs = ({key: np.concatenate([part[key] for part in each]) for key in each[0]} for each in zip(*parts))
    builder.add(_table("gemm", shape, columns, needs, estimate, batch, ("f", *_FAMILY)))
    return builder.build()


def _builder(name: str, machine: Machine) -> SpaceBuilder:
    room = dict(zip(_BUFFERS, (machine.glb_words, machine.row_words, machine.fglb_words)))
    return SpaceBuilder(name, room, "a larger glb_kib, filter_glb_kib or row_words")


def row_stationary(mapping: Mapping) -> RowStationary:
    """The mapping parameters that a mapping of the compiler holds; those with a default may be left out."""
    given = {name for name, _ in mapping.tile}
    return RowStationary(**{
        f.name: mapping.size(f.name) for f in fields(RowStationary) if f.name in given or f.default is MISSING})


def _columns(shape: Shape, machine: Machine, widths: tuple[int, ...]) -> tuple[Columns, Columns]:
    """Candidates with strips of these widths, and what they need."""
    columns = _with_blocks(_candidates(shape, machine, widths), shape, machine)
    # of equals few images at a time come first, and then many filters in a PE
    columns = select(columns, np.lexsort((-columns["p"], columns["n"])))
    return columns, _needs(columns, shape, machine)


def _table(
    kind: str, shape: Shape, columns: Columns, needs: Columns, estimate: Callable[[Mapped], Estimates],
    times: float = 1, family: tuple[str, ...] | None = None,
) -> Table:
    def estimated(c: Mapped) -> Estimates:
        found = np.empty(c["f"].shape)
        for rows in _passing_alike(c, shape):
            found[rows] = estimate(select(c, rows))
        return times * found

    def mapping(c: Mapped, i: int) -> Mapping:
        tile = tuple((f.name, int(c[f.name][i])) for f in fields(RowStationary))
        return Mapping(kind, "", tile)  # type: ignore[arg-type]

    return Table(columns, needs, estimated, mapping, family=family or _FAMILY)


_FEWEST, _MOST = 1 << 11, 1 << 13
"""Candidates that are looked at together: so many cost little more than one, and the columns of so many lie in a cache.
Free choices."""


def _passing_alike(c: Mapped, shape: Shape) -> Iterator[NDArray[np.int64]]:
    """Candidates with as many kinds of passes, each of which costs all candidates that are looked at together, and with
    as many places for sums."""
    channels = kinds_of_shares(shape.c, c["q"], c["r"])
    filters = kinds_of_shares(shape.m, c["p"], c["down"] * c["across"])
    code = sum((count > 0) * 3 for count, *_ in channels) + sum(count > 0 for count, *_ in filters) + 9 * c["sums"]
    counts = np.bincount(code)
    few = counts[code] < _FEWEST
    alike = [few & (c["sums"] == places) for places in (1, 2)]
    alike += [code == k for k in np.flatnonzero(counts >= _FEWEST)]
    for rows in map(np.flatnonzero, alike):
        if len(rows):
            yield from np.array_split(rows, -(-len(rows) // _MOST))


_ROWS = "image_rows"
"""Column with the rows of pixels of the image that a product becomes."""

_FAMILY = ("p", "down", "across", "segments", "buffers", "sums")
"""Candidates that agree in these are bound by the same bus or queue."""

_NARROW = (1, 2, 4, 8, 16)
"""Widths that are tried where no even part of a row fits."""


@lru_cache(maxsize=1 << 14)
def _balanced(extent: int, bound: int) -> frozenset[int]:
    """Sizes up to ``bound`` that cut ``extent`` evenly: few sizes, none of which leaves a small rest."""
    bound = min(bound, extent)
    fewest = -(-extent // bound)
    even = {-(-extent // parts) for parts in range(fewest, fewest + 4) if parts <= extent}
    exact = {size for size in range(max(1, bound // 2), bound + 1) if extent % size == 0}
    return frozenset(even | exact | {bound, 1})


def _candidates(shape: Shape, machine: Machine, widths: tuple[int, ...]) -> Columns:
    r_taps, s_taps = taps(shape, machine)
    vertical = machine.rows // r_taps
    rows: list[tuple[int, ...]] = []
    for q in _balanced(shape.c, min(machine.ifmap_spad, machine.filter_spad) // s_taps):
        for r in range(1, min(vertical, -(-shape.c // q)) + 1):
            sets = vertical // r
            for e in range(1, min(machine.cols, shape.e) + 1):
                for segments in range(1, min(sets, -(-shape.e // e)) + 1):
                    if segments > 1 and e > -(-shape.e // segments):
                        continue  # segments of fewer rows are as many rows
                    down = min(sets // segments, shape.m)
                    across = min(machine.cols // e, -(-shape.m // down))
                    p_bound = min(machine.psum_spad, machine.filter_spad // (q * s_taps))
                    for p in _balanced(-(-shape.m // (down * across)), max(1, p_bound)):
                        rows.append((p, q, r, down, across, segments, e))
    base = np.array(sorted(set(rows)), dtype=np.int64)
    fs = np.array(widths, dtype=np.int64)
    ns = np.array(sorted({1, *(n for n in (2, 3, 4) if n <= shape.n)}), dtype=np.int64)
    index = np.indices((len(base), len(fs), len(ns))).reshape(3, -1)
    names = ("p", "q", "r", "down", "across", "segments", "e")
    table = {name: base[index[0], column] for column, name in enumerate(names)}
    return {**table, "f": fs[index[1]], "n": ns[index[2]]}


def _needs(table: Columns, shape: Shape, machine: Machine) -> Columns:
    """Words of buffers that each candidate takes at least: one ifmap buffer, sums of one pass's filters."""
    _, s_taps = taps(shape, machine)
    streams = np.maximum(table["p"] * table["f"], table["q"] * shape.reach(table["f"], s_taps))
    plane, sums = _buffered(table, shape, machine)
    held = np.where(table["g"] > 1, table["g"] * shape.c, table["q"] * table["r"])
    filters = table["g"] * np.minimum(shape.m, table["p"] * table["down"] * table["across"])
    words = held * plane + table["sums"] * filters * sums
    return dict(zip(_BUFFERS, (words, streams, table["p"] * table["q"] * s_taps)))


def _buffered(table: Columns, shape: Shape, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words of the global buffer for the ifmap of a channel, and for the sums of a filter."""
    return planes(shape, machine, table["n"], np.minimum(table["segments"] * table["e"], shape.e), table["f"])


def _with_blocks(table: Columns, shape: Shape, machine: Machine) -> Columns:
    """The candidates with the most filters whose sums fit into the global buffer, and with several groups at a time,
    beside as many places for ifmaps and sums."""
    found = [*_of_a_group(table, shape, machine), *_of_groups(table, shape, machine)]
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _of_a_group(table: Columns, shape: Shape, machine: Machine) -> Iterator[Columns]:
    """Candidates that take one group at a time, in as few and as even blocks as can be."""
    plane, sums = _buffered(table, shape, machine)
    each = table["p"] * table["down"] * table["across"]
    wanted, ifmap = -(-shape.m // each), table["q"] * table["r"] * plane
    others, before = _strips(table, shape) * shape.groups, np.zeros_like(each)
    for buffers, places in _PLACES:
        room = machine.glb_words - buffers * ifmap
        # the last places for filters may be empty
        count = np.where(room >= places * shape.m * sums, wanted, np.minimum(room // (places * each * sums), wanted))
        count = np.where(count > 1, ceil_div(wanted, ceil_div(wanted, np.maximum(count, 1))), count)
        several = (count >= 1) & (others * wanted > count) if places == 2 else True
        there = several & ((count > before) | ((before < 1) & (buffers == 1)))
        before = np.where(there, count, before)
        yield _chosen(table, there, m=np.maximum(count, 1) * each, buffers=buffers, g=1, sums=places)


def _of_groups(table: Columns, shape: Shape, machine: Machine) -> Iterator[Columns]:
    """Candidates that take several groups of the convolution at a time, with all of their filters."""
    plane, sums = _buffered(table, shape, machine)
    each, before = table["p"] * table["down"] * table["across"], np.ones_like(table["p"])
    for buffers, places in _PLACES:
        most = np.minimum(machine.glb_words // (buffers * shape.c * plane + places * shape.m * sums), shape.groups)
        fewest = ceil_div(shape.groups, np.maximum(most, 1))
        more = (most > before) & ((places == 1) | (_strips(table, shape) * shape.groups > most))
        before = np.where(more, most, before)
        for cut in _CUTS:
            g = ceil_div(shape.groups, fewest * cut)
            yield _chosen(table, more & (g > 1), m=ceil_div(shape.m, each) * each, buffers=buffers, g=g, sums=places)


def _strips(table: Columns, shape: Shape) -> NDArray[np.int64]:
    """Strips of each candidate, and of all images."""
    rows: NDArray[np.int64] = ceil_div(shape.e, np.minimum(table["segments"] * table["e"], shape.e))
    return rows * ceil_div(shape.f, table["f"]) * ceil_div(shape.n, table["n"])


_PLACES = ((2, 2), (2, 1), (1, 1))
"""Of ifmaps and of sums. Fewer are of use where that leaves room for more filters or groups."""


def _chosen(table: Columns, there: NDArray[np.bool_], **chosen: NDArray[np.int64] | int) -> Columns:
    """The candidates that are ``there``, with what is ``chosen`` for each."""
    return {**select(table, there), **{
        name: np.broadcast_to(np.asarray(column, np.int64), there.shape)[there] for name, column in chosen.items()}}


_CUTS = (1, 2, 4, 8)
"""Parts of the groups that fit into the global buffer which are taken at a time. A free choice: the first ones are
waited for, and few of them use less of DRAM's width."""
