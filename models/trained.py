"""Networks by name that are trained when they are asked for, in seconds, on scikit-learn's handwritten digits."""

from __future__ import annotations

from functools import cache

from archloom.models.catalogue import Built

CALIBRATION = 128
"""Images by which they are quantized, each [1, 1, 8, 8]."""
NAMES = {"digits_cnn": "a residual CNN, 98 % of digits right", "digits_vit": "a vision transformer, 95 %"}
"""The networks with what they are; both take ``image`` [1, 1, 8, 8]."""


@cache
def build(name: str) -> Built:
    """The network ``name`` of :data:`NAMES`, trained once in a process."""
    import torch

    from archloom.models import data, digits

    split = data.digits()
    vit = digits.Training(epochs=20, learning_rate=3e-3, weight_decay=1e-2)
    module = digits.train(split) if name == "digits_cnn" else digits.trained(digits.DigitsViT, split, vit)
    images = [{"image": image[None]} for image in split.train_images[:CALIBRATION]]
    return Built(name, module, {"image": torch.from_numpy(images[0]["image"])}, lambda *_: images)
