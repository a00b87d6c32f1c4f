"""Scales and zero points of any shape: what reads a network with its weights and what reads it without agree."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto

from archloom.tvm_backend import cli
from tests.support.examples import examples
from tests.tvm_backend.hostile.cases import OUT, ROW, constant, model, op

SHAPES = st.one_of(st.sampled_from([(), (1,), (4,)]), st.lists(st.sampled_from([-4, -1, 0, 1, 2, 3, 4]), max_size=2))


def raw(name: str, shape: Sequence[int], item: np.generic, count: int) -> onnx.TensorProto:
    """A constant whose data may be of another length than its shape says."""
    return TensorProto(name=name, dims=shape, data_type=onnx.helper.np_dtype_to_tensor_dtype(item.dtype),
                       raw_data=item.tobytes() * count)


@given(scale=SHAPES, zero=SHAPES, whole=st.booleans())
@examples(5, 300)
def test_estimates_take_what_compilation_takes(
    scale: Sequence[int], zero: Sequence[int], whole: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A traceback is neither; whatever the shapes of scale and zero point, and of their data."""
    counts = [abs(math.prod(shape)) if whole else 1 for shape in (scale, zero)]
    made = model([op("DequantizeLinear", "w s z", "d", name="d"), op("MatMul", "x d", name="m")], ROW, OUT, [
        constant("w", np.ones((4, 4)), np.int8), raw("s", scale, np.float32(0.5), counts[0]),
        raw("z", zero, np.int8(0), counts[1])])
    path = tmp_path_factory.mktemp("scales") / "net.onnx"
    path.write_bytes(made.SerializeToString())
    statuses = {status(path, *words) for words in (
        ("compile", "--coverage", "-t", "plasticine"), ("estimate", "--no-cache", "-t", "plasticine"),
        ("estimate", "--no-cache", "-t", "gemmini"))}
    assert statuses in ({0}, {2})
    if any(extent < 0 for extent in (*scale, *zero)):
        assert statuses == {2}


def status(path: Path, command: str, *words: str) -> int:
    return cli.main([command, str(path), *words])
