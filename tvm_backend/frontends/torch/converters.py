"""Converters of ATen operators that TVM's importer lacks or gets wrong, for TVM 0.27."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.frontends.torch import quantized
from archloom.tvm_backend.frontends.torch.blocks import CALL
from archloom.tvm_backend.frontends.torch.site import Site, constant, dtype_name, sum_dtype
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.attention import HEADS_SWAPPED
from archloom.tvm_backend.ir.nodes import TensorType
from archloom.tvm_backend.ir.windows import Windows


def _attention(site: Site) -> Any:
    """[..., length, depth] to one attention operator, with boolean masks, grouped or shared heads and a scale."""
    query, key, value = site.first("query", "key", "value")
    given = site.node.kwargs
    if given.get("enable_gqa", False):
        groups = ir.shape_of(query)[-3] // ir.shape_of(key)[-3]
        key, value = (site.emit("repeat", x, groups, -3) for x in (key, value))
    outer = np.broadcast_shapes(*(ir.shape_of(x)[:-2] for x in (query, key, value)))
    query, key, value = (_of_heads(x, outer, site) for x in (query, key, value))
    mask = site.at(3, "attn_mask")
    if mask is not None and ir.dtype_of(mask) == "bool":
        dtype = ir.dtype_of(query)
        low, zero = (constant(v, dtype) for v in (np.finfo(dtype).min, 0))
        mask = site.emit("where", mask, zero, low)
    if mask is not None:  # TVM's operator takes no broadcast
        full = (*outer, ir.shape_of(query)[2], ir.shape_of(key)[2])
        mask = site.emit("broadcast_to", mask, full) if ir.shape_of(mask) != full else mask
        mask = _of_heads(mask, outer, site)
    causal = "TopLeft" if site.at(5, "is_causal", False) else None
    heads_last = [site.emit("permute_dims", x, list(HEADS_SWAPPED)) for x in (query, key, value)]
    scale = compat.float_immediate(given.get("scale"))
    result = site.emit("nn.attention", *heads_last, bias=mask, scale=scale, causal_mask=causal)
    result = site.emit("permute_dims", result, list(HEADS_SWAPPED))
    return result if len(outer) == 2 else site.emit("reshape", result, (*outer, *ir.shape_of(result)[2:]))


def _of_heads(x: Any, outer: tuple[int, ...], site: Site) -> Any:
    """An operand of attention, broadcast to the leading dimensions ``outer``, as [batch, heads, length, depth]."""
    inner = ir.shape_of(x)[-2:]
    if ir.shape_of(x) != (*outer, *inner):
        x = site.emit("broadcast_to", x, (*outer, *inner))
    if len(outer) == 2:
        return x
    return site.emit("reshape", x, (math.prod(outer[:-1]), *(outer[-1:] or (1,)), *inner))


def _cumsum(site: Site) -> Any:
    """TVM cannot sum booleans, and sums in the type of the numbers, whatever type is asked for."""
    x = site.at(0, "self")
    return site.emit("cumsum", site.cast(x, sum_dtype(site, x, 2)), int(site.at(1, "dim")))


def _equal(site: Site) -> Any:
    """TVM cannot compare booleans."""
    a, b = (site.emit("astype", x, "int8") if hasattr(x, "ty") and ir.dtype_of(x) == "bool" else x
            for x in site.first("self", "other"))
    return site.emit("equal", a, b if hasattr(b, "ty") else constant(b, ir.dtype_of(a)))


def _concatenate(site: Site) -> Any:
    """Leave out tensors without elements: torch takes any of shape [0], with which caches of keys and values begin, and
    rotations of all of a head leave nothing to pass on; TVM 0.27 refuses the former."""
    parts = [site.importer.env[part] for part in site.node.args[0]]
    parts = [part for part in parts if 0 not in ir.shape_of(part)] or parts[:1]
    return parts[0] if len(parts) == 1 else site.emit("concat", parts, axis=int(site.at(1, "dim", 0)))


def _linear(site: Site) -> Any:
    """TVM 0.27 gives float32, whatever the operands are."""
    if (result := quantized.linear_of_rows(site)) is not None:
        return result
    x, weight, bias = site.first("input", "weight", "bias")
    product = site.emit("matmul", x, site.emit("permute_dims", weight))
    return product if bias is None else site.emit("add", product, bias)


def _convolution(site: Site) -> Any:
    """TVM 0.27 gives float32, whatever the operands are."""
    x, weight, bias, stride, padding, dilation, transposed, output_padding, groups = (site.at(i) for i in range(9))
    more = {"output_padding": output_padding} if transposed else {}
    return _convolved(site, "_transpose" if transposed else "", (x, weight, bias), strides=stride, padding=padding,
                      dilation=dilation, groups=groups, **more)


def _conv2d(site: Site) -> Any:
    """As :func:`_convolution`."""
    return _convolved(site, "", site.first("input", "weight", "bias"), strides=site.at(3, "stride", 1),
                      padding=site.at(4, "padding", 0), dilation=site.at(5, "dilation", 1),
                      groups=site.at(6, "groups", 1))


def _convolved(site: Site, kind: str, operands: tuple[Any, ...], **given: Any) -> Any:
    x, weight, bias = operands
    rank = len(ir.shape_of(weight)) - 2
    result = site.emit(f"nn.conv{rank}d{kind}", x, weight, **given, out_dtype=ir.dtype_of(x))
    return result if bias is None else site.emit("add", result, site.emit("reshape", bias, (1, -1, *[1] * rank)))


def _windows(site: Site) -> Any:
    """``unfold`` of images: [n, c, h, w] → [n, c · taps, places]."""
    x = site.at(0, "self")
    kernel, dilation, padding, strides = ([int(v) for v in site.at(i)] for i in range(1, 5))
    n, c = ir.shape_of(x)[:2]
    pads = [pad for axis in range(2) for pad in (padding[axis], padding[axis])]
    if any(pads):
        x = site.emit("nn.pad", x, pad_width=[0, 0, 0, 0, *pads])
    height, width = ir.shape_of(x)[2:]
    form = Windows((kernel[0], kernel[1]), (strides[0], strides[1]), (0, 0, 0, 0), (dilation[0], dilation[1]), 1)
    index = form.index(height, width)
    pixels = site.emit("reshape", x, (n, c, height * width))
    found = site.emit("take", pixels, constant(index.reshape(-1)), axis=2, mode="clip")
    return site.emit("reshape", found, (n, c * index.shape[0], index.shape[1]))


def _nearest(site: Site) -> Any:
    """torch takes pixel ⌊i · scale⌋ in float32; TVM 0.27 imports it as rounding at the pixels' centres."""
    x, size, factors = site.first("input", "output_size", "scale_factors")
    for axis in (2, 3):
        old = ir.shape_of(x)[axis]
        new = int(size[axis - 2]) if size is not None else int(old * factors[axis - 2])
        scale = np.float32(1 / factors[axis - 2] if factors is not None else old / new)
        index = np.minimum(np.floor(np.arange(new, dtype=np.float32) * scale), old - 1).astype(np.int32)
        x = site.emit("take", x, constant(index), axis=axis, mode="clip")
    return x


