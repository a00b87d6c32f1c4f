"""Relax operators as JAX functions: how XLA runs the heavy part of the host.

Each entry takes the call (for its attributes) and its arguments as JAX arrays, tuples of integers (shapes) or Python
numbers, and computes what TVM's own code computes. :mod:`archloom.tvm_backend.host.functions` makes functions of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from archloom.oracle.taidl.operators.carriers import uncontracted
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import resizing
from archloom.tvm_backend.ir.attention import attention_scale, causal_diagonal
from archloom.tvm_backend.ir.operators import operator, slices

Translation: TypeAlias = Callable[..., Any]
UNROLLED = 64
"""Windows up to this size are summed in onnxruntime's order."""


def _axes(call: ir.Call, name: str = "axis") -> tuple[int, ...] | None:
    """Axes of a reduction: None means all."""
    return None if ir.attr(call, name) is None else ir.attr_ints(call, name)


def _reduction(function: Callable[..., Any]) -> Translation:
    return lambda call, x: function(x, axis=_axes(call), keepdims=bool(ir.attr(call, "keepdims")))


def _convolution(call: ir.Call, x: Any, kernel: Any) -> Any:
    pads = ir.attr_ints(call, "padding")
    spatial = len(pads) // 2
    return lax.conv_general_dilated(
        x, kernel, ir.attr_ints(call, "strides"), [(pads[i], pads[i + spatial]) for i in range(spatial)],
        rhs_dilation=ir.attr_ints(call, "dilation"), feature_group_count=int(ir.attr(call, "groups")),
        dimension_numbers=(
            ir.attr(call, "data_layout"), ir.attr(call, "kernel_layout"),
            ir.attr(call, "out_layout") or ir.attr(call, "data_layout"),
        ),
        preferred_element_type=jnp.dtype(ir.dtype_of(call)),
    )


def _end_padded(call: ir.Call, spatial: Sequence[int]) -> list[int]:
    """A pooling's padding, begins then ends; with ``ceil_mode`` the ends are what the last windows need."""
    pads = list(ir.attr_ints(call, "padding"))
    if not ir.attr(call, "ceil_mode"):
        return pads
    size, strides, dilation = (ir.attr_ints(call, n) for n in ("pool_size", "strides", "dilation"))
    for i, axis in enumerate(spatial):
        reach = (ir.shape_of(call)[axis] - 1) * strides[i] + (size[i] - 1) * dilation[i] + 1
        pads[i + len(spatial)] = reach - ir.shape_of(call.args[0])[axis] - pads[i]
    return pads


