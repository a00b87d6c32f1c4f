"""Types of plain calls: what an operator gives for the types of its arguments, one function a rule.

:mod:`archloom.tvm_backend.ir.operators` says which rule is whose; arguments that do not fit raise Unsupported.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from archloom.tvm_backend.ir.nodes import Call, Shape, ShapeType, TensorType, Tuple, TupleType, Unsupported


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


def first(call: Call) -> TensorType:
    """That of the first argument."""
    return _tensor(call.args[0])


def of_dtype(dtype: Callable[[Call], str]) -> Callable[[Call], TensorType]:
    """The shape of the first argument, in another type."""
    return lambda call: TensorType(_tensor(call.args[0]).shape, dtype(call))


truth = of_dtype(lambda call: "bool")
astype = of_dtype(lambda call: str(call.attrs.dtype))
of_out_dtype = of_dtype(lambda call: str(call.attrs.out_dtype))
"""quantize and dequantize."""


def arithmetic(call: Call) -> TensorType:
    """Two tensors, broadcast, in the first one's type."""
    a, b = (_tensor(arg) for arg in call.args)
    return TensorType(broadcast(a.shape, b.shape), a.dtype)


def comparison(call: Call) -> TensorType:
    """Truths of two tensors, broadcast."""
    return TensorType(arithmetic(call).shape, "bool")


def attention(call: Call) -> TensorType:
    """[batch, queries, heads, depth of the values]."""
    query, value = _tensor(call.args[0]), _tensor(call.args[2])
    return TensorType((*query.shape[:3], value.shape[3]), query.dtype)


def matmul(call: Call) -> TensorType:
    a, b = (_tensor(arg) for arg in call.args)
    if len(a.shape) < 2 or len(b.shape) < 2 or a.shape[-1] != b.shape[-2]:
        raise Unsupported(f"a product of {a.shape} and {b.shape}")
    return TensorType((*broadcast(a.shape[:-2], b.shape[:-2]), a.shape[-2], b.shape[-1]), _summed(call, a.dtype))


def _summed(call: Call, dtype: str) -> str:
    """The type of a product's sums: that of its operands, unless it names another."""
    return str(getattr(call.attrs, "out_dtype", None) or dtype)


def _extents(call: Call, kernel: tuple[int, ...], image: tuple[int, ...]) -> tuple[int, ...]:
    """Spatial extents after a window; padding is all begins, then all ends. Rounded up, windows that would begin in the
    padding behind are left out."""
    attrs, found = call.attrs, list[int]()
    up = getattr(attrs, "ceil_mode", False)
    for i, extent in enumerate(image):
        before, after, stride = attrs.padding[i], attrs.padding[len(kernel) + i], attrs.strides[i]
        rest = extent + before + after - attrs.dilation[i] * (kernel[i] - 1) - 1
        places = (rest + up * (stride - 1)) // stride + 1
        found.append(places - (up and (places - 1) * stride >= extent + before))
    return tuple(found)


def convolution(call: Call) -> TensorType:
    data, kernel = (_tensor(arg) for arg in call.args)
    last = call.attrs.data_layout.endswith("C")
    image, windows = (data.shape[1:-1], kernel.shape[:-2]) if last else (data.shape[2:], kernel.shape[2:])
    channels = data.shape[-1] if last else data.shape[1]
    entering, leaving = kernel.shape[-2:] if last else kernel.shape[1::-1]
    if len(data.shape) != len(kernel.shape) or channels != entering * call.attrs.groups:
        raise Unsupported(f"a convolution of {data.shape} by {kernel.shape}")
    extents = _extents(call, windows, image)
    shape = (data.shape[0], *extents, leaving) if last else (data.shape[0], leaving, *extents)
    return _positive(shape, _summed(call, data.dtype))


