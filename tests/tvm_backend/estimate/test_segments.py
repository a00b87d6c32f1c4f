"""Networks in segments: the report is that of the whole network, and each segment is partitioned once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest

from archloom.tvm_backend.compiled import Partition
from archloom.tvm_backend.estimate import segments
from archloom.tvm_backend.estimate.network import OnnxNetwork
from archloom.tvm_backend.estimate.pieces import Undivided, pieces_of
from archloom.tvm_backend.estimate.request import Request
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import choose, named_options
from examples import nas_space
from examples.nas_space import Space, Stage
from examples.onnx_graph import OnnxGraph
from tests.support.examples import slow
from tests.support.tvm_backend.networks import residual_cnn
from tests.support.tvm_backend.small_networks import float_cnn

SMALL = Space(
    images=(16, 24), multipliers=(0.25, 0.5), kernels=(1, 3), expansions=(1, 2),
    stages=(Stage(16, 2, (1, 2)), Stage(24, 1, (1, 2))), stem=8, first=8, head=16, classes=5)


def request_of(target: str = "gemmini", **options: object) -> Request:
    return Request(target, named_options(choose(target, options)), as_int8=True, details=False, on_disk=False)


def both(model: onnx.ModelProto, request: Request) -> tuple[Report | None, Report]:
    """The report in segments, and of the whole network."""
    found = network(model, request)
    return found.in_segments(), found.as_whole()


def network(model: onnx.ModelProto, request: Request) -> OnnxNetwork:
    return OnnxNetwork.of(Source.of(model, name="net"), request)


def block(graph: OnnxGraph, x: str, channels: tuple[int, int], name: str, *, activation: str = "", **conv: int) -> str:
    """A convolution of zeros with bias, and an activation."""
    kernel = conv.pop("kernel", 3)
    weight = np.zeros((channels[1], channels[0] // conv.get("groups", 1), kernel, kernel), np.float32)
    x = graph.conv(x, weight, np.zeros(channels[1], np.float32), name, padding=kernel // 2, **conv)
    if activation == "relu":
        return graph.relu(x, f"{name}.relu")
    return graph.clip(x, f"{name}.clip", 0.0, 6.0) if activation == "clip" else x


def pooled() -> onnx.ModelProto:
    """Pooling behind a convolution and one that has no operator between: neither may be cut."""
    graph = OnnxGraph("pooled")
    x = block(graph, graph.input("image", (1, 3, 16, 16)), (3, 8), "a", activation="relu")
    x = graph.max_pool(x, "pool", size=2, stride=2)
    x = block(graph, block(graph, x, (8, 8), "b"), (8, 16), "c", activation="clip", stride=2)
    x = graph.max_pool(block(graph, x, (16, 16), "d"), "pool2", size=2, stride=2)
    return graph.model(graph.dense(graph.global_average(x, "mean"), np.zeros((5, 16), np.float32),
                                   np.zeros(5, np.float32), "logits"), (1, 5))


def residual(first: int = 8, name: str = "b") -> onnx.ModelProto:
    """Sums that convolutions and sums read, one of them with an activation."""
    graph = OnnxGraph("residual")
    x = block(graph, graph.input("image", (1, 3, 16, 16)), (3, first), "a", activation="relu")
    y = block(graph, block(graph, x, (first, 8), name, activation="relu"), (8, first), f"{name}.c")
    x = graph.relu(graph.add(x, y, f"{name}.sum"), f"{name}.out")
    y = block(graph, x, (first, first), "d", activation="clip")
    x = graph.add(block(graph, y, (first, first), "e"), x, "second")
    return graph.model(block(graph, x, (first, 4), "f"), (1, 4, 16, 16))


@pytest.mark.slow
@pytest.mark.parametrize("make", [pooled, residual, slow(float_cnn)])
@pytest.mark.parametrize("details", [slow(False), True])
def test_the_report_is_that_of_the_whole_network(make: Callable[[], onnx.ModelProto], details: bool) -> None:
    found, whole = both(make(), replace(request_of(dim=4), details=details))
    assert found == whole and whole.cycles > 0


@pytest.mark.slow
@pytest.mark.parametrize("target", [slow("eyeriss"), slow("tpu_v1"), "gamma"])
def test_targets_that_leave_convolutions_or_sums_to_the_host(target: str) -> None:
    found, whole = both(pooled(), request_of(target))
    assert found in (None, whole) and whole.cycles > 0


@pytest.mark.slow
def test_random_networks_of_a_search_share_segments() -> None:
    rng, request = np.random.default_rng(0), request_of(dim=8)
    pieces = 0
    for _ in range(8):
        model = nas_space.onnx_model(nas_space.draw(rng, SMALL))
        pieces += len(pieces_of(model) or ())
        found, whole = both(model, request)
        assert found == whole and whole.cycles > 0
    assert len(segments._known) < pieces / 2
    read, known = len(segments._read), len(segments._known)
    found, whole = both(model, request_of(dim=4))
    assert found == whole != both(model, request)[1]  # on another machine, from what was read for the first
    assert len(segments._read) == read and len(segments._known) > known


@pytest.mark.slow
def test_a_segment_is_partitioned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    request, partition = request_of(dim=8), segments.partition_model
    asked: list[object] = []

    def counted(model: Model, *rest: Any) -> Partition:
        asked.append(model)
        return partition(model, *rest)

    monkeypatch.setattr(segments, "partition_model", counted)
    found = [network(residual(name=name), request).in_segments() for name in ("b", "other")]
    assert len(asked) == len(segments._known) and None not in found
    assert [layer.name for layer in found[1].layers if layer.name.startswith("other")]  # type: ignore[union-attr]
    assert found[0].cycles == found[1].cycles  # type: ignore[union-attr]
    network(residual(16), request).in_segments()
    assert len(asked) == len(segments._known)


def shared_weights() -> onnx.ModelProto:
    """Two convolutions of one weight."""
    model = residual()
    convolutions = [node for node in model.graph.node if node.op_type == "Conv"]
    convolutions[-2].input[1:] = convolutions[-3].input[1:]
    return model


def colliding() -> onnx.ModelProto:
    """The sum called as the addition of the bias in a convolution is."""
    model = residual()
    next(node for node in model.graph.node if node.name == "second").name = "e.add"
    return model


@pytest.mark.first_case
@pytest.mark.parametrize(("make", "reason"), [
    (shared_weights, "shares a weight"), (colliding, "called as another operator"),
    (residual_cnn, "no tensor at which it may be cut")])
def test_what_is_left_to_the_whole_network(make: Callable[[], onnx.ModelProto], reason: str) -> None:
    model = make()
    with pytest.raises(Undivided, match=reason):
        network(model, request_of(dim=4)).chain()
    found, whole = both(model, request_of(dim=4))
    assert found is None and whole.cycles > 0
    assert network(model, request_of(dim=4)).report() == whole
