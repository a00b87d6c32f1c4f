"""Layers of networks on a mesh of cores: workloads in tiles, planned and emitted as :mod:`mapper.spatial` does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import Heard
from archloom.mapper import cache
from archloom.mapper import workload as wl
from archloom.mapper.asked import Allowed, Part
from archloom.mapper.explore import Objective
from archloom.mapper.mapping import Mapping
from archloom.mapper.spatial.arrays import Grid
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import SIDE, Machine
from archloom.mapper.spatial.plan import PLANS, PartedPlan, Plan
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.workloads import AnyPlan, AnyWork, emitted, search_workload
from archloom.mapper.workload import Workload
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream


@dataclass(frozen=True, eq=False)
class MeshPlanner:
    """Finds and emits plans for the layers of networks on one machine."""

    graph: "ArchitectureGraph"

    @cached_property
    def machine(self) -> Machine:
        return Machine.of(self.graph)

    def find(
        self, workload: "Workload", top_k: int, objective: Objective, heard: Heard | None = None,
        asked: Part | None = None,
    ) -> cache.Entry:
        """By an objective the best plan of those that were simulated, of which ``heard`` is told how far they are;
        MappingError where none fits, or none is as it is ``asked`` for."""
        allowed = None if asked is None else Allowed(asked, workload, partial(_mapping, workload.kind))
        found = search_workload(work_of(workload), self.graph, top_k=top_k, objective=objective, heard=heard,
                                allowed=allowed)
        best = found.best
        mapping = _mapping(workload.kind, best.plan)
        return cache.Entry(mapping, best.timing, best.estimated_cycles, found.considered, found.considered,
                           len(found.trials))

    def emit(self, workload: "Workload", mapping: Mapping) -> "Stream":
        """The stream of a mapping that :meth:`find` gave; MappingError for another."""
        plan = PLANS.get(workload.kind, PartedPlan).from_json(mapping.spread)
        return replace(emitted(work_of(workload), plan, self.machine), name=workload.name)


def _mapping(kind: str, plan: AnyPlan) -> Mapping:
    """A plan as the mapping of a workload of a kind, with the sizes of its blocks in elements."""
    names = {"attention": "qk", "chain": ("m", "hidden", "n", "k"), "sweep": "mn"}.get(kind, "mnk")
    inner = plan.plan if isinstance(plan, PartedPlan) else plan
    order = tuple(inner.order) if isinstance(inner, Plan) else ()
    sizes = tuple((d, SIDE * tiles) for d, tiles in zip(names, inner.block))
    return Mapping(kind, "", sizes, order, spread=plan.to_json())  # type: ignore[arg-type]


def work_of(workload: "Workload") -> AnyWork:
    """What a workload is to the mapper of cores; MappingError for one that it cannot be."""
    if workload.kind == "attention":
        return attention_of(workload)
    if workload.chain is not None:
        return workload.chain
    if workload.sweep is not None:
        return workload.sweep
    return convolution_of(workload) if workload.kind == "conv2d" and workload.tile == SIDE else product_of(workload)


def product_of(workload: "Workload") -> Product:
    """The product that a workload in tiles is; MappingError for another workload."""
    if workload.kind != "gemm" or workload.tile != SIDE:
        raise MappingError(f"{workload.name}: expected a product in tiles of {SIDE} x {SIDE}, found {workload.kind}")
    batch, m, n, k = (workload.extent(d) for d in "bmnk")
    shared = workload.inputs[1].shape[0] == 1
    return Product(batch, m, n, k, *workload.transposed, shared=shared, epilogue=_epilogue(workload))


def _epilogue(workload: "Workload") -> Epilogue:
    own = workload.epilogue
    return Epilogue(bias=own.bias, residual=own.residual, activation="relu" if own.relu else own.activation or None)


def convolution_of(workload: "Workload") -> Convolution:
    """The convolution that a ``conv2d`` in tiles is."""
    size = {d: workload.extent(d) for d in ("n", "c", "o", "kh", "kw")}
    groups = workload.groups
    return Convolution(
        size["n"], *workload.image, size["c"] * groups, size["o"] * groups, (size["kh"], size["kw"]), workload.stride,
        workload.padding, workload.dilation, groups, _epilogue(workload), workload.grid)


def convolution(
    n: int, h: int, w: int, c: int, o: int, kh: int, kw: int, *, stride: tuple[int, int] = (1, 1),
    padding: tuple[int, int, int, int] = (0, 0, 0, 0), dilation: tuple[int, int] = (1, 1), groups: int = 1,
    epilogue: "wl.Epilogue", name: str = "conv2d", grid: Grid | None = None,
) -> "Workload":
    """A ``conv2d`` in tiles; ``c`` and ``o`` are channels of each of ``groups``. MappingError for a ``grid`` on
    which it cannot lie."""
    made = Convolution(n, h, w, c * groups, o * groups, (kh, kw), stride, padding, dilation, groups,
                       Epilogue(bias=epilogue.bias, residual=epilogue.residual), grid)
    return wl.tiled_conv2d(
        n, h, w, c, o, kh, kw, tensors=made.tensors(), result=made.result, stride=stride, padding=padding,
        dilation=dilation, groups=groups, epilogue=epilogue, name=name, grid=grid)


def attention_of(workload: "Workload") -> Attention:
    """The attention that a workload in tiles is; MappingError for one that it cannot be."""
    size = {d: workload.extent(d) for d in "bhqkde"}
    if workload.tile != SIDE or size["d"] != size["e"] or workload.epilogue.bias:
        raise MappingError(f"{workload.name}: expected attention in tiles of {SIDE} x {SIDE}, keys and values of equal "
                           f"width and no bias")
    past = size["k"] - size["q"] if workload.causal else None
    return Attention(size["b"] * size["h"], size["q"], size["k"], size["d"], past=past)
