"""The pieces of float networks that a mesh of cores could take, as Relax patterns."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import or_

from archloom.tvm_backend.ir.operators import ACTIVATIONS, BINARY, UNARY
from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, wildcard
from archloom.uma_targets.kit.patterns import FLOAT_ANCHORS, Anchor, Form, clipped, float_biased


def _finished(value: DFPattern) -> DFPattern:
    """An activation of ``value``."""
    return reduce(or_, (is_op(f"relax.{name}")(value) for name in ACTIVATIONS), clipped(value))


def _swapped() -> DFPattern:
    return is_op("relax.permute_dims")(wildcard())


def _with_residual(value: DFPattern) -> DFPattern:
    """``value`` with another tensor added."""
    return is_op("relax.add")(value, wildcard()) | is_op("relax.add")(wildcard(), value)


def _product(first: Anchor, second: Anchor) -> Anchor:
    """A product of these operands, with or without bias."""
    return lambda: float_biased(is_op("relax.matmul")(first(), second()))


ANCHORS: Mapping[str, Anchor] = {
    "swapped_both": _product(_swapped, _swapped), "swapped_second": _product(wildcard, _swapped),
    "swapped_first": _product(_swapped, wildcard), **FLOAT_ANCHORS,
}
"""Products of which operands are permuted, products and convolutions."""

FORMS: Mapping[str, Form] = {
    "plain": lambda value: value, "activation": _finished, "residual": _with_residual,
    "residual_activation": lambda value: _finished(_with_residual(value)),
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
