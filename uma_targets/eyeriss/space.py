"""The mapping space of Eyeriss: row-stationary mappings of convolutions and of products, and their expected cycles.

The dataflow is the hardware's: filter rows along the array's rows, ifmap rows along its diagonals. What there is to
choose are the paper's parameters (:class:`~uma_targets.eyeriss.plan.RowStationary`).
"""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mapper.mapping import Mapping
from mapper.space import Space, SpaceBuilder, Table
from uma_targets.eyeriss.plan import Machine, RowStationary, taps
from uma_targets.eyeriss.problem import VALUE_BYTES, Shape, image_shape
from uma_targets.eyeriss.spans import grouped

PRODUCT_WIDTHS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Pixels in a row of the image that the rows of A become, besides all of them."""

HELP = "a larger glb_kib, filter_glb_kib or row_words"


def convolutions(name: str, shape: Shape, machine: Machine, *, item: int = VALUE_BYTES) -> Space:
    """Mappings of a convolution whose values have ``item`` bytes in DRAM; MappingError if none fits."""
    builder = SpaceBuilder(name, _room(machine), HELP)
    builder.add(_table("conv2d", shape, machine, _widths(shape.f), item, 1.0))
    if not builder.tables:
        builder.add(_table("conv2d", shape, machine, _NARROW, item, 1.0))
    return builder.build()


def products(
    name: str, sizes: tuple[int, int, int], machine: Machine, *, item: int = VALUE_BYTES, batch: int = 1
) -> Space:
    """Mappings of ``batch`` products of m, n, k, as images of any width; MappingError if none fits."""
    m, n, k = sizes
    builder = SpaceBuilder(name, _room(machine), HELP)
    for width in sorted({w for w in PRODUCT_WIDTHS if w <= m} | {m}):
        whole, rest = divmod(m, width)
        builder.add(_table("gemm", image_shape(whole, width, n, k), machine, (width,), item, batch, rest > 0))
    return builder.build()


def row_stationary(mapping: Mapping) -> RowStationary:
    """The mapping parameters that a mapping of the compiler holds."""
    return RowStationary(**{f.name: mapping.size(f.name) for f in fields(RowStationary)})


def tile_mapping(kind: str, mapping: RowStationary) -> Mapping:
    """The reverse of :func:`row_stationary`."""
    tile = tuple((f.name, int(getattr(mapping, f.name))) for f in fields(mapping))
    return Mapping(kind, "", tile)  # type: ignore[arg-type]


def _table(
    kind: str, shape: Shape, machine: Machine, widths: tuple[int, ...], item: int, times: float, rest: bool = False
) -> Table:
    """Candidates with strips of these widths. ``rest``: a row of the image that is left over follows."""
    columns = _candidates(shape, machine, tuple(f for f in widths if f <= shape.f))
    # of equals few images at a time come first, and then many filters in a PE
    order = np.lexsort((-columns["p"], columns["n"]))
    columns = {name: column[order] for name, column in columns.items()}
    columns["m"], columns["buffers"] = _resident(columns, shape, machine)

    def estimate(c: Columns) -> NDArray[np.float64]:
        cycles = expected_cycles(c, shape, machine, item)
        # the rows that are left use as many PEs as one row of the image
        strip = np.minimum(shape.e, c["segments"] * c["e"])
        return np.asarray(times * (cycles + cycles / shape.e * strip if rest else cycles))

    def mapping(c: Columns, i: int) -> Mapping:
        return tile_mapping(kind, RowStationary(**{f.name: int(c[f.name][i]) for f in fields(RowStationary)}))

    return Table(columns, _needs(columns, shape, machine), estimate, mapping, alike=() if kind == "gemm" else None)  # type: ignore[arg-type]


_NARROW = (1, 2, 4, 8, 16)
"""Widths that are tried where no even part of a row fits."""


Columns = dict[str, NDArray[np.int64]]


def _widths(f: int) -> tuple[int, ...]:
    return tuple(sorted({-(-f // parts) for parts in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128, 256) if parts <= f}))


@lru_cache(maxsize=1 << 16)
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
    return {
        "words of the global buffer (glb_kib)": ifmap + sums,
        "words of a primitive (row_words)": streams,
        "words of the filter buffer (filter_glb_kib)": table["p"] * table["q"] * s_taps,
    }


def _room(machine: Machine) -> dict[str, int]:
    return {
        "words of the global buffer (glb_kib)": machine.glb_words,
        "words of a primitive (row_words)": machine.row_words,
        "words of the filter buffer (filter_glb_kib)": machine.fglb_words,
    }


def _buffered(table: Columns, shape: Shape, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Words of the global buffer for a pass's ifmaps, and for the sums of its filters."""
    strip = np.minimum(table["segments"] * table["e"], shape.e)
    width = (table["f"] - 1) * shape.stride + shape.s
    ifmap = table["n"] * table["q"] * table["r"] * ((strip - 1) * shape.stride + shape.r) * width
    pass_filters = table["p"] * table["down"] * table["across"]
    return ifmap, table["n"] * pass_filters * strip * table["f"] * machine.psum_words


