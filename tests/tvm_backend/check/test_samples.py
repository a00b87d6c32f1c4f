"""Samples for inputs without axes: numbers, one for each batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import archloom
from archloom.oracle.errors import InputError
from archloom.tvm_backend import samples
from archloom.tvm_backend.compiled import TensorSpec
from archloom.tvm_backend.ir.compat import relax
from tests.support.tvm_backend import inside

NUMBER, ROW = TensorSpec("a", (), "float32"), TensorSpec("x", (1, 4), "float32")


@pytest.mark.parametrize("given", [np.float32(2), np.array([2], np.float32)])
def test_a_number_is_a_batch(given: Any) -> None:
    (batch,) = samples.batches(samples.named({"a": given, "x": np.ones((1, 4), np.float32)}, (NUMBER, ROW), "inputs"),
                               (NUMBER, ROW), "inputs")
    assert batch["a"].shape == () and batch["a"] == 2 and batch["x"].shape == (1, 4)


def test_a_vector_has_numbers_for_as_many_batches() -> None:
    given = {"a": np.arange(3, dtype=np.float32), "x": np.ones((3, 4), np.float32)}
    assert [float(batch["a"]) for batch in samples.batches(given, (NUMBER, ROW), "inputs")] == [0, 1, 2]
    with pytest.raises(InputError, match="different numbers of batches: {'a': 3, 'x': 1}"):
        samples.batches({**given, "x": np.ones((1, 4), np.float32)}, (NUMBER, ROW), "inputs")


@pytest.mark.parametrize("shape", [(2, 2), (0,)])
def test_what_is_no_vector_of_numbers_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="'a': expected samples of shape .* .or a vector of them., found shape"):
        samples.batches({"a": np.zeros(shape, np.float32)}, (NUMBER,), "inputs")


@pytest.mark.parametrize("inputs", [None, {"a": np.float32(3), "x": np.ones((1, 4), np.float32)}])
def test_networks_with_a_number_first_are_checked(inputs: Any) -> None:
    module = inside.built({"a": [()], "x": [(1, 4)]}, lambda builder, a, x: inside.dense(
        builder, builder.emit(relax.op.multiply(x, a)), 4))
    checked = archloom.check(module, "qkv", inputs=inputs)
    assert checked.passed and checked.samples == (4 if inputs is None else 1)
