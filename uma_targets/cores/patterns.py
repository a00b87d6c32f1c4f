"""The pieces of float networks that a mesh of cores could take, as Relax patterns."""

from __future__ import annotations

from tvm_backend.patterns import DFPattern, is_op, wildcard
from uma_targets.kit.patterns import float_biased


def _swapped() -> DFPattern:
    return is_op("relax.permute_dims")(wildcard())


def swapped_matmul() -> DFPattern:
    """A product of which one operand, or both, are permuted, with or without bias."""
    product = (is_op("relax.matmul")(_swapped(), _swapped()) | is_op("relax.matmul")(wildcard(), _swapped())
               | is_op("relax.matmul")(_swapped(), wildcard()))
    return float_biased(product)


def swapped_matmul_activation() -> DFPattern:
    """The same with an activation."""
    value = swapped_matmul()
    return is_op("relax.nn.relu")(value) | is_op("relax.clip")(value, wildcard(), wildcard())
