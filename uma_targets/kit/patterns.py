"""What the pieces of a network look like that a target could take: an operator (anchor) in one of several fused forms.

In a QDQ network all start from dequantized operands and end in integers; between a result and its activation there may
be a quantize-dequantize pair, as onnxruntime's quantizer leaves it. In a float network they are the operators as they
are. Whether the numbers fit is up to the rules. Every use of a pattern is made anew: one that stands in two places must
match the same expression in both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import or_
from typing import TypeAlias

from archloom.tvm_backend.ir.patterns import DFPattern, is_const, is_op, wildcard

Anchor: TypeAlias = Callable[[], DFPattern]
Form: TypeAlias = Callable[[DFPattern], DFPattern]


def dequantized() -> DFPattern:
    return is_op("relax.dequantize")(wildcard(), is_const(), is_const())


def quantized(value: DFPattern) -> DFPattern:
    """``value``, quantized to the type of the result."""
    return is_op("relax.quantize")(value, is_const(), is_const())


def requantized(value: DFPattern) -> DFPattern:
    """``value`` itself or through a quantize-dequantize pair."""
    return is_op("relax.dequantize")(quantized(value), is_const(), is_const()) | value


def clipped(value: DFPattern) -> DFPattern:
    """ReLU or clip of ``value``."""
    return is_op("relax.nn.relu")(value) | is_op("relax.clip")(value, wildcard(), wildcard())


def activated(value: DFPattern) -> DFPattern:
    """ReLU or clip of ``value``, with or without a quantize-dequantize pair between."""
    return clipped(requantized(value))


def curved(value: DFPattern) -> DFPattern:
    """Another activation of bytes."""
    inner = is_op("relax.dequantize")(quantized(value), is_const(), is_const())
    first, *others = (is_op(f"relax.{name}")(inner) for name in ("sigmoid", "tanh", "nn.silu", "nn.gelu"))
    return reduce(or_, others, first)


def pooled(value: DFPattern) -> DFPattern:
    """Max-pooling of the quantized ``value``, or of ``value`` before it is quantized: quantizing is monotonic."""
    return is_op("relax.nn.max_pool2d")(quantized(value)) | quantized(is_op("relax.nn.max_pool2d")(value))


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


def add() -> DFPattern:
    """An addition of dequantized operands."""
    return is_op("relax.add")(dequantized(), dequantized())


ANCHORS: Mapping[str, Anchor] = {"conv2d": conv2d, "matmul": matmul, "add": add}
FORMS: Mapping[str, Form] = {
    "plain": quantized,
    "activation": lambda value: quantized(activated(value)),
    "pool": lambda value: pooled(activated(value)),
    "table": lambda value: quantized(curved(value)),
    "int32": lambda value: is_op("relax.astype")(value),  # integers as int32
    "sums": lambda value: value,  # the result stays float32
}


# float networks -----------------------------------------------------------------------------------------------------


def float_biased(value: DFPattern) -> DFPattern:
    """``value`` with or without a constant bias, on either side of the addition."""
    return is_op("relax.add")(value, is_const()) | is_op("relax.add")(is_const(), value) | value


def with_residual(value: DFPattern) -> DFPattern:
    """``value`` with another tensor added."""
    return is_op("relax.add")(value, wildcard()) | is_op("relax.add")(wildcard(), value)


def attention() -> DFPattern:
    """Attention as one operator, with or without what is added to its scores."""
    three = [wildcard() for _ in range(3)]
    return is_op("relax.nn.attention")(*three) | is_op("relax.nn.attention_bias")(*[wildcard() for _ in range(4)])


FLOAT_ANCHORS: Mapping[str, Anchor] = {
    "conv2d": lambda: float_biased(is_op("relax.nn.conv2d")(wildcard(), is_const())),  # with a constant kernel
    "matmul": lambda: float_biased(is_op("relax.matmul")(wildcard(), wildcard())),  # constants are transposed before
}
FLOAT_FORMS: Mapping[str, Form] = {
    "plain": lambda value: value, "activation": clipped, "residual": with_residual,
    "residual_activation": lambda value: clipped(with_residual(value)),
}


def fused(anchor: str, form: str, *, floats: bool = False) -> DFPattern:
    """An operator of a quantized network in one of :data:`FORMS`, or of one of ``floats`` in :data:`FLOAT_FORMS`."""
    return FLOAT_FORMS[form](FLOAT_ANCHORS[anchor]()) if floats else FORMS[form](ANCHORS[anchor]())
