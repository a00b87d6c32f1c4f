"""How a convolution is laid over the array: the mapping parameters of the row-stationary dataflow, and their choice.

The names are those of the paper (JSSC 2017, table of mapping parameters): ``p`` filters and ``q`` channels interleaved
in a PE, ``r`` channel groups and ``t`` filter groups at the same time in the array, ``e`` rows of results, ``n`` images
and ``m`` filters for which partial sums lie in the global buffer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from oracle.errors import MappingError
from uma_targets.eyeriss.problem import VALUE_BYTES, Shape
from uma_targets.eyeriss.spans import grouped

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph


@dataclass(frozen=True)
class Bounds:
    """The array, its scratchpads and buffers in words: what a mapping must fit into."""

    rows: int
    cols: int
    ifmap_spad: int
    filter_spad: int
    psum_spad: int
    row_words: int
    glb_words: int
    fglb_words: int
    psum_words: int


@dataclass(frozen=True)
class Machine(Bounds):
    """With the widths of buses in words (DRAM: bytes) a cycle: what a mapping's time depends on."""

    ifmap_bus: int
    filter_bus: int
    psum_bus: int
    dram_bytes: int

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Machine":
        """Every figure from the graph."""
        from acadl_models.eyeriss import bus_words, isa_parameters

        return Machine(**isa_parameters(graph), **bus_words(graph))


@dataclass(frozen=True)
class RowStationary:
    """A mapping. The array holds ``segments * down * across`` sets of ``r * taps`` rows and ``e`` columns each.

    Sets in one of ``down`` rows and ``across`` columns of sets work on filter groups of their own (``t = down *
    across``), those of different ``segments`` on rows of results of their own.
    """

    p: int
    q: int
    r: int
    down: int
    across: int
    segments: int
    e: int
    n: int
    m: int
    f: int
    buffers: int = 1

    @property
    def t(self) -> int:
        """Filter groups in the array at the same time."""
        return self.down * self.across

    @property
    def strip(self) -> int:
        """Rows of results in the array at the same time."""
        return self.segments * self.e

    def __str__(self) -> str:
        return (
            f"p={self.p} q={self.q} r={self.r} t={self.down}x{self.across} e={self.segments}x{self.e} n={self.n} "
            f"m={self.m} f={self.f}" + (" double-buffered ifmap" if self.buffers == 2 else "")
        )


@dataclass(frozen=True)
class Planned:
    """A mapping and the cycles that it is expected to take."""

    mapping: RowStationary
    cycles: float


def taps(shape: Shape, machine: Bounds) -> tuple[int, int]:
    """Rows of a filter that the array holds, and weights of a row that a scratchpad holds, at a time."""
    return min(shape.r, machine.rows), min(shape.s, machine.ifmap_spad, machine.filter_spad)


def check(mapping: RowStationary, shape: Shape, machine: Bounds) -> None:
    """MappingError naming every bound that the mapping breaks."""
    r_taps, s_taps = taps(shape, machine)
    reach = (min(mapping.strip, shape.e) - 1) * shape.stride + shape.r
    width = shape.reach(mapping.f, shape.s)
    ifmap = mapping.buffers * mapping.n * mapping.q * mapping.r * reach * width
    psums = mapping.n * min(mapping.m, shape.m) * min(mapping.strip, shape.e) * mapping.f * machine.psum_words
    demands = (
        ("rows of the array", mapping.segments * mapping.down * mapping.r * r_taps, machine.rows, "rows"),
        ("columns of the array", mapping.across * mapping.e, machine.cols, "cols"),
        ("words of the ifmap scratchpad", mapping.q * s_taps, machine.ifmap_spad, "ifmap_spad"),
        ("words of the filter scratchpad", mapping.p * mapping.q * s_taps, machine.filter_spad, "filter_spad"),
        ("words of the psum scratchpad", mapping.p, machine.psum_spad, "psum_spad"),
        ("words of a primitive's sums", mapping.p * mapping.f, machine.row_words, "row_words"),
        ("words of a primitive's ifmap rows", mapping.q * shape.reach(mapping.f, s_taps), machine.row_words,
         "row_words"),
        ("words of the global buffer", ifmap + psums, machine.glb_words, "glb_kib"),
        ("words of the filter buffer", mapping.p * mapping.q * s_taps, machine.fglb_words, "filter_glb_kib"),
    )
    broken = [
        f"{demand} {what}, which has {bound}: {demand - bound} too many (a larger {option} would help)"
        for what, demand, bound, option in demands if demand > bound
    ]
    if broken:
        raise MappingError(f"mapping {mapping} needs " + "; ".join(broken))


