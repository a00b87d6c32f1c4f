"""The MTE paper's convolutions on AMX: what they compute."""

from __future__ import annotations

from random import Random

import ml_dtypes
import numpy as np
from hypothesis import given

from archloom.oracle import interpreter, taidl
from benchmarks.published.mte_amx import OnAmx
from benchmarks.published.mte_kernels import Convolution
from tests.support.examples import examples, randoms
from tests.uma_targets.mte.test_mte_kernels import convolved, laid_out


def panels(on: OnAmx, weights: np.ndarray) -> np.ndarray:
    """[rows, columns, inputs, channels] as the stream reads them."""
    shape = on.tensors[1].shape
    inputs, channels = shape[1] * shape[2] * 2 // (weights.shape[0] * weights.shape[1]), shape[0] * 16
    filled = np.zeros((*weights.shape[:2], inputs, channels), weights.dtype)
    filled[:, :, :weights.shape[2], :weights.shape[3]] = weights
    return filled.reshape(-1, shape[2], 2, shape[0], 16).transpose(3, 0, 1, 4, 2)


@examples(3, 60)
@given(randoms)
def test_convolutions_of_any_window_and_stride(r: Random) -> None:
    stride, window = r.randint(1, 2), (r.randint(1, 3), r.randint(1, 3))
    rows, columns = r.randint(1, 2), r.randint(1, 3)
    width = (columns - 1) * stride + window[1] + r.randint(0, 1)
    case = Convolution("", r.randint(1, 16), r.randint(1, 70), r.randint(1, 50), window, stride, rows, columns, width)
    on, rng = OnAmx(case), np.random.default_rng(r.getrandbits(32))
    image, weights = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in (
        (case.images, case.height, width, case.inputs), (*window, case.inputs, case.channels)))
    a = np.zeros(on.tensors[0].shape, ml_dtypes.bfloat16)
    a[:, :case.inputs] = laid_out(case, image)
    found = interpreter.run(on.stream(rows, columns), taidl.load("amx"), {"A": a, "B": panels(on, weights)})["C"]
    expected = convolved(case, image.astype(np.float32), weights.astype(np.float32)).reshape(-1, case.channels)
    np.testing.assert_allclose(found[:, :case.channels], expected, atol=1e-3)
    assert not found[:, case.channels:].any()