@dataclass(frozen=True)
class _Window:
    """A pooling's window for each axis of its data."""

    size: tuple[int, ...]
    strides: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]

    @staticmethod
    def of(call: ir.Call) -> "_Window":
        layout = ir.attr(call, "layout")
        spatial = [layout.index(axis) for axis in "DHW" if axis in layout]
        pads = _end_padded(call, spatial)

        def spread(values: Sequence[Any], default: Any) -> tuple[Any, ...]:
            by_axis = dict(zip(spatial, values))
            return tuple(by_axis.get(axis, default) for axis in range(len(layout)))

        return _Window(
            spread(ir.attr_ints(call, "pool_size"), 1), spread(ir.attr_ints(call, "strides"), 1),
            spread(ir.attr_ints(call, "dilation"), 1),
            spread([(pads[i], pads[i + len(spatial)]) for i in range(len(spatial))], (0, 0)),
        )

    def sum(self, x: Any) -> Any:
        """Sums of the windows, element by element in row-major order: the order decides how floats are rounded."""
        x = jnp.pad(x, self.padding)
        reach = [(s - 1) * d + 1 for s, d in zip(self.size, self.dilation)]
        extents = [(n - r) // s + 1 for n, r, s in zip(x.shape, reach, self.strides)]
        total = None
        for offset in np.ndindex(*self.size):
            starts = [o * d for o, d in zip(offset, self.dilation)]
            ends = [o + (n - 1) * s + 1 for o, n, s in zip(starts, extents, self.strides)]
            part = lax.slice(x, starts, ends, self.strides)
            total = part if total is None else total + part
        return total

    def reduce(self, x: Any, initial: Any, combine: Callable[..., Any]) -> Any:
        return lax.reduce_window(
            x, initial, combine, self.size, self.strides, self.padding, window_dilation=self.dilation
        )

    def counts(self, shape: Sequence[int]) -> np.ndarray:
        """How many elements of the data each window holds; broadcasts against the result."""
        total = np.ones((1,) * len(shape))
        for axis, extent in enumerate(shape):
            if self.size[axis] == 1:
                continue
            low, high = self.padding[axis]
            inside = np.pad(np.ones(extent), (low, high))
            reach = (self.size[axis] - 1) * self.dilation[axis] + 1
            starts = range(0, len(inside) - reach + 1, self.strides[axis])
            counted = np.array([inside[s : s + reach : self.dilation[axis]].sum() for s in starts])
            total = total * counted.reshape([-1 if a == axis else 1 for a in range(len(shape))])
        return total


def _max_pool(call: ir.Call, x: Any) -> Any:
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
    return _Window.of(call).reduce(x, np.asarray(lowest, x.dtype), lax.max)


def _avg_pool(call: ir.Call, x: Any) -> Any:
    window = _Window.of(call)
    size = math.prod(window.size)
    total = window.sum(x) if size <= UNROLLED else window.reduce(x, np.zeros((), x.dtype), lax.add)
    inclusive = bool(ir.attr(call, "count_include_pad"))
    return _quotient(total, np.asarray(size) if inclusive else window.counts(x.shape))


def _quotient(x: Any, y: Any) -> Any:
    """``x / y`` as IEEE rounds it in x's type; XLA's own division of float32 multiplies by a reciprocal."""
    return (x.astype(jnp.float64) / y.astype(jnp.float64)).astype(x.dtype)


def _divide(a: Any, b: Any) -> Any:
    """Integers towards 0, of two types as well: TVM has places of the largest numbers in int32, ONNX in int64."""
    if jnp.issubdtype(a.dtype, jnp.floating):
        return _quotient(a, b)
    dtype = jnp.promote_types(a.dtype, b.dtype)
    return lax.div(*jnp.broadcast_arrays(a.astype(dtype), b.astype(dtype)))


def _product(a: Any, b: Any) -> Any:
    """``a * b``, rounded before anything is added to it."""
    product = a * b
    return uncontracted(product) if jnp.issubdtype(product.dtype, jnp.floating) else product


def _attention(call: ir.Call, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    """[batch, length, heads, depth] each; ``bias`` is added to the scores."""
    scores = jnp.einsum("bsnh,btnh->bnst", query, key) * attention_scale(call)
    if bias is not None:
        scores = scores + bias
    diagonal = causal_diagonal(call)
    if diagonal is not None:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool), diagonal), scores, -jnp.inf)
    return jnp.einsum("bnst,btnh->bsnh", jax.nn.softmax(scores, axis=-1), value)


def _along(call: ir.Call, parameter: Any, ndim: int) -> Any:
    """A scale or zero point, shaped to broadcast along the call's axis."""
    if parameter.ndim == 0 or parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * ndim
    shape[int(ir.attr(call, "axis"))] = -1
    return parameter.reshape(shape)


def _quantize(call: ir.Call, x: Any, scale: Any, zero: Any) -> Any:
    """``saturate(round_half_even(x / scale) + zero)``; NaN is the least number, as with onnxruntime."""
    limits = np.iinfo(ir.dtype_of(call))
    scale, zero = _along(call, scale, x.ndim), _along(call, zero, x.ndim)
    moved = jnp.round(_quotient(x, scale)) + zero.astype(x.dtype)
    return jnp.where(moved >= limits.min, jnp.minimum(moved, limits.max), limits.min)


def _dequantize(call: ir.Call, x: Any, scale: Any, zero: Any) -> Any:
    """``(x - zero) * scale``; see :func:`byte_table` for bytes of one scale."""
    scale, zero = _along(call, scale, x.ndim), _along(call, zero, x.ndim)
    return uncontracted((x.astype(jnp.int32) - zero.astype(jnp.int32)).astype(scale.dtype) * scale)


