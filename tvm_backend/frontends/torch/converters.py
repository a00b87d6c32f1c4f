"""Converters of ATen operators that TVM's importer lacks or gets wrong, for TVM 0.27.

``importer`` is TVM's, ``node`` the fx node; what a converter gives is bound to a variable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.frontends.torch import indexing as torch_indexing
from archloom.tvm_backend.frontends.torch import quantized as torch_quantized
from archloom.tvm_backend.frontends.torch.indexing import argument
from archloom.tvm_backend.ir import expressions as ir


def _attention(node: Any, importer: Any) -> Any:
    """[..., length, depth] to one attention operator, with boolean masks, grouped or shared heads and a scale."""
    from archloom.tvm_backend.ir import compat

    emit = importer.block_builder.emit
    query, key, value = (argument(node, importer, i, n) for i, n in enumerate(("query", "key", "value")))
    if node.kwargs.get("enable_gqa", False):
        groups = ir.shape_of(query)[-3] // ir.shape_of(key)[-3]
        key, value = (emit(compat.relax_op("repeat")(x, groups, -3)) for x in (key, value))
    outer = np.broadcast_shapes(*(ir.shape_of(x)[:-2] for x in (query, key, value)))
    query, key, value = (_of_heads(x, outer, emit) for x in (query, key, value))
    mask = argument(node, importer, 3, "attn_mask")
    if mask is not None and ir.dtype_of(mask) == "bool":
        dtype = ir.dtype_of(query)
        low, zero = (compat.constant(np.asarray(v, dtype)) for v in (np.finfo(dtype).min, 0))
        mask = emit(compat.relax_op("where")(mask, zero, low))
    if mask is not None:  # TVM's operator takes no broadcast
        full = (*outer, ir.shape_of(query)[2], ir.shape_of(key)[2])
        mask = emit(compat.relax_op("broadcast_to")(mask, full)) if ir.shape_of(mask) != full else mask
        mask = _of_heads(mask, outer, emit)
    causal = "TopLeft" if argument(node, importer, 5, "is_causal", False) else None
    heads_last = [emit(compat.relax_op("permute_dims")(x, [0, 2, 1, 3])) for x in (query, key, value)]
    scale = compat.float_immediate(node.kwargs.get("scale"))
    result = emit(compat.relax_op("nn.attention")(*heads_last, bias=mask, scale=scale, causal_mask=causal))
    result = emit(compat.relax_op("permute_dims")(result, [0, 2, 1, 3]))
    if len(outer) == 2:
        return result
    return emit(compat.relax_op("reshape")(result, (*outer, *ir.shape_of(result)[2:])))


def _of_heads(x: Any, outer: tuple[int, ...], emit: Any) -> Any:
    """An operand of attention, broadcast to the leading dimensions ``outer``, as [batch, heads, length, depth]."""
    from archloom.tvm_backend.ir import compat

    inner = ir.shape_of(x)[-2:]
    if ir.shape_of(x) != (*outer, *inner):
        x = emit(compat.relax_op("broadcast_to")(x, (*outer, *inner)))
    if len(outer) == 2:
        return x
    return emit(compat.relax_op("reshape")(x, (math.prod(outer[:-1]), *(outer[-1:] or (1,)), *inner)))


def _cumsum(node: Any, importer: Any) -> Any:
    """TVM cannot sum booleans, and sums in the type of the numbers, whatever type is asked for."""
    from archloom.tvm_backend.ir import compat

    x, dtype = argument(node, importer, 0, "self"), argument(node, importer, 2, "dtype")
    integer = ir.dtype_of(x).startswith(("int", "uint", "bool"))
    wanted = str(dtype).removeprefix("torch.") if dtype is not None else "int64" if integer else ir.dtype_of(x)
    if ir.dtype_of(x) != wanted:
        x = importer.block_builder.emit(compat.relax_op("astype")(x, wanted))
    return importer.block_builder.emit(compat.relax_op("cumsum")(x, int(argument(node, importer, 1, "dim"))))


def _equal(node: Any, importer: Any) -> Any:
    """TVM cannot compare booleans."""
    from archloom.tvm_backend.ir import compat

    def as_integer(x: Any) -> Any:
        if hasattr(x, "ty") and ir.dtype_of(x) == "bool":
            return importer.block_builder.emit(compat.relax_op("astype")(x, "int8"))
        return x

    a, b = (as_integer(argument(node, importer, i, n)) for i, n in enumerate(("self", "other")))
    if not hasattr(b, "ty"):
        b = compat.constant(np.asarray(b, ir.dtype_of(a)))
    return importer.block_builder.emit(compat.relax_op("equal")(a, b))


def _concatenate(node: Any, importer: Any) -> Any:
    """Leave out tensors without elements: torch takes any of shape [0], with which caches of keys and values begin, and
    rotations of all of a head leave nothing to pass on; TVM 0.27 refuses the former."""
    from archloom.tvm_backend.ir import compat

    parts = [importer.env[part] for part in node.args[0]]
    parts = [part for part in parts if 0 not in ir.shape_of(part)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    axis = int(argument(node, importer, 1, "dim", 0))
    return importer.block_builder.emit(compat.relax_op("concat")(parts, axis=axis))


def _linear(node: Any, importer: Any) -> Any:
    """TVM 0.27 gives float32, whatever the operands are."""
    from archloom.tvm_backend.ir import compat

    emit = importer.block_builder.emit
    if (result := torch_quantized.linear_of_rows(node, importer)) is not None:
        return result
    x, weight, bias = (argument(node, importer, i, name) for i, name in enumerate(("input", "weight", "bias")))
    product = emit(compat.relax_op("matmul")(x, emit(compat.relax_op("permute_dims")(weight))))
    return product if bias is None else emit(compat.relax_op("add")(product, bias))


def _matmul(node: Any, importer: Any) -> Any:
    """As :func:`_linear`, of any two tensors."""
    from archloom.tvm_backend.ir import compat

    a, b = (argument(node, importer, i, "") for i in range(2))
    return importer.block_builder.emit(compat.relax_op("matmul")(a, b))


def _windows(node: Any, importer: Any) -> Any:
    """``unfold`` of images: [n, c, h, w] → [n, c · taps, places]."""
    from archloom.tvm_backend.ir import compat
    from archloom.tvm_backend.ir.windows import Windows

    emit = importer.block_builder.emit
    x = argument(node, importer, 0, "self")
    kernel, dilation, padding, strides = ([int(v) for v in argument(node, importer, i, "")] for i in range(1, 5))
    n, c = ir.shape_of(x)[:2]
    pads = [pad for axis in range(2) for pad in (padding[axis], padding[axis])]
    if any(pads):
        x = emit(compat.relax_op("nn.pad")(x, pad_width=[0, 0, 0, 0, *pads]))
    height, width = ir.shape_of(x)[2:]
    form = Windows((kernel[0], kernel[1]), (strides[0], strides[1]), (0, 0, 0, 0), (dilation[0], dilation[1]), 1)
    index = form.index(height, width)
    pixels = emit(compat.relax_op("reshape")(x, (n, c, height * width)))
    found = emit(compat.relax_op("take")(pixels, compat.constant(index.reshape(-1)), axis=2, mode="clip"))
    return emit(compat.relax_op("reshape")(found, (n, c * index.shape[0], index.shape[1])))


def _nearest(node: Any, importer: Any) -> Any:
    """torch takes pixel ⌊i · scale⌋ in float32; TVM 0.27 imports it as rounding at the pixels' centres."""
    from archloom.tvm_backend.ir import compat

    names = ("input", "output_size", "scale_factors")
    x, size, factors = (argument(node, importer, i, name) for i, name in enumerate(names))
    for axis in (2, 3):
        old = ir.shape_of(x)[axis]
        new = int(size[axis - 2]) if size is not None else int(old * factors[axis - 2])
        scale = np.float32(1 / factors[axis - 2] if factors is not None else old / new)
        index = np.minimum(np.floor(np.arange(new, dtype=np.float32) * scale), old - 1).astype(np.int32)
        x = importer.block_builder.emit(compat.relax_op("take")(x, compat.constant(index), axis=axis, mode="clip"))
    return x


