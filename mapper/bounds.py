"""What a workload costs at least on a machine, whatever its mapping: nothing is mapped and nothing simulated.

A machine does so many multiply-accumulates in a cycle at most, and each of its memories moves so many bytes, the first
of them after its latency: those of the tensors that lie there. What a workload cannot do without is each product that
does not meet padding, each byte of an operand that one of them reads, and each byte of the result; where operands lie
in tiles, bytes of matrix products alone are counted. Matrices that are much larger than what is on chip have to be
moved more than once (:func:`exchanged`). Where a target proves what its mappings take at least, the least of these
counts, too (:attr:`archloom.mapper.space.Table.least`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from archloom.acadl_models.acadl import (
    DRAM,
    READ_DATA,
    WRITE_DATA,
    ArchitectureGraph,
    DataStorage,
    EdgeKind,
    MemoryInterface,
)
from archloom.acadl_models.acadl.components import Logic
from archloom.acadl_models.acadl.graph import HBM, per_graph
from archloom.acadl_models.acadl.units import MemoryAccessUnit
from archloom.acadl_models.energy import figures_of
from archloom.acadl_models.energy.figures import multiplication_joules
from archloom.mapper.places import role_of, rooms
from archloom.mapper.workload import Pool, Workload
from archloom.oracle.taidl.types import TYPES

if TYPE_CHECKING:
    from archloom.mapper.accelerator import Configuration
    from archloom.mapper.space import Space


ROUNDING = 1e-9
"""By how much of them sums of joules in another order may differ."""


@dataclass(frozen=True)
class Needs:
    """Multiply-accumulates, and bytes of HBM that are read, tensor by tensor, and written once each."""

    macs: int
    reads: tuple[tuple[str, int], ...]
    written: int

    @property
    def read(self) -> int:
        """Bytes of all tensors."""
        return sum(size for _, size in self.reads)


@dataclass(frozen=True)
class Least:
    """No mapping takes fewer ``cycles``, or ``joules`` (None where the graph states no energies)."""

    cycles: int
    joules: float | None


def least(
    workload: Workload, configuration: "Configuration", known: int = 0, *, space: "Space | None" = None,
    is_listed: bool = True,
) -> Least:
    """The bound of a workload on a machine, where no mapping is ``known`` to take fewer cycles, and all mappings are
    those that the target lists (``is_listed``): these are ``space``, if they are at hand."""
    graph, needed = configuration.graph, needs(workload)
    shares, peak = _shares(workload, graph, needed), configuration.peak_of(workload)
    moved = max(sum(share.moved for share in shares), exchanged(workload, graph))
    first = min((share.ways.first for share in shares if share.read), default=0)
    last = max((share.ways.last for share in shares if share.written), default=0)
    is_proven = configuration.accelerator.is_bounded and is_listed
    of_mappings = configuration.least_of_mappings(workload, space) if is_proven else 0
    cycles = max(
        known, of_mappings,
        first + math.ceil(needed.macs / peak) + last,  # what is multiplied is read before, and the sums written after
        first + math.ceil(moved / _rate(graph.tensor_memories)),
        *(share.cycles(last) for share in shares))
    return Least(cycles, _joules(graph, workload, cycles, moved, shares) if configuration.has_energy else None)


def _joules(
    graph: ArchitectureGraph, workload: Workload, cycles: int, moved: int, shares: Sequence["_Share"]
) -> float:
    """Leakage and free-running clocks for as long as it takes at least, the words that are moved at least, once from
    and to the memories where they lie, and the multiplications."""
    figures = figures_of(graph)
    leakage = sum(each.leakage_watts or 0.0 for each in figures.values()) * cycles / graph.clock_hz
    clocks = sum(each.clock_joules for each in figures.values()) * cycles

    def cheapest(memories: Iterable[MemoryInterface]) -> float:
        return min((figures[s.name].of(way) or 0.0) / _word_bytes(s) for s in memories for way in ("read", "write"))

    again = moved - sum(share.moved for share in shares)
    words = sum(share.moved * cheapest(share.memories) for share in shares) + again * cheapest(graph.tensor_memories)
    each = 0.0 if workload.tile else multiplication_joules(graph, _element(workload))
    products = needs(workload).macs * each
    return (leakage + clocks + words + products) * (1 - ROUNDING)


# what a machine can ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ways:
    """Bytes that all units together read from HBM, and write to it, in a cycle; cycles before the ``first`` word that
    is read moves, and before the ``last`` one that is written does (0 where that is not known)."""

    read: float
    written: float
    first: int
    last: int


@dataclass(frozen=True)
class _Share:
    """What a workload needs of some memories: bytes that are ``read`` and ``written`` there once each."""

    memories: tuple[MemoryInterface, ...]
    ways: _Ways
    read: int
    written: int
    cached: bool

    @property
    def moved(self) -> int:
        """Bytes in both directions; what a cache holds at the end need not have been written."""
        return self.read + (0 if self.cached else self.written)

    def cycles(self, last: int) -> int:
        """What is read and written there takes so many; ``last``: after what follows from what is read last."""
        return max(
            self.ways.first + math.ceil(self.read / self.ways.read) + last if self.read else 0,
            (self.ways.first if self.read else 0) + math.ceil(self.moved / _rate(self.memories)),
            0 if self.cached else math.ceil(self.written / self.ways.written))


def _shares(workload: Workload, graph: ArchitectureGraph, needed: Needs) -> list[_Share]:
    """Of each memory that has roles, the tensors that lie there; of memories without any, all of them."""
    known = rooms(graph)
    if not known:
        names = tuple(memory.name for memory in graph.tensor_memories)
        return [_Share(graph.tensor_memories, _ways(graph, names), needed.read, needed.written, bool(graph.caches))]
    read, written = Counter[str](), Counter[str]()
    for found, tensors in ((read, needed.reads), (written, ((workload.output.name, needed.written),))):
        for name, size in tensors:
            place = known.get(role_of(workload, name, known))
            if place is not None:  # else nothing maps it
                found[place.memory] += size
    return [_Share((memory,), _ways(graph, (memory.name,)), read[memory.name], written[memory.name], bool(graph.caches))
            for memory in graph.tensor_memories]


@per_graph
def _ways(graph: ArchitectureGraph, names: tuple[str, ...]) -> _Ways:
    """Those to the memories of these names."""
    memories = tuple(memory for memory in graph.tensor_memories if memory.name in names)
    if graph.caches:  # through which units reach it
        return _Ways(min(_rate(memories), _refilled(graph, memories)), _rate(memories), 0, 0)
    (read, first), (written, last) = (_over(graph, memories, kind) for kind in (READ_DATA, WRITE_DATA))
    return _Ways(read, written, first, last)


def _refilled(graph: ArchitectureGraph, memories: Sequence[MemoryInterface]) -> float:
    """Bytes that caches bring from memories in a cycle: a line keeps a slot of its memory, and a register of its cache,
    for as long as a miss takes. Without a limit where a unit reaches a memory past them."""
    total = 0.0
    for memory in memories:
        caches = [cache for cache in graph.caches if graph.backing(cache) is memory]
        latencies = [cache.miss_latency for cache in caches if isinstance(cache.miss_latency, int)]
        if graph.readers(memory) or len(latencies) < len(caches) or not caches:
            return math.inf
        registers = [cache.miss_registers or memory.max_concurrent_requests for cache in caches]
        lines = min(memory.max_concurrent_requests, sum(registers))
        total += lines * max(cache.cache_line_size for cache in caches) / min(latencies)
    return total


def _over(graph: ArchitectureGraph, memories: Sequence[MemoryInterface], kind: EdgeKind) -> tuple[float, int]:
    """What passes in a cycle, no more than each link takes, or the memory where there is none; and the shortest
    latency of memory and link."""
    name, links, latencies = "read_latency" if kind is READ_DATA else "write_latency", dict[str, float](), list[int]()
    most = _rate(memories)
    for storage in memories:
        for unit in graph.readers(storage) if kind is READ_DATA else graph.writers(storage):
            link = graph.link(storage, unit, kind)
            links["" if link is None else link.name] = most if link is None else link.bandwidth
            latencies.append(_latency(storage, name) + (0 if link is None else link.latency))
    return (min(sum(links.values()), most) if links else most), min(latencies, default=0)


def _latency(storage: DataStorage, name: str) -> int:
    """Of an access to a memory, where it does not depend on which, nor on the state of its banks."""
    found = getattr(storage, name)
    timed_by_state = isinstance(storage, DRAM) and storage.has_bank_state
    return found if isinstance(found, int) and not timed_by_state else 0


def bytes_per_cycle(graph: ArchitectureGraph) -> float:
    """What the memories of tensors move at most, in all of their streams."""
    return _rate(graph.tensor_memories)


def _rate(memories: Iterable[DataStorage]) -> float:
    return sum(_word_bytes(s) * s.port_width * (1 if s.shared_port else s.max_concurrent_requests) for s in memories)


def _word_bytes(storage: DataStorage) -> float:
    return storage.data_width / 8


# what must be moved again ---------------------------------------------------------------------------------------------


def exchanged(workload: Workload, graph: ArchitectureGraph) -> int:
    """Bytes that a product of matrices exchanges with HBM at least, as no more than ``S`` bytes stay on chip.

    Between two moments at which 4 S bytes have passed, products meet operands of which S bytes were there and what was
    read, and sums of which S bytes stay and what was written: of ``a``, ``b`` and ``c`` such elements at most
    ``sqrt(a b c)`` products (Loomis and Whitney), which is most, ``sqrt(8 S^3 / w)``, where two thirds of the 6 S bytes
    are operands; ``w`` is the product of the three sizes of an element. So all products take
    ``products sqrt(2 w / S) - 4 S`` bytes (after Hong and Kung). 0 for other operators, and where what is read from HBM
    may be multiplied before it is kept anywhere.
    """
    if workload.kind != "gemm" or workload.tile or not _keeps_before_use(graph, _element(workload)):
        return 0
    room = sum(graph.bytes_of(buffer) for buffer in graph.buffers if buffer != HBM)
    sizes = math.prod(tensor.item_bytes for tensor in (*workload.inputs[:2], workload.output))
    return max(0, math.floor(workload.macs * math.sqrt(2 * sizes / room) - 4 * room)) if room else 0


def _element(workload: Workload) -> str:
    """The operands' type, as descriptions call it."""
    return next(t.name for t in TYPES.values() if t.numpy == workload.inputs[0].dtype)


