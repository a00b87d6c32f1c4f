"""Samples as users have them, as batches of a network's inputs: arrays, mappings, tuples, a ``DataLoader``'s batches.

What is given is an iterable of samples, or one array (a mapping of arrays by name) whose first axis counts them. A
sample is an array, a mapping of input names to arrays, or a tuple that begins with one array for each input, as the
batches of a ``DataLoader`` do, which end with labels. Its arrays may have the network's batch axis, a multiple of its
extent there, or no such axis.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend.samples import Batch, as_array

if TYPE_CHECKING:
    import torch

Given: TypeAlias = Any
"""Arrays, mappings, tuples, or an iterable of them."""


@dataclass(frozen=True)
class Wanted:
    """An input of the network: its name, and its extents, None where they are open."""

    name: str
    dims: tuple[int | None, ...]

    def batches(self, array: np.ndarray) -> list[np.ndarray]:
        """An array cut into batches, with a batch axis where it has none; as it is, for another fault, where its rank
        is none of these."""
        size = self.dims[0] if self.dims else None
        if self.dims and array.ndim == len(self.dims) - 1 and size in (None, 1):
            return [array[None]]
        if array.ndim != len(self.dims) or size is None or len(array) == size or len(array) % size:
            return [array]
        return [array[i:i + size] for i in range(0, len(array), size)]


def batches(given: Given, inputs: Sequence[Wanted]) -> Iterator[Batch]:
    """Batches of the network's inputs, by name; InputError with the number of a sample that does not fit."""
    for number, sample in enumerate(_samples(given, inputs), 1):
        named = _named(sample, [i.name for i in inputs], f"calibration sample {number}")
        cut = {i.name: i.batches(named[i.name]) for i in inputs}
        counts = {name: len(found) for name, found in cut.items()}
        if len(set(counts.values())) > 1:
            raise InputError(f"calibration sample {number}: its inputs have different numbers of batches: {counts}")
        if infinite := [name for name, value in named.items() if not _is_finite(value)]:
            raise InputError(
                f"calibration sample {number}: input {infinite[0]!r} has values that are no finite numbers")
        for position in range(next(iter(counts.values()), 0)):
            yield {name: found[position] for name, found in cut.items()}


def _samples(given: Given, inputs: Sequence[Wanted]) -> Iterable[Any]:
    """The samples one by one; of arrays that hold all of them, those of the first axis or, where that is the network's
    own, all together."""
    if isinstance(given, Mapping):
        return [given]
    if not _is_array(given):
        return given
    whole = as_array(given)
    return whole if inputs and whole.ndim > len(inputs[0].dims) else [whole]


def _named(sample: Any, names: Sequence[str], what: str) -> Batch:
    if isinstance(sample, Mapping):
        missing = [name for name in names if name not in sample]
        if missing:
            raise InputError(f"{what}: input {missing[0]!r} is missing")
        return {name: as_array(sample[name]) for name in names}
    if isinstance(sample, tuple | list) and sample and all(map(_is_array, sample)):
        if len(sample) < len(names):
            raise InputError(f"{what}: expected arrays for the inputs {', '.join(names)}, found {len(sample)}")
        return {name: as_array(value) for name, value in zip(names, sample, strict=False)}
    if len(names) != 1:
        raise InputError(f"{what}: the network has inputs {', '.join(names)}; expected a mapping from input names to "
                         "arrays, found a single array")
    return {names[0]: as_array(sample)}


def refuse_no_samples(given: Any) -> None:
    """InputError for what can hold no samples."""
    if isinstance(given, str | bytes | Path) or not any(hasattr(given, way) for way in ("__iter__", "__getitem__")):
        raise InputError("calibration: expected samples: an iterable of arrays, of mappings or of tuples of them, or "
                         f"one array of all; found {given!r}")


def _is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind not in "fc" or bool(np.isfinite(array).all())


def _is_array(value: Any) -> bool:
    """Whether it is an array of NumPy's, torch's or another library's."""
    return hasattr(value, "shape") and hasattr(value, "dtype")


# what a module is exported on -----------------------------------------------------------------------------------------


def example_of(module: "torch.nn.Module", given: Given) -> tuple[tuple[Any, ...], Given]:
    """Inputs for one call of a module, and the samples with the first put back.

    A sample of an iterable is what the module is called with; of arrays that hold all samples, and of the batches of a
    ``DataLoader``, it is one of the first axis. InputError where there is none.
    """
    counted = _is_array(given) or isinstance(given, Mapping) or hasattr(given, "dataset")
    if _is_array(given) or isinstance(given, Mapping):
        first: Any = given
    else:
        samples = iter(given)
        first = next(samples, None)
        if first is None:
            raise InputError("calibration: expected at least one sample, found none")
        given = _again(first, samples)
    values = tuple(first.values()) if isinstance(first, Mapping) else first
    if isinstance(values, tuple | list):
        values = values[:_parameters(module)]
    else:
        values = (values,)
    return tuple(value[:1] if counted else value for value in values), given


def refuse_other_floats(module: "torch.nn.Module", inputs: Sequence[Any]) -> None:
    """InputError for inputs in floats that are none of those of the module's parameters, as NumPy's usually are:
    torch exports such a module all the same, and nothing runs the network."""
    known = {str(p.dtype).removeprefix("torch.") for p in module.parameters() if p.is_floating_point()}
    for number, value in enumerate(inputs):
        kind = str(getattr(value, "dtype", "")).removeprefix("torch.")
        if known and "float" in kind and kind not in known:
            raise InputError(f"calibration sample 1: input {number}: expected {' or '.join(sorted(known))}, as the "
                             f"module's parameters are, found {kind}")


def _again(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _parameters(module: "torch.nn.Module") -> int | None:
    """How many inputs a module must be given; None where any number is taken."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return None
    return sum(p.default is p.empty for p in parameters)
