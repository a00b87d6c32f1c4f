"""Tiles of a convolution along one axis of the image: what is pooled, computed, loaded and padded.

Tiles whose padding and sizes agree form one run, whatever their number, so that a stream needs a loop for each run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby

from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError


@dataclass(frozen=True)
class Axis:
    """One axis of a convolution, in elements: input, kernel, stride, padding before; sums; pooling of the sums."""

    extent: int
    kernel: int
    stride: int
    pad: int
    sums: int
    outputs: int
    pool_size: int = 1
    pool_stride: int = 1
    pool_pad: int = 0
    dilation: int = 1

    @property
    def reach(self) -> int:
        """Elements from the first to the last under the kernel."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def load_step(self) -> int:
        """Distance of the elements that are loaded: a kernel of one element needs only those it meets."""
        return self.stride if self.kernel == 1 else 1

    @property
    def local_stride(self) -> int:
        """Distance, in loaded elements, between the inputs of neighbouring sums."""
        return 1 if self.kernel == 1 else self.stride

    def span(self, sums: int) -> int:
        """How many loaded elements, padding included, ``sums`` neighbouring sums need."""
        return (sums - 1) * self.local_stride + self.reach

    def tile_sums(self, tile: int) -> int:
        """The most sums that a tile of ``tile`` outputs needs."""
        return min(self.sums, (tile - 1) * self.pool_stride + self.pool_size)


@dataclass(frozen=True)
class Run:
    """``count`` neighbouring tiles alike, the first of which has number ``first``.

    ``outputs`` (pooled) elements from ``sums`` sums, the first of which lies ``pool_skip`` elements after the start of
    the first window (the rest is padding of the pooling); the inputs are ``before`` zeros, ``inside`` elements and
    ``after`` zeros.
    """

    axis: Axis
    tile: int
    first: int
    count: int
    outputs: int
    sums: int
    pool_skip: int
    before: int
    inside: int
    after: int

    @property
    def span(self) -> int:
        """Loaded elements, padding included."""
        return self.before + self.inside + self.after

    def output_start(self, number: Affine) -> Affine:
        return number * self.tile

    def sum_start(self, number: Affine) -> Affine:
        return number * (self.tile * self.axis.pool_stride) + (self.pool_skip - self.axis.pool_pad)

    def input_start(self, number: Affine) -> Affine:
        """First input element inside of the image that tile ``number`` loads."""
        return self.sum_start(number) * self.axis.stride + (self.before * self.axis.load_step - self.axis.pad)

    def alone(self) -> tuple["Run", ...]:
        """This run with its first tile apart."""
        if self.count == 1:
            return (self,)
        return replace(self, count=1), replace(self, first=self.first + 1, count=self.count - 1)


def axes(workload: Workload) -> tuple[Axis, Axis]:
    """Rows and columns of a ``conv2d`` workload."""
    pool = workload.epilogue.pool
    shapes = workload.inputs[0].shape, workload.output.shape
    made = []
    for i, (kernel, sums) in enumerate((("kh", "oh"), ("kw", "ow"))):
        size, stride, pad = (pool.size, pool.stride, pool.padding[i]) if pool else (1, 1, 0)
        if pool and (pad >= size or pool.padding[i + 2] >= size):
            raise MappingError(
                f"{workload.name}: a max-pooling window of {size} with padding {pool.padding} has windows without an "
                "element; Gemmini's mvout takes padding smaller than the window"
            )
        made.append(Axis(
            shapes[0][1 + i], workload.extent(kernel), workload.stride[i], workload.padding[i],
            workload.extent(sums), shapes[1][1 + i], size, stride, pad, workload.dilation[i],
        ))
    return made[0], made[1]


@lru_cache(maxsize=512)
def runs(axis: Axis, tile: int) -> tuple[Run, ...]:
    """The tiles of ``tile`` outputs along ``axis``, in runs; asked for by all candidates of a layer."""
    tiles = list(_tiles(axis, tile))
    made = []
    for _, group in groupby(enumerate(tiles), key=lambda item: item[1]):
        members = list(group)
        made.append(Run(axis, tile, members[0][0], len(members), *members[0][1]))
    return tuple(made)


def _tiles(axis: Axis, tile: int) -> Iterator[tuple[int, int, int, int, int, int]]:
    """For each tile: outputs, sums, pool_skip, before, inside, after."""
    for start in range(0, axis.outputs, tile):
        outputs = min(tile, axis.outputs - start)
        window = start * axis.pool_stride - axis.pool_pad
        low = max(window, 0)
        sums = min(window + (outputs - 1) * axis.pool_stride + axis.pool_size, axis.sums) - low
        origin = low * axis.stride - axis.pad
        span, step = axis.span(sums), axis.load_step
        before = min(span, max(0, -(origin // step)))
        end = min(span, max(before, -(-(axis.extent - origin) // step)))
        yield outputs, sums, low - window, before, end - before, span - end


def peeled(all_runs: tuple[Run, ...], first: bool) -> tuple[Run, ...]:
    """The runs, of which the very first tile stands apart if ``first``."""
    return (*all_runs[0].alone(), *all_runs[1:]) if first else all_runs
