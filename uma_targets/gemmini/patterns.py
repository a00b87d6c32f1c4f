"""What a piece of a QDQ network looks like that Gemmini could take, as Relax patterns.

All start from dequantized operands and end in integers. Between a result and its activation there may be a
quantize-dequantize pair, as onnxruntime's quantizer leaves it. Whether the numbers fit is up to the predicates.
"""

from __future__ import annotations

from tvm_backend.compat import DFPattern, is_const, is_op, wildcard


def dequantized() -> DFPattern:
    return is_op("relax.dequantize")(wildcard(), is_const(), is_const())


def quantized(value: DFPattern) -> DFPattern:
    return is_op("relax.quantize")(value, is_const(), is_const())


def requantized(value: DFPattern) -> DFPattern:
    """``value`` itself or through a quantize-dequantize pair."""
    return is_op("relax.dequantize")(quantized(value), is_const(), is_const()) | value


def activated(value: DFPattern) -> DFPattern:
    through = requantized(value)
    return is_op("relax.nn.relu")(through) | is_op("relax.clip")(through, wildcard(), wildcard())


def pooled(value: DFPattern) -> DFPattern:
    """Max-pooling of the quantized ``value``, or of ``value`` before it is quantized: quantizing is monotonic."""
    return is_op("relax.nn.max_pool2d")(quantized(value)) | quantized(is_op("relax.nn.max_pool2d")(value))


def biased(value: DFPattern) -> DFPattern:
    """``value`` with or without a constant bias, on either side of the addition."""
    bias = is_op("relax.dequantize")(is_const(), is_const(), is_const())
    bias = is_op("relax.reshape")(bias, wildcard()) | bias
    return is_op("relax.add")(value, bias) | is_op("relax.add")(bias, value) | value


def conv2d() -> DFPattern:
    return biased(is_op("relax.nn.conv2d")(dequantized(), dequantized()))


def matmul() -> DFPattern:
    """Dense and batched matmul; either operand may be read transposed (``Gemm`` with ``transB``)."""

    def operand() -> DFPattern:
        return is_op("relax.permute_dims")(dequantized()) | dequantized()

    return biased(is_op("relax.matmul")(operand(), operand()))


def add() -> DFPattern:
    return is_op("relax.add")(dequantized(), dequantized())


def conv2d_pool() -> DFPattern:
    return pooled(activated(conv2d()))


def conv2d_activation() -> DFPattern:
    return quantized(activated(conv2d()))


def conv2d_plain() -> DFPattern:
    return quantized(conv2d())


def matmul_activation() -> DFPattern:
    return quantized(activated(matmul()))


def matmul_plain() -> DFPattern:
    return quantized(matmul())


def add_activation() -> DFPattern:
    return quantized(activated(add()))


def add_plain() -> DFPattern:
    return quantized(add())
