"""The pieces of float networks that a mesh of cores could take, as Relax patterns."""

from __future__ import annotations

from tvm_backend.patterns import DFPattern, is_op, wildcard
from tvm_backend.uma.match import ACTIVATIONS
from uma_targets.kit.patterns import float_biased, float_conv2d, float_matmul


def _finished(value: DFPattern) -> DFPattern:
    """An activation of ``value``."""
    found = is_op("relax.nn.relu")(value) | is_op("relax.clip")(value, wildcard(), wildcard())
    for name in ACTIVATIONS:
        found = found | is_op(f"relax.{name}")(value)
    return found


def swapped_matmul_plain() -> DFPattern:
    """A product of which one operand, or both, are permuted, with or without bias."""
    def swapped() -> DFPattern:
        return is_op("relax.permute_dims")(wildcard())

    return float_biased(
        is_op("relax.matmul")(swapped(), swapped()) | is_op("relax.matmul")(wildcard(), swapped())
        | is_op("relax.matmul")(swapped(), wildcard()))


def swapped_matmul_activation() -> DFPattern:
    """The same with an activation."""
    return _finished(swapped_matmul_plain())


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
