"""How networks are quantized: what a user chooses of it, and which operators take part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from archloom.oracle.errors import InputError

Calibration: TypeAlias = Literal["minmax", "entropy", "percentile"]
METHODS = ("minmax", "entropy", "percentile")
RESHAPES = frozenset({"Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity", "DepthToSpace", "Slice"})
KEEP_SCALE = RESHAPES | {"MaxPool"}
ANCHORS = frozenset({"Conv", "Gemm", "MatMul", "Add"})
AVERAGES = frozenset({"GlobalAveragePool", "AveragePool", "ReduceMean"})
PASSING = KEEP_SCALE | {"Add", "Relu", "Clip", "Concat"}
"""Operators from whose result the quantized path goes on."""
OPERATORS = (
    "Conv", "Gemm", "MatMul", "Add", "Relu", "Clip", "MaxPool", "GlobalAveragePool", "AveragePool",
    "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "DepthToSpace",
)
"""Operators whose tensors become int8."""
KEEP_INPUT_SCALE = frozenset({"AveragePool", "MaxPool", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten"})
"""Their result has the scale of their input, where that is quantized; else they stay as they are."""
ACTIVATIONS = frozenset({"Relu", "Clip"})
FLOAT = 1
"""of ``onnx.TensorProto``"""


@dataclass(frozen=True)
class Scheme:
    """How a network is quantized.

    ``calibration`` is onnxruntime's method (``minmax``, ``entropy``, ``percentile``), of which the last keeps
    ``percentile`` per cent of the values; ``per_channel`` gives each output channel of a weight its own scale.
    Activations are ``symmetric`` (zero point 0) or take a zero point that makes the most of a range that is not;
    weights have zero point 0 either way. With ``float_results`` matrix products take int8 and give floats: the
    accelerator stores int32 sums, which the host scales.
    """

    calibration: Calibration = "minmax"
    per_channel: bool = False
    symmetric: bool = True
    percentile: float = 99.999
    float_results: bool = False

    def __post_init__(self) -> None:
        if self.calibration not in METHODS:
            raise InputError(f"calibration {self.calibration!r}: expected {', '.join(METHODS)}")
        if not isinstance(self.percentile, int | float) or not 50 < self.percentile <= 100:
            raise InputError(f"percentile: expected a number above 50 and at most 100, found {self.percentile!r}")


INT8_SYMMETRIC = Scheme()
