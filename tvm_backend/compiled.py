"""What a compiled network consists of: offloaded regions of steps (one workload, one stream each) and a host part.

Everything here is plain data: NumPy arrays, workloads, plans and text; no JAX, TVM or torch object is needed to hold,
print or save it. :mod:`archloom.tvm_backend.executable` makes it run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from archloom.mapper.options import OptionValue
from archloom.mapper.workload import Workload
from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.memory import Memory

if TYPE_CHECKING:
    from archloom.mapper.search import Plan
    from archloom.tvm_backend.host.output_stage import OutputStage
    from archloom.tvm_backend.host.plan import HostPlan
    from archloom.tvm_backend.targets.layouts import Layout


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of the network: ``shape`` in elements and ``dtype`` as a NumPy name."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Value:
    """A tensor of a region.

    ``shape`` is the shape that the network gives it (NCHW for images); ``layout`` says how the region keeps it in HBM.
    Host code only sees ``shape``. ``nonzero_edges``: the edges of its matrices (``rows``, ``columns``) beyond which
    other numbers than zeros may lie.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    nonzero_edges: tuple[str, ...] = ()

    @property
    def stored_shape(self) -> tuple[int, ...]:
        return self.layout.stored_shape(self.shape)


@dataclass(frozen=True)
class View:
    """How a step reads a value in tiles: under which shape and in which layout, and with zeros beyond which edges."""

    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    zero_edges: tuple[str, ...] = ()

    def needs_zeros(self, value: Value) -> bool:
        """Whether it needs zeros where ``value`` may have other numbers."""
        return not {*value.nonzero_edges}.isdisjoint(self.zero_edges)

    def is_met(self, value: Value) -> bool:
        """Whether the bytes of ``value`` can be read so as they are."""
        return value.layout.is_same(value.shape, self.layout, self.shape) and not self.needs_zeros(value)


@dataclass(frozen=True)
class Refused:
    """A target's answer to an operator that it did not take: what it saw, and what it takes instead."""

    target: str
    reason: str
    needs: str = ""


Refuse: TypeAlias = Callable[[str, str, str], None]
"""Notes for the partition report what a pass of a target left alone: the variable, what was seen, what it takes."""


@dataclass(frozen=True, eq=False)
class Step:
    """One workload of a region.

    ``inputs`` pairs an argument of the workload with the value it takes, in the workload's order; the value's stored
    bytes are the argument's bytes (reshaped, never permuted). ``constants`` holds the other arguments, shaped as the
    workload's tensors are stored. ``op`` names the fused operators, such as ``conv2d+bias+relu``; ``shape`` is that of
    the output in the network's axes. ``views`` say how an argument is read in tiles, where the value does not lie so.
    """

    name: str
    op: str
    workload: Workload
    inputs: tuple[tuple[str, str], ...]
    output: str
    shape: tuple[int, ...]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    refused: tuple[Refused, ...] = ()
    """answers of targets that come before the region's own in the order of preference"""
    position: int = 0
    """in the order of the network's operators, the host's included"""
    views: "Mapping[str, View]" = field(default_factory=dict)
    output_stage: "OutputStage | None" = None
    """what the host makes of the workload's int32 sums, where the accelerator's store cannot make the result"""
    choice: str = ""
    """what was weighed, where a target can take operators as one or one by one"""
    variable: str = ""
    """of the network, that holds the result (see :class:`~archloom.tvm_backend.targets.partition.Partitioned`); empty
    where none does, and in artifacts"""
    channels_last: bool = False
    """whether the result is an image [n, h, w, c], which the variable is as [n, c, h, w]"""

    def result(self, sums: Any, arguments: Mapping[str, Any]) -> Any:
        """The result, from what the workload gives for ``arguments``."""
        return sums if self.output_stage is None else self.output_stage.apply(sums, {**arguments, **self.constants})

    @property
    def macs(self) -> int:
        return self.workload.macs


@dataclass(frozen=True, eq=False)
class Region:
    """Neighbouring operators that one target runs without the host between them.

    ``symbol`` is the name by which the host part calls it; ``values`` are all tensors of the region; ``inputs`` and
    ``outputs`` name those that cross its border, in the order of the call.
    """

    symbol: str
    target: str
    values: tuple[Value, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    steps: tuple[Step, ...]

    def value(self, name: str) -> Value:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Value]:
        return {v.name: v for v in self.values}


@dataclass(frozen=True)
class HostOp:
    """An operator that stays on the host.

    ``engine`` is ``xla`` (translated to JAX) or ``llvm`` (TVM's code); ``reason`` says why no target took it, and
    ``refused`` has the answer of each.
    """

    name: str
    op: str
    shape: tuple[int, ...]
    macs: int
    engine: Literal["xla", "llvm"]
    reason: str = ""
    refused: tuple[Refused, ...] = ()
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, eq=False)
class HostPart:
    """The host side of a network: a Relax module, as text or as it is in memory, and its operators.

    The module has ``main``, in which every region is a call to its symbol, and one function for each piece that XLA
    runs. Where XLA runs all of it, the ``plan`` takes the module's place: what ``planned`` gives when it is asked for.
    """

    text: str | None
    ops: tuple[HostOp, ...]
    module: Any = None
    planned: "Callable[[], HostPlan | None]" = lambda: None

    @cached_property
    def plan(self) -> "HostPlan | None":
        """The calls in order; None where TVM runs a part of the host."""
        return self.planned()

    @property
    def module_json(self) -> str:
        """The module with its constants as text, made when it is asked for."""
        if self.text is not None:
            return self.text
        from archloom.tvm_backend.ir import compat

        return compat.to_json(self.module)


@dataclass(frozen=True, eq=False)
class Partition:
    """Who runs what: enough to map and time a network without building it.

    ``target`` names one target, or several parted by commas in order of preference; then ``options`` have their names
    in full (see :mod:`archloom.tvm_backend.targets.choice`). ``fallbacks`` are what was done in another way than meant
    on the way here, ``memory`` the live ranges of its activations, where they are known; an artifact keeps none of them
    but in its report.
    """

    name: str
    source: str
    target: str
    options: Mapping[str, OptionValue]
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    regions: tuple[Region, ...]
    host: HostPart
    fallbacks: tuple[Fallback, ...] = ()
    memory: Memory | None = None

    def steps(self) -> Iterator[Step]:
        """All steps of all regions, in the order of execution."""
        for region in self.regions:
            yield from region.steps

    @property
    def offloaded_macs(self) -> int:
        return sum(step.macs for step in self.steps())

    @property
    def macs(self) -> int:
        """Multiply-accumulates of the whole network."""
        return self.offloaded_macs + sum(op.macs for op in self.host.ops)

    @property
    def offloaded_macs_share(self) -> float:
        """Part of the multiply-accumulates that the target runs; 0 for a network without any."""
        return self.offloaded_macs / self.macs if self.macs else 0.0


@dataclass(frozen=True, eq=False)
class CompiledModel(Partition):
    """A partitioned network with a plan (mapping, stream, timing) for each step, by the step's name.

    Steps of equal workloads share one plan; steps that differ in the scale of the epilogue alone share a mapping.
    """

    plans: "Mapping[str, Plan]" = field(default_factory=dict)

    @classmethod
    def of(cls, partition: Partition, plans: "Mapping[str, Plan]") -> "CompiledModel":
        return cls(**{f.name: getattr(partition, f.name) for f in fields(partition)}, plans=plans)
