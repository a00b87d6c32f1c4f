"""The UMA target ``eyeriss``: convolutions and products of quantized networks."""

from __future__ import annotations

from functools import partial

from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import UMABackend
from archloom.uma_targets.eyeriss.accelerator import EYERISS
from archloom.uma_targets.kit import rules, strategies
from archloom.uma_targets.kit.patterns import fused


def equal_strides(op: QuantizedOp) -> str | None:
    """A convolution has the same stride along rows and columns: ifmap rows run along the diagonals of the array."""
    strides = tuple(op.attrs["strides"])
    return None if strides[0] == strides[1] else f"strides are {strides[0]} and {strides[1]}"


PRODUCTS = rules.AllOf("matmul", rules.INT8_MATMUL)
CONVOLUTIONS = rules.AllOf("nn.conv2d", (*rules.QUANTIZATION, rules.int32_bias, rules.plain_convolution, equal_strides))


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
        self._register_codegen("stream", lambda: EYERISS)

    @property
    def target_name(self) -> str:
        return "eyeriss"
