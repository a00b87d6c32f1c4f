"""Quantized convolutions and matmuls that stay on the host, computed in integers.

A QDQ network states them in floats (dequantize, operate, quantize), where rounding errors of the sums decide ties.
Integer kernels, onnxruntime's among them, add exact int32 sums and round once; the host does the same, so that what a
target refuses (a depthwise convolution, say, or scales per channel) still gives the same numbers everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from archloom.tvm_backend.host.output_stage import saturated
from archloom.tvm_backend.host.sums import scaling_stage, unit
from archloom.tvm_backend.ir.match import NotQuantized, QTensor, QuantizedOp, Stage, read

EXACT_IN_FLOAT32 = 1 << 24
"""Integers below are float32 numbers, and so are all partial sums of a sum that stays below."""


@dataclass(frozen=True, eq=False)
class IntegerOp:
    """A quantized operator as a function of its operands: ``run(*operands)`` gives the requantized result, and
    depends on ``content`` besides."""

    operands: tuple[Any, ...]
    run: Callable[..., Any]
    content: tuple[Any, ...]


def integer_operator(root: Any, lookup: Callable[[Any], Any]) -> IntegerOp | None:
    """The operator that ends in the ``quantize`` at ``root`` in integers; None for anything else.

    ``operands`` of the result are the variables and constants (arrays) to call it with.
    """
    try:
        op = read(root, lookup)
    except NotQuantized:
        return None
    if op.anchor == "add" or not _is_plain(op):
        return None
    sums = _convolution(op) if op.anchor == "nn.conv2d" else _matmul(op)
    requantize = _requantization(op)
    if sums is None or requantize is None:
        return None
    operands = tuple(t.var if t.array is None else t.array for t in op.operands)
    tensors = [replace(t, var=None, array=None) for t in op.operands]
    return IntegerOp(operands, lambda x, w: requantize(sums(x, w)), (
        op.anchor, op.shape, op.attrs, *tensors, op.bias and replace(op.bias, var=None), op.bias_shape, *op.stages))


def _is_plain(op: QuantizedOp) -> bool:
    """Bytes in, an optional ReLU, one quantization to bytes out, with one scale each but for constant weights."""
    kinds = [stage.kind for stage in op.stages]
    data, weights = op.operands
    bytes_in = all(t.dtype in ("int8", "uint8") for t in op.operands)
    one_scale = data.scale.size == 1 and (weights.scale.size == 1 or weights.is_constant)
    last: Stage = op.stages[-1]
    return (
        kinds in (["quantize"], ["relu", "quantize"]) and bytes_in and one_scale and not np.any(weights.zero_point)
        and last.dtype in ("int8", "uint8") and last.scale is not None and last.scale.size == 1
    )


def _reach(op: QuantizedOp, terms: int) -> int:
    """Bound of the absolute value of a sum of ``terms`` products."""
    largest = [255 if t.dtype == "uint8" or np.any(t.zero_point) else 128 for t in op.operands]
    return terms * largest[0] * largest[1]


def _convolution(op: QuantizedOp) -> Callable[[Any, Any], Any] | None:
    kernel, attrs = op.operands[1], op.attrs
    if any(t.permutation for t in op.operands) or attrs["data_layout"] != "NCHW" or attrs["kernel_layout"] != "OIHW":
        return None
    dtype = jnp.float32 if _reach(op, math.prod(kernel.shape[1:])) < EXACT_IN_FLOAT32 else jnp.int32
    top, left, bottom, right = attrs["padding"]

    def sums(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            _centred(x, op.operands[0]).astype(dtype), w.astype(dtype), attrs["strides"],
            ((top, bottom), (left, right)),
            rhs_dilation=attrs["dilation"], feature_group_count=attrs["groups"],
            dimension_numbers=("NCHW", "OIHW", "NCHW"), precision=lax.Precision.HIGHEST,
        ).astype(jnp.int32)

    return sums


def _matmul(op: QuantizedOp) -> Callable[[Any, Any], Any] | None:
    if op.operands[1].scale.size > 1:
        return None

    def sums(a: Any, b: Any) -> Any:
        left, right = (
            _centred(v, t).transpose(t.permutation) if t.permutation else _centred(v, t)
            for v, t in zip((a, b), op.operands, strict=True)
        )
        return jnp.matmul(left, right, preferred_element_type=jnp.int32)

    return sums


def _centred(x: Any, tensor: QTensor) -> Any:
    """The integers minus their zero point; bytes stay bytes where it is 0."""
    zero = int(tensor.zero_point.reshape(-1)[0])
    if zero == 0 and tensor.dtype == "int8":
        return x
    return x.astype(jnp.int32) - zero


def _requantization(op: QuantizedOp) -> Callable[[Any], Any] | None:
    """What :func:`~archloom.tvm_backend.host.sums.scaling_stage` makes of sums and a bias of int32; None for other
    biases."""
    shape = (-1, 1, 1) if op.anchor == "nn.conv2d" else (-1,)
    bias = np.zeros((), np.int32)
    if op.bias is not None:
        fits = np.allclose(op.bias.scale, unit(op).reshape(-1), rtol=1e-6, atol=0) and not np.any(op.bias.zero_point)
        if op.bias.array is None or op.bias.dtype != "int32" or not fits:
            return None
        bias = op.bias.array.reshape(op.bias_shape)
    stage = scaling_stage(op)

    def requantize(sums: Any) -> Any:
        total = (sums + bias).astype(jnp.float32) * stage.scale.reshape(shape)
        return saturated(total, stage.zero_point, stage.low, stage.high)

    return requantize
