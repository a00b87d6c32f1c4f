"""How matrix products and 1 x 1 convolutions become ``gemm`` workloads, with their constants in its layout."""

from __future__ import annotations

import math

import numpy as np

from mapper import workload as wl
from tvm_backend.uma.backend import Lowered
from tvm_backend.uma.match import QuantizedOp
from uma_targets.kit.rules import has_relu, requantization_scale


def matmul(op: QuantizedOp) -> Lowered:
    """[..., m, k] x [k, n], where all leading dimensions are rows, or a batch of [m, k] x [k, n]."""
    a, b = op.operands
    *lead, m, k = a.read_shape
    n = b.read_shape[-1]
    batched = len(b.read_shape) > 2
    rows, batch = (m, math.prod(lead)) if batched else (m * math.prod(lead), 1)
    work = wl.gemm(
        rows, n, k, batch=batch, epilogue=epilogue(op), shared_b=not batched, name=op.name, dtype=a.dtype
    )
    constants = bias(op)
    inputs: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))
    if b.array is not None:
        array = b.array.transpose(b.permutation) if b.permutation else b.array
        constants = {"B": np.ascontiguousarray(array).reshape(work.inputs[1].shape), **constants}
        inputs = (("A", 0),)
    return Lowered(work, label("batch_matmul" if batched else "dense", op), inputs, constants, "row-major")


def pointwise(op: QuantizedOp) -> Lowered:
    """A 1 x 1 convolution: the pixels, channels last in memory, are the rows of A."""
    data, kernel = op.operands
    n, c, h, w = data.shape
    o = kernel.shape[0]
    assert kernel.array is not None
    work = wl.gemm(n * h * w, o, c, epilogue=epilogue(op), name=op.name, dtype=data.dtype)
    constants = {"B": np.ascontiguousarray(kernel.array.reshape(o, c).T), **bias(op)}
    return Lowered(work, label("conv2d", op), (("A", 0),), constants, "nhwc")


def epilogue(op: QuantizedOp) -> wl.Epilogue:
    """Bias, factor and activation of the operator; the type of its result."""
    if op.operands[0].dtype == "float32":
        return wl.Epilogue(op.bias is not None, 1.0, has_relu(op), "float32")
    return wl.Epilogue(op.bias is not None, requantization_scale(op), has_relu(op), "int8")


def bias(op: QuantizedOp) -> dict[str, np.ndarray]:
    """The constant ``bias``, if there is one."""
    if op.bias is None or op.bias.array is None:
        return {}
    return {"bias": np.ascontiguousarray(op.bias.array.reshape(-1))}


def label(base: str, op: QuantizedOp) -> str:
    """``base`` with what is fused to it."""
    parts = [base]
    if op.bias is not None:
        parts.append("bias")
    if has_relu(op):
        parts.append("relu")
    return "+".join(parts)
