"""Transposed convolutions, resizing and further normalizations as JAX functions, for :mod:`.operators`."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import resizing


def conv_transpose(call: Any, x: Any, kernel: Any) -> Any:
    """A convolution over the data with ``stride - 1`` zeros between their elements, with the kernel mirrored."""
    pads = ir.attr_ints(call, "padding")
    spatial = len(pads) // 2
    strides, dilation = ir.attr_ints(call, "strides"), ir.attr_ints(call, "dilation")
    extra, groups = ir.attr_ints(call, "output_padding"), int(ir.attr(call, "groups"))
    axes = tuple(range(2, 2 + spatial))  # layouts are NC… and IO…: see host_rules
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


def group_norm(call: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """Normalization over groups of channels and the axes of ``axes``."""
    channel, groups = int(ir.attr(call, "channel_axis")) % x.ndim, int(ir.attr(call, "num_groups"))
    axes = [a % x.ndim for a in ir.attr_ints(call, "axes")]
    parts = x.reshape(*x.shape[:channel], groups, x.shape[channel] // groups, *x.shape[channel + 1:])
    over = (channel + 1, *(a + (a >= channel) for a in axes))
    mean = jnp.mean(parts, over, keepdims=True)
    variance = jnp.mean(jnp.square(parts - mean), over, keepdims=True)
    y = ((parts - mean) * lax.rsqrt(variance + float(ir.attr(call, "epsilon")))).reshape(x.shape)
    return scaled(call, y, gamma, beta, channel)


def scaled(call: Any, y: Any, gamma: Any, beta: Any, channel: int) -> Any:
    """``y * gamma + beta`` along an axis, as far as the call asks for it."""
    shape = [1] * y.ndim
    shape[channel] = -1
    y = y * gamma.reshape(shape) if ir.attr(call, "scale") else y
    return y + beta.reshape(shape) if ir.attr(call, "center") else y


def instance_norm(call: Any, x: Any, gamma: Any, beta: Any) -> Any:
    """Normalization of each channel of each sample."""
    axes = ir.attr_ints(call, "axes")
    mean = jnp.mean(x, axes, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axes, keepdims=True)
    y = (x - mean) * lax.rsqrt(variance + float(ir.attr(call, "epsilon")))
    return scaled(call, y, gamma, beta, int(ir.attr(call, "channel_axis")))


def rms_norm(call: Any, x: Any, gamma: Any) -> Any:
    """``x / sqrt(mean(x²) + epsilon) * gamma``"""
    square = jnp.mean(jnp.square(x), ir.attr_ints(call, "axes"), keepdims=True)
    return x * lax.rsqrt(square + float(ir.attr(call, "epsilon"))) * gamma


def adaptive_average(call: Any, x: Any) -> Any:
    """Means of windows from ⌊i·extent/outputs⌋ to ⌈(i+1)·extent/outputs⌉ along height and width."""
    layout = ir.attr(call, "layout")
    for letter in "HW":
        axis, outputs = layout.index(letter), ir.shape_of(call)[layout.index(letter)]
        extent = x.shape[axis]
        windows = [(i * extent // outputs, -(-(i + 1) * extent // outputs)) for i in range(outputs)]
        parts = [jnp.mean(lax.slice_in_dim(x, low, high, axis=axis), axis, keepdims=True) for low, high in windows]
        x = jnp.concatenate(parts, axis)
    return x


def resize(call: Any, x: Any, *_: Any) -> Any:
    """``image.resize2d`` by the nearest pixel, or linearly between two along each axis."""
    layout = ir.attr(call, "layout")
    for letter in "HW":
        axis = layout.index(letter)
        old, new = x.shape[axis], ir.shape_of(call)[axis]
        if ir.attr(call, "method") == "nearest_neighbor":
            x = jnp.take(x, resizing.nearest(call, old, new), axis)
            continue
        low, high, share = resizing.neighbours(call, old, new)
        weight = share.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        x = jnp.take(x, low, axis) * (1 - weight) + jnp.take(x, high, axis) * weight
    return x
