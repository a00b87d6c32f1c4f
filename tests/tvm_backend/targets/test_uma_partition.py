"""Partitioning by pattern tables, as TVM's tests of its UMA partitioner had it: test_partition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom import load
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.compile import partition_among
from archloom.tvm_backend.ir import compat, expressions
from archloom.tvm_backend.ir.patterns import to_relax
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.backend import UMABackend
from archloom.tvm_backend.targets.partition import partition
from tests.support.examples import examples, slow
from tests.support.tvm_backend.networks import Net, executable, only, quantized, samples, split
from tests.support.tvm_backend.reference import ReferenceExecutor


class Borrowed(UMABackend):
    """A target with the pattern table of another one, each pattern in another form on request."""

    def __init__(
        self, source: str, name: str | None = None, form: Callable[[Any], Any] = lambda pattern: pattern,
    ) -> None:
        super().__init__()
        self._source, self._name = registry.get(source), name or f"{source}_uma"
        for pattern in self._source.patterns:
            self._register_pattern(pattern.name, lambda make=pattern.make: form(make()), pattern.predicate)
            self._register_operator_strategy(pattern.name, self._source.strategy(pattern.name))
        for phase, relax_pass in self._source._passes:
            self._register_relax_pass(phase, relax_pass, takes_options=True)
        self._register_codegen("stream", lambda: self._source.accelerator)

    @property
    def target_name(self) -> str:
        return self._name

    @property
    def numbers(self) -> Any:
        return self._source.numbers

    @property
    def vectors(self) -> bool:
        return self._source.vectors


def mlp() -> onnx.ModelProto:
    """784 to 128, 64 and 10, with ReLU between and softmax after."""
    net = Net()
    x = net.input("data", 1, 784)
    for name, k, n in (("fc1", 784, 128), ("fc2", 128, 64)):
        x = net.node("Relu", [net.dense(x, name, k, n)], f"{name}_relu")
    return net.model(net.node("Softmax", [net.dense(x, "fc3", 64, 10)], "softmax"))


def resnet() -> onnx.ModelProto:
    """ResNet-18 on small images, batch normalization folded: 20 convolutions, 8 additions, a dense layer."""
    net = Net()
    x = net.node("Relu", [net.conv(net.input("data", 1, 3, 16, 16), "stem", 3, 8, pads=[1, 1, 1, 1])], "stem_relu")
    channels = 8
    for stage, width in enumerate((8, 12, 16, 24)):
        for block in range(2):
            stride = 2 if stage and not block else 1
            name = f"s{stage}b{block}"
            y = net.conv(x, f"{name}c1", channels, width, pads=[1, 1, 1, 1], strides=[stride, stride])
            y = net.conv(net.node("Relu", [y], f"{name}relu1"), f"{name}c2", width, width, pads=[1, 1, 1, 1])
            if width != channels:
                x = net.conv(x, f"{name}down", channels, width, 1, strides=[stride, stride])
            x = net.node("Relu", [net.node("Add", [y, x], f"{name}add")], f"{name}relu2")
            channels = width
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x], "average")], "flatten")
    return net.model(net.dense(x, "logits", channels, 10))


NETWORKS = {"resnet": resnet, "mlp": mlp}


def test_what_is_left_to_the_matcher_of_tvm_is_told_in_reports() -> None:
    """Patterns written for TVM alone: the same layers, and in the results why they took longer to be found."""
    model = load(quantized(mlp()), name="mlp")
    ours, theirs = (partition_among(model, only(Borrowed("gemmini", form=form))) for form in (lambda p: p, to_relax))
    assert ours.fallbacks == model.fallbacks
    (slower,) = theirs.fallbacks[len(model.fallbacks):]
    assert (slower.where, slower.why) == ("patterns", "a pattern written for TVM alone")
    assert [step.name for step in theirs.steps()] == [step.name for step in ours.steps()] != []


def test_the_pattern_table_is_there_when_the_target_is_registered() -> None:
    assert "test_partition" not in registry.names()
    target = Borrowed("gemmini", "test_partition")
    assert "test_partition" not in registry.names()
    target.register()
    assert [p.name for p in registry.get("test_partition").patterns] == [
        p.name for p in registry.get("gemmini").patterns]


@pytest.mark.first_case
@pytest.mark.parametrize(("network", "table", "composites", "regions"), [
    ("resnet", "gemmini", 20 + 8 + 1, 2),  # all up to the average are one region, the last layer another
    slow("resnet", "qkv", 20 + 1, 18),  # the host gathers windows before each; three shortcuts lie beside another one
    ("mlp", "gemmini", 3, 1),
    ("mlp", "qkv", 3, 1),
])
def test_existing_pattern_tables(network: str, table: str, composites: int, regions: int) -> None:
    """Each match is a composite function of its own; neighbours are merged into regions."""
    target = Borrowed(table)
    target.register()
    proto = NETWORKS[network]()
    module = load(quantized(proto) if target.numbers == "int8" else proto).module
    found = partition(module, only(target)).module
    functions = {gv.name_hint: f for gv, f in found.functions.items()}
    assert sum(1 for f in functions.values() if expressions.codegen_of(f) == f"{table}_uma") == regions
    called = [value for f in functions.values() for value in (b.value for b in compat.bindings(f))]
    labels = [label[0] for value in called if (label := expressions.is_composite(found, value)) is not None]
    assert len(labels) == composites
    assert {label.split(".")[0] for label in labels} == {f"{table}_uma"}
    assert not partition(module, only(target)).refused or network == "resnet"


def test_two_targets_with_the_same_table_share_nothing() -> None:
    """The first takes all; the other is offered what is left, which is nothing."""
    from archloom.tvm_backend.targets.choice import choose

    module = load(quantized(mlp())).module
    first, second = Borrowed("gemmini", "first"), Borrowed("gemmini", "second")
    found = partition(module, choose([first, second]))
    codegens = [expressions.codegen_of(f) for f in found.module.functions.values()]
    assert codegens.count("first") == 1 and "second" not in codegens


@pytest.mark.slow
@examples(3, 60)
@given(st.data())
def test_results_within_patterns_that_are_read_elsewhere_too_are_made(data: st.DataObject) -> None:
    """Any of what a chain of layers makes may be a result of the network, or be read by another layer: then what comes
    after it cannot become a part of the layer that makes it, and every layer is offloaded all the same."""
    net, width, made = Net(), 6, ["x"]
    net.input("x", 3, width)
    layers = data.draw(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=4))
    for number, (relu, far) in enumerate(layers):
        source = data.draw(st.sampled_from(made)) if far else made[-1]
        made.append(net.dense(source, f"dense{number}", width, width))
        if relu:
            made.append(net.node("Relu", [made[-1]], f"relu{number}"))
    others = data.draw(st.sets(st.sampled_from(made[1:])))
    model = net.model(*sorted(others | {made[-1]}))
    assert split(model, registry.get("qkv"))[0].offloaded_macs_share == 1
    ready, x = quantized(model), samples(model, 1)[0]
    assert split(ready)[0].offloaded_macs_share == 1
    found = executable(ready).run(x, executor=ReferenceExecutor())
    for value, reference in zip(found.values(), run(integer_session(ready), x).values(), strict=True):
        np.testing.assert_array_equal(value, reference)
