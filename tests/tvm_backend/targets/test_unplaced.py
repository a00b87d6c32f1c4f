"""An operator that no mapping fits stops no network: the next target takes it, or the host, with the reason."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import onnx
import pytest

import archloom
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.quantization.quantize import quantize
from examples.onnx_graph import OnnxGraph

SMALL = {"dim": 16, "unified_buffer_kib": 1}
"""64 rows, of which one of a product with 648 summands needs 84."""


@cache
def network(*, wide_alone: bool = False) -> onnx.ModelProto:
    rng = np.random.default_rng(0)
    graph = OnnxGraph("convolutions")
    x, channels = graph.input("x", (1, 8, 6, 6)), 8
    for name, out, kernel in (("first", 8, 1), ("wide", 8, 9), ("last", 4, 1)):
        if name == "wide" or not wide_alone:
            weights = rng.standard_normal((out, channels, kernel, kernel)).astype(np.float32)
            x, channels = graph.conv(x, weights, None, name, padding=kernel // 2), out
    return quantize(graph.model(x, (1, channels, 6, 6)), [{"x": rng.standard_normal((1, 8, 6, 6)).astype(np.float32)}])


def estimated(target: str, options: dict[str, Any], **more: Any) -> archloom.Report:
    return archloom.estimate(network(**more), target, options)


@pytest.mark.slow
def test_the_host_has_what_does_not_fit() -> None:
    report = estimated("tpu_v1", SMALL)
    assert [layer.name for layer in report.accelerator_layers] == ["first", "last"]
    (host,) = [op for op in report.host if op.macs]
    assert host.name == "wide" and "a larger unified_buffer_kib would help" in host.reason
    result = archloom.check(network(), "tpu_v1", SMALL)
    assert result.passed and result.outputs[0].max_error_in_steps == 0


def test_the_next_target_takes_it() -> None:
    report = estimated("tpu_v1,gemmini", {f"tpu_v1.{name}": value for name, value in SMALL.items()})
    assert {layer.name: layer.target for layer in report.accelerator_layers} == {
        "first": "tpu_v1", "wide": "gemmini", "last": "tpu_v1"}
    assert report.offloaded_macs_share == 1


def test_where_nothing_fits_that_is_the_error() -> None:
    with pytest.raises(MappingError, match="a larger unified_buffer_kib would help"):
        estimated("tpu_v1", SMALL, wide_alone=True)
