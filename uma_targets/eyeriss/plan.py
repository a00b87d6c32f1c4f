"""How a convolution is laid over the array: parameters of the row-stationary dataflow, and what they must fit.

The names are those of the paper (JSSC 2017, table of mapping parameters): ``p`` filters and ``q`` channels interleaved
in a PE, ``r`` channel groups and ``t`` filter groups at the same time in the array, ``e`` rows of results, ``n`` images
and ``m`` filters for which partial sums lie in the global buffer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.eyeriss import bus_words
from archloom.mapper.hardware import Hardware
from archloom.oracle.errors import MappingError
from archloom.uma_targets.eyeriss.problem import Count, Shape


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
    """With the widths of buses and of a port of the global buffer in words (DRAM: bytes) a cycle, and the mapper's
    view: what a mapping's time depends on."""

    ifmap_bus: int
    filter_bus: int
    psum_bus: int
    dram_bytes: int
    glb_port: int
    hardware: Hardware = field(compare=False, repr=False)

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Machine":
        """Every figure from the graph."""
        return Machine(**graph.parameters, **bus_words(graph), hardware=Hardware.from_graph(graph))


@dataclass(frozen=True)
class RowStationary:
    """A mapping. The array holds ``segments * down * across`` sets of ``r * taps`` rows and ``e`` columns each.

    Sets in one of ``down`` rows and ``across`` columns of sets work on filter groups of their own (``t = down *
    across``), those of different ``segments`` on rows of results of their own. ``g``: groups of the convolution whose
    ifmaps are loaded, and whose results are stored, at a time; the array works on one of them after the other.
    ``buffers`` and ``sums``: places in the global buffer for ifmaps, and for a block's partial sums.
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
    g: int = 1
    sums: int = 1

    def held(self, shape: Shape) -> int:
        """Channels of an image that are loaded at a time, at most: of several groups all of them."""
        return self.q * self.r if self.g == 1 else min(self.g, shape.groups) * shape.c

    @property
    def t(self) -> int:
        """Filter groups in the array at the same time."""
        return self.down * self.across

    @property
    def strip(self) -> int:
        """Rows of results in the array at the same time."""
        return self.segments * self.e

    def places(self, shape: Shape, machine: Bounds) -> tuple[int, int]:
        """Words of the global buffer that a place for ifmaps takes, and one for a block's sums."""
        images, filters = min(self.n, shape.n), min(self.g, shape.groups) * min(self.m, shape.m)
        ifmap, sums = planes(shape, machine, images, min(self.strip, shape.e), min(self.f, shape.f))
        return self.held(shape) * ifmap, filters * sums

    def __str__(self) -> str:
        return (
            f"p={self.p} q={self.q} r={self.r} t={self.down}x{self.across} e={self.segments}x{self.e} n={self.n} "
            f"m={self.m} f={self.f}" + (f" g={self.g}" if self.g > 1 else "")
            + "".join(f" double-buffered {what}" for what, places in (("ifmap", self.buffers), ("sums", self.sums))
                      if places == 2)
        )


def taps(shape: Shape, machine: Bounds) -> tuple[int, int]:
    """Rows of a filter that the array holds, and weights of a row that a scratchpad holds, at a time."""
    return min(shape.r, machine.rows), min(shape.s, machine.ifmap_spad, machine.filter_spad)


def planes(shape: Shape, machine: Bounds, images: Count, rows: Count, columns: Count) -> tuple[Count, Count]:
    """Words of the global buffer for the ifmaps of a channel, and for the sums of a filter: of so many images, rows and
    columns of results."""
    ifmap = images * shape.reach(rows, shape.r) * shape.reach(columns, shape.s)
    return ifmap, images * rows * columns * machine.psum_words


def check(mapping: RowStationary, shape: Shape, machine: Bounds) -> None:
    """MappingError naming every bound that the mapping breaks."""
    r_taps, s_taps = taps(shape, machine)
    ifmaps, sums = mapping.places(shape, machine)
    demands = (
        ("rows of the array", mapping.segments * mapping.down * mapping.r * r_taps, machine.rows, "rows"),
        ("columns of the array", mapping.across * mapping.e, machine.cols, "cols"),
        ("words of the ifmap scratchpad", mapping.q * s_taps, machine.ifmap_spad, "ifmap_spad"),
        ("words of the filter scratchpad", mapping.p * mapping.q * s_taps, machine.filter_spad, "filter_spad"),
        ("words of the psum scratchpad", mapping.p, machine.psum_spad, "psum_spad"),
        ("words of a primitive's sums", mapping.p * mapping.f, machine.row_words, "row_words"),
        ("words of a primitive's ifmap rows", mapping.q * shape.reach(mapping.f, s_taps), machine.row_words,
         "row_words"),
        ("words of the global buffer", mapping.buffers * ifmaps + mapping.sums * sums, machine.glb_words, "glb_kib"),
        ("words of the filter buffer", mapping.p * mapping.q * s_taps, machine.fglb_words, "filter_glb_kib"),
    )
    if mapping.g > 1 and mapping.m < shape.m:
        raise MappingError(f"mapping {mapping}: of {mapping.g} groups at a time all {shape.m} filters are needed")
    broken = [
        f"{demand} {what}, which has {bound}: {demand - bound} too many (a larger {option} would help)"
        for what, demand, bound, option in demands if demand > bound
    ]
    if broken:
        raise MappingError(f"mapping {mapping} needs " + "; ".join(broken))
