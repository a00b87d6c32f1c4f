"""How operators become workloads: shapes, constants in the workload's layout, the epilogue."""

from __future__ import annotations

import math

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.nests import HALVES
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import Lowered
from archloom.tvm_backend.targets.layouts import NHWC, ROW_MAJOR
from archloom.uma_targets.kit.rules import has_relu, pointwise_convolution, pool_stage, requantization_scale


def matmul(op: QuantizedOp) -> Lowered:
    """[..., m, k] x [k, n], where all leading dimensions are rows, or a batch of [m, k] x [k, n]."""
    a, b = op.operands[:2]
    *lead, m, k = a.read_shape
    n = b.read_shape[-1]
    batched = len(b.read_shape) > 2 and b.read_shape[:-2] == a.read_shape[:-2]
    rows, batch = (m, math.prod(lead)) if batched else (m * math.prod(lead), 1)
    own = batched and op.bias is not None and math.prod(op.bias.shape) > n
    work = wl.gemm(rows, n, k, batch=batch, epilogue=epilogue(op), shared_b=not batched, name=op.name, dtype=a.dtype,
                   shared_bias=not own)
    constants = {name: laid_out(array, work.inputs[2].shape) for name, array in bias(op).items()}
    inputs: tuple[tuple[str, int], ...] = (("A", 0), ("B", 1))
    if b.array is not None:
        array = b.array.transpose(b.permutation) if b.permutation else b.array
        constants = {"B": laid_out(array, work.inputs[1].shape), **constants}
        inputs = (("A", 0),)
    inputs = (*inputs, *residual(op))
    return Lowered(work, label("batch_matmul" if batched else "dense", op), inputs, constants, ROW_MAJOR)


def pointwise(op: QuantizedOp) -> Lowered:
    """A 1 x 1 convolution: the pixels, channels last in memory, are the rows of A."""
    data, kernel = op.operands
    n, c, h, w = data.shape
    o = kernel.shape[0]
    assert kernel.array is not None
    work = wl.gemm(n * h * w, o, c, epilogue=epilogue(op), name=op.name, dtype=data.dtype)
    constants = {"B": laid_out(kernel.array.reshape(o, c).T), **bias(op)}
    return Lowered(work, label("conv2d", op), (("A", 0),), constants, NHWC)


def conv2d(op: QuantizedOp) -> Lowered:
    """NCHW in the network, channels last in memory; the OIHW kernel becomes [kh, kw, c, o], that of several groups
    [g, kh, kw, c, o]."""
    data, kernel = op.operands
    n, _, h, w = data.shape
    o, c, kh, kw = kernel.shape
    groups = op.attrs["groups"]
    sh, sw = op.attrs["strides"]
    dh, dw = op.attrs["dilation"]
    top, left, bottom, right = op.attrs["padding"]
    assert kernel.array is not None
    work = wl.conv2d(
        n, h, w, c, o // groups, kh, kw, stride=(sh, sw), padding=(top, left, bottom, right), dilation=(dh, dw),
        groups=groups, epilogue=epilogue(op), name=op.name)
    array = kernel.array.reshape(groups, o // groups, c, kh, kw).transpose(0, 3, 4, 2, 1)
    constants = {"W": laid_out(array, work.inputs[1].shape), **bias(op)}
    return Lowered(work, label("conv2d", op), (("X", 0),), constants, NHWC)


def in_place(op: QuantizedOp) -> Lowered:
    """A convolution whose channels are last in the network, too, HWIO by NHWC."""
    data, kernel = op.operands[:2]
    assert kernel.array is not None
    n, h, w, c = data.shape
    kh, kw, _, o = kernel.shape
    work = wl.conv2d(n, h, w, c, o, kh, kw, stride=tuple(op.attrs["strides"]), dilation=tuple(op.attrs["dilation"]),
                     epilogue=epilogue(op), name=op.name, dtype=data.dtype)
    constants = {"W": laid_out(kernel.array), **bias(op)}
    return Lowered(work, label("conv2d", op), (("X", 0), *residual(op)), constants, ROW_MAJOR)


def any_conv2d(op: QuantizedOp) -> Lowered:
    """A product where the convolution is one."""
    return pointwise(op) if pointwise_convolution(op) is None else conv2d(op)


def add(op: QuantizedOp) -> Lowered:
    """Element by element, whatever the shape."""
    shape = op.operands[0].shape
    work = wl.add(math.prod(shape), epilogue=epilogue(op), name=op.name)
    return Lowered(work, label("add", op), (("A", 0), ("B", 1)), {}, NHWC if len(shape) == 4 else ROW_MAJOR)


def epilogue(op: QuantizedOp) -> wl.Epilogue:
    """Bias, factor, activation and pooling of the operator; the type of its result."""
    if op.epilogue is not None:
        return op.epilogue
    if op.operands[0].dtype in ("float32", *HALVES):
        return wl.Epilogue(op.bias is not None, 1.0, has_relu(op), "float32", residual=op.residual)
    return wl.Epilogue(op.bias is not None, requantization_scale(op), has_relu(op), "int8", _pool(op))


def _pool(op: QuantizedOp) -> wl.Pool | None:
    stage = pool_stage(op)
    if stage is None:
        return None
    top, left, bottom, right = stage.attrs["padding"]
    return wl.Pool(stage.attrs["pool_size"][0], stage.attrs["strides"][0], (top, left, bottom, right))


def residual(op: QuantizedOp) -> tuple[tuple[str, int], ...]:
    """The argument that is added to the result, if there is one: it lies as that."""
    return (("residual", len(op.operands) - 1),) if op.residual else ()


def laid_out(array: np.ndarray, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """A constant as it lies in memory; a weight without numbers, as estimates read it, takes no room here either."""
    shape = array.shape if shape is None else shape
    if array.size > 1 and not any(array.strides):
        return np.broadcast_to(array[(0,) * array.ndim], shape)
    return np.ascontiguousarray(array).reshape(shape)


def bias(op: QuantizedOp) -> dict[str, np.ndarray]:
    """The constant ``bias``, if there is one."""
    if op.bias is None or op.bias.array is None:
        return {}
    return {"bias": np.ascontiguousarray(op.bias.array.reshape(-1))}


def label(base: str, op: QuantizedOp) -> str:
    fused = {"bias": op.bias is not None, "residual": op.residual, "relu": has_relu(op),
             "max_pool": pool_stage(op) is not None}
    return "+".join([base, *(name for name, there in fused.items() if there)])
