"""What is refused of an imported network: tensors without elements, or too many, and numbers that are none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.names import node
from archloom.tvm_backend.ir.nodes import is_plain

MAX_TENSOR_BYTES = 1 << 36
"""A network with a larger tensor is refused (64 GiB)."""
PRODUCTS = frozenset({"matmul", "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose"})
"""Operators whose constants are weights: an infinite one makes every result infinite, or no number."""


def refuse_oversized(module: ir.IRModule, name: str) -> None:
    """ModelError naming the input, or the operator, that has more elements than a machine holds."""
    for shape, what in _tensors(module, name):
        if math.prod(shape) > MAX_TENSOR_BYTES:
            raise ModelError(f"{what}: expected a tensor of at most {MAX_TENSOR_BYTES} elements, found shape "
                             f"{'x'.join(map(str, shape))}")


def refuse_impossible(module: ir.IRModule, name: str) -> None:
    """ModelError naming the operator whose result has no element, or whose constants are not finite where they are
    weights, or no numbers anywhere; scales of quantization must be positive."""
    for shape, what in _tensors(module, name):
        if 0 in shape:
            raise ModelError(f"{what}: expected a tensor with elements, found shape {'x'.join(map(str, shape))}")
    for binding in ir.bindings(module["main"]):
        op = ir.op_name(binding.value)
        if op is not None and not is_plain(module):
            for position, argument in enumerate(binding.value.args):
                if ir.is_constant(argument):
                    _refuse_numbers(op, position, ir.const_value(argument), f"{name}: {node(binding.var.name, op)}")


def _tensors(module: ir.IRModule, name: str) -> Iterator[tuple[tuple[int, ...], str]]:
    """Shapes of the inputs, and of the results that outputs are made of, and whose they are."""
    main = module["main"]
    used = {var for expr in ir.outputs_of(main) for var in ir.variables(expr)}
    for binding in reversed(ir.bindings(main)):
        if binding.var in used:
            used.update(ir.variables(binding.value))
    for param in main.params:
        if ir.is_tensor(param):
            yield ir.shape_of(param), f"{name}: input {param.name!r}"
    for binding in ir.bindings(main):
        if binding.var in used and ir.is_tensor(binding.var):
            op = ir.op_name(binding.value) or "a constant"
            yield ir.shape_of(binding.var), f"{name}: {node(binding.var.name, op)}: its result"


def _refuse_numbers(op: str, position: int, array: Any, what: str) -> None:
    if array.dtype.kind != "f" or not array.size:
        return
    low, high = float(array.min()), float(array.max())  # not a number, if one is
    if math.isnan(low):
        count = int(np.isnan(array).sum())
        raise ModelError(f"{what}: its constant of shape {_show(array)} has {count} that "
                         f"{'is' if count == 1 else 'are'} not a number (NaN)")
    if op in PRODUCTS and not (math.isfinite(low) and math.isfinite(high)):
        count = int(np.isinf(array).sum())
        raise ModelError(f"{what}: expected finite weights, found {count} infinite of shape {_show(array)}")
    if op in ("quantize", "dequantize") and position == 1 and not 0 < low <= high < math.inf:
        raise ModelError(f"{what}: expected a positive scale, found {low if low <= 0 else high:g}")


def _show(array: Any) -> str:
    return "x".join(map(str, array.shape)) or "scalar"
