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
from archloom.tvm_backend.host import layers as host_layers
from archloom.tvm_backend.ir import expressions as ir

Translation: TypeAlias = Callable[..., Any]
UNROLLED = 64
"""Windows up to this size are summed in onnxruntime's order."""


def _axes(call: Any, name: str = "axis") -> tuple[int, ...] | None:
    """Axes of a reduction: None means all."""
    return None if ir.attr(call, name) is None else ir.attr_ints(call, name)


def _reduction(function: Callable[..., Any]) -> Translation:
    return lambda call, x: function(x, axis=_axes(call), keepdims=bool(ir.attr(call, "keepdims")))


def _convolution(call: Any, x: Any, kernel: Any) -> Any:
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


def _end_padded(call: Any, spatial: Sequence[int]) -> list[int]:
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
    def of(call: Any) -> "_Window":
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


def _max_pool(call: Any, x: Any) -> Any:
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
    return _Window.of(call).reduce(x, np.asarray(lowest, x.dtype), lax.max)


def _avg_pool(call: Any, x: Any) -> Any:
    window = _Window.of(call)
    size = math.prod(window.size)
    total = window.sum(x) if size <= UNROLLED else window.reduce(x, np.zeros((), x.dtype), lax.add)
    inclusive = bool(ir.attr(call, "count_include_pad"))
    return _quotient(total, np.asarray(size) if inclusive else window.counts(x.shape))


def _quotient(x: Any, y: Any) -> Any:
    """``x / y`` as IEEE rounds it in x's type; XLA's own division of float32 multiplies by a reciprocal."""
    return (x.astype(jnp.float64) / y.astype(jnp.float64)).astype(x.dtype)


def _product(a: Any, b: Any) -> Any:
    """``a * b``, rounded before anything is added to it."""
    product = a * b
    return uncontracted(product) if jnp.issubdtype(product.dtype, jnp.floating) else product


def _adaptive_average(call: Any, x: Any) -> Any:
    layout = ir.attr(call, "layout")
    if all(ir.shape_of(call)[layout.index(letter)] == 1 for letter in "HW"):
        return jnp.mean(x, axis=(layout.index("H"), layout.index("W")), keepdims=True)
    return host_layers.adaptive_average(call, x)


def _attention(call: Any, query: Any, key: Any, value: Any, bias: Any = None) -> Any:
    """[batch, length, heads, depth] each; ``bias`` is added to the scores."""
    scale = ir.attr(call, "scale")
    factor = float(scale) if scale is not None else query.shape[-1] ** -0.5
    scores = jnp.einsum("bsnh,btnh->bnst", query, key) * factor
    if bias is not None:
        scores = scores + bias
    causal = ir.attr(call, "causal_mask")
    if causal is not None:
        rows, columns = scores.shape[-2:]
        offset = columns - rows if causal == "BottomRight" else 0
        scores = jnp.where(jnp.tril(jnp.ones((rows, columns), bool), offset), scores, -jnp.inf)
    return jnp.einsum("bnst,btnh->bsnh", jax.nn.softmax(scores, axis=-1), value)


def _layer_norm(call: Any, x: Any, gamma: Any, beta: Any) -> Any:
    axes = ir.attr_ints(call, "axes")
    mean = jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axes, keepdims=True)
    y = (x - mean) * lax.rsqrt(variance + float(ir.attr(call, "epsilon")))
    y = y * gamma if ir.attr(call, "scale") else y
    return y + beta if ir.attr(call, "center") else y


def _batch_norm(call: Any, x: Any, gamma: Any, beta: Any, mean: Any, variance: Any) -> Any:
    shape = [1] * x.ndim
    shape[int(ir.attr(call, "axis"))] = -1
    y = (x - mean.reshape(shape)) * lax.rsqrt(variance.reshape(shape) + float(ir.attr(call, "epsilon")))
    y = y * gamma.reshape(shape) if ir.attr(call, "scale") else y
    y = y + beta.reshape(shape) if ir.attr(call, "center") else y
    return y, mean, variance


