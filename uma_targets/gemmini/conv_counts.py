"""What the tiles of a convolution's image issue: instructions and rows, counted over all tiles of every size at once.

The figures are those of what :mod:`.conv_schemes` and :mod:`.emit_conv` write, for one part of a chunk (all of it, or a
row of the kernel where these are packed) and one block of output channels. The runs of all sizes along an axis lie one
behind the other; a figure is reckoned for each pair of them and summed up to pairs of sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from archloom.mapper.reuse import ceil_div
from archloom.uma_targets.gemmini.conv_axes import Axis, Run, runs
from archloom.uma_targets.gemmini.conv_schemes import Channels, KernelRow, Scheme

Counts = dict[str, np.ndarray]
"""Figures by name, each of sizes along rows x sizes along columns."""


@dataclass(frozen=True, eq=False)
class _Side:
    """The runs of tiles of each of some ``sizes`` along an axis; ``shape`` makes a row or a column of their figures."""

    axis: Axis
    runs: tuple[Run, ...]
    starts: np.ndarray
    shape: tuple[int, int]

    @staticmethod
    def of(axis: Axis, sizes: Sequence[int], shape: tuple[int, int]) -> "_Side":
        found = [runs(axis, size) for size in sizes]
        starts = np.cumsum([0, *map(len, found[:-1])])
        return _Side(axis, tuple(run for each in found for run in each), starts, shape)

    def of_runs(self, name: str) -> np.ndarray:
        """A figure of each run, int64."""
        return np.array([getattr(run, name) for run in self.runs], np.int64).reshape(self.shape)

    @cached_property
    def sums(self) -> np.ndarray:
        return self.of_runs("sums")

    @cached_property
    def before(self) -> np.ndarray:
        return self.of_runs("before")

    @cached_property
    def inside(self) -> np.ndarray:
        return self.of_runs("inside")

    @cached_property
    def after(self) -> np.ndarray:
        return self.of_runs("after")

    @property
    def span(self) -> np.ndarray:
        return self.before + self.inside + self.after


def counted(scheme: Scheme, heights: Sequence[int], widths: Sequence[int]) -> Counts:
    """For tiles of each of some heights and widths, over all tiles of an image:

    ``tiles``; ``code``: kinds of tiles; ``sums``; ``outputs``; ``stretches`` of up to dim sums, of which ``whole`` have
    dim, and the others ``rest_sums`` together; ``whole_tiles``: those that begin with a whole one; ``short_firsts``:
    sums of the stretches with which the others begin. Of a part of a chunk in the mean: ``loads`` of pixels, of
    ``load_rows`` in all; ``zeros``: loads of ``zero_rows`` that are padding; ``edges``:
    whether padding is written over what was loaded, and waits for it.
    """
    image, dim = scheme.image, scheme.image.dim
    rows, cols = _Side.of(image.rows, heights, (-1, 1)), _Side.of(image.cols, widths, (1, -1))
    each = {
        "tiles": 1, "sums": rows.sums * cols.sums, "outputs": rows.of_runs("outputs") * cols.of_runs("outputs"),
        "stretches": rows.sums * ceil_div(cols.sums, dim), "whole": rows.sums * (cols.sums // dim),
        "rest_sums": rows.sums * (cols.sums % dim), "whole_tiles": cols.sums >= dim,
        "short_firsts": np.where(cols.sums < dim, cols.sums, 0),
        **(_packed(scheme, rows, cols) if isinstance(scheme, KernelRow) else _channels(scheme, rows, cols)),
    }
    many = rows.of_runs("count") * cols.of_runs("count")
    of_pairs = {"code": np.ones_like(many), **{name: many * figure for name, figure in each.items()}}
    return {name: np.add.reduceat(np.add.reduceat(figure, rows.starts, 0), cols.starts, 1)
            for name, figure in of_pairs.items()}


def _channels(scheme: Channels, rows: _Side, cols: _Side) -> Counts:
    """Padding as runs of zeros between the rows of pixels (:meth:`.Channels.load`)."""
    dim, pitch = scheme.image.dim, cols.span
    filled = (rows.inside > 0) & (cols.inside > 0)
    gaps = np.where(filled, rows.inside - 1, 0)
    lead = np.where(filled, rows.before * pitch + cols.before, rows.span * pitch)
    gap, trail = cols.after + cols.before, np.where(filled, cols.after + rows.after * pitch, 0)
    return {
        "loads": rows.inside * ceil_div(cols.inside, dim),
        "load_rows": rows.inside * cols.inside,
        "zeros": ceil_div(lead, dim) + gaps * ceil_div(gap, dim) + ceil_div(trail, dim),
        "zero_rows": lead + gaps * gap + trail, "edges": np.zeros_like(lead),
    }


def _packed(scheme: KernelRow, rows: _Side, cols: _Side) -> Counts:
    """The mean over the rows of the kernel and the segments under one of them (:meth:`.KernelRow.load`)."""
    dim, height = scheme.image.dim, rows.axis.kernel
    parts = [_segment(scheme, cols, b * dim, dim) for b in range(scheme.blocks)]
    parts += [_segment(scheme, cols, scheme.blocks * dim, scheme.rest)] if scheme.rest else []
    of_row = {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}
    edges = of_row.pop("edges")
    found = {name: np.zeros((len(rows.runs), len(cols.runs))) for name in (*of_row, "edges")}
    for kh in range(height):
        low = np.clip(ceil_div(rows.before - kh, rows.axis.local_stride), 0, rows.sums)
        high = np.clip(ceil_div(rows.before + rows.inside - kh, rows.axis.local_stride), low, rows.sums)
        low, high = np.where(high > low, (low, high), 0)
        for name, figure in of_row.items():
            found[name] += (high - low) * figure / height
        found["edges"] += np.where(high > low, edges / height, 0)
        above, below = low * cols.sums, (rows.sums - high) * cols.sums
        found["zeros"] += (ceil_div(above, dim) + ceil_div(below, dim)) / height
        found["zero_rows"] += (above + below) / height
    return found


def _segment(scheme: KernelRow, cols: _Side, first: int, size: int) -> Counts:
    """For the sums of a row: those at the left edge, those inside, those beyond the right edge one by one."""
    image = scheme.image
    step, before = scheme.step, cols.before * image.c - first
    end = before + cols.inside * image.c
    outside = np.clip((before - size) // step + 1, 0, cols.sums)
    left = np.clip(ceil_div(before, step), 0, cols.sums)
    whole = np.clip((end - size) // step + 1, 0, cols.sums)
    part = np.clip(ceil_div(end, step), whole, cols.sums) - whole
    parted, clipped = scheme.parted(outside, left, whole), left - outside
    loads = ceil_div(parted - outside, image.dim) + ceil_div(whole - parted, image.dim) + part
    beyond = cols.sums - whole
    return {"loads": loads, "load_rows": whole - outside + part,
            "zeros": ceil_div(outside, image.dim) + ceil_div(beyond, image.dim) + clipped,
            "zero_rows": outside + beyond + clipped, "edges": (clipped > 0).astype(np.int64)}
