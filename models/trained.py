"""Networks by name that are trained when they are asked for, in seconds, on scikit-learn's handwritten digits."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

CALIBRATION = 128
NAMES = {"digits_cnn": "a residual CNN, 98 % of digits right", "digits_vit": "a vision transformer, 95 %"}
"""The networks with what they are; both take ``image`` [1, 1, 8, 8]."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A trained module in evaluation mode, and images by which it is quantized, each [1, 1, 8, 8]."""

    module: "torch.nn.Module"
    calibration: "list[dict[str, np.ndarray]]"


@cache
def build(name: str) -> Trained:
    """The network ``name`` of :data:`NAMES`, trained once in a process."""
    from archloom.models import data, digits, digits_vit

    split = data.digits()
    module = digits.train(split) if name == "digits_cnn" else digits_vit.train(split)
    return Trained(module, [{"image": image[None]} for image in split.train_images[:CALIBRATION]])
