"""A convolution lowered to an accelerator's instructions equals the reference, as TVM's test of UMALower had it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import archloom
from tests.support.examples import slow
from tests.support.tvm_backend.relax import bound
from tests.support.tvm_backend.vanilla import VanillaAccelerator

SIZES = [
    (1, 224, 224, 3, 3, 3, 4),
    slow(1, 224, 224, 3, 5, 5, 4), slow(1, 224, 224, 3, 7, 7, 4), slow(1, 224, 320, 3, 7, 7, 4),
]


@pytest.mark.parametrize(("n", "w", "h", "ci", "kw", "kh", "co"), SIZES)
def test_lower_with_uma(
    n: int, w: int, h: int, ci: int, kw: int, kh: int, co: int, conv2d_module: Any, conv2d_reference: Any
) -> None:
    rng = np.random.default_rng(kw)
    x = rng.uniform(0, 1, (n, ci, w, h)).astype(np.float32)
    weight = rng.uniform(0, 1, (co, ci, kw, kh)).astype(np.float32)
    padding = (kw // 2, kh // 2, kw // 2, kh // 2)
    VanillaAccelerator().register()
    module = bound(conv2d_module(x.shape, weight.shape, padding=padding), weight=weight)
    network = archloom.compile(module, "vanilla_accelerator")
    assert [s.macs for s in network.compiled.steps()] == [n * w * h * co * ci * kw * kh]
    np.testing.assert_allclose(network(x), conv2d_reference(x, weight, padding=padding[:2]), rtol=1e-5)
