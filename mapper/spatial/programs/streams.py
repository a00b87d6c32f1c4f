"""Programs as streams: tensors in memory, one after the other, and whether there is room for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper.memory import align
from archloom.mapper.spatial.machines.machine import ISA, Machine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Node, Stream

TYPE = "float16"
"""Of all numbers in memory."""
Shapes: TypeAlias = tuple[tuple[str, tuple[int, ...]], ...]
"""Names and shapes of tensors in memory, in numbers; the result is the last."""


def placed(tensors: Iterable[tuple[str, tuple[int, ...]]]) -> list[HbmTensor]:
    """Tensors of these names and shapes, in numbers."""
    found: list[HbmTensor] = []
    for name, shape in tensors:
        found.append(HbmTensor(name, _end(found), shape, TYPE))
    return found


def program(machine: Machine, tensors: Sequence[HbmTensor], body: Iterable[Node], name: str) -> Stream:
    """The stream of a program that is given all tensors but the last one, which is its result."""
    *inputs, result = tensors
    return Stream(ISA, machine.isa_parameters, tuple(inputs), (result,), _end(tensors), tuple(body), name)


def check_memory(work: object, tensors: Shapes, graph: "ArchitectureGraph") -> None:
    """MappingError where a workload's operands and its result are more than memory holds."""
    needed, held = _end(placed(tensors)), graph.bytes_of("hbm")
    if needed > held:
        names = ", ".join(name for name, _ in tensors)
        raise MappingError(f"{work}: {names} take {needed} bytes of memory, of which {graph.name} has {held}")


def _end(tensors: Sequence[HbmTensor]) -> int:
    """What lies behind all of them."""
    return max((align(_behind(tensor)) for tensor in tensors), default=align(1))


def _behind(tensor: HbmTensor) -> int:
    return tensor.address + prod(tensor.shape) * np.dtype(tensor.dtype).itemsize
