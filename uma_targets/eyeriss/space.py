"""The mapping space of Eyeriss: row-stationary mappings of convolutions and of products.

The dataflow is the hardware's: filter rows along the array's rows, ifmap rows along its diagonals. What there is to
choose are the paper's parameters (:class:`~archloom.uma_targets.eyeriss.plan.RowStationary`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from archloom.mapper.costs.pipeline import cycles
from archloom.mapper.mapping import Mapping
from archloom.mapper.space import Columns as Mapped
from archloom.mapper.space import Space, SpaceBuilder, Table, select
from archloom.mapper.spans import kinds_of_shares
from archloom.uma_targets.eyeriss.loops import Columns, Images, Tensors, loops
from archloom.uma_targets.eyeriss.plan import Machine, RowStationary, taps
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
        return _table("conv2d", shape, columns, needs, estimate, tensors.groups)

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
    """The mapping parameters that a mapping of the compiler holds."""
    return RowStationary(**{f.name: mapping.size(f.name) for f in fields(RowStationary)})


def _columns(shape: Shape, machine: Machine, widths: tuple[int, ...]) -> tuple[Columns, Columns]:
    """Candidates with strips of these widths, and what they need."""
    columns = _with_blocks(_candidates(shape, machine, widths), shape, machine)
    # of equals few images at a time come first, and then many filters in a PE
    columns = select(columns, np.lexsort((-columns["p"], columns["n"])))
    return columns, _needs(columns, shape, machine)


def _table(
    kind: str, shape: Shape, columns: Columns, needs: Columns, estimate: Callable[[Mapped], Estimates], times: float,
    family: tuple[str, ...] | None = None,
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
    """Candidates with as many kinds of passes: each kind costs all candidates that are looked at together."""
    channels = kinds_of_shares(shape.c, c["q"], c["r"])
    filters = kinds_of_shares(shape.m, c["p"], c["down"] * c["across"])
    code = sum((count > 0) * 3 for count, *_ in channels) + sum(count > 0 for count, *_ in filters)
    counts = np.bincount(code)
    few = counts[code] < _FEWEST
    for rows in (np.flatnonzero(few), *(np.flatnonzero(code == k) for k in np.flatnonzero(counts >= _FEWEST))):
        if len(rows):
            yield from np.array_split(rows, -(-len(rows) // _MOST))


_ROWS = "image_rows"
"""Column with the rows of pixels of the image that a product becomes."""

_FAMILY = ("p", "down", "across", "segments", "buffers")
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
    streams = np.maximum(table["p"] * table["f"], table["q"] * ((table["f"] - 1) * shape.stride + s_taps))
    ifmap, sums = _buffered(table, shape, machine)
    return dict(zip(_BUFFERS, (ifmap + sums, streams, table["p"] * table["q"] * s_taps)))


def _buffered(table: Columns, shape: Shape, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words of the global buffer for a pass's ifmaps, and for the sums of its filters."""
    strip = np.minimum(table["segments"] * table["e"], shape.e)
    width = (table["f"] - 1) * shape.stride + shape.s
    ifmap = table["n"] * table["q"] * table["r"] * ((strip - 1) * shape.stride + shape.r) * width
    pass_filters = table["p"] * table["down"] * table["across"]
    return ifmap, table["n"] * pass_filters * strip * table["f"] * machine.psum_words


def _with_blocks(table: Columns, shape: Shape, machine: Machine) -> Columns:
    """The candidates with the most filters whose sums fit into the global buffer, beside two ifmap buffers, and beside
    one where those are more."""
    ifmap, sums = _buffered(table, shape, machine)
    each = table["p"] * table["down"] * table["across"]
    wanted = -(-shape.m // each)
    single, double = (np.minimum((machine.glb_words - b * ifmap) // sums, wanted) for b in (1, 2))
    parts = []
    for buffers, count, there in ((2, double, double >= 1), (1, np.maximum(single, 1), single > double)):
        there = there | (buffers == 1) & (double < 1)
        chosen = {"m": (count * each)[there], "buffers": np.full(int(there.sum()), buffers)}
        parts.append({**select(table, there), **chosen})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
