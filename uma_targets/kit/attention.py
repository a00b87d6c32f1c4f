"""Attention as one operator of a kit's target: what an emission gets, and how a match becomes a workload."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.space import Space
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream
from archloom.tvm_backend.ir.attention import AttentionShape
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.passes.attention import LOWEST
from archloom.tvm_backend.targets.backend import Lowered, Verdict
from archloom.tvm_backend.targets.layouts import ROW_MAJOR
from archloom.uma_targets.kit.nest import Nodes, float_bits, repeat

Options: TypeAlias = Mapping[str, Any]
ITEM = 4
"""Bytes of a float32."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in HBM: the byte address of its first element, and bytes from one row to the next."""

    first: Affine
    stride: int

    def at(self, row: Affine | int, column: Affine | int) -> Affine:
        """Byte address of an element."""
        return self.first + Affine.of(row) * self.stride + Affine.of(column) * ITEM


@dataclass(frozen=True)
class Head:
    """One head: ``o[queries, values] = softmax(scale · (q · kᵀ + bias)) · v``, all float32.

    ``q`` [queries, depth], ``k`` [keys, depth], ``v`` [keys, values], ``bias`` [queries, keys] or None; addresses and
    ``number``, of the heads before it, are affine in enclosing loop variables.
    """

    queries: int
    keys: int
    depth: int
    values: int
    q: Matrix
    k: Matrix
    v: Matrix
    o: Matrix
    bias: Matrix | None
    scale: float
    number: Affine

    @property
    def scale_bits(self) -> int:
        """The factor as the bits of a float32, as an attribute of an instruction holds it."""
        return float_bits(self.scale)


@dataclass(frozen=True)
class Kernel:
    """How a target runs workloads of one kind that are no products: the stream of one for a mapping and the ISA's
    parameters, and the mappings (of workload, hardware and options)."""

    stream: Callable[[wl.Workload, TileMapping, tuple[tuple[str, int], ...]], Stream]
    space: Callable[[wl.Workload, Hardware, Options], Space]


@dataclass(frozen=True)
class AttentionKernel:
    """How a target computes attention as one operator.

    ``fits`` says for sizes and options whether it does: None, or what does not fit and what would. ``emit`` writes the
    instructions of one head for a mapping and the ISA's parameters (loop variables may have any name but ``batch`` and
    ``head``); ``space`` lists the mappings.
    """

    fits: Callable[[AttentionShape, Options], "tuple[str, str] | None"]
    emit: Callable[[Head, TileMapping, Mapping[str, int]], Nodes] = field(repr=False)
    space: "Callable[[wl.Workload, Hardware, Options], Space]" = field(repr=False)


def shape_of(workload: wl.Workload) -> AttentionShape:
    """The sizes of a workload of attention; MappingError for another one."""
    if workload.kind != "attention":
        raise MappingError(f"{workload.name}: expected attention, found {workload.kind}")
    return AttentionShape(*(workload.extent(d) for d in ("b", "h", "q", "k", "d", "e")))


def stream_of(
    isa: str, kernel: AttentionKernel, workload: wl.Workload, mapping: TileMapping,
    isa_parameters: tuple[tuple[str, int], ...],
) -> Stream:
    """The stream of all heads of a workload, whose tensors are [batch, length, heads, depth] each."""
    s, memory, parameters = shape_of(workload), Memory.of(workload), dict(isa_parameters)
    addresses = {t.name: t.address for t in memory.tensors}

    def matrix(name: str, length: int, width: int, batch: Affine, head: Affine) -> Matrix:
        row = s.heads * width * ITEM
        return Matrix(batch * (length * row) + head * (width * ITEM) + addresses[name], row)

    def one(batch: Affine, head: Affine) -> Nodes:
        bias = None
        if workload.epilogue.bias:
            row = s.keys * ITEM
            bias = Matrix(batch * (s.heads * s.queries * row) + head * (s.queries * row) + addresses["bias"], row)
        return kernel.emit(Head(
            s.queries, s.keys, s.depth, s.values, matrix("Q", s.queries, s.depth, batch, head),
            matrix("K", s.keys, s.depth, batch, head), matrix("V", s.keys, s.values, batch, head),
            matrix("O", s.queries, s.values, batch, head), bias, workload.epilogue.scale, batch * s.heads + head),
            mapping, parameters)

    return memory.stream(isa, isa_parameters, repeat("batch", s.batch, lambda b: repeat(
        "head", s.heads, lambda h: one(b, h))))


def sizes(op: QuantizedOp) -> AttentionShape:
    """The sizes of a match: operands are [batch, length, heads, depth]."""
    query, key, value = (t.shape for t in op.operands[:3])
    batch, queries, heads, depth = query
    return AttentionShape(batch, heads, queries, key[1], depth, value[-1])


def predicate(kernel: AttentionKernel, defaults: Options) -> Callable[[QuantizedOp, Options], Verdict]:
    """Whether a target takes a match; ``defaults`` are those of its options."""

    def takes(op: QuantizedOp, options: Options) -> Verdict:
        misfit = kernel.fits(sizes(op), {**defaults, **options})
        return Verdict(True, "it fits") if misfit is None else Verdict(False, *misfit)

    return takes


def strategy(op: QuantizedOp) -> Lowered:
    """A workload with its constants. A bias is added before scores are scaled: a constant one is divided for that."""
    s, scale = sizes(op), float(op.attrs["scale"])
    biased = len(op.operands) > 3
    if biased and op.operands[3].array is None and scale != 1.0:
        raise MappingError(f"{op.name}: expected scaled queries where a computed bias is added, found scale {scale:g}")
    work = wl.attention(s.batch, s.heads, s.queries, s.keys, s.depth, s.values, name=op.name,
                        epilogue=wl.Epilogue(biased, scale, False, "float32"))
    inputs, constants = [], {}
    for position, (tensor, operand) in enumerate(zip(work.inputs, op.operands, strict=True)):
        if operand.array is None:
            inputs.append((tensor.name, position))
        else:
            array = operand.array / np.float32(scale) if tensor.name == "bias" else operand.array
            constants[tensor.name] = np.ascontiguousarray(np.maximum(array, LOWEST) if tensor.name == "bias" else array)
    return Lowered(work, "attention+bias" if biased else "attention", tuple(inputs), constants, ROW_MAJOR)


def rows_of(extent: int, dim: int) -> int:
    """Rows of the tiles that an extent is cut into."""
    return math.ceil(extent / dim) * dim
