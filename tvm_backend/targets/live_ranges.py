"""Live ranges of a partitioned network's tensors: what its operators read and make, in the order in which they run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from archloom.tvm_backend.compiled import HostOp, Region, TensorSpec
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.nodes import TensorType
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.memory import LiveRange, Memory


@dataclass(frozen=True)
class Bound:
    """A variable of a partitioned ``main``, bound at a ``position``.

    ``reads``: positions of what it is made of; inputs of the network have -1, -2, ... ``is_view``: it has the bytes of
    what it reads under another shape.
    """

    position: int
    reads: tuple[int, ...]
    bytes: int
    is_view: bool = False


@dataclass(frozen=True)
class Flow:
    """The variables in the order in which they are computed, and the positions of the network's results."""

    bound: tuple[Bound, ...] = ()
    results: tuple[int, ...] = ()


def flow_of(main: ir.Function, order: Sequence[int]) -> Flow:
    """The flow of ``main``, whose bindings are computed in ``order``."""
    bindings = ir.bindings(main)
    number = {param: -1 - i for i, param in enumerate(main.params)}
    number.update((binding.var, i) for i, binding in enumerate(bindings))

    def read(value: Any) -> tuple[int, ...]:
        return tuple(dict.fromkeys(number[var] for var in ir.variables(value) if var in number))

    bound = tuple(Bound(i, read(bindings[i].value), _bytes(bindings[i].var), _is_view(bindings[i].value))
                  for i in order)
    return Flow(bound, tuple(dict.fromkeys(i for result in ir.outputs_of(main) for i in read(result))))


def _is_view(value: Any) -> bool:
    return operator(ir.op_name(value)).cost == "free"


def _bytes(var: Any) -> int:
    """Of a tensor, or of all tensors of a tuple."""
    return sum(bytes_of(t.shape, t.dtype) for t in ir.fields_of(ir.type_of(var)) if isinstance(t, TensorType))


def bytes_of(shape: Sequence[int], dtype: str) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize


def memory_of(
    flow: Flow, inputs: Sequence[TensorSpec], regions: Sequence[Region], host: Sequence[HostOp]
) -> Memory:
    """The live ranges of what layers hand each other; a variable that is made by no layer (a view, or the first of two
    operators that are one layer) stands for what it is made of."""
    names = {op.position: op.name for op in host}
    names.update((step.position, step.name) for region in regions for step in region.steps)
    return _Counting(flow, inputs, names).memory()


class _Counting:
    def __init__(self, flow: Flow, inputs: Sequence[TensorSpec], names: Mapping[int, str]) -> None:
        self.flow, self.names = flow, names
        self.ranges = [LiveRange(spec.name, bytes_of(spec.shape, spec.dtype), 0, -1) for spec in inputs]
        self.stands_for: dict[int, tuple[int, ...]] = {-1 - i: (i,) for i in range(len(inputs))}

    def memory(self) -> Memory:
        layers: list[str] = []
        for bound in self.flow.bound:
            read = tuple(dict.fromkeys(self._tensors(bound.reads)))
            if bound.position in self.names:
                layers.append(self.names[bound.position])
                self._live_to(read, len(layers) - 1)
            self.stands_for[bound.position] = read
            if read and bound.position in self.names and not bound.is_view:  # what reads nothing is made of constants
                self.stands_for[bound.position] = (len(self.ranges),)
                self.ranges.append(LiveRange(layers[-1], bound.bytes, len(layers) - 1, len(layers) - 1))
        self._live_to(tuple(self._tensors(self.flow.results)), len(layers) - 1)
        return Memory(tuple(layers), tuple(r for r in self.ranges if r.last >= r.first))

    def _tensors(self, positions: Sequence[int]) -> Iterator[int]:
        for position in positions:
            yield from self.stands_for.get(position, ())

    def _live_to(self, tensors: Sequence[int], layer: int) -> None:
        for number in tensors:
            found = self.ranges[number]
            self.ranges[number] = LiveRange(found.name, found.bytes, found.first, max(found.last, layer))