def _keeps_before_use(graph: ArchitectureGraph, dtype: str) -> bool:
    """Whether no unit that reaches HBM multiplies numbers of a type."""
    return not graph.caches and all(
        (isinstance(unit.component, Logic) and f"multiply {dtype}" not in unit.component.units)
        or (isinstance(unit, MemoryAccessUnit) and unit.component is None)
        for storage in graph.tensor_memories for unit in (*graph.readers(storage), *graph.writers(storage)))


# what a workload needs ------------------------------------------------------------------------------------------------


def needs(workload: Workload) -> Needs:
    """What the operator cannot be computed without."""
    if workload.kind == "conv2d":
        return _of_convolution(workload)
    if workload.kind == "attention" and workload.causal:
        unseen = workload.extent("q") - 1, workload.extent("q") * workload.extent("k")
        masked = unseen[0] * (unseen[0] + 1) // 2
        return Needs(workload.macs * (unseen[1] - masked) // unseen[1], (), 0)
    if workload.tile and workload.kind == "gemm":
        return _of_tiled_product(workload)
    if workload.tile:
        return Needs(workload.macs, (), 0)
    return Needs(workload.macs, tuple((t.name, t.size_bytes) for t in workload.inputs), workload.output.size_bytes)


def _of_tiled_product(workload: Workload) -> Needs:
    """Without what lies in tiles beyond the extents of the matrices."""
    b, m, n, k = (workload.extent(d) for d in "bmnk")
    one, other = workload.inputs[:2]
    size, shared = workload.output.item_bytes, other.shape[0] == 1
    reads = (one.name, size * b * m * k), (other.name, size * (1 if shared else b) * k * n)
    return Needs(workload.macs, reads, size * b * m * n)


def _of_convolution(workload: Workload) -> Needs:
    rows, columns = _axis(workload, 0), _axis(workload, 1)
    inner = math.prod(workload.extent(d) for d in ("n", "c", "o")) * workload.groups // workload.blocks
    macs = rows.products * columns.products * inner
    if workload.tile:
        return Needs(macs, (), 0)
    image, kernel, *rest = workload.inputs
    read = image.size_bytes // (image.shape[1] * image.shape[2]) * rows.positions * columns.positions
    taps = workload.extent("kh") * workload.extent("kw")
    weights = kernel.size_bytes // (taps * workload.blocks) * rows.taps * columns.taps
    reads = (image.name, read), (kernel.name, weights), *((t.name, t.size_bytes) for t in rest)
    return Needs(macs, reads, workload.output.size_bytes)


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
