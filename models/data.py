"""Data sets: scikit-learn's handwritten digits, and random images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from archloom.oracle.errors import InputError


@dataclass(frozen=True)
class Split:
    """Images [n, 1, 8, 8] float32 in 0..1 and labels [n] int64, for training and for testing."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


def digits(seed: int = 0, test_share: float = 0.25) -> Split:
    """The 1,797 handwritten digits that scikit-learn ships, shuffled and split; InputError without that package."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise InputError("digits: the images are those of scikit-learn: pip install 'archloom[demo]'") from error

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(images))
    images = (images[order].reshape(-1, 1, 8, 8) / 16).astype(np.float32)
    labels = labels[order].astype(np.int64)
    cut = len(images) - round(len(images) * test_share)
    return Split(images[:cut], labels[:cut], images[cut:], labels[cut:])


def random_images(count: int, size: int, channels: int = 3, seed: int = 0) -> np.ndarray:
    """[count, channels, size, size] float32 of about zero mean and unit variance.

    Each is a random mixture of plane waves and noise with a colour of its own, so that networks tell them apart,
    which they do not with white noise.
    """
    rng = np.random.default_rng(seed)
    axis = np.linspace(0, 2 * np.pi, size, dtype=np.float32)
    images = np.empty((count, channels, size, size), np.float32)
    for image in images:
        waves = np.zeros((channels, size, size), np.float32)
        for _ in range(6):
            u, v = rng.uniform(-12, 12, 2)
            phase = rng.uniform(0, 2 * np.pi, (channels, 1, 1))
            waves += rng.standard_normal((channels, 1, 1)) * np.sin(u * axis[:, None] + v * axis + phase)
        image[:] = waves * 0.5 + 0.3 * rng.standard_normal(waves.shape) + 0.5 * rng.standard_normal((channels, 1, 1))
    return images
