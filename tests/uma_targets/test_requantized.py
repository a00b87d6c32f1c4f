"""Machines that make bytes of sums by a multiplier and a shift of each channel, with a rounding of their own."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import archloom
from archloom.mapper import requantization
from archloom.mapper.requantization import Requantization, Requantizer, evaluated
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle import interpreter
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.artifact.workload_json import from_json, to_json
from archloom.tvm_backend.check.workload_reference import evaluate
from archloom.tvm_backend.quantization.quantize import quantize
from archloom.tvm_backend.quantization.scheme import Scheme
from archloom.uma_targets.kit import requantized
from tests.support.examples import every, slow
from tests.support.tvm_backend.networks import Net, samples
from tests.support.uma_targets.rounders import ROUNDINGS, rounder

pytestmark = pytest.mark.usefixtures("clean_registry")


def rounded(name: str, total: int, multiplier: int, shift: int) -> int:
    """The plain definition of each rounding, of a fraction."""
    real = Fraction(total * multiplier, 1 << shift)
    if name == "cut":
        return real.__floor__()
    if name == "half_up":
        return (real + Fraction(1, 2)).__floor__()
    if name == "half_even":
        return round(real)
    high = (Fraction(total * multiplier, 1 << 31) + Fraction(1, 2)).__floor__()
    away = (abs(Fraction(high, 1 << (shift - 31))) + Fraction(1, 2)).__floor__()
    return -away if high < 0 else away


@given(st.sampled_from(sorted(ROUNDINGS)), st.integers(-(1 << 24), 1 << 24), st.integers(1 << 30, (1 << 31) - 1),
       st.integers(31, 62))
def test_formulas_are_what_they_are_called(name: str, total: int, multiplier: int, shift: int) -> None:
    found = evaluated(ROUNDINGS[name].formula, total, multiplier, shift)
    assert found == rounded(name, total, multiplier, shift)


@given(st.integers(-1000, 1000), st.integers(0, 12))
def test_halves(total: int, shift: int) -> None:
    """Of halves that are exact."""
    for name in ("half_up", "half_even", "cut"):
        assert evaluated(ROUNDINGS[name].formula, total, 1, shift) == rounded(name, total, 1, shift)


@given(st.floats(2.0**-30, 0.96875, width=32), st.integers(9, 31), st.integers(39, 60))
def test_multipliers_come_nearest(scale: float, bits: int, highest: int) -> None:
    machine = Requantizer(requantization.HALF_UP, bits, (0, highest))
    multiplier, shift = (int(c) for c in machine.constants(np.array(scale, np.float32)))
    assert 0 < multiplier < 1 << bits and 0 <= shift <= highest
    error = abs(Fraction(multiplier, 1 << shift) - Fraction(scale))
    assert error <= Fraction(1, 1 << (shift + 1))  # no multiplier at this shift is nearer
    assert shift == highest or multiplier >= 1 << (bits - 1)  # and none has more bits


def test_what_is_no_requantization() -> None:
    with pytest.raises(TargetError, match=r"expected within 1 of sum \* multiplier / 2\*\*shift, found"):
        Requantizer("sum * multiplier >> shift + 1")
    with pytest.raises(TargetError, match="expected the names sum, multiplier, shift, found scale"):
        Requantizer("sum * scale")
    with pytest.raises(TargetError, match="expected an operator or the end of the text"):
        Requantizer("sum multiplier")
    with pytest.raises(TargetError, match=r"shifts: expected a range within 0 to 62, found \(8, 4\)"):
        Requantizer(requantization.HALF_UP, shifts=(8, 4))
    with pytest.raises(TargetError, match="a factor of 3 is beyond multipliers of 31 bits with shifts from 31 to 62"):
        Requantizer(requantization.HALF_UP, shifts=(31, 62)).constants(np.array([0.5, 3.0]))


def test_workloads_survive_artifacts() -> None:
    epilogue = Epilogue(True, 1.0, False, "uint8", requantization=Requantization("sum", 3, 0, 200, True, (1, -2)))
    for work in (gemm(2, 3, 4, batch=2, shared_b=False, shared_bias=False, epilogue=epilogue),
                 conv2d(1, 5, 5, 2, 3, 3, 3, groups=2, epilogue=epilogue)):
        assert [t.name for t in work.inputs[2:]] == ["bias", "multiplier", "shift", "table"]
        assert from_json(to_json(work)) == work


def inputs_of(work: Workload, seed: int) -> dict[str, np.ndarray]:
    """Full-range bytes, and constants of channels that make bytes of their sums."""
    rng = np.random.default_rng(seed)
    found = {t.name: rng.integers(-128, 128, t.shape).astype(t.dtype) for t in work.inputs}
    found |= {t.name: rng.integers(-5000, 5000, t.shape).astype(np.int32) for t in work.inputs if t.name == "bias"}
    multiplier, shift = Requantizer(requantization.HALF_UP).constants(
        np.exp(rng.uniform(-9, -3, found["multiplier"].shape)))
    return {**found, "multiplier": multiplier, "shift": shift}


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_products_are_rounded_as_the_machine_says(name: str, table: bool) -> None:
    """The stores of the ISA against the formula, on one product of each of a batch."""
    target = rounder(name, operand_zeros=True)
    made = Requantization(ROUNDINGS[name].formula, -7, -100, 90, table, (3, -5))
    work = gemm(3, 5, 4, batch=2, shared_b=False, shared_bias=False,
                epilogue=Epilogue(True, 1.0, False, "int8", requantization=made))
    given_ = inputs_of(work, 3)
    plan = search(work, target.accelerator)
    found = interpreter.run(plan.stream, target.accelerator.isa(), given_, poison=1)["C"]
    np.testing.assert_array_equal(found, evaluate(work, given_))


def network(groups: int, curve: str = "") -> onnx.ModelProto:
    net = Net(11)
    x = net.input("x", 2, 4, 5, 4)
    y = net.node("Relu", [net.conv(x, "first", 4, 4, 3, pads=[1] * 4, group=groups)], "relu")
    y = net.conv(y, "second", 4, 5, 1)
    return net.model(net.conv(net.node(curve, [y], "curve"), "third", 5, 2, 1) if curve else y)


def checked(target: Any, floats: onnx.ModelProto, scheme: Scheme) -> archloom.CheckResult:
    """All of a network runs on the target, exactly as the machine's formula says."""
    target.register()
    model = quantize(floats, samples(floats, 4), scheme)
    result = archloom.check(model, target=target.target_name, inputs=samples(floats, 1, seed=5)[0])
    assert result.passed and all(layer.bit_exact for layer in result.layers), result.failures
    assert archloom.estimate(model, target=target.target_name).offloaded_macs_share == 1
    assert all("int32" not in layer.op for layer in result.layers)
    return result


