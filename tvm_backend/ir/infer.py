"""Types of calls: what an operator gives for the types of its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from archloom.tvm_backend.ir.nodes import Call, Shape, ShapeType, TensorType, Tuple, TupleType, Type, Unsupported

FLAT = frozenset({
    "nn.relu", "clip", "sigmoid", "tanh", "erf", "exp", "sqrt", "rsqrt", "negative", "nn.gelu", "nn.gelu_tanh",
    "nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.rms_norm",
    "nn.leakyrelu", "nn.silu", "abs", "log", "floor", "ceil", "sin",
    "cos", "cumsum",
})
"""Operators whose result has the type of their first argument."""

ARITHMETIC = frozenset({"add", "subtract", "multiply", "divide", "power", "maximum", "minimum"})
COMPARISON = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "logical_and", "logical_or"})


def infer(call: Call) -> Type:
    """The type of ``call``; Unsupported for an operator that has no rule here or arguments that do not fit."""
    if not isinstance(call.op, str):
        raise Unsupported("the type of a call of a function")
    if call.op in FLAT:
        return _tensor(call.args[0])
    if call.op in ARITHMETIC or call.op in COMPARISON:
        a, b = (_tensor(arg) for arg in call.args)
        return TensorType(broadcast(a.shape, b.shape), "bool" if call.op in COMPARISON else a.dtype)
    rule = RULES.get(call.op)
    if rule is None:
        raise Unsupported(f"the type of {call.op}")
    return rule(call)


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape by NumPy's rule."""
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError as error:
        raise Unsupported(f"shapes that do not broadcast: {shapes}") from error


def _tensor(expr: Any) -> TensorType:
    ty = getattr(expr, "ty", None)
    if not isinstance(ty, TensorType):
        raise Unsupported("an argument that is no tensor")
    return ty


def _matmul(call: Call) -> TensorType:
    a, b = (_tensor(arg) for arg in call.args)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise Unsupported(f"a product of {a.shape} and {b.shape}")
    return TensorType((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), a.dtype)


def _extents(call: Call, kernel: tuple[int, ...]) -> tuple[int, ...]:
    """Spatial extents after a window; padding is all begins, then all ends."""
    attrs, image = call.attrs, _tensor(call.args[0]).shape[2:]
    n = len(kernel)
    pads = attrs.padding
    up = getattr(attrs, "ceil_mode", False)
    return tuple(
        (extent + pads[i] + pads[n + i] - attrs.dilation[i] * (kernel[i] - 1) - 1 + up * (attrs.strides[i] - 1))
        // attrs.strides[i] + 1
        for i, extent in enumerate(image)
    )


def _conv(call: Call) -> TensorType:
    data, kernel = (_tensor(arg) for arg in call.args)
    if len(data.shape) != len(kernel.shape) or data.shape[1] != kernel.shape[1] * call.attrs.groups:
        raise Unsupported(f"a convolution of {data.shape} by {kernel.shape}")
    return _positive((data.shape[0], kernel.shape[0], *_extents(call, kernel.shape[2:])), data.dtype)


