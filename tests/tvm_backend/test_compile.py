"""Compiled networks on the oracle and on the interpreter: real mappings, real streams, onnxruntime's results."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from archloom import load
from archloom.oracle.errors import TargetError
from archloom.tvm_backend.check.reference import integer_session, run
from archloom.tvm_backend.compile import compile_model, partition_model
from archloom.tvm_backend.compiled import CompiledModel, Step
from archloom.tvm_backend.executable import CompiledNetwork
from tests.support.tvm_backend.networks import Net, quantized, residual_cnn, samples
from tests.support.tvm_backend.reference import evaluate

MODEL = quantized(residual_cnn())


@pytest.fixture(scope="module")
def compiled() -> CompiledModel:
    return compile_model(load(MODEL), "gemmini", {"dim": 8})


@pytest.mark.slow
def test_oracle_and_interpreter_equal_onnxruntime(compiled: CompiledModel) -> None:
    exe = CompiledNetwork(compiled)
    x = samples(MODEL, 1, seed=5)[0]
    expected = run(integer_session(MODEL), x)["logits.out"]

    def capture(step: Step, inputs: Mapping[str, np.ndarray], output: np.ndarray) -> None:
        np.testing.assert_array_equal(output, evaluate(step.workload, {**inputs, **step.constants}), err_msg=step.name)

    for executor in ("xla", "interpreter"):
        found = exe.run(x, executor=executor, capture=capture)["logits.out"]  # type: ignore[arg-type]
        np.testing.assert_array_equal(found, expected, err_msg=executor)


def test_every_step_has_a_plan_of_its_own_workload(compiled: CompiledModel) -> None:
    assert set(compiled.plans) == {s.name for s in compiled.steps()}
    for step in compiled.steps():
        plan = compiled.plans[step.name]
        assert plan.workload == step.workload and plan.timing.cycles > 0
        assert plan.timing.cycles >= step.macs / 64
        assert [a.name for a in plan.stream.arguments] == [t.name for t in step.workload.inputs]


def test_batched_matmul_and_odd_sizes() -> None:
    net = Net(11)
    a, b = net.input("a", 3, 5, 7), net.input("b", 3, 7, 11)
    model = quantized(net.model(net.node("Relu", [net.node("MatMul", [a, b], "scores")], "relu")))
    exe, x = CompiledNetwork(compile_model(load(model), "gemmini", {"dim": 4})), samples(model, 1)[0]
    assert [s.op for s in exe.compiled.steps()] == ["batch_matmul+relu"]
    np.testing.assert_array_equal(exe(x), run(integer_session(model), x)["relu.out"])


def test_progress_is_heard_for_every_step() -> None:
    heard: list[tuple[str, int, int]] = []
    compiled = compile_model(load(MODEL), "gemmini", {"dim": 8}, progress=lambda *a: heard.append(a))
    names = [s.name for s in compiled.steps()]
    assert heard == [(name, i, len(names)) for i, name in enumerate(names)]


def test_partition_resolves_the_options() -> None:
    part = partition_model(load(MODEL), "gemmini", {"dim": "32"})
    assert part.options["dim"] == 32 and part.options["dataflow"] == "auto"


@pytest.mark.parametrize(("target", "options", "message"), [
    ("gemini", {}, "unknown target 'gemini'; did you mean 'gemmini'"), ("gemmini", {"dim": 0}, "dim"),
    ("gemmini", {"dim": 3.5}, "dim"), ("gemmini", {"dmi": 16}, "dmi"),
])
def test_wrong_targets_and_options(target: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        partition_model(load(MODEL), target, options)