SCHEMES = [Scheme(), Scheme(per_channel=True), Scheme(symmetric=False), Scheme(per_channel=True, symmetric=False)]
CASES = [(name, scheme, zeros) for scheme in SCHEMES for name in ROUNDINGS for zeros in (False, True)]


@pytest.mark.first_case
@pytest.mark.parametrize(("name", "scheme", "zeros"), every(3, CASES), ids=str)
def test_networks_are_offloaded_in_whole(name: str, scheme: Scheme, zeros: bool) -> None:
    result = checked(rounder(name, operand_zeros=zeros), network(4), scheme)
    first, second = (layer.op for layer in result.layers)
    groups = "batch_matmul" if scheme.per_channel else "dense"  # of one scale they are one
    assert (first, second) == (f"{groups}+bias+relu", "conv2d+bias")
    if name == "half_even":
        assert result.first_difference is None and {layer.rounding_steps for layer in result.layers} == {0}
    elif name == "cut":
        assert {layer.rounding_steps for layer in result.layers} == {1}
        assert "2 layers are exact by the machine's own rounding, which is up to 1 step from" in str(result)


@pytest.mark.parametrize("curve", ["Sigmoid", slow("Tanh")])
def test_activations_by_table(curve: str) -> None:
    result = checked(rounder("half_even", tables=True), network(1, curve), SCHEMES[3])
    assert [layer.op for layer in result.layers] == [
        "dense+bias+relu", f"conv2d+bias+{curve.lower()}", "conv2d+bias"]
    assert result.first_difference is None


def test_what_the_output_stage_cannot_do_is_left_with_its_reason() -> None:
    rounder("half_up", shifts=(0, 4)).register()
    floats = network(1)
    part = archloom.estimate(quantize(floats, samples(floats, 4)), target="rounds_half_up")
    assert part.offloaded_macs_share == 0
    assert all("is beyond multipliers of 31 bits with shifts from 0 to 4" in op.reason for op in part.host
               if op.op == "conv2d")


@pytest.mark.parametrize("tables", [False, True])
def test_machines_state_the_rule_of_their_tables(tables: bool) -> None:
    rules = requantized.rules_of(Requantizer(requantization.HALF_UP, shifts=(1, 62), tables=tables))
    assert any("no tables" in str(rule.__doc__) for rule in rules) is not tables
