"""Networks of the package transformers, small and with random weights: in int8 with layers that are computed plainly
(that streams compute the same is tested elsewhere), in floats by the streams of all cores."""

from __future__ import annotations

import numpy as np
import pytest

import archloom
from archloom.tvm_backend.check.network import FLOAT_TOLERANCE
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.frontends.torch.export import to_onnx
from tests.support.tvm_backend.networks import executable
from tests.support.tvm_backend.others import NETWORKS, built, inputs
from tests.support.tvm_backend.reference import ReferenceExecutor

pytestmark = pytest.mark.slow
LEAST_OFFLOADED = 0.95


@pytest.mark.parametrize("name", NETWORKS)
def test_in_int8(name: str) -> None:
    """As onnxruntime computes the quantized network, operator by operator."""
    network = built(name)
    floats = to_onnx(network, inputs(network, 0), name, ["x"])
    proto = archloom.quantize(floats, [{"x": x.numpy()} for seed in range(4) for x in inputs(network, seed)])
    exe = executable(archloom.load(proto))
    data = {"x": inputs(network, 5)[0].numpy()}
    (expected,) = run(integer_session(proto, fused=False), data).values()
    assert np.ptp(expected) > 0
    (found,) = exe.run(data, executor=ReferenceExecutor()).values()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.ptp(expected))
    assert exe.compiled.offloaded_macs_share > LEAST_OFFLOADED


@pytest.mark.parametrize("name", NETWORKS)
def test_in_floats(name: str) -> None:
    """As torch computes it."""
    network = built(name)
    model = archloom.load(network, inputs(network, 0))
    exe = archloom.compile(model, target="wormhole", options={"rows": 2, "columns": 2})
    (x,) = inputs(network, 5)
    expected = network(x).detach().numpy()
    assert np.ptp(expected) > 0
    np.testing.assert_allclose(
        exe(x.numpy()), expected, rtol=0, atol=FLOAT_TOLERANCE["float16"] * np.abs(expected).max())
    assert exe.compiled.offloaded_macs_share > LEAST_OFFLOADED
