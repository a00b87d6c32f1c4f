"""From a module to a running network on the vanilla accelerator, as TVM's tests of its UMA pipeline had it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import archloom
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.ir import expressions
from archloom.tvm_backend.targets.partition import partition
from tests.support.tvm_backend.networks import Net, only, quantized, samples
from tests.support.tvm_backend.relax import bound
from tests.support.tvm_backend.vanilla import VanillaAccelerator, VanillaInt8


@pytest.mark.parametrize(("groups", "weight_shape"), [(1, 32)])
def test_conv2d(groups: int, weight_shape: int, conv2d_module: Any, conv2d_reference: Any) -> None:
    """A convolution alone: data and weight are parameters, the weight is bound, the rest runs on the accelerator."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (1, 32, 14, 14)).astype(np.float32)
    weight = rng.uniform(0, 1, (32, weight_shape, 3, 3)).astype(np.float32)
    target = VanillaAccelerator()
    target.register()
    module = conv2d_module(x.shape, weight.shape, groups=groups)
    module = bound(module, weight=weight)
    split = partition(module, only(target)).module
    codegens = [expressions.codegen_of(f) for f in split.functions.values()]
    assert codegens.count("vanilla_accelerator") == 1 and [p.name for p in split["main"].params] == ["data"]

    network = archloom.compile(module, "vanilla_accelerator", {"dim": 16})
    expected = conv2d_reference(x, weight, padding=1, groups=groups)
    np.testing.assert_allclose(network(x), expected, rtol=1e-5)
    assert network.report.offloaded_macs_share == 1 and network.report.target == "vanilla_accelerator"


def test_a_weight_that_is_no_constant_stays_on_the_host(conv2d_module: Any) -> None:
    VanillaAccelerator().register()
    found = archloom.coverage(conv2d_module((1, 32, 14, 14), (32, 32, 3, 3)), "vanilla_accelerator")
    (conv,) = found.operators
    assert conv.taken_by is None and conv.refused[0].reason == "it has no form that vanilla_accelerator takes"


@pytest.mark.slow
def test_passes_patterns_and_predicates_of_the_target_decide() -> None:
    """Of two quantized convolutions the one of stride 1 is taken; its pass runs before."""
    net = Net()
    first = net.conv(net.input("image", 1, 4, 8, 8), "first", 4, 8)
    model = quantized(net.model(net.conv(first, "second", 8, 8, strides=[2, 2])))
    target = VanillaInt8()
    target.register()
    network = archloom.compile(model, "vanilla_int8", {"variant": "version2"})
    assert [s.name for s in network.compiled.steps()] == ["first"]
    assert target.seen == ["before"]
    (second,) = [op for op in network.compiled.host.ops if op.name == "second"]
    assert second.reason == "strides are (2, 2)" and second.refused[0].needs == "stride 1"
    assert network.report.options["variant"] == "version2"
    (batch,) = samples(model, 1)
    (expected,) = run(integer_session(model), batch).values()
    (found,) = network.run(batch).values()
    step = float(np.abs(expected[expected != 0]).min())
    assert np.abs(found - expected).max() <= 1.01 * step


def test_one_function_serves_equal_layers() -> None:
    """TVM's UMA made code for each convolution again."""
    net = Net()
    x = net.input("image", 1, 8, 8, 8)
    for name in ("a", "b", "c"):
        x = net.conv(x, name, 8, 8, bias=False, pads=[1, 1, 1, 1])
    target = VanillaAccelerator()
    target.register()
    network = archloom.compile(net.model(x), "vanilla_accelerator")
    plans = network.compiled.plans
    assert len(plans) == 3 and len({(p.mapping, p.stream.body) for p in plans.values()}) == 1
