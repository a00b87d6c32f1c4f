"""Targets of many cores (``mesh``, ``triple_ring``, ``wormhole``), each from one description: its graph and options;
all else is the same for every mesh."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, NoReturn

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.options import GraphOptions, Option
from archloom.mapper.spatial.layers import MeshPlanner
from archloom.mapper.spatial.machines.machine import ISA, SIDE, Machine
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.compiled import Refuse
from archloom.tvm_backend.ir.expressions import IRModule
from archloom.tvm_backend.ir.numbers import Numbers
from archloom.tvm_backend.passes.attention import as_attention
from archloom.tvm_backend.passes.composites import fuse_composites
from archloom.tvm_backend.passes.products import as_products
from archloom.tvm_backend.passes.weights import fold_scales, without_batch_norms
from archloom.tvm_backend.targets.backend import UMAPhase
from archloom.uma_targets.cores import attention, patterns, strategies, sweeps
from archloom.uma_targets.kit.patterns import attention as attention_pattern
from archloom.uma_targets.kit.rules import AllOf
from archloom.uma_targets.kit.target import DescribedTarget

Options = Mapping[str, Any]


@dataclass(frozen=True)
class CoresKit:
    """A mesh of cores: its name, and the function that makes its graph, whose parameters are its options."""

    name: str
    description: str
    make: Callable[..., "ArchitectureGraph"] = field(repr=False)
    numbers: "Numbers" = "float16"

    @cached_property
    def options(self) -> tuple[Option, ...]:
        return GraphOptions(self.make).options()

    @cached_property
    def accelerator(self) -> Accelerator:
        return Accelerator(self.name, self.description, self.options, ISA, GraphOptions(self.make).graph,
                           _no_tiles, _no_tiles, macs_per_cycle, MeshPlanner)


def _no_tiles(*_: object) -> NoReturn:
    raise MappingError("a mesh of cores is planned as a whole, not by tiles of one core")


def macs_per_cycle(graph: "ArchitectureGraph") -> int:
    """Peak of all matrix units, without what blocks cost beside their products."""
    machine = Machine.of(graph)
    return machine.cores * (SIDE * machine.array) ** 3 // machine.product_cycles


class CoresTarget(DescribedTarget):
    """Base of the targets that are meshes of cores: a subclass states ``kit``."""

    kit: ClassVar[CoresKit]

    @property
    def vectors(self) -> bool:
        """A core has a vector unit, which works on tiles."""
        return True

    def __init__(self) -> None:
        super().__init__()
        swapped = ("swapped_both", "swapped_second", "swapped_first")
        for name, kept, strategy in (*((name, patterns.MATMUL, strategies.matmul) for name in swapped),
                                     ("matmul", patterns.MATMUL, strategies.matmul),
                                     ("conv2d", patterns.CONV2D, strategies.conv2d)):
            residual = () if name.startswith("swapped") else ("residual_activation", "residual")
            for form in (*residual, "activation", "plain"):
                self._register_pattern(f"{name}_{form}", partial(patterns.fused, name, form), AllOf(
                    "nn.conv2d" if name == "conv2d" else "matmul", kept))
                self._register_operator_strategy(f"{name}_{form}", strategy)
        self._register_pattern("attention", attention_pattern, attention.rules(self._machine))
        self._register_operator_strategy("attention", attention.strategy)
        taken = sweeps.taken(self._machine)
        for count in range(patterns.CHAINED, 0, -1):
            self._register_pattern(f"elementwise_{count}", partial(patterns.elementwise, count), taken, quiet=count > 1)
            self._register_operator_strategy(f"elementwise_{count}", sweeps.lowered)
        self._register_pattern("rows", patterns.rows, taken)
        self._register_operator_strategy("rows", sweeps.lowered)
        self._register_join(lambda first, second, options: strategies.weighed(
            first, second, self.kit.accelerator, self._values(options)))
        self._register_relax_pass(UMAPhase.PRE_PARTITIONING, self._prepared, takes_options=True)
        self._register_codegen("stream", lambda: self.kit.accelerator)

    def _prepared(self, module: "IRModule", options: Options, refuse: Refuse) -> "IRModule":
        """Batch normalization in the convolution before it, factors in the dense layer; norms and GELU that are written
        out, and attention where it is taken so, as one operator; else attention, and what is no convolution of images
        by constants, as products of matrices."""
        machine, module = self._machine(options), fuse_composites(without_batch_norms(module))
        module = fold_scales(as_attention(module, lambda shape: attention.misfit(shape, machine), refuse))
        return as_products(module, lambda call: attention.is_whole(call, machine), strategies.is_image)

    def _machine(self, options: Options) -> "Machine":
        planner = self.kit.accelerator.configure(self._values(options)).planner
        assert planner is not None
        return planner.machine  # type: ignore[attr-defined,no-any-return]


class Mesh(CoresTarget):
    """Mesh: products on a generic mesh of cores."""

    kit = CoresKit("mesh", "a generic mesh of cores on two networks, float16 with float32 sums", mesh)


class TripleRing(CoresTarget):
    """Triple ring: products on rings of cores."""

    kit = CoresKit(
        "triple_ring",
        "the triple ring of the TL paper: columns of cores that share L1s on a ring, float16 with float32 sums",
        triple_ring)


class Wormhole(CoresTarget):
    """Wormhole: products on a mesh of Tensix cores."""

    kit = CoresKit(
        "wormhole", "Tenstorrent Wormhole: a mesh of Tensix cores on two networks, float16 with float32 sums",
        wormhole)