def _extreme(name: str) -> Callable[[Any, Any], Any]:
    """``amin`` and ``amax``."""
    def convert(node: Any, importer: Any) -> Any:
        from archloom.tvm_backend.ir import compat

        axes = argument(node, importer, 1, "dim", []) or None
        keep = bool(argument(node, importer, 2, "keepdim", False))
        x = argument(node, importer, 0, "self")
        return importer.block_builder.emit(compat.relax_op(name)(x, axes, keep))

    return convert


def _sum(node: Any, importer: Any) -> Any:
    """TVM adds bytes as bytes, whatever type is asked for; torch adds integers as int64 by default."""
    from archloom.tvm_backend.ir import compat

    emit, x = importer.block_builder.emit, argument(node, importer, 0, "self")
    dtype = argument(node, importer, 3, "dtype")
    integer = ir.dtype_of(x).startswith(("int", "uint", "bool"))
    name = str(dtype).removeprefix("torch.") if dtype is not None else "int64" if integer else ir.dtype_of(x)
    if name != ir.dtype_of(x):
        x = emit(compat.relax_op("astype")(x, name))
    axes = argument(node, importer, 1, "dim", None) or None
    return emit(compat.relax_op("sum")(x, axes, bool(argument(node, importer, 2, "keepdim", False))))


CONVERTERS: Mapping[str, Callable[[Any, Any], Any]] = {
    **torch_indexing.CONVERTERS,
    **torch_quantized.CONVERTERS,
    "scaled_dot_product_attention.default": _attention,
    "cat.default": _concatenate,
    "cumsum.default": _cumsum,
    "upsample_nearest2d.vec": _nearest,
    "eq.Tensor": _equal,
    "amin.default": _extreme("min"),
    "amax.default": _extreme("max"),
    "sum.dim_IntList": _sum,
    "linear.default": _linear,
    "matmul.default": _matmul,
    "mm.default": _matmul,
    "bmm.default": _matmul,
    "im2col.default": _windows,
}
