"""The pieces of float networks that a mesh of cores could take, as Relax patterns; and what it takes of them, rule by
rule (see :mod:`archloom.uma_targets.kit.rules`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import or_

import numpy as np

from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.ir.operators import ACTIVATIONS, BINARY, UNARY
from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, wildcard
from archloom.uma_targets.kit.patterns import FLOAT_ANCHORS, Anchor, Form, clipped, float_biased, with_residual
from archloom.uma_targets.kit.rules import Rule, along_channels, constant_kernel, matrices, residual_alike

SIX = 6.0
"""What the stores of meshes clip at, beside zero."""


def _activated(value: DFPattern) -> DFPattern:
    """An activation of ``value``."""
    return reduce(or_, (is_op(f"relax.{name}")(value) for name in ACTIVATIONS), clipped(value))


def _swapped() -> DFPattern:
    return is_op("relax.permute_dims")(wildcard())


def _product(first: Anchor, second: Anchor) -> Anchor:
    """A product of these operands, with or without bias."""
    return lambda: float_biased(is_op("relax.matmul")(first(), second()))


ANCHORS: Mapping[str, Anchor] = {
    "swapped_both": _product(_swapped, _swapped), "swapped_second": _product(wildcard, _swapped),
    "swapped_first": _product(_swapped, wildcard), **FLOAT_ANCHORS,
}
"""Products of which operands are permuted, products and convolutions."""

FORMS: Mapping[str, Form] = {
    "plain": lambda value: value, "activation": _activated, "residual": with_residual,
    "residual_activation": lambda value: _activated(with_residual(value)),
}


def fused(anchor: str, form: str) -> DFPattern:
    """One of :data:`ANCHORS` in one of :data:`FORMS`."""
    return FORMS[form](ANCHORS[anchor]())


CHAINED = 5
"""The most element-wise operators that are taken together."""


@lru_cache
def elementwise(count: int) -> DFPattern:
    """``count`` element-wise operators one after the other."""
    value: DFPattern = wildcard() if count == 1 else elementwise(count - 1)
    found: DFPattern = is_op("relax.clip")(value, wildcard(), wildcard()) | is_op("relax.power")(value, is_const())
    for name in UNARY:
        found = found | is_op(f"relax.{name}")(value)
    for name in BINARY:
        operator = is_op(f"relax.{name}")
        found = found | operator(value, wildcard())
        if count > 1:
            found = found | operator(wildcard(), value)
    return found


def rows() -> DFPattern:
    """Normalizations and softmax of rows, and reductions."""
    operands = {"nn.layer_norm": 3, "nn.rms_norm": 2, **dict.fromkeys(
        ("nn.softmax", "mean", "sum", "max", "nn.adaptive_avg_pool2d"), 1)}
    return reduce(or_, (is_op(f"relax.{name}")(*(wildcard() for _ in range(n))) for name, n in operands.items()))


# rules


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


MATMUL: tuple[Rule, ...] = (float_operands, matrices, swapped_at_most, bias_along_channels, residual_alike,
                            known_activation)
CONV2D: tuple[Rule, ...] = (float_operands, constant_kernel, bias_along_channels, residual_alike, known_activation)