def _extreme(op: str) -> Callable[[Site], Any]:
    """``amin`` and ``amax``."""
    return lambda site: site.emit(
        op, site.at(0, "self"), site.at(1, "dim", []) or None, bool(site.at(2, "keepdim", False)))


def _sum(site: Site) -> Any:
    """TVM adds bytes as bytes, whatever type is asked for; torch adds integers as int64 by default."""
    x = site.at(0, "self")
    x = site.cast(x, sum_dtype(site, x, 3))
    return site.emit("sum", x, site.at(1, "dim", None) or None, bool(site.at(2, "keepdim", False)))


# indices below zero, and several that belong together ---------------------------------------------------------------


def _select(site: Site) -> Any:
    """torch counts negative indices from the end; TVM 0.27 takes what lies before the tensor."""
    x, axis, index = site.first("self", "dim", "index")
    place = constant(int(index) % ir.shape_of(x)[int(axis)], "int64")
    return site.emit("take", x, place, axis=int(axis), mode="clip")


def _index(site: Site) -> Any:
    """``x[i, :, j]``: indices are broadcast to one another and belong together, those below zero count from the end.
    What they choose stands where they stood, or first if an axis without an index is between them. TVM 0.27 takes what
    lies before the tensor for negative indices, and every combination of some pairs of indices."""
    x, node = site.at(0, "self"), site.node
    shape, rank = ir.shape_of(x), len(ir.shape_of(x))
    given = {axis: site.importer.env[index] for axis, index in enumerate(node.args[1]) if index is not None}
    for index in given.values():
        if ir.dtype_of(index) == "bool":
            raise ModelError(f"node {node.name!r} (index): expected integers as indices, found a mask: the shape of "
                             "the result depends on its numbers")
    axes = list(given)
    others = [axis for axis in range(rank) if axis not in given]
    places = _places([_from_start(index, shape[axis], site) for axis, index in given.items()],
                     [shape[axis] for axis in axes], site)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if len(axes) == 1:
        return site.emit("take", x, places, axis=axes[0], mode="clip")
    if axes + others != list(range(rank)):
        x = site.emit("permute_dims", x, [*axes, *others])
    kept = [shape[axis] for axis in others]
    x = site.emit("reshape", x, (math.prod(shape[axis] for axis in axes), *kept))
    chosen = site.emit("take", x, places, axis=0, mode="clip")
    if not together or axes[0] == 0:
        return chosen
    made, before = len(ir.shape_of(places)), axes[0]
    order = [*range(made, made + before), *range(made), *range(made + before, made + len(others))]
    return site.emit("permute_dims", chosen, order)