def pool(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    last = call.attrs.layout.endswith("C")
    shape = (data.shape[0], data.shape[-1], *data.shape[1:-1]) if last else data.shape
    n, c, *image = (*shape[:2], *_extents(call, call.attrs.pool_size, shape[2:]))
    return _positive((n, *image, c) if last else (n, c, *image), data.dtype)


def _positive(shape: tuple[int, ...], dtype: str) -> TensorType:
    if min(shape) < 1:
        raise Unsupported(f"an empty result {shape}")
    return TensorType(shape, dtype)


def reduction(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    axes = {axis % len(data.shape) for axis in call.attrs.axis}
    kept = [1 if i in axes else d for i, d in enumerate(data.shape) if call.attrs.keepdims or i not in axes]
    return TensorType(tuple(kept), data.dtype)


def reshape(call: Call) -> TensorType:
    data, shape = _tensor(call.args[0]), call.args[1]
    if not isinstance(shape, Shape) or math.prod(shape.values) != math.prod(data.shape):
        raise Unsupported(f"a reshape of {data.shape} to {getattr(shape, 'values', shape)}")
    return TensorType(shape.values, data.dtype)


def permute(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    axes = call.attrs.axes
    if axes is None:
        axes = tuple(reversed(range(len(data.shape))))
    return TensorType(tuple(data.shape[i] for i in axes), data.dtype)


def concat(call: Call) -> TensorType:
    fields = call.args[0]
    if not isinstance(fields, Tuple):
        raise Unsupported("a concatenation of something else than a tuple")
    types = [_tensor(f) for f in fields.fields]
    axis = call.attrs.axis % len(types[0].shape)
    shape = list(types[0].shape)
    shape[axis] = sum(t.shape[axis] for t in types)
    return TensorType(tuple(shape), types[0].dtype)


def stack(call: Call) -> TensorType:
    """Tensors of one shape along a new axis."""
    fields = call.args[0]
    if not isinstance(fields, Tuple) or len({_tensor(f).shape for f in fields.fields}) != 1:
        raise Unsupported("a stack of something else than tensors of one shape")
    data, axis = _tensor(fields.fields[0]), call.attrs.axis
    axis %= len(data.shape) + 1
    return TensorType((*data.shape[:axis], len(fields.fields), *data.shape[axis:]), data.dtype)


def take(call: Call) -> TensorType:
    data, indices = (_tensor(arg) for arg in call.args)
    axis = call.attrs.axis % len(data.shape)
    return TensorType((*data.shape[:axis], *indices.shape, *data.shape[axis + 1:]), data.dtype)


def where(call: Call) -> TensorType:
    condition, a, b = (_tensor(arg) for arg in call.args)
    return TensorType(broadcast(condition.shape, a.shape, b.shape), a.dtype)


def expand_dims(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    shape = list(data.shape)
    for axis in call.attrs.axis:
        shape.insert(axis if axis >= 0 else axis + len(shape) + 1, 1)
    return TensorType(tuple(shape), data.dtype)


def squeeze(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    axes = call.attrs.axis
    if axes is None:
        return TensorType(tuple(d for d in data.shape if d != 1), data.dtype)
    dropped = {axis % len(data.shape) for axis in axes}
    return TensorType(tuple(d for i, d in enumerate(data.shape) if i not in dropped), data.dtype)


def shape_of(call: Call) -> ShapeType:
    return ShapeType(_tensor(call.args[0]).shape)


def shape_to_tensor(call: Call) -> TensorType:
    shape = call.args[0].ty
    if not isinstance(shape, ShapeType):
        raise Unsupported("the numbers of something else than a shape")
    return TensorType((len(shape.values),), "int64")


def broadcast_to(call: Call) -> TensorType:
    return TensorType(call.args[1].values, _tensor(call.args[0]).dtype)


def tile(call: Call) -> TensorType:
    data, repeats = _tensor(call.args[0]), tuple(call.attrs.repeats)
    shape = (1,) * (len(repeats) - len(data.shape)) + data.shape
    often = (1,) * (len(shape) - len(repeats)) + repeats
    return TensorType(tuple(d * r for d, r in zip(shape, often, strict=True)), data.dtype)


def strided_slice(call: Call) -> TensorType:
    data, (axes, begins, ends, steps) = _tensor(call.args[0]), call.args[1:]
    shape = list(data.shape)
    for axis, begin, end, step in zip(axes, begins, ends, steps, strict=True):
        shape[axis] = len(range(*slice(begin, end, step).indices(shape[axis])))
    return _positive(tuple(shape), data.dtype)


def split(call: Call) -> TupleType:
    data, sections = _tensor(call.args[0]), call.attrs.indices_or_sections
    axis = call.attrs.axis % len(data.shape)
    extent = data.shape[axis]
    if isinstance(sections, int):
        size = -(-extent // sections)
        cuts = [min(i * size, extent) for i in range(1, sections)]
    else:
        cuts = list(sections)
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, extent], strict=True)]
    return TupleType(tuple(_positive((*data.shape[:axis], size, *data.shape[axis + 1:]), data.dtype) for size in sizes))


def gather_elements(call: Call) -> TensorType:
    return TensorType(_tensor(call.args[1]).shape, _tensor(call.args[0]).dtype)


def gather_nd(call: Call) -> TensorType:
    data, indices, batch = _tensor(call.args[0]), _tensor(call.args[1]), call.attrs.batch_dims
    return TensorType((*indices.shape[:-1], *data.shape[batch + indices.shape[-1]:]), data.dtype)


def pad(call: Call) -> TensorType:
    data, width = _tensor(call.args[0]), call.attrs.pad_width
    shape = tuple(extent + width[2 * i] + width[2 * i + 1] for i, extent in enumerate(data.shape))
    return _positive(shape, data.dtype)


def resize(call: Call) -> TensorType:
    data = _tensor(call.args[0])
    return _positive((*data.shape[:2], *call.args[1].values), data.dtype)


def batch_norm(call: Call) -> TupleType:
    data, mean = _tensor(call.args[0]), _tensor(call.args[3])
    return TupleType((data, mean, mean))
