"""What the pieces of a network look like that a target of matrix products could take, as Relax patterns.

In a QDQ network all start from dequantized operands and end in integers; between a result and its activation there may
be a quantize-dequantize pair, as onnxruntime's quantizer leaves it. In a float network they are the operators as they
are. Whether the numbers fit is up to the rules.
"""

from __future__ import annotations

from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, wildcard


def dequantized() -> DFPattern:
    """A dequantized operand."""
    return is_op("relax.dequantize")(wildcard(), is_const(), is_const())


def quantized(value: DFPattern) -> DFPattern:
    """``value``, quantized to the type of the result."""
    return is_op("relax.quantize")(value, is_const(), is_const())


def requantized(value: DFPattern) -> DFPattern:
    """``value`` itself or through a quantize-dequantize pair."""
    return is_op("relax.dequantize")(quantized(value), is_const(), is_const()) | value


def activated(value: DFPattern) -> DFPattern:
    """ReLU or clip of ``value``."""
    through = requantized(value)
    return is_op("relax.nn.relu")(through) | is_op("relax.clip")(through, wildcard(), wildcard())


def biased(value: DFPattern) -> DFPattern:
    """``value`` with or without a constant bias, on either side of the addition."""
    flat = is_op("relax.dequantize")(is_const(), is_const(), is_const()) | is_const()
    bias = is_op("relax.reshape")(flat, wildcard()) | flat
    return is_op("relax.add")(value, bias) | is_op("relax.add")(bias, value) | value


def conv2d() -> DFPattern:
    """A convolution of dequantized operands, with or without bias."""
    return biased(is_op("relax.nn.conv2d")(dequantized(), dequantized()))


def matmul() -> DFPattern:
    """Dense and batched matmul; either operand may be read transposed (``Gemm`` with ``transB``)."""

    def operand() -> DFPattern:
        return is_op("relax.permute_dims")(dequantized()) | dequantized()

    return biased(is_op("relax.matmul")(operand(), operand()))


def conv2d_activation() -> DFPattern:
    """A convolution with activation, quantized."""
    return quantized(activated(conv2d()))


def conv2d_plain() -> DFPattern:
    """A convolution without activation, quantized."""
    return quantized(conv2d())


def matmul_activation() -> DFPattern:
    """A matrix product with activation, quantized."""
    return quantized(activated(matmul()))


def matmul_plain() -> DFPattern:
    """A matrix product without activation, quantized."""
    return quantized(matmul())


# float networks -----------------------------------------------------------------------------------------------------


def float_biased(value: DFPattern) -> DFPattern:
    """``value`` with or without a constant bias, on either side of the addition."""
    return is_op("relax.add")(value, is_const()) | is_op("relax.add")(is_const(), value) | value


def float_matmul() -> DFPattern:
    """Dense and batched matmul, with or without bias (constants are transposed before)."""
    return float_biased(is_op("relax.matmul")(wildcard(), wildcard()))


def float_conv2d() -> DFPattern:
    """A convolution with a constant kernel, with or without bias."""
    return float_biased(is_op("relax.nn.conv2d")(wildcard(), is_const()))


def _float_activated(value: DFPattern) -> DFPattern:
    return is_op("relax.nn.relu")(value) | is_op("relax.clip")(value, wildcard(), wildcard())


def attention() -> DFPattern:
    """Attention as one operator, with or without what is added to its scores."""
    three = [wildcard() for _ in range(3)]
    return is_op("relax.nn.attention")(*three) | is_op("relax.nn.attention_bias")(*[wildcard() for _ in range(4)])


def float_matmul_activation() -> DFPattern:
    """A float matrix product with activation."""
    return _float_activated(float_matmul())


def float_matmul_plain() -> DFPattern:
    """A float matrix product without activation."""
    return float_matmul()


def float_conv2d_activation() -> DFPattern:
    """A float convolution with activation."""
    return _float_activated(float_conv2d())


def float_conv2d_plain() -> DFPattern:
    """A float convolution without activation."""
    return float_conv2d()
