"""Samples as onnxruntime's quantizer takes them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from onnxruntime.quantization import CalibrationDataReader


class SampleReader(CalibrationDataReader):
    """Arrays by the inputs' names, for one sample after the other."""

    def __init__(self, samples: Iterable[dict[str, np.ndarray]]) -> None:
        self.left = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)
