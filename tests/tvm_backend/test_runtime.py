"""Running compiled networks: inputs, captures, errors."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from archloom.oracle.errors import InputError, MappingError
from archloom.tvm_backend.compiled import HostPart, Step
from archloom.tvm_backend.executable import CompiledNetwork, run_region
from archloom.tvm_backend.host.network import Host
from tests.support.tvm_backend.networks import executable, quantized, residual_cnn, samples
from tests.support.tvm_backend.reference import ReferenceExecutor, evaluate


@pytest.fixture(scope="module")
def exe() -> CompiledNetwork:
    return executable(quantized(residual_cnn()))


@pytest.fixture
def image() -> dict[str, np.ndarray]:
    return samples(residual_cnn(), 1)[0]


def test_capture_sees_every_step_with_its_tensors(exe: CompiledNetwork, image: dict[str, np.ndarray]) -> None:
    seen: list[str] = []

    def capture(step: Step, inputs: Mapping[str, np.ndarray], output: np.ndarray) -> None:
        seen.append(step.name)
        assert output.shape == step.workload.output.shape
        np.testing.assert_array_equal(output, evaluate(step.workload, {**inputs, **step.constants}))

    exe.run(image, executor=ReferenceExecutor(), capture=capture)
    assert seen == [s.name for s in exe.compiled.steps()]


@pytest.mark.parametrize(("inputs", "message"), [
    ({}, "input 'image' is missing; expected float32 of shape 1x3x12x12"),
    ({"image": np.zeros((1, 3, 12, 11), np.float32)}, "expected float32 of shape 1x3x12x12, found shape 1x3x12x11"),
    ({"image": np.zeros((1, 3, 12, 12))}, "expected float32 of shape 1x3x12x12, found dtype float64"),
    ({"image": np.zeros((1, 3, 12, 12), np.float32), "imgae": 1}, "no input is named 'imgae'; did you mean 'image'"),
])
def test_wrong_inputs_are_named(exe: CompiledNetwork, inputs: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        exe.run(inputs, executor=ReferenceExecutor())


def test_unknown_executor(exe: CompiledNetwork, image: dict[str, np.ndarray]) -> None:
    with pytest.raises(InputError, match="unknown executor 'xal'; did you mean 'xla'"):
        exe.run(image, executor="xal")  # type: ignore[arg-type]


def test_exceptions_of_a_step_keep_their_type(exe: CompiledNetwork, image: dict[str, np.ndarray]) -> None:
    class Broken:
        def run(self, step: Step, arguments: Mapping[str, Any]) -> Any:
            raise MappingError(f"no room for {step.name}")

    with pytest.raises(MappingError, match="no room for stem"):
        exe.run(image, executor=Broken())
    assert exe.run(image, executor=ReferenceExecutor())


def test_results_do_not_change_when_the_network_runs_again(exe: CompiledNetwork, image: dict[str, np.ndarray]) -> None:
    first = exe.run(image, executor=ReferenceExecutor())["logits.out"]
    kept = first.copy()
    exe.run({"image": -image["image"]}, executor=ReferenceExecutor())
    np.testing.assert_array_equal(first, kept)


def test_threads_take_turns(exe: CompiledNetwork, image: dict[str, np.ndarray]) -> None:
    expected = exe.run(image, executor=ReferenceExecutor())["logits.out"]
    results: list[np.ndarray] = []

    def work() -> None:
        for _ in range(3):
            results.append(exe.run(image, executor=ReferenceExecutor())["logits.out"])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 12 and all(np.array_equal(r, expected) for r in results)


@pytest.mark.slow
def test_host_part_survives_as_text(exe: CompiledNetwork, image: dict[str, np.ndarray]) -> None:
    part = exe.compiled.host
    regions = {region.symbol: region for region in exe.compiled.regions}
    again = Host(HostPart(part.module_json, part.ops), regions)(
        [image["image"]], lambda symbol, tensors: run_region(regions[symbol], tensors, ReferenceExecutor()))
    np.testing.assert_array_equal(again[0], exe.run(image, executor=ReferenceExecutor())["logits.out"])