def _along(call: Any, parameter: Any, ndim: int) -> Any:
    """A scale or zero point, shaped to broadcast along the call's axis."""
    if parameter.ndim == 0 or parameter.size == 1:
        return parameter.reshape(())
    shape = [1] * ndim
    shape[int(ir.attr(call, "axis"))] = -1
    return parameter.reshape(shape)


def _quantize(call: Any, x: Any, scale: Any, zero: Any) -> Any:
    """``saturate(round_half_even(x / scale) + zero)``; NaN is the least number, as with onnxruntime."""
    limits = np.iinfo(ir.dtype_of(call))
    scale, zero = _along(call, scale, x.ndim), _along(call, zero, x.ndim)
    moved = jnp.round(_quotient(x, scale)) + zero.astype(x.dtype)
    return jnp.where(moved >= limits.min, jnp.minimum(moved, limits.max), limits.min)


def _dequantize(call: Any, x: Any, scale: Any, zero: Any) -> Any:
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


def _strided_slice(call: Any, x: Any, axes: Any, begin: Any, end: Any, strides: Any = None) -> Any:
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(_numbers(axes)):
        step = _numbers(strides)[i] if strides is not None else 1
        stop: int | None = _numbers(end)[i]
        if step < 0 and stop is not None and stop < -x.shape[axis]:
            stop = None
        index[axis] = slice(_numbers(begin)[i], stop, step)
    return x[tuple(index)]


def _numbers(values: Any) -> list[int]:
    return [int(v) for v in values]


