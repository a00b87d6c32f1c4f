"""What counts as correct where results are not equal to the last bit, by what is compared."""

from __future__ import annotations

from collections.abc import Mapping

LEAST_COSINE = 0.999
"""For outputs of floating-point host operators, which have no quantization step to be compared within."""
MOST_STEPS = 1.5
"""Quantization steps by which outputs may differ: whole steps, up to the rounding of float32."""
FLOAT_TOLERANCE: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2}
"""For outputs of targets that compute in floats, against the same network: part of the largest magnitude, since sums
have another order, and operands and results of float16 are rounded to 11 bits."""
NETWORK_FLOAT_TOLERANCE: Mapping[str, float] = {"float32": 1e-3, "float16": 1e-2}
"""The same for whole networks of any depth against PyTorch or onnxruntime, which fuse and order sums in ways of their
own."""
