"""Which host operators are worth a translation to XLA, and which can be translated (kept apart from JAX)."""

from __future__ import annotations

import math
from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir import resizing
from archloom.tvm_backend.ir.attention import ATTENTION, attention_shape
from archloom.tvm_backend.ir.equations import extents_of, indices_of
from archloom.tvm_backend.ir.operators import operator

CONVOLUTIONS = {"nn.conv1d": "O", "nn.conv2d": "O", "nn.conv3d": "O", "nn.conv1d_transpose": "I",
                "nn.conv2d_transpose": "I", "nn.conv3d_transpose": "I"}
"""Each with the axis of its kernel that its result (O) or its input (I) has, whose elements each take all the rest."""


def translatable(expr: Any) -> bool:
    """Whether XLA can run the operator: its translation exists and all shapes are static."""
    name = ir.op_name(expr)
    if name is None:
        return ir.is_tuple_get(expr) is not None
    return operator(name).xla is not None and ir.has_static_type(expr) and _plain_attributes(name, expr)


def heavy(expr: Any) -> bool:
    """Whether XLA is to run an operator of the host wherever it can (see :class:`Operator`): division, of integers; of
    bfloat16 all, as TVM lacks some of them, such as ``isnan``."""
    name = ir.op_name(expr)
    return operator(name).heavy or (name == "divide" and "int" in ir.dtype_of(expr)) or _is_of_bfloat16(expr)


def _is_of_bfloat16(expr: Any) -> bool:
    tensors = [t for x in (expr, *getattr(expr, "args", ())) for t in ir.fields_of(ir.type_of(x))]
    return any(getattr(t, "dtype", None) == "bfloat16" for t in tensors)


def _plain_attributes(name: str, call: ir.Call) -> bool:
    if name.startswith("nn.avg_pool"):
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


def macs(call: ir.Call) -> int:
    """Multiply-accumulates of an operator; 0 for those that have none."""
    name = ir.op_name(call)
    if name == "matmul" and ir.is_tensor(call) and ir.is_tensor(call.args[0]):
        return math.prod(ir.shape_of(call)) * ir.shape_of(call.args[0])[-1]
    if name in CONVOLUTIONS and ir.is_tensor(call):
        kernel, axis = ir.shape_of(call.args[1]), CONVOLUTIONS[name]
        of = call if axis == "O" else call.args[0]
        return math.prod(ir.shape_of(of)) * math.prod(kernel) // kernel[ir.attr(call, "kernel_layout").index(axis)]
    if name == "einsum" and ir.is_tensor(call):
        return _of_einsum(call)
    return attention_shape(call).macs if name in ATTENTION and ir.is_tensor(call) else 0


def _of_einsum(call: ir.Call) -> int:
    """One for each value of all indices together, which is what TVM's loops do."""
    shapes = [[int(d) for d in getattr(operand, "shape", ())] for operand in ir.fields_of(ir.type_of(call.args[0]))]
    terms, _ = indices_of(str(ir.attr(call, "subscripts")), [*map(len, shapes)])
    return math.prod((extents_of(terms, shapes) or {}).values()) if len(terms) > 1 else 0
