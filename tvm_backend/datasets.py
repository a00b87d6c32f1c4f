"""Data sets by name, in the shape that a network takes: ``digits``, the handwritten digits of scikit-learn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.compiled import TensorSpec

if TYPE_CHECKING:
    from archloom.models.data import Split


@dataclass(frozen=True, eq=False)
class Labelled:
    """Samples by input name, the first axis counting them, and a class for each."""

    inputs: dict[str, np.ndarray]
    labels: np.ndarray


def is_named(text: object) -> bool:
    return text == "digits"


def is_meant(text: str) -> bool:
    """Whether a data set is meant, not a file of that name."""
    return is_named(text) and not Path(text).exists()


def testing(name: str, inputs: Sequence[TensorSpec]) -> Labelled:
    """The part for testing, as the network's only input takes it; as many samples as fill its batches."""
    split = _split(name)
    return _shaped(name, split.test_images, split.test_labels, inputs)


def training(name: str, inputs: Sequence[TensorSpec], count: int) -> Labelled:
    """The first ``count`` samples of the part for training, or a batch if that is more."""
    split = _split(name)
    count = max(count, *(spec.shape[0] for spec in inputs if spec.shape), 1)
    return _shaped(name, split.train_images[:count], split.train_labels[:count], inputs)


def _split(name: str) -> "Split":
    from archloom.models.data import digits

    if not is_named(name):
        raise InputError(f"no data set is named {name!r}{suggest(name, ['digits'])}")
    return digits()


def _shaped(name: str, images: np.ndarray, labels: np.ndarray, inputs: Sequence[TensorSpec]) -> Labelled:
    if len(inputs) != 1:
        raise InputError(f"data set {name!r}: expected a network with one input, found {len(inputs)}")
    (spec,) = inputs
    size = math.prod(images.shape[1:])
    if not spec.shape or math.prod(spec.shape[1:]) != size or spec.dtype != "float32":
        raise InputError(
            f"data set {name!r}: expected an input of float32 with {size} elements for each sample (such as "
            f"{'x'.join(map(str, (1, *images.shape[1:])))}), found {spec.dtype} of shape {spec.shape}")
    count = len(images) // spec.shape[0] * spec.shape[0]
    if not count:
        raise InputError(f"data set {name!r}: a batch of {spec.shape[0]} is more than its {len(images)} samples")
    return Labelled({spec.name: images[:count].reshape(count, *spec.shape[1:])}, labels[:count])
