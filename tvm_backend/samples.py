"""Samples that a user gives: arrays of many samples, cut into batches of the network's shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from archloom.oracle.errors import InputError, suggest
from archloom.oracle.reading import data_bytes
from archloom.tvm_backend.compiled import TensorSpec
from archloom.tvm_backend.files import read_arrays

Batch: TypeAlias = dict[str, np.ndarray]


def read(path: Path, inputs: Sequence[TensorSpec]) -> Batch:
    """The arrays of an ``.npz`` by input name, or the one array of an ``.npy`` for a network with one input."""
    arrays = named(read_arrays(path), inputs, str(path))
    return {spec.name: _typed(arrays[spec.name], np.dtype(spec.dtype)) for spec in inputs}


def _typed(array: np.ndarray, dtype: "np.dtype[Any]") -> np.ndarray:
    """Files name no types that NumPy does not have itself (bfloat16): they have bytes of that size."""
    return array.view(dtype) if array.dtype == np.dtype(f"V{dtype.itemsize}") else array


def named(arrays: Mapping[str, np.ndarray] | np.ndarray, inputs: Sequence[TensorSpec], origin: str) -> Batch:
    """``arrays`` by input name; a single array stands for the only input."""
    names = [spec.name for spec in inputs]
    if not isinstance(arrays, Mapping):
        if len(names) != 1:
            raise InputError(f"{origin}: one array for {len(names)} inputs; name them: {', '.join(names)}")
        arrays = {names[0]: arrays}
    for name in arrays:
        if name not in names:
            raise InputError(f"{origin}: no input is named {name!r}{suggest(name, names)}")
    if missing := [name for name in names if name not in arrays]:
        raise InputError(f"{origin}: inputs {', '.join(missing)} are missing (found: {', '.join(arrays) or 'none'})")
    return {name: as_array(arrays[name]) for name in names}


def as_array(value: Any) -> np.ndarray:
    """An array, or a tensor of torch's on any device, as a NumPy array."""
    if not hasattr(value, "detach"):
        return np.asarray(value)
    tensor = value.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # which torch gives NumPy no array of
        import torch

        return np.asarray(tensor.view(torch.int16).numpy()).view("bfloat16")
    return np.asarray(tensor.numpy())


def batches(arrays: Mapping[str, np.ndarray], inputs: Sequence[TensorSpec], origin: str) -> list[Batch]:
    """Cut ``arrays``, whose first axis counts samples, into batches of the shapes and dtypes of ``inputs``; a number
    without axes is a batch for itself, or one of as many as a vector has."""
    counts: dict[str, int] = {}
    cut: Batch = {}
    for spec in inputs:
        array = arrays[spec.name]
        expected = f"{spec.name!r}: expected samples of shape {spec.shape} and dtype {spec.dtype}"
        if array.dtype != spec.dtype:
            raise InputError(f"{origin}: {expected}, found dtype {array.dtype}")
        size = spec.shape[0] if spec.shape else 1
        array = cut[spec.name] = array if array.ndim or spec.shape else array.reshape(1)
        if array.ndim == 0 or array.shape[1:] != spec.shape[1:] or not len(array) or len(array) % size:
            more = "a multiple of the first axis" if spec.shape else "a vector of them"
            raise InputError(f"{origin}: {expected} (or {more}), found shape {array.shape}")
        counts[spec.name] = len(array) // size
    if len(set(counts.values())) > 1:
        raise InputError(f"{origin}: the inputs have different numbers of batches: {counts}")
    return [{spec.name: _batch(cut[spec.name], spec, i) for spec in inputs}
            for i in range(max(counts.values(), default=0))]


def _batch(array: np.ndarray, spec: TensorSpec, number: int) -> np.ndarray:
    if not spec.shape:
        return np.asarray(array[number])
    size = spec.shape[0]
    return np.ascontiguousarray(array[number * size:(number + 1) * size])


def rows(batch: Mapping[str, np.ndarray]) -> int:
    """The samples of a batch: the extent of the first input's first axis, 1 of a number without axes."""
    first = next(iter(batch.values()), np.empty(0))
    return len(first) if first.ndim else 1


MOST_RANDOM = 1 << 16
"""Random batches that are drawn: all of them are held."""


def random(inputs: Sequence[TensorSpec], count: int, seed: int = 0) -> list[Batch]:
    """``count`` batches of random inputs: normal for floats, uniform over the dtype's range (or 0..1) for the rest."""
    size = count * sum(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in inputs)
    if count > MOST_RANDOM or size > data_bytes():
        raise InputError(f"expected at most {MOST_RANDOM} random inputs and {data_bytes():,} bytes of them, found "
                         f"{count} of {size:,} bytes")
    rng = np.random.default_rng(seed)
    return [{spec.name: _draw(rng, spec) for spec in inputs} for _ in range(count)]


def _draw(rng: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    dtype = np.dtype(spec.dtype)
    if dtype.kind == "f" or spec.dtype == "bfloat16":
        return rng.standard_normal(spec.shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize == 1:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, spec.shape, dtype, endpoint=True)
    return rng.integers(0, 2, spec.shape).astype(dtype)  # indices and masks: valid whatever they index