def _pad(call: Any, x: Any) -> Any:
    widths = np.array(ir.attr_ints(call, "pad_width")).reshape(-1, 2)
    mode = ir.attr(call, "pad_mode")
    if mode == "constant":
        return jnp.pad(x, widths, constant_values=ir.attr(call, "pad_value"))
    return jnp.pad(x, widths, mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


def _split(call: Any, x: Any) -> Any:
    where = ir.attr(call, "indices_or_sections")
    return tuple(jnp.split(x, where if isinstance(where, int) else list(where), axis=int(ir.attr(call, "axis"))))


def _take(call: Any, x: Any, indices: Any) -> Any:
    axis = ir.attr(call, "axis")
    return jnp.take(x.reshape(-1) if axis is None else x, indices, axis=0 if axis is None else int(axis), mode="clip")


def _transpose(call: Any, x: Any) -> Any:
    return jnp.transpose(x, ir.attr(call, "axes"))


OPS: dict[str, Translation] = {
    # element by element
    "abs": lambda c, x: jnp.abs(x), "negative": lambda c, x: -x, "square": lambda c, x: x * x,
    "sqrt": lambda c, x: jnp.sqrt(x), "rsqrt": lambda c, x: lax.rsqrt(x), "exp": lambda c, x: jnp.exp(x),
    "log": lambda c, x: jnp.log(x), "sin": lambda c, x: jnp.sin(x), "cos": lambda c, x: jnp.cos(x),
    "tanh": lambda c, x: jnp.tanh(x), "erf": lambda c, x: lax.erf(x), "sigmoid": lambda c, x: jax.nn.sigmoid(x),
    "floor": lambda c, x: jnp.floor(x), "ceil": lambda c, x: jnp.ceil(x), "logical_not": lambda c, x: ~x,
    "add": lambda c, a, b: a + b, "subtract": lambda c, a, b: a - b, "multiply": lambda c, a, b: _product(a, b),
    "divide": lambda c, a, b: (
        _quotient(a, b) if jnp.issubdtype(a.dtype, jnp.floating) else lax.div(*jnp.broadcast_arrays(a, b))),
    "floor_divide": lambda c, a, b: a // b, "power": lambda c, a, b: jnp.power(a, b),
    "maximum": lambda c, a, b: jnp.maximum(a, b), "minimum": lambda c, a, b: jnp.minimum(a, b),
    "equal": lambda c, a, b: a == b, "not_equal": lambda c, a, b: a != b, "less": lambda c, a, b: a < b,
    "less_equal": lambda c, a, b: a <= b, "greater": lambda c, a, b: a > b, "greater_equal": lambda c, a, b: a >= b,
    "logical_and": lambda c, a, b: a & b, "logical_or": lambda c, a, b: a | b, "logical_xor": lambda c, a, b: a ^ b,
    "bitwise_and": lambda c, a, b: a & b, "bitwise_or": lambda c, a, b: a | b, "bitwise_not": lambda c, x: ~x,
    "sign": lambda c, x: jnp.sign(x), "isnan": lambda c, x: jnp.isnan(x),
    "where": lambda c, m, a, b: jnp.where(m, a, b), "clip": lambda c, x, low, high: jnp.clip(x, low, high),
    "astype": lambda c, x: x.astype(ir.dtype_of(c)),
    "nn.relu": lambda c, x: jnp.maximum(x, 0), "nn.silu": lambda c, x: x * jax.nn.sigmoid(x),
    "nn.leakyrelu": lambda c, x: jnp.where(x > 0, x, x * float(ir.attr(c, "alpha"))),
    "nn.dropout": lambda c, x: (x, jnp.ones_like(x)),
    "nn.gelu": lambda c, x: jax.nn.gelu(x, approximate=False),
    "nn.gelu_tanh": lambda c, x: jax.nn.gelu(x, approximate=True),
    "quantize": _quantize, "dequantize": _dequantize,
    # reductions and normalizations
    "sum": _reduction(jnp.sum), "mean": _reduction(jnp.mean), "max": _reduction(jnp.max), "min": _reduction(jnp.min),
    "prod": _reduction(jnp.prod), "variance": _reduction(jnp.var),
    "cumsum": lambda c, x: jnp.cumsum(x, ir.attr(c, "axis")),
    "nn.softmax": lambda c, x: jax.nn.softmax(x, axis=int(ir.attr(c, "axis"))),
    "nn.log_softmax": lambda c, x: jax.nn.log_softmax(x, axis=int(ir.attr(c, "axis"))),
    "nn.layer_norm": _layer_norm, "nn.batch_norm": _batch_norm, "nn.group_norm": host_layers.group_norm,
    "nn.instance_norm": host_layers.instance_norm, "nn.rms_norm": host_layers.rms_norm,
    # contractions and windows
    "matmul": lambda c, a, b: jnp.matmul(a, b, preferred_element_type=jnp.dtype(ir.dtype_of(c))),
    "nn.conv1d": _convolution, "nn.conv2d": _convolution, "nn.max_pool2d": _max_pool, "nn.avg_pool2d": _avg_pool,
    "nn.avg_pool3d": _avg_pool, "nn.conv1d_transpose": host_layers.conv_transpose,
    "nn.conv2d_transpose": host_layers.conv_transpose, "image.resize2d": host_layers.resize,
    "nn.adaptive_avg_pool2d": _adaptive_average, "nn.attention": _attention, "nn.attention_bias": _attention,
    # shapes
    "reshape": lambda c, x, s: x.reshape(ir.shape_of(c)), "flatten": lambda c, x: x.reshape(ir.shape_of(c)),
    "expand_dims": lambda c, x: x.reshape(ir.shape_of(c)), "squeeze": lambda c, x: x.reshape(ir.shape_of(c)),
    "broadcast_to": lambda c, x, s: jnp.broadcast_to(x, ir.shape_of(c)), "permute_dims": _transpose,
    "concat": lambda c, parts: jnp.concatenate(parts, axis=int(ir.attr(c, "axis"))), "split": _split,
    "stack": lambda c, parts: jnp.stack(parts, axis=int(ir.attr(c, "axis"))),
    "strided_slice": _strided_slice, "take": _take, "nn.pad": _pad,
    "arange": lambda c, start, end, step: jnp.arange(start, end, step, ir.dtype_of(c)),
    "index_tensor": lambda c, x, indices: x[tuple(indices)],
    "gather_nd": lambda c, x, i: x[tuple(jnp.moveaxis(i, -1, 0))],
    "gather_elements": lambda c, x, i: jnp.take_along_axis(x, i, int(ir.attr(c, "axis"))),
    "repeat": lambda c, x: jnp.repeat(x, int(ir.attr(c, "repeats")), ir.attr(c, "axis")),
    "tile": lambda c, x: jnp.tile(x, ir.attr_ints(c, "repeats")),
    "tril": lambda c, x, k: jnp.tril(x, int(k)), "triu": lambda c, x, k: jnp.triu(x, int(k)),
}
