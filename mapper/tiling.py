"""The mapping space of a matrix product: tile sizes that fit, execution orders and dataflows, ranked by what is issued.

A target declares which tiles there are (:class:`Tiling`): sizes of each dimension, what they need of its memories, and
the loops that its emission writes. To choose among them is the mapper's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, TypeAlias

import numpy as np

from archloom.mapper.costs.pipeline import cycles
from archloom.mapper.costs.rates import Loop
from archloom.mapper.hardware import Hardware, Memory
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.reuse import ceil_div
from archloom.mapper.space import Columns, Space, SpaceBuilder, Table, product
from archloom.mapper.workload import Workload
from archloom.oracle.errors import MappingError
from archloom.oracle.user_code import Misused, called

Demand: TypeAlias = Callable[[Columns], np.ndarray]
"""Units that tiles need, for columns ``m``, ``n`` and ``k`` of tile sizes in elements."""


@dataclass(frozen=True)
class Shape:
    """``batch`` products [m, k] x [k, n], with element sizes in bytes of operands and result."""

    batch: int
    m: int
    n: int
    k: int
    item: int
    out_item: int
    bias: bool
    residual: bool = False
    """whether a tensor like the result is added"""

    @staticmethod
    def of(workload: Workload) -> "Shape":
        """The shape of a workload; MappingError for one that is no matrix product."""
        return Shape(
            *sizes_of(workload), workload.inputs[0].item_bytes, workload.output.item_bytes, workload.epilogue.bias,
            workload.epilogue.residual,
        )


def sizes_of(workload: Workload) -> tuple[int, int, int, int]:
    """How many products ``workload`` is, and the m, n and k of each; MappingError where it is none.

    With one B for all, a batch is rows of A; so are the pixels of a 1 x 1 convolution.
    """
    extent = workload.extent
    if workload.kind == "gemm":
        shared = len(workload.inputs[1].shape) == 2
        batch = 1 if shared else extent("b")
        return batch, extent("m") * (extent("b") // batch), extent("n"), extent("k")
    if workload.is_pointwise:
        return 1, extent("n") * extent("oh") * extent("ow"), extent("o"), extent("c")
    raise MappingError(f"{workload.name}: expected a matrix product or a 1x1 convolution, found {workload.kind}")


@dataclass(frozen=True)
class Tiling:
    """Which tiles a product may be cut into.

    ``sizes``: candidates for each of m, n, k, in elements (:func:`archloom.mapper.space.divided` lists those that cut
    evenly). ``orders``: loops over tiles, outermost first. ``dataflows``: what stays in the array, if there is a
    choice. ``demand`` and ``room``: for each buffer what tiles need of it, and what it has (in the same unit); the rest
    is pruned. ``buffers``: candidates for how many tiles of an operand are held at a time, where that is a choice, by
    the operand's name. ``loops``: what the emission issues for a product, by which candidates are ranked (see
    :mod:`archloom.mapper.costs`); without it, by :func:`traffic_cycles`. ``least``: cycles that no simulation of the
    whole batch in such tiles takes fewer than, where its emission proves any. Columns are ``m``, ``n``, ``k``,
    ``order`` and ``dataflow`` (indices into the two lists), and the names in ``buffers``. ``help`` names the options
    that would make room.
    """

    sizes: Mapping[str, Sequence[int]]
    orders: Sequence[tuple[str, ...]] = (("m", "n", "k"),)
    dataflows: Sequence[str] = ("",)
    demand: Mapping[str, Demand] = field(default_factory=dict)
    room: Mapping[str, int] = field(default_factory=dict)
    buffers: Mapping[str, Sequence[int]] = field(default_factory=dict)
    loops: Callable[[Columns], Loop] | None = None
    least: Callable[[Columns], np.ndarray] | None = None
    help: str = ""

    def __post_init__(self) -> None:
        if set(self.sizes) != set("mnk") or not all(map(len, self.sizes.values())):
            raise Misused(f"sizes: expected some of each of m, n and k, found {dict(self.sizes)}")
        if missing := self.demand.keys() - self.room.keys():
            raise Misused(f"room: expected what there is of {', '.join(sorted(missing))}, as demand has it, found "
                          f"{', '.join(self.room) or 'none'}")


def square_tiles(shape: Shape, hardware: Hardware, options: Mapping[str, Any]) -> Tiling:
    """Tiles of the option ``dim`` each way: nothing to choose."""
    return Tiling({d: [options["dim"]] for d in "mnk"})


def space_of(workload: Workload, shape: Shape, tiling: Tiling, hardware: Hardware, macs_per_cycle: int) -> Space:
    """All tiles that fit, with estimates; MappingError with demand and room if none does."""
    columns = product({
        **{d: tiling.sizes[d] for d in "mnk"}, "order": range(len(tiling.orders)),
        "dataflow": range(len(tiling.dataflows)), **tiling.buffers,
    })

    def estimate(c: Columns) -> np.ndarray:
        if tiling.loops is None:
            memories = [hardware.memory_of(workload, t.name) for t in (*workload.inputs[:2], workload.output)]
            return traffic_cycles(shape, c, memories, macs_per_cycle, tiling.orders)
        return np.broadcast_to(shape.batch * cycles(tiling.loops(c), hardware), c["m"].shape)

    def mapping(c: Columns, i: int) -> TileMapping:
        tile = tuple((d, int(c[d][i])) for d in "mnk")
        flow = tiling.dataflows[int(c["dataflow"][i])]
        held = tuple((operand, int(c[operand][i])) for operand in tiling.buffers)
        return TileMapping("gemm", flow, tile, tuple(tiling.orders[int(c["order"][i])]), buffers=held)

    builder = SpaceBuilder(workload.name, tiling.room, tiling.help)
    needs = {name: np.broadcast_to(called(demand, columns, gives=np.ndarray | int), columns["m"].shape)
             for name, demand in tiling.demand.items()}
    steps = (*(d for d in "knm" if len(tiling.sizes[d]) > 1), *tiling.buffers)
    family = tuple(d for d in steps if d != "m")
    builder.add(Table(columns, needs, estimate, mapping, steps, family or None, tiling.least))
    return builder.build()


def traffic_cycles(
    shape: Shape, c: Columns, memories: Sequence[Memory], macs_per_cycle: int, orders: Sequence[tuple[str, ...]]
) -> np.ndarray:
    """A first estimate: multiplications at the peak rate against bytes over ports, and latencies.

    ``memories``: those in which both operands and the result lie. An operand's tile is loaded again in each iteration
    of the loops down to the innermost one that indexes it.
    """
    counts = {d: np.asarray(ceil_div(e, c[d])) for d, e in (("m", shape.m), ("n", shape.n), ("k", shape.k))}
    padded = {d: counts[d] * c[d] for d in "mnk"}
    macs = shape.batch * padded["m"] * padded["n"] * padded["k"] / macs_per_cycle
    moving, waits = dict[str, np.ndarray](), np.zeros(len(c["m"]))
    for memory, index, item in zip(memories, ("mk", "kn", "mn"), (shape.item, shape.item, shape.out_item), strict=True):
        loads = np.select([c["order"] == i for i in range(len(orders))],
                          [tile_loads(order, index, counts) for order in orders])
        passed = loads * c[index[0]] * c[index[1]] * item / memory.bytes_per_cycle
        moving[memory.storage] = moving.get(memory.storage, 0) + shape.batch * passed
        waits = waits + shape.batch * loads * memory.read_latency_cycles / max(1, min(memory.slots, 8))
    moved = reduce(np.maximum, moving.values())
    tiles = counts["m"] * counts["n"] * counts["k"]
    return np.maximum(macs, moved) + np.minimum(macs, moved) / np.maximum(1, tiles) + waits


def tile_loads(order: Sequence[str], index: str, counts: Mapping[str, np.ndarray]) -> np.ndarray:
    """How often a tile of the operand over ``index`` is loaded, where it is kept while the same one is asked for.

    ``counts``: tiles along each dimension.
    """
    last = max(order.index(d) for d in index)
    loads: np.ndarray = np.ones_like(counts["m"])
    for d in order[:last + 1]:
        loads = loads * counts[d]
    return loads
