"""What a mesh of cores takes, rule by rule (see :mod:`archloom.uma_targets.kit.rules`)."""

from __future__ import annotations

import numpy as np

from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.uma_targets.kit.rules import Rule, along_channels, constant_kernel, matrices

SIX = 6.0
"""What the stores of meshes clip at, beside zero."""


def float_operands(op: QuantizedOp) -> str | None:
    """Both operands are float32 or float16; they are rounded to float16."""
    for index, tensor in enumerate(op.operands):
        if tensor.dtype not in ("float32", "float16"):
            return f"operand {index} is {tensor.dtype}"
    return None


def swapped_at_most(op: QuantizedOp) -> str | None:
    """An operand is read as it is, or with its last two axes swapped."""
    for index, tensor in enumerate(op.operands[:2]):
        axes = tensor.permutation
        if axes is not None and axes != (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2):
            return f"operand {index} is read with its axes in the order {axes}"
    return None


def bias_along_channels(op: QuantizedOp) -> str | None:
    """A bias has one value for each output channel."""
    return None if op.bias is None else along_channels(op)


def known_activation(op: QuantizedOp) -> str | None:
    """The activation is ReLU (or a clip from 0 without an upper bound), ReLU6, GELU, SiLU, sigmoid or tanh."""
    for stage in op.stages:
        bounded = stage.kind == "clip" and stage.high != SIX and stage.high < float(np.finfo(np.float32).max)
        if bounded or (stage.kind == "clip" and stage.low != 0.0):
            return f"it clips to {stage.low:g}..{stage.high:g}"
    return None


def residual_alike(op: QuantizedOp) -> str | None:
    """A tensor that is added to the result has the result's shape."""
    if not op.residual or op.operands[-1].shape == op.shape:
        return None
    return f"what is added has {op.operands[-1].shape}, the result {op.shape}"


MATMUL: tuple[Rule, ...] = (float_operands, matrices, swapped_at_most, bias_along_channels, residual_alike,
                            known_activation)
CONV2D: tuple[Rule, ...] = (float_operands, constant_kernel, bias_along_channels, residual_alike, known_activation)