def _from_start(index: Any, extent: int, site: Site) -> Any:
    """Indices, int64, with those below zero counted from the end."""
    zero, size = (constant(n, "int64") for n in (0, extent))
    index = site.cast(index, "int64")
    return site.emit("where", site.emit("less", index, zero), site.emit("add", index, size), index)


def _places(indices: Sequence[Any], extents: Sequence[int], site: Site) -> Any:
    """Places in the indexed axes taken together, the last counting fastest."""
    place = indices[0]
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        place = site.emit("add", site.emit("multiply", place, constant(extent, "int64")), index)
    return place


def _arange(site: Site) -> Any:
    """Numbers in equal steps; TVM 0.27 counts wrong where they go down."""
    result, args = site.node.meta["val"], site.node.args
    numbers = (0, *args) if len(args) == 1 else args
    start, _, step = (*numbers, 1)[:3]
    return constant(start + step * np.arange(result.shape[0]), dtype_name(result.dtype))


def _triangle(name: str) -> Callable[[Site], Any]:
    """``tril_indices`` and ``triu_indices``, which TVM 0.27 lacks: NumPy lists them in the same order."""
    def convert(site: Site) -> Any:
        rows, columns, offset = (site.at(i, n, 0) for i, n in enumerate(("row", "col", "offset")))
        return constant(np.stack(getattr(np, name)(rows, offset, columns)), dtype_name(site.node.meta["val"].dtype))

    return convert


def _block(site: Site) -> Any:
    """A call of a block that is imported by itself."""
    tensors, number = site.node.args
    types = [TensorType(tuple(value.shape), dtype_name(value.dtype)) for value in site.node.meta["val"]]
    call = compat.call_function(f"{CALL}{number}", [site.importer.env[t] for t in tensors], types)
    return site.importer.block_builder.emit(call)


_CONVERTERS: Mapping[str, Callable[[Site], Any]] = {
    "block.default": _block,
    "select.int": _select,
    "index.Tensor": _index,
    "scatter_add.default": lambda site: site.emit(  # TVM 0.27 has the operator, but no converter
        "scatter_elements", site.at(0, "self"), site.at(2, "index"), site.at(3, "src"), axis=int(site.at(1, "dim")),
        reduction="add"),
    "tril_indices.default": _triangle("tril_indices"),
    "triu_indices.default": _triangle("triu_indices"),
    **dict.fromkeys(("arange.default", "arange.start", "arange.start_step"), _arange),
    **quantized.CONVERTERS,
    "scaled_dot_product_attention.default": _attention,
    "cat.default": _concatenate,
    "cumsum.default": _cumsum,
    "upsample_nearest2d.vec": _nearest,
    "eq.Tensor": _equal,
    "amin.default": _extreme("min"),
    "amax.default": _extreme("max"),
    "sum.dim_IntList": _sum,
    "linear.default": _linear,
    "conv2d.default": _conv2d,
    "convolution.default": _convolution,
    **dict.fromkeys(("matmul.default", "mm.default", "bmm.default"), lambda site: site.emit(
        "matmul", site.at(0), site.at(1))),
    "im2col.default": _windows,
}


class OwnFault(Exception):
    """A mistake in a converter here, which no network is to blame for."""


def table() -> dict[str, Callable[[Any, Any], Any]]:
    """The converters as TVM calls them, by their operators."""
    def called(convert: Callable[[Site], Any]) -> Callable[[Any, Any], Any]:
        def run(node: Any, importer: Any) -> Any:
            try:
                return convert(Site(node, importer))
            except (AttributeError, NameError) as error:
                raise OwnFault(f"{node.target}: {error}") from error

        return run

    return {name: called(convert) for name, convert in _CONVERTERS.items()}