def plan(
    shape: Shape, machine: Machine, *, widths: tuple[int, ...] = (), item: int = VALUE_BYTES, top: int = 1
) -> list[Planned]:
    """The ``top`` mappings with the fewest expected cycles; ``widths``: widths of a strip, by default some that divide.

    ``item``: bytes of a value in DRAM. MappingError if not even the smallest mapping fits.
    """
    found = plans(shape, machine, widths=widths, item=item, top=top)
    if not found:
        check(RowStationary(1, 1, 1, 1, 1, 1, 1, 1, 1, 1), shape, machine)
        raise MappingError(f"no strip of {shape} of {min(widths, default=1)} columns or more fits {machine}")
    return found


def plans(
    shape: Shape, machine: Machine, *, widths: tuple[int, ...] = (), item: int = VALUE_BYTES, top: int = 1
) -> list[Planned]:
    """As :func:`plan`, empty where nothing fits."""
    tried = widths or _widths(shape.f)
    found = _ranked(shape, machine, tried, item, top)
    return found if found or widths else _ranked(shape, machine, _NARROW, item, top)


_NARROW = (1, 2, 4, 8, 16)
"""Widths that are tried where no even part of a row fits."""


def _ranked(shape: Shape, machine: Machine, widths: tuple[int, ...], item: int, top: int) -> list[Planned]:
    table = _candidates(shape, machine, tuple(f for f in widths if f <= shape.f))
    table["m"], table["buffers"] = _resident(table, shape, machine)
    keep = table["m"] > 0
    table = {name: column[keep] for name, column in table.items()}
    cycles = expected_cycles(table, shape, machine, item)
    order = np.lexsort((-table["p"], table["n"], cycles))[:top]
    fields = RowStationary.__dataclass_fields__
    return [Planned(RowStationary(**{f: int(table[f][i]) for f in fields}), float(cycles[i])) for i in order]


Table = dict[str, NDArray[np.int64]]


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


def _candidates(shape: Shape, machine: Machine, widths: tuple[int, ...]) -> Table:
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


def _resident(table: Table, shape: Shape, machine: Machine) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many filters' sums fit into the global buffer (0: none), and how many ifmap buffers beside them."""
    _, s_taps = taps(shape, machine)
    strip = np.minimum(table["segments"] * table["e"], shape.e)
    width = (table["f"] - 1) * shape.stride + shape.s
    ifmap = table["n"] * table["q"] * table["r"] * ((strip - 1) * shape.stride + shape.r) * width
    pass_filters = table["p"] * table["down"] * table["across"]
    each = table["n"] * pass_filters * strip * table["f"] * machine.psum_words
    wanted = -(-shape.m // pass_filters)
    single, double = ((machine.glb_words - b * ifmap) // each for b in (1, 2))
    buffers = np.where((double >= 1) & (double >= np.minimum(single, wanted)), 2, 1)
    fitting = np.clip(np.where(buffers == 2, double, single), 0, wanted)
    streams = np.maximum(table["p"] * table["f"], table["q"] * ((table["f"] - 1) * shape.stride + s_taps))
    legal = (streams <= machine.row_words) & (table["p"] * table["q"] * s_taps <= machine.fglb_words)
    return np.where(legal, fitting, 0) * pass_filters, buffers


def expected_cycles(table: Table, shape: Shape, machine: Machine, item: int) -> NDArray[np.float64]:
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


def _filter_waits(table: Table, r_taps: int, s_taps: int, machine: Machine) -> NDArray[np.float64]:
    """Cycles that a pass waits for filters.

    A row of PEs ends its pass later than the one below by the time of its additions; filters are loaded meanwhile.
    """
    row = table["p"] * table["q"] * s_taps * table["down"] * table["across"] / machine.filter_bus
    later = table["p"] * table["f"]
    return np.asarray(row + np.maximum(0, (table["r"] * r_taps - 1) * (row - later)))


def _dram_bytes(
    table: Table, shape: Shape, blocks: NDArray[np.float64], item: int
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