def _resident(table: Columns, shape: Shape, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For how many filters sums fit into the global buffer, and how many ifmap buffers beside them."""
    ifmap, sums = _buffered(table, shape, machine)
    pass_filters = table["p"] * table["down"] * table["across"]
    wanted = -(-shape.m // pass_filters)
    single, double = ((machine.glb_words - b * ifmap) // sums for b in (1, 2))
    buffers = np.where((double >= 1) & (double >= np.minimum(single, wanted)), 2, 1)
    return np.clip(np.where(buffers == 2, double, single), 1, wanted) * pass_filters, buffers


def expected_cycles(table: Columns, shape: Shape, machine: Machine, item: int) -> NDArray[np.float64]:
    """Compute, ifmap bus and psum bus overlap; filters are loaded between passes; DRAM overlaps with all of it.

    Each block (a strip of some images and filters) begins with its first ifmaps and filters from DRAM.
    """
    r_taps, s_taps = taps(shape, machine)
    p, q, r, e, n, f = (table[name] for name in ("p", "q", "r", "e", "n", "f"))
    strip = np.minimum(table["segments"] * e, shape.e)
    parts = -(-shape.r // r_taps) * -(-shape.s // s_taps)
    channels, slots = grouped(shape.c, q, r, np.ones_like(q))
    filters, interleaved = grouped(shape.m, p, table["down"], table["across"])
    # a product for each weight and channel that is interleaved, and an addition for each sum
    compute = interleaved * f * (slots * s_taps + channels) * parts
    rows_in = np.minimum((e - 1) * shape.stride + r_taps, e * r_taps) * table["segments"]
    ifmap = filters * parts * rows_in * shape.c * ((f - 1) * shape.stride + s_taps) / machine.ifmap_bus
    psums = channels * parts * shape.m * strip * np.ceil(f * machine.psum_words / machine.psum_bus)
    passes = filters * channels * parts
    up = r * r_taps * p * f
    # where no other pass comes between, the sums of the one before must be back before the products are done
    alone = (table["m"] // (p * table["down"] * table["across"]) * n == 1) & (channels * parts > 1)
    busy = np.maximum(np.maximum(compute, ifmap), psums) + 20 * passes
    back = np.maximum(0, up + 2 * psums / passes - p * f * q * s_taps)
    busy = busy + np.where(alone, passes * back, 0)
    blocks = np.ceil(shape.e / strip) * np.ceil(shape.f / f) * np.ceil(shape.n / n)
    total = blocks * (np.minimum(n, shape.n) * busy + passes * _filter_waits(table, r_taps, s_taps, machine)) + up
    first, everything = _dram_bytes(table, shape, blocks, item)
    begins = blocks * np.ceil(shape.m / table["m"])
    # two rates that come close to each other slow each other down
    overlapped = np.cbrt(total**3 + (everything / machine.dram_bytes) ** 3)
    return np.asarray(overlapped + begins * first / machine.dram_bytes)


def _filter_waits(table: Columns, r_taps: int, s_taps: int, machine: Machine) -> NDArray[np.float64]:
    """Cycles that a pass waits for filters.

    A row of PEs ends its pass later than the one below by the time of its additions; filters are loaded meanwhile.
    """
    row = table["p"] * table["q"] * s_taps * table["down"] * table["across"] / machine.filter_bus
    later = table["p"] * table["f"]
    return np.asarray(row + np.maximum(0, (table["r"] * r_taps - 1) * (row - later)))


def _dram_bytes(
    table: Columns, shape: Shape, blocks: NDArray[np.float64], item: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Bytes of a block's first ifmaps and of one group of channels' weights, and of everything.

    For each of ``blocks`` strips and groups of images all weights are loaded, and the ifmaps for each block of filters.
    """
    strip = np.minimum(table["segments"] * table["e"], shape.e)
    plane = ((strip - 1) * shape.stride + shape.r) * ((table["f"] - 1) * shape.stride + shape.s)
    group = np.minimum(table["q"] * table["r"], shape.c)
    pass_filters = np.minimum(table["p"] * table["down"] * table["across"], shape.m)
    first = group * (table["n"] * plane + pass_filters * shape.r * shape.s)
    ifmaps = np.ceil(shape.m / table["m"]) * table["n"] * shape.c * plane
    words = blocks * (shape.m * shape.c * shape.r * shape.s + ifmaps) + shape.n * shape.m * shape.e * shape.f
    return np.asarray(item * first), np.asarray(item * words)