def byte_table(dtype: str, scale: np.ndarray, zero: np.ndarray) -> np.ndarray:
    """What each byte of ``dtype`` stands for, the smallest first.

    A product would be joined with what follows and rounded once, and would have to be told not to; it takes no longer.
    """
    limits = np.iinfo(dtype)
    integers = np.arange(limits.min, limits.max + 1, dtype=np.int32) - zero.astype(np.int32).reshape(())
    return np.asarray(integers.astype(scale.dtype) * scale.reshape(()))


def looked_up(x: Any, table: Any) -> Any:
    """Bytes dequantized by their :func:`byte_table`."""
    lowest = np.iinfo(x.dtype).min
    return jnp.asarray(table).at[x.astype(jnp.int32) - lowest].get(mode="promise_in_bounds")


def _strided_slice(call: ir.Call, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    return x[slices(x.shape, axes, begin, end, strides)]


def _pad(call: ir.Call, x: Any) -> Any:
    widths = np.array(ir.attr_ints(call, "pad_width")).reshape(-1, 2)
    mode = ir.attr(call, "pad_mode")
    if mode == "constant":
        return jnp.pad(x, widths, constant_values=ir.attr(call, "pad_value"))
    return jnp.pad(x, widths, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def _split(call: ir.Call, x: Any) -> Any:
    where = ir.attr(call, "indices_or_sections")
    return tuple(jnp.split(x, where if isinstance(where, int) else list(where), axis=int(ir.attr(call, "axis"))))


def _take(call: ir.Call, x: Any, indices: Any) -> Any:
    axis = ir.attr(call, "axis")
    return jnp.take(x.reshape(-1) if axis is None else x, indices, axis=0 if axis is None else int(axis), mode="clip")


# transposed convolutions, normalizations, resizing -----------------------------------------------------------------


def _conv_transpose(call: ir.Call, x: Any, kernel: Any) -> Any:
    """A convolution over the data with ``stride - 1`` zeros between their elements, with the kernel mirrored."""
    pads = ir.attr_ints(call, "padding")
    spatial = len(pads) // 2
    strides, dilation = ir.attr_ints(call, "strides"), ir.attr_ints(call, "dilation")
    extra, groups = ir.attr_ints(call, "output_padding"), int(ir.attr(call, "groups"))
    axes = tuple(range(2, 2 + spatial))  # layouts are NC… and IO…: see :mod:`archloom.tvm_backend.host.rules`
    inputs, outputs = kernel.shape[:2]
    mirrored = jnp.flip(kernel, axes).reshape(groups, inputs // groups, outputs, *kernel.shape[2:])
    mirrored = jnp.swapaxes(mirrored, 1, 2).reshape(groups * outputs, inputs // groups, *kernel.shape[2:])
    reach = [(kernel.shape[2 + i] - 1) * dilation[i] for i in range(spatial)]
    padding = [(reach[i] - pads[i], reach[i] - pads[i + spatial] + extra[i]) for i in range(spatial)]
    letters = "DHW"[3 - spatial:]
    return lax.conv_general_dilated(
        x, mirrored, (1,) * spatial, padding, lhs_dilation=strides, rhs_dilation=dilation, feature_group_count=groups,
        dimension_numbers=(f"NC{letters}", f"OI{letters}", f"NC{letters}"),
        preferred_element_type=jnp.dtype(ir.dtype_of(call)),
    )


def _group_norm(call: ir.Call, x: Any, gamma: Any, beta: Any) -> Any:
    """Normalization over groups of channels and the axes of ``axes``."""
    channel, groups = int(ir.attr(call, "channel_axis")) % x.ndim, int(ir.attr(call, "num_groups"))
    axes = [a % x.ndim for a in ir.attr_ints(call, "axes")]
    parts = x.reshape(*x.shape[:channel], groups, x.shape[channel] // groups, *x.shape[channel + 1:])
    over = (channel + 1, *(a + (a >= channel) for a in axes))
    return _scaled(call, _standardized(call, parts, over).reshape(x.shape), gamma, beta, channel)


def _standardized(call: ir.Call, x: Any, axes: Any) -> Any:
    """``(x - mean) / sqrt(variance + epsilon)`` along ``axes``, in float32 at least: squares of float16 overflow."""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    mean = jnp.mean(wide, axes, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), axes, keepdims=True)
    return ((wide - mean) * lax.rsqrt(variance + float(ir.attr(call, "epsilon")))).astype(x.dtype)


def _scaled(call: ir.Call, y: Any, gamma: Any, beta: Any, channel: int) -> Any:
    """``y * gamma + beta`` along an axis, as far as the call asks for it."""
    shape = [1] * y.ndim
    shape[channel] = -1
    y = y * gamma.reshape(shape) if ir.attr(call, "scale") else y
    return y + beta.reshape(shape) if ir.attr(call, "center") else y


def _instance_norm(call: ir.Call, x: Any, gamma: Any, beta: Any) -> Any:
    """Normalization of each channel of each sample."""
    y = _standardized(call, x, ir.attr_ints(call, "axes"))
    return _scaled(call, y, gamma, beta, int(ir.attr(call, "channel_axis")))


def _layer_norm(call: ir.Call, x: Any, gamma: Any, beta: Any) -> Any:
    """Normalization along ``axes``, of which each element has its own factor and shift."""
    y = _standardized(call, x, ir.attr_ints(call, "axes"))
    y = y * gamma if ir.attr(call, "scale") else y
    return y + beta if ir.attr(call, "center") else y


def _batch_norm(call: ir.Call, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    """Normalization by given means and variances, or (``training``) by those of the batch; the given ones are results,
    too, moved towards the batch's."""
    shape = [1] * x.ndim
    shape[axis := int(ir.attr(call, "axis"))] = -1
    used = mean, variance
    if ir.attr(call, "training"):
        others, momentum = tuple(a for a in range(x.ndim) if a != axis % x.ndim), float(ir.attr(call, "momentum"))
        used = jnp.mean(x, others), jnp.var(x, others)
        mean, variance = ((1 - momentum) * old + momentum * new
                          for old, new in zip((mean, variance), used, strict=True))
    y = (x - used[0].reshape(shape)) * lax.rsqrt(used[1].reshape(shape) + float(ir.attr(call, "epsilon")))
    return _scaled(call, y, gamma, beta, axis), mean, variance


def _rms_norm(call: ir.Call, x: Any, gamma: Any) -> Any:
    """``x / sqrt(mean(x²) + epsilon) * gamma``"""
    wide = x.astype(jnp.promote_types(x.dtype, jnp.float32))
    square = jnp.mean(jnp.square(wide), ir.attr_ints(call, "axes"), keepdims=True)
    return (wide * lax.rsqrt(square + float(ir.attr(call, "epsilon")))).astype(x.dtype) * gamma


def _adaptive_average(call: ir.Call, x: Any) -> Any:
    """Means of windows from ⌊i·extent/outputs⌋ to ⌈(i+1)·extent/outputs⌉ along height and width."""
    layout = ir.attr(call, "layout")
    if all(ir.shape_of(call)[layout.index(letter)] == 1 for letter in "HW"):
        return jnp.mean(x, axis=(layout.index("H"), layout.index("W")), keepdims=True)
    for letter in "HW":
        axis, outputs = layout.index(letter), ir.shape_of(call)[layout.index(letter)]
        extent = x.shape[axis]
        windows = [(i * extent // outputs, -(-(i + 1) * extent // outputs)) for i in range(outputs)]
        parts = [jnp.mean(lax.slice_in_dim(x, low, high, axis=axis), axis, keepdims=True) for low, high in windows]
        x = jnp.concatenate(parts, axis)
    return x


def _resize(call: ir.Call, x: Any, *_: Any) -> Any:
    """``image.resize2d`` by the nearest pixel, or as the sum of the four around it, in onnxruntime's order."""
    axes = [ir.attr(call, "layout").index(letter) for letter in "HW"]
    extents = [(axis, x.shape[axis], ir.shape_of(call)[axis]) for axis in axes]
    if ir.attr(call, "method") == "nearest_neighbor":
        for axis, old, new in extents:
            x = jnp.take(x, resizing.nearest(call, old, new), axis)
        return x
    (rows, down), (columns, along) = (resizing.neighbours(call, old, new) for _, old, new in extents)
    shape = [ir.shape_of(call)[a] if a in axes else 1 for a in range(x.ndim)]
    total = None
    for i, j in np.ndindex(2, 2):
        share = np.outer(down[i], along[j]).reshape(shape).astype(x.dtype)
        part = _product(jnp.take(jnp.take(x, rows[i], axes[0]), columns[j], axes[1]), share)
        total = part if total is None else total + part
    return total


OWN: dict[str, Translation] = {
    # element by element
    "square": lambda c, x: x * x, "product": lambda c, a, b: _product(a, b),
    "divide": lambda c, a, b: _divide(a, b),
    "astype": lambda c, x: x.astype(ir.dtype_of(c)),
    "relu": lambda c, x: jnp.maximum(x, 0), "silu": lambda c, x: x * jax.nn.sigmoid(x),
    "leaky_relu": lambda c, x: jnp.where(x > 0, x, x * float(ir.attr(c, "alpha"))),
    "dropout": lambda c, x: (x, jnp.ones_like(x)),
    "gelu": lambda c, x: jax.nn.gelu(x, approximate=False), "gelu_tanh": lambda c, x: jax.nn.gelu(x, approximate=True),
    "quantize": _quantize, "dequantize": _dequantize,
    # reductions and normalizations
    "sum": _reduction(jnp.sum), "mean": _reduction(jnp.mean), "max": _reduction(jnp.max), "min": _reduction(jnp.min),
    "prod": _reduction(jnp.prod), "variance": _reduction(jnp.var),
    "cumsum": lambda c, x: jnp.cumsum(x, ir.attr(c, "axis")),
    "softmax": lambda c, x: jax.nn.softmax(x, axis=int(ir.attr(c, "axis"))),
    "log_softmax": lambda c, x: jax.nn.log_softmax(x, axis=int(ir.attr(c, "axis"))),
    "layer_norm": _layer_norm, "batch_norm": _batch_norm, "group_norm": _group_norm,
    "instance_norm": _instance_norm, "rms_norm": _rms_norm,
    # contractions and windows
    "matmul": lambda c, a, b: jnp.matmul(a, b, preferred_element_type=jnp.dtype(ir.dtype_of(c))),
    "convolution": _convolution, "conv_transpose": _conv_transpose, "attention": _attention,
    "max_pool": _max_pool, "avg_pool": _avg_pool, "adaptive_average": _adaptive_average, "resize": _resize,
    # shapes
    "reshaped": lambda c, x, *_: x.reshape(ir.shape_of(c)),
    "broadcast": lambda c, x, s: jnp.broadcast_to(x, ir.shape_of(c)),
    "permute": lambda c, x: jnp.transpose(x, ir.attr(c, "axes")),
    "concat": lambda c, parts: jnp.concatenate(parts, axis=int(ir.attr(c, "axis"))), "split": _split,
    "stack": lambda c, parts: jnp.stack(parts, axis=int(ir.attr(c, "axis"))),
    "strided_slice": _strided_slice, "take": _take, "pad": _pad,
    "arange": lambda c, start, end, step: jnp.arange(start, end, step, ir.dtype_of(c)),
    "index_tensor": lambda c, x, indices: x[tuple(indices)],
    "gather_nd": lambda c, x, i: x[tuple(jnp.moveaxis(i, -1, 0))],
    "gather_elements": lambda c, x, i: jnp.take_along_axis(x, i, int(ir.attr(c, "axis"))),
    "repeat": lambda c, x: jnp.repeat(x, int(ir.attr(c, "repeats")), ir.attr(c, "axis")),
    "tile": lambda c, x: jnp.tile(x, ir.attr_ints(c, "repeats")),
}
"""Translations that are no function of JAX on the same arguments, by their names in the table of operators."""


def translation(op: str) -> Translation:
    """The function of a call and its arguments by which XLA computes an operator; KeyError for one that has none."""
    package, _, name = str(operator(op).xla).rpartition(".")
    if not package:
        return OWN[name]
    function = getattr(getattr(jax, package), name)
    return lambda call, *args: function(*args)
