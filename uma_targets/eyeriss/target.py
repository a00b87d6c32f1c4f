"""The UMA target ``eyeriss``: convolutions and products of quantized networks; and Eyeriss as an accelerator of the
compiler: options, graph, ISA, mapping space and emission."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.eyeriss import eyeriss
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.options import GraphOptions, Option
from archloom.mapper.space import Space
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Instr, Stream
from archloom.tvm_backend.compiled import Refuse
from archloom.tvm_backend.ir.expressions import IRModule
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import UMABackend, UMAPhase
from archloom.uma_targets.eyeriss.emit import ISA, Emission, product_nodes
from archloom.uma_targets.eyeriss.loops import Tensors
from archloom.uma_targets.eyeriss.plan import Bounds, Machine
from archloom.uma_targets.eyeriss.problem import Output, Problem, Shape, Strides, conv_shape
from archloom.uma_targets.eyeriss.space import convolutions, products, row_stationary
from archloom.uma_targets.kit import rules, strategies
from archloom.uma_targets.kit.gemm import gemm_of, sizes_of
from archloom.uma_targets.kit.nest import float_bits, repeat
from archloom.uma_targets.kit.patterns import fused

GRAPH = GraphOptions(eyeriss)
PSUM_BITS = 32
"""Width of partial sums in the compiler's Eyeriss: quantized networks add 8-bit products exactly. A bias is as wide."""


@dataclass(frozen=True)
class EyerissEmitter:
    """Streams for one set of the ISA's parameters."""

    parameters: tuple[tuple[str, int], ...]

    def emit(self, workload: Workload, mapping: TileMapping) -> Stream:
        """The stream; tensors are named, shaped and ordered as the workload's. MappingError if it does not fit."""
        memory, chosen, machine = Memory.of(workload), row_stationary(mapping), Bounds(**dict(self.parameters))
        addresses = {t.name: t.address for t in memory.tensors}
        if mapping.kind == "gemm":
            body = repeat("batch", sizes_of(workload)[0], lambda b: product_nodes(
                gemm_of(workload, addresses, memory.end, b), chosen, machine, number=b))
        else:
            body = Emission(_problem(workload, addresses), chosen, machine).nodes()
        return memory.stream(ISA, self.parameters, (Instr.make("config", fraction_bits=0), *body))


def _problem(workload: Workload, addresses: Mapping[str, int]) -> Problem:
    """A ``conv2d`` workload, its operands bytes with the channels of all groups last."""
    shape, epilogue, item = shape_of(workload), workload.epilogue, workload.output.item_bytes
    bits = float_bits(epilogue.scale) if epilogue.out_dtype == "int8" else None
    c, o, at = shape.c, shape.m, {name: Affine(address) for name, address in addresses.items()}
    pixel, result = c * shape.groups, o * item * shape.groups
    return Problem(
        shape, Strides(at["X"], (shape.h * shape.w * pixel, shape.w * pixel, pixel, 1)),
        Strides(at["W"], (1, o, shape.s * c * o, c * o, shape.r * shape.s * c * o)),
        Strides(at["Y"], (shape.e * shape.f * result, shape.f * result, result, item)),
        at["bias"] if epilogue.bias else None, Output(epilogue.relu, bits), 1)


def shape_of(workload: Workload) -> Shape:
    """The shape of a ``conv2d`` workload; MappingError for one that the dataflow does not run."""
    if workload.kind != "conv2d":
        raise MappingError(f"{workload.name}: expected a gemm or a conv2d, found {workload.kind}")
    n, h, w, _ = workload.inputs[0].shape
    kh, kw, c, o = workload.inputs[1].shape[-4:]
    if workload.stride[0] != workload.stride[1]:
        raise MappingError(f"{workload.name}: stride {workload.stride} differs along rows and columns")
    if workload.epilogue.pool is not None:
        raise MappingError(f"{workload.name}: no pooling follows a convolution here")
    return conv_shape(n, c, h, w, o, kh, kw, workload.stride[0], workload.padding, workload.groups)


def _space(workload: Workload, hardware: Hardware, options: Mapping[str, Any]) -> Space:
    machine = Machine.of(EYERISS.graph(options))
    tensors = Tensors(item=1, out_item=workload.output.item_bytes, channels_last=True, bias=workload.epilogue.bias)
    # as a matrix product its image may have any width
    if workload.kind == "gemm" or (workload.is_pointwise and workload.epilogue.out_dtype == "int8"):
        batch, m, n, k = sizes_of(workload)
        return products(workload.name, (m, n, k), machine, tensors, batch=batch)
    return convolutions(workload.name, shape_of(workload), machine, tensors)


def _graph(options: Mapping[str, Any]) -> ArchitectureGraph:
    mac = options["mac_picojoules"]
    return eyeriss(psum_bits=PSUM_BITS, mac_joules=None if mac is None else mac * 1e-12, **GRAPH.arguments(options))


EYERISS = Accelerator(
    "eyeriss", "row-stationary array of PEs for convolutions, int8 networks on 16-bit PEs (Eyeriss v1)",
    GRAPH.options({"lookahead": [Option(
        "mac_picojoules", float, None, "energy of a multiply-accumulate; what memories cost follows from it by the "
        "published ratios. By default that of the tables", 0.0, 1e6, unit="pJ")]}),
    ISA, _graph, lambda isa, options: EyerissEmitter(isa.parameters), _space, patience=5,
)


def equal_strides(op: QuantizedOp) -> str | None:
    """A convolution has the same stride along rows and columns: ifmap rows run along the diagonals of the array."""
    strides = tuple(op.attrs["strides"])
    return None if strides[0] == strides[1] else f"strides are {strides[0]} and {strides[1]}"


PRODUCTS = rules.AllOf("matmul", rules.INT8_MATMUL)
WINDOWS = rules.AllOf("nn.conv2d", rules.INT8_WINDOWS)
CONVOLUTIONS = rules.AllOf("nn.conv2d", (*rules.QUANTIZATION, rules.int32_bias, rules.undilated, equal_strides))


class Eyeriss(UMABackend):
    """Eyeriss v1: row-stationary array of 16-bit PEs; convolutions and products of int8 networks."""

    def __init__(self) -> None:
        super().__init__()
        for form in ("activation", "plain"):
            for anchor, predicate, strategy in (
                ("conv2d", CONVOLUTIONS, strategies.conv2d), ("matmul", PRODUCTS, strategies.matmul),
            ):
                self._register_pattern(f"{anchor}_{form}", partial(fused, anchor, form), predicate)
                self._register_operator_strategy(f"{anchor}_{form}", strategy)
        self._register_relax_pass(UMAPhase.PRE_PARTITIONING, self._gathered, takes_options=True)
        self._register_codegen("stream", lambda: EYERISS)

    def _gathered(self, module: IRModule, options: Mapping[str, Any], refuse: Refuse) -> IRModule:
        """Convolutions that the dataflow does not run (dilations, two strides) as products."""
        return rules.gathered(module, [WINDOWS], [CONVOLUTIONS], options)

    @property
    def target_name(self) -> str:
        return "eyeriss"