def _pool(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    return _positive((*data.shape[:2], *_extents(call, call.attrs.pool_size)), data.dtype)


def _positive(shape: tuple[int, ...], dtype: str) -> TensorType:
    if min(shape) < 1:
        raise Unsupported(f"an empty result {shape}")
    return TensorType(shape, dtype)


def _mean(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    axes = {axis % len(data.shape) for axis in call.attrs.axis}
    kept = [1 if i in axes else d for i, d in enumerate(data.shape) if call.attrs.keepdims or i not in axes]
    return TensorType(tuple(kept), data.dtype)


def _reshape(call: Call) -> TensorType:
    data, shape = _tensor(call.args[0]), call.args[1]
    if not isinstance(shape, Shape) or math.prod(shape.values) != math.prod(data.shape):
        raise Unsupported(f"a reshape of {data.shape} to {getattr(shape, 'values', shape)}")
    return TensorType(shape.values, data.dtype)


def _permute(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    axes = call.attrs.axes
    if axes is None:
        axes = tuple(reversed(range(len(data.shape))))
    return TensorType(tuple(data.shape[i] for i in axes), data.dtype)


def _typed(call: Call) -> TensorType:
    """quantize and dequantize."""
    return TensorType(_tensor(call.args[0]).shape, call.attrs.out_dtype)


def _concat(call: Call) -> TensorType:
    fields = call.args[0]
    if not isinstance(fields, Tuple):
        raise Unsupported("a concatenation of something else than a tuple")
    types = [_tensor(f) for f in fields.fields]
    axis = call.attrs.axis % len(types[0].shape)
    shape = list(types[0].shape)
    shape[axis] = sum(t.shape[axis] for t in types)
    return TensorType(tuple(shape), types[0].dtype)


def _take(call: Call) -> TensorType:
    data, indices = (_tensor(arg) for arg in call.args)
    axis = call.attrs.axis % len(data.shape)
    return TensorType((*data.shape[:axis], *indices.shape, *data.shape[axis + 1:]), data.dtype)


def _where(call: Call) -> TensorType:
    condition, a, b = (_tensor(arg) for arg in call.args)
    return TensorType(broadcast(condition.shape, a.shape, b.shape), a.dtype)


def _expand_dims(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    shape = list(data.shape)
    for axis in call.attrs.axis:
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    return TensorType(tuple(shape), data.dtype)


def _squeeze(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    axes = call.attrs.axis
    if axes is None:
        return TensorType(tuple(d for d in data.shape if d != 1), data.dtype)
    dropped = {axis % len(data.shape) for axis in axes}
    return TensorType(tuple(d for i, d in enumerate(data.shape) if i not in dropped), data.dtype)


def _truth(call: Call) -> TensorType:
    return TensorType(_tensor(call.args[0]).shape, "bool")


def _astype(call: Call) -> TensorType:
    return TensorType(_tensor(call.args[0]).shape, call.attrs.dtype)


def _shape_of(call: Call) -> Type:
    return ShapeType(_tensor(call.args[0]).shape)


def _shape_to_tensor(call: Call) -> TensorType:
    shape = call.args[0].ty
    if not isinstance(shape, ShapeType):
        raise Unsupported("the numbers of something else than a shape")
    return TensorType((len(shape.values),), "int64")


def _broadcast_to(call: Call) -> TensorType:
    return TensorType(call.args[1].values, _tensor(call.args[0]).dtype)


def _slice(call: Call) -> TensorType:
    data, (axes, begins, ends, steps) = _tensor(call.args[0]), call.args[1:]
    shape = list(data.shape)
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        shape[axis] = len(range(*slice(begin, end, step).indices(shape[axis])))
    return _positive(tuple(shape), data.dtype)


def _split(call: Call) -> TupleType:
    data, sections = _tensor(call.args[0]), call.attrs.indices_or_sections
    axis = call.attrs.axis % len(data.shape)
    extent = data.shape[axis]
    if isinstance(sections, int):
        size = -(-extent // sections)
        cuts = [min(i * size, extent) for i in range(1, sections)]
    else:
        cuts = list(sections)
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, extent], strict=True)]
    return TupleType(tuple(
        _positive((*data.shape[:axis], size, *data.shape[axis + 1:]), data.dtype) for size in sizes))


def _gather_elements(call: Call) -> TensorType:
    return TensorType(_tensor(call.args[1]).shape, _tensor(call.args[0]).dtype)


def _gather_nd(call: Call) -> TensorType:
    data, indices, batch = _tensor(call.args[0]), _tensor(call.args[1]), call.attrs.batch_dims
    return TensorType((*indices.shape[:-1], *data.shape[batch + indices.shape[-1]:]), data.dtype)


def _pad(call: Call) -> TensorType:
    data, width = _tensor(call.args[0]), call.attrs.pad_width
    shape = tuple(extent + width[2 * i] + width[2 * i + 1] for i, extent in enumerate(data.shape))
    return _positive(shape, data.dtype)


def _resize(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    return _positive((*data.shape[:2], *call.args[1].values), data.dtype)


def _batch_norm(call: Call) -> TupleType:
    data, mean = _tensor(call.args[0]), _tensor(call.args[3])
    return TupleType((data, mean, mean))


RULES: dict[str, Callable[[Call], Type]] = {
    "matmul": _matmul, "nn.conv1d": _conv, "nn.conv2d": _conv, "nn.max_pool2d": _pool, "nn.avg_pool2d": _pool,
    "mean": _mean, "reshape": _reshape, "permute_dims": _permute, "quantize": _typed, "dequantize": _typed,
    "concat": _concat, "take": _take, "where": _where, "expand_dims": _expand_dims, "squeeze": _squeeze,
    "logical_not": _truth, "isnan": _truth, "astype": _astype, "shape_of": _shape_of, "variance": _mean, "sum": _mean,
    "max": _mean, "shape_to_tensor": _shape_to_tensor, "broadcast_to": _broadcast_to, "strided_slice": _slice,
    "split": _split, "gather_elements": _gather_elements, "gather_nd": _gather_nd, "image.resize2d": _resize,
    "nn.batch_norm": _batch_norm, "nn.pad": _pad,
}
