"""The pieces of float networks that a mesh of cores could take, as Relax patterns."""

from __future__ import annotations

from functools import lru_cache

from archloom.tvm_backend.ir.operators import ACTIVATIONS, BINARY, UNARY
from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, wildcard
from archloom.uma_targets.kit.patterns import float_biased, float_conv2d, float_matmul


def _finished(value: DFPattern) -> DFPattern:
    """An activation of ``value``."""
    found = is_op("relax.nn.relu")(value) | is_op("relax.clip")(value, wildcard(), wildcard())
    for name in ACTIVATIONS:
        found = found | is_op(f"relax.{name}")(value)
    return found


def _swapped() -> DFPattern:
    return is_op("relax.permute_dims")(wildcard())


def swapped_both_plain() -> DFPattern:
    """A product of which both operands are permuted, with or without bias."""
    return float_biased(is_op("relax.matmul")(_swapped(), _swapped()))


def swapped_both_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(swapped_both_plain())


def swapped_second_plain() -> DFPattern:
    """A product of which the second operand is permuted, with or without bias."""
    return float_biased(is_op("relax.matmul")(wildcard(), _swapped()))


def swapped_second_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(swapped_second_plain())


def swapped_first_plain() -> DFPattern:
    """A product of which the first operand is permuted, with or without bias."""
    return float_biased(is_op("relax.matmul")(_swapped(), wildcard()))


def swapped_first_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(swapped_first_plain())


def matmul_plain() -> DFPattern:
    """Dense and batched matmul, with or without bias."""
    return float_matmul()


def matmul_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(float_matmul())


def conv2d_plain() -> DFPattern:
    """A convolution with a constant kernel, with or without bias."""
    return float_conv2d()


def conv2d_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(float_conv2d())


def _with_residual(value: DFPattern) -> DFPattern:
    """``value`` with another tensor added."""
    return is_op("relax.add")(value, wildcard()) | is_op("relax.add")(wildcard(), value)


def matmul_residual() -> DFPattern:
    """A product, with or without bias, to which a tensor is added."""
    return _with_residual(float_matmul())


def matmul_residual_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(matmul_residual())


def conv2d_residual() -> DFPattern:
    """A convolution, with or without bias, to which a tensor is added."""
    return _with_residual(float_conv2d())


def conv2d_residual_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(conv2d_residual())


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
    found: DFPattern = is_op("relax.nn.layer_norm")(wildcard(), wildcard(), wildcard())
    found = found | is_op("relax.nn.rms_norm")(wildcard(), wildcard())
    for name in ("nn.softmax", "mean", "sum", "max", "nn.adaptive_avg_pool2d"):
        found = found | is_op(f"relax.{name}")(wildcard())
    return found
