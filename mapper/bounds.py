"""What a workload costs at least on a machine, whatever its mapping: nothing is mapped and nothing simulated.

A machine does so many multiply-accumulates in a cycle at most, and its memory moves so many bytes. What a workload
cannot do without is each product that does not meet padding, each byte of an operand that one of them reads, and each
byte of the result; where operands lie in tiles, bytes of matrix products alone are counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph, DataStorage
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.energy import figures_of
from archloom.mapper.workload import Pool, Workload

if TYPE_CHECKING:
    from archloom.mapper.accelerator import Configuration


ROUNDING = 1e-9
"""By how much of them sums of joules in another order may differ."""


@dataclass(frozen=True)
class Needs:
    """Multiply-accumulates, and bytes of HBM that are read and written once each."""

    macs: int
    read: int
    written: int


@dataclass(frozen=True)
class Least:
    """No mapping takes fewer ``cycles``, or ``joules`` (None where the graph states no energies)."""

    cycles: int
    joules: float | None


def least(workload: Workload, configuration: "Configuration") -> Least:
    """The bound of a workload on a machine."""
    graph, needed = configuration.graph, needs(workload)
    peak = configuration.accelerator.macs_per_cycle(graph)
    # what a cache holds at the end need not have been written
    moved = needed.read + (0 if graph.caches else needed.written)
    cycles = max(math.ceil(needed.macs / peak), math.ceil(moved / bytes_per_cycle(graph)))
    return Least(cycles, _joules(graph, cycles, moved) if configuration.has_energy else None)


def _joules(graph: ArchitectureGraph, cycles: int, moved: int) -> float:
    """Leakage and free-running clocks for as long as it takes at least, and the words of HBM that are moved at least.
    """
    figures = figures_of(graph)
    leakage = sum(each.leakage_watts or 0.0 for each in figures.values()) * cycles / graph.clock_hz
    clocks = sum(each.clock_joules for each in figures.values()) * cycles
    words = moved * min((figures[s.name].of(way) or 0.0) / _word_bytes(s)
                        for s in _hbm(graph) for way in ("read", "write"))
    return (leakage + clocks + words) * (1 - ROUNDING)


@per_graph
def bytes_per_cycle(graph: ArchitectureGraph) -> float:
    """What HBM moves at most, in all of its streams."""
    return sum(_word_bytes(s) * s.port_width * (1 if s.shared_port else s.max_concurrent_requests)
               for s in _hbm(graph))


def _hbm(graph: ArchitectureGraph) -> list[DataStorage]:
    names = dict.fromkeys(bank.storage for bank in graph.buffers["hbm"])
    return [place for name in names if isinstance(place := graph[name], DataStorage)]


def _word_bytes(storage: DataStorage) -> float:
    return storage.data_width / 8


# what a workload needs ------------------------------------------------------------------------------------------------


def needs(workload: Workload) -> Needs:
    """What the operator cannot be computed without."""
    if workload.kind == "conv2d":
        return _of_convolution(workload)
    if workload.kind == "attention" and workload.causal:
        unseen = workload.extent("q") - 1, workload.extent("q") * workload.extent("k")
        masked = unseen[0] * (unseen[0] + 1) // 2
        return Needs(workload.macs * (unseen[1] - masked) // unseen[1], 0, 0)
    if workload.tile and workload.kind == "gemm":
        return _of_tiled_product(workload)
    if workload.tile:
        return Needs(workload.macs, 0, 0)
    return Needs(workload.macs, sum(t.size_bytes for t in workload.inputs), workload.output.size_bytes)


def _of_tiled_product(workload: Workload) -> Needs:
    """Without what lies in tiles beyond the extents of the matrices."""
    b, m, n, k = (workload.extent(d) for d in "bmnk")
    size, shared = workload.output.item_bytes, workload.inputs[1].shape[0] == 1
    return Needs(workload.macs, size * (b * m * k + (1 if shared else b) * k * n), size * b * m * n)


def _of_convolution(workload: Workload) -> Needs:
    rows, columns = _axis(workload, 0), _axis(workload, 1)
    inner = math.prod(workload.extent(d) for d in ("n", "c", "o")) * workload.groups // workload.blocks
    macs = rows.products * columns.products * inner
    if workload.tile:
        return Needs(macs, 0, 0)
    image, kernel, *rest = workload.inputs
    read = image.size_bytes // (image.shape[1] * image.shape[2]) * rows.positions * columns.positions
    taps = workload.extent("kh") * workload.extent("kw")
    read += kernel.size_bytes // (taps * workload.blocks) * rows.taps * columns.taps
    return Needs(macs, read + sum(t.size_bytes for t in rest), workload.output.size_bytes)


@dataclass(frozen=True)
class _Axis:
    """Of rows or columns of a convolution: pairs of a result and a tap of the kernel that meet in the image, positions
    of the image and taps of the kernel that are in one of them."""

    products: int
    positions: int
    taps: int


def _axis(workload: Workload, axis: int) -> _Axis:
    size = workload.image[axis] if workload.tile else workload.inputs[0].shape[1 + axis]
    outputs, taps = (workload.extent(d[axis]) for d in (("oh", "ow"), ("kh", "kw")))
    return _met(size, outputs, taps, workload.stride[axis], workload.dilation[axis], workload.padding[axis],
                workload.epilogue.pool, axis)


@lru_cache(maxsize=4096)
def _met(
    size: int, outputs: int, taps: int, stride: int, dilation: int, before: int, pool: Pool | None, axis: int
) -> _Axis:
    wanted = np.arange(outputs) if pool is None else _pooled(outputs, pool, axis)
    places = wanted[:, None] * stride + np.arange(taps) * dilation - before
    inside = (places >= 0) & (places < size)
    return _Axis(int(inside.sum()), len(np.unique(places[inside])), int(inside.any(axis=0).sum()))


def _pooled(outputs: int, pool: Pool, axis: int) -> np.ndarray:
    """The results that lie in a window of a pooling."""
    before, after = pool.padding[axis], pool.padding[axis + 2]
    count = (outputs + before + after - pool.size) // pool.stride + 1
    places = np.unique(np.arange(count)[:, None] * pool.stride + np.arange(pool.size) - before)
    return places[(places >= 0) & (places < outputs)]
