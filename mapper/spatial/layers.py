"""Layers of networks on a mesh of cores: workloads in tiles, planned and emitted as :mod:`mapper.spatial` does."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mapper import cache
from mapper.mapping import Mapping
from mapper.spatial.attention import Attention, AttentionPlan
from mapper.spatial.attention_emit import emit_attention
from mapper.spatial.attention_search import search_attention
from mapper.spatial.batched import Product
from mapper.spatial.convolution import Convolution
from mapper.spatial.epilogue import Epilogue
from mapper.spatial.grid import Grid
from mapper.spatial.machine import SIDE, Machine
from mapper.spatial.parts import Contraction, PartedPlan
from mapper.spatial.sweep import Sweep, SweepPlan
from mapper.spatial.workloads import emitted, search_workload
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper import workload as wl
    from mapper.workload import Workload
    from oracle.stream import Stream


def described(kind: str, spread: str) -> str:
    """The plan in a mapping's ``spread`` as one line."""
    if kind == "sweep":
        return str(SweepPlan.from_json(spread))
    return str(AttentionPlan.from_json(spread) if kind == "attention" else PartedPlan.from_json(spread))


@dataclass(frozen=True, eq=False)
class MeshPlanner:
    """Finds and emits plans for the layers of networks on one machine."""

    graph: "ArchitectureGraph"

    @cached_property
    def machine(self) -> Machine:
        return Machine.of(self.graph)

    def find(self, workload: "Workload", top_k: int) -> cache.Entry:
        """The fastest plan of those that were simulated; MappingError where none fits."""
        if workload.kind == "attention":
            return self._find_attention(workload, top_k)
        if workload.kind == "sweep":
            return self._find_sweep(workload, top_k)
        found = search_workload(contraction_of(workload), self.graph, top_k=top_k)
        best = found.best
        sizes = tuple((d, SIDE * tiles) for d, tiles in zip("mnk", best.plan.plan.block))
        mapping = Mapping(workload.kind, "", sizes, tuple(best.plan.plan.order), spread=best.plan.to_json())
        return cache.Entry(mapping, best.timing, best.estimated_cycles, found.considered, found.considered,
                           len(found.trials))

    def _find_attention(self, workload: "Workload", top_k: int) -> cache.Entry:
        found = search_attention(attention_of(workload), self.graph, top_k=top_k)
        best = found.best
        sizes = tuple((d, SIDE * tiles) for d, tiles in zip("qk", best.plan.block))
        mapping = Mapping("attention", "", sizes, spread=best.plan.to_json())
        return cache.Entry(mapping, best.timing, best.estimated_cycles, found.considered, found.considered,
                           len(found.trials))

    def _find_sweep(self, workload: "Workload", top_k: int) -> cache.Entry:
        found = search_workload(sweep_of(workload), self.graph, top_k=top_k)
        best = found.best
        sizes = tuple((d, SIDE * tiles) for d, tiles in zip("mn", best.plan.block))
        mapping = Mapping("sweep", "", sizes, spread=best.plan.to_json())
        return cache.Entry(mapping, best.timing, best.estimated_cycles, found.considered, found.considered,
                           len(found.trials))

    def emit(self, workload: "Workload", mapping: Mapping) -> "Stream":
        """The stream of a mapping that :meth:`find` gave; MappingError for another."""
        if workload.kind == "attention":
            plan = AttentionPlan.from_json(mapping.spread)
            return emit_attention(attention_of(workload), plan, self.machine, name=workload.name)
        if workload.kind == "sweep":
            stream = emitted(sweep_of(workload), SweepPlan.from_json(mapping.spread), self.machine)
            return replace(stream, name=workload.name)
        stream = emitted(contraction_of(workload), PartedPlan.from_json(mapping.spread), self.machine)
        return replace(stream, name=workload.name)


def sweep_of(workload: "Workload") -> Sweep:
    """The sweep that a workload is; MappingError for another workload."""
    if workload.sweep is None:
        raise MappingError(f"{workload.name}: expected a sweep, found {workload.kind}")
    return workload.sweep


def contraction_of(workload: "Workload") -> Contraction:
    """The product or convolution that a workload in tiles is; MappingError for another workload."""
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
    from mapper import workload as wl

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
