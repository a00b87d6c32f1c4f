"""Which host operators are worth a translation to XLA, and which can be translated (kept apart from JAX)."""

from __future__ import annotations

import math
from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import resizing

HEAVY = frozenset({
    "nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv1d_transpose", "nn.conv2d_transpose", "matmul", "einsum",
    "nn.attention", "nn.attention_bias", "nn.max_pool2d", "nn.avg_pool2d", "nn.avg_pool3d", "nn.adaptive_avg_pool2d",
    "nn.softmax", "nn.log_softmax", "nn.layer_norm", "nn.group_norm", "nn.batch_norm", "nn.rms_norm",
    "nn.instance_norm", "mean", "sum", "max", "min", "prod", "variance", "std", "cumsum", "nn.gelu", "erf",
    "image.resize2d",
})
"""Operators on which TVM's untuned LLVM code is much slower than XLA's."""

TRANSLATABLE = frozenset({
    "abs", "add", "arange", "astype", "bitwise_and", "bitwise_not", "bitwise_or", "broadcast_to", "ceil", "clip",
    "concat", "cos", "cumsum", "dequantize", "divide", "equal", "erf", "exp", "expand_dims", "flatten", "floor",
    "floor_divide", "gather_elements", "gather_nd", "greater", "greater_equal", "image.resize2d", "index_tensor",
    "isnan", "less", "less_equal", "log", "logical_and", "logical_not", "logical_or", "logical_xor", "matmul",
    "max", "maximum", "mean", "min", "minimum", "multiply", "negative", "nn.adaptive_avg_pool2d", "nn.attention",
    "nn.attention_bias", "nn.avg_pool2d", "nn.avg_pool3d", "nn.batch_norm", "nn.conv1d", "nn.conv1d_transpose",
    "nn.conv2d", "nn.conv2d_transpose", "nn.dropout", "nn.gelu", "nn.gelu_tanh", "nn.group_norm",
    "nn.instance_norm", "nn.layer_norm", "nn.leakyrelu", "nn.log_softmax", "nn.max_pool2d", "nn.pad", "nn.relu",
    "nn.rms_norm", "nn.silu", "nn.softmax", "not_equal", "permute_dims", "power", "prod", "quantize", "repeat",
    "reshape", "rsqrt", "sigmoid", "sign", "sin", "split", "sqrt", "square", "squeeze", "stack", "strided_slice",
    "subtract", "sum", "take", "tanh", "tile", "tril", "triu", "variance", "where",
})
"""Operators that :mod:`archloom.tvm_backend.host.operators` translates to JAX."""


def translatable(expr: Any) -> bool:
    """Whether XLA can run the operator: its translation exists and all shapes are static."""
    name = ir.op_name(expr)
    if name is None:
        return ir.is_tuple_get(expr) is not None
    return name in TRANSLATABLE and ir.has_static_type(expr) and _plain_attributes(name, expr)


def _plain_attributes(name: str, call: Any) -> bool:
    if name in ("nn.avg_pool2d", "nn.avg_pool3d"):
        return not ir.attr(call, "ceil_mode")
    if name == "gather_nd":
        return int(ir.attr(call, "batch_dims")) == 0
    if name == "nn.adaptive_avg_pool2d":
        return len(ir.attr(call, "layout")) == 4
    if name in ("nn.conv1d_transpose", "nn.conv2d_transpose"):
        layouts = tuple(ir.attr(call, f"{what}_layout") for what in ("data", "kernel", "out"))
        return layouts in (("NCW", "IOW", "NCW"), ("NCHW", "IOHW", "NCHW"))
    if name == "image.resize2d":
        return resizing.known(call)
    return True


def macs(call: Any) -> int:
    """Multiply-accumulates of an operator; 0 for those that have none."""
    name = ir.op_name(call)
    if name == "matmul" and ir.is_tensor(call) and ir.is_tensor(call.args[0]):
        return math.prod(ir.shape_of(call)) * ir.shape_of(call.args[0])[-1]
    if name in ("nn.conv1d", "nn.conv2d", "nn.conv3d") and ir.is_tensor(call):
        kernel = ir.shape_of(call.args[1])
        layout = ir.attr(call, "kernel_layout")
        return math.prod(ir.shape_of(call)) * math.prod(kernel) // kernel[layout.index("O")]
    if name in ("nn.conv1d_transpose", "nn.conv2d_transpose") and ir.is_tensor(call):
        kernel = ir.shape_of(call.args[1])
        layout = ir.attr(call, "kernel_layout")
        return math.prod(ir.shape_of(call.args[0])) * math.prod(kernel) // kernel[layout.index("I")]
    if name in ("nn.attention", "nn.attention_bias") and ir.is_tensor(call):
        batch, length, heads, depth = ir.shape_of(call.args[0])
        keys, _, value_depth = ir.shape_of(call.args[2])[1:]
        return batch * heads * length * keys * (depth + value_depth)
    return 0
