"""What targets compute with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

Numbers: TypeAlias = Literal["int8", "float32", "float16"]
"""What a target computes with: quantized networks in int8, or networks as they are in float32 or float16 (to which it
rounds what comes in float32)."""

FLOATS: Mapping[str, tuple[str, ...]] = {"float32": ("float32",), "float16": ("float32", "float16")}
"""Types of the operands that a target takes that computes in floats."""


def is_quantized(numbers: Numbers) -> bool:
    """Whether a target that computes with these takes quantized networks, not networks of floats."""
    return numbers not in FLOATS
