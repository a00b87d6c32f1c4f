"""What a piece of a QDQ network looks like that Gemmini could take, as Relax patterns.

Those of convolutions and matrix products are the ones of :mod:`archloom.uma_targets.kit.patterns`; pooling and
additions come on top. Whether the numbers fit is up to the predicates.
"""

from __future__ import annotations

from archloom.tvm_backend.ir.patterns import DFPattern, is_op
from archloom.uma_targets.kit.patterns import (
    activated,
    conv2d,
    conv2d_activation,
    conv2d_plain,
    dequantized,
    matmul,
    matmul_activation,
    matmul_plain,
    quantized,
)

__all__ = [
    "add_activation", "add_plain", "conv2d_activation", "conv2d_plain", "conv2d_pool", "conv2d_int32", "conv2d_sums",
    "matmul_activation", "matmul_int32", "matmul_plain", "matmul_sums",
]


def pooled(value: DFPattern) -> DFPattern:
    """Max-pooling of the quantized ``value``, or of ``value`` before it is quantized: quantizing is monotonic."""
    return is_op("relax.nn.max_pool2d")(quantized(value)) | quantized(is_op("relax.nn.max_pool2d")(value))


def add() -> DFPattern:
    """An addition of dequantized operands."""
    return is_op("relax.add")(dequantized(), dequantized())


def conv2d_pool() -> DFPattern:
    """A convolution with activation and max-pooling."""
    return pooled(activated(conv2d()))


def conv2d_sums() -> DFPattern:
    """A convolution whose result stays float32."""
    return conv2d()


def matmul_sums() -> DFPattern:
    """A matrix product whose result stays float32."""
    return matmul()


def conv2d_int32() -> DFPattern:
    """A convolution of integers as int32."""
    return is_op("relax.astype")(conv2d())


def matmul_int32() -> DFPattern:
    """A product of matrices of integers as int32."""
    return is_op("relax.astype")(matmul())


def add_activation() -> DFPattern:
    """An addition with activation, quantized."""
    return quantized(activated(add()))


def add_plain() -> DFPattern:
    """An addition without activation, quantized."""
    return quantized(add())
