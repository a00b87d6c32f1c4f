"""What is done to a float network before it is quantized, in order, and why in this order.

Quantization and its form without numbers (:mod:`.quantized_form`) take the same steps; between them constants are
folded and normalizations become parts of convolutions (by onnxruntime, or without numbers).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from archloom.tvm_backend.frontends.onnx.convolutions import plain_convolutions
from archloom.tvm_backend.frontends.onnx.products import (
    biased_products,
    constants_second,
    equal_batches,
    plain_gemms,
    products_of_matrices,
)
from archloom.tvm_backend.frontends.onnx.recurrent import frame_by_frame, frames_first
from archloom.tvm_backend.frontends.onnx.rewrites import sums_to_additions

if TYPE_CHECKING:
    import onnx

Step: TypeAlias = "Callable[[onnx.ModelProto], onnx.ModelProto]"

BEFORE_FOLDING: tuple[Step, ...] = (
    frames_first,  # recurrent layers of one layout, which is the one that can be written out ...
    frame_by_frame,  # ... as products, which the steps below bring into form
    sums_to_additions,  # additions may be quantized, sums of several may not
    plain_convolutions,  # the reshapes and slices around them take the scale of what they pass on
    products_of_matrices,  # vectors first: the steps below look at the last two axes
    constants_second,  # before batches, which leave a single matrix alone only where it is the second operand
    equal_batches,
)
AFTER_FOLDING: tuple[Step, ...] = (
    plain_gemms,  # folding makes a Gemm of some products and additions, with factors and biases of any shape
    biased_products,  # the products of more than two axes, which folding leaves
)


def applied(steps: Sequence[Step], model: "onnx.ModelProto") -> "onnx.ModelProto":
    """The network after all steps."""
    for step in steps:
        model = step(model)
    return model
