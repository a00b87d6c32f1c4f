"""How the operators that Gemmini takes become workloads: shapes, constants in the workload's layout, the epilogue."""

from __future__ import annotations

import math

import numpy as np

from mapper import workload as wl
from tvm_backend.compiled import Layout
from tvm_backend.uma.backend import Lowered
from tvm_backend.uma.match import QuantizedOp
from uma_targets.gemmini.predicates import pool_stage
from uma_targets.kit.rules import has_relu, requantization_scale


def conv2d(op: QuantizedOp) -> Lowered:
    """NCHW in the network, channels last in memory; the OIHW kernel becomes [kh, kw, c, o]."""
    data, kernel = op.operands
    n, c, h, w = data.shape
    o, _, kh, kw = kernel.shape
    sh, sw = op.attrs["strides"]
    top, left, bottom, right = op.attrs["padding"]
    assert kernel.array is not None
    work = wl.conv2d(
        n, h, w, c, o, kh, kw, stride=(sh, sw), padding=(top, left, bottom, right), epilogue=_epilogue(op), name=op.name
    )
    constants = {"W": np.ascontiguousarray(kernel.array.transpose(2, 3, 1, 0)), **_bias(op)}
    return Lowered(work, _label("conv2d", op), (("X", 0),), constants, "nhwc")


def matmul(op: QuantizedOp) -> Lowered:
    """[..., m, k] x [k, n], where all leading dimensions are rows, or a batch of [m, k] x [k, n]."""
    a, b = op.operands
    *lead, m, k = a.read_shape
    n = b.read_shape[-1]
    batched = len(b.read_shape) > 2
    rows, batch = (m, math.prod(lead)) if batched else (m * math.prod(lead), 1)
    work = wl.gemm(rows, n, k, batch=batch, epilogue=_epilogue(op), shared_b=not batched, name=op.name)
    constants = _bias(op)
    inputs: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))
    if b.array is not None:
        array = b.array.transpose(b.permutation) if b.permutation else b.array
        constants = {"B": np.ascontiguousarray(array).reshape(work.inputs[1].shape), **constants}
        inputs = (("A", 0),)
    return Lowered(work, _label("batch_matmul" if batched else "dense", op), inputs, constants, "row-major")


def add(op: QuantizedOp) -> Lowered:
    """Element by element, whatever the shape."""
    shape = op.operands[0].shape
    work = wl.add(math.prod(shape), epilogue=_epilogue(op), name=op.name)
    layout: Layout = "nhwc" if len(shape) == 4 else "row-major"
    return Lowered(work, _label("add", op), (("A", 0), ("B", 1)), {}, layout)


def _epilogue(op: QuantizedOp) -> wl.Epilogue:
    pool = pool_stage(op)
    shape = None
    if pool is not None:
        top, left, bottom, right = pool.attrs["padding"]
        shape = wl.Pool(pool.attrs["pool_size"][0], pool.attrs["strides"][0], (top, left, bottom, right))
    return wl.Epilogue(op.bias is not None, requantization_scale(op), has_relu(op), "int8", shape)


def _bias(op: QuantizedOp) -> dict[str, np.ndarray]:
    if op.bias is None or op.bias.array is None:
        return {}
    return {"bias": np.ascontiguousarray(op.bias.array.reshape(-1))}


def _label(base: str, op: QuantizedOp) -> str:
    parts = [base]
    if op.bias is not None:
        parts.append("bias")
    if has_relu(op):
        parts.append("relu")
    if pool_stage(op) is not None:
        parts.append("max_pool")
    return "+".join(parts)
