"""Several targets share a network: who takes what, whose options are whose, reports, artifacts, the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import archloom
from archloom.oracle.errors import InputError, TargetError
from archloom.tvm_backend import cli
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.report.text import full_text
from archloom.tvm_backend.targets.choice import backends, choose, named_options, names_of, spelled
from tests.support.tvm_backend.networks import Net, quantized, samples

BOTH = ["gemmini", "qkv"]
SMALL = {"gemmini.dim": 8, "qkv.dim": 4}


def mixed() -> onnx.ModelProto:
    """A quantized convolution with ReLU, and a dense layer that stays in floats."""
    net = Net()
    image = net.input("image", 1, 3, 6, 6)
    conv = quantized(net.model(net.node("Relu", [net.conv(image, "conv", 3, 8)], "relu")))
    rest = Net(1)
    flat = rest.node("Flatten", [conv.graph.output[0].name], "flatten")
    logits = rest.dense(flat, "logits", 8 * 4 * 4, 5)
    graph = conv.graph
    graph.node.extend(rest.nodes)
    graph.initializer.extend(rest.constants)
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info(logits, onnx.TensorProto.FLOAT, [1, 5]))
    return conv


@pytest.fixture(scope="module")
def network() -> Any:
    return archloom.compile(mixed(), BOTH, SMALL)


def test_each_operator_goes_to_the_first_target_that_takes_it(network: Any) -> None:
    assert [(r.target, [s.name for s in r.steps]) for r in network.compiled.regions] == [
        ("gemmini", ["conv"]), ("qkv", ["logits"])]
    assert [r.symbol for r in network.compiled.regions] == ["gemmini_0", "qkv_1"]
    (answer,) = network.compiled.regions[1].steps[0].refused
    assert answer.target == "gemmini" and "the network is not quantized here" in answer.reason
    assert "archloom.quantize" in answer.needs


@pytest.mark.slow
def test_a_network_of_two_targets_runs_and_equals_its_interpreters(network: Any) -> None:
    (batch,) = samples(mixed(), 1)
    found = network.run(batch)
    assert all(np.array_equal(y, found[name]) for name, y in network.run(batch, executor="interpreter").items())
    import onnxruntime

    (expected,) = onnxruntime.InferenceSession(mixed().SerializeToString()).run(None, batch)
    np.testing.assert_allclose(next(iter(found.values())), expected, rtol=1e-4, atol=1e-4)


def test_the_report_says_which_took_what(network: Any) -> None:
    report = network.report
    assert report.target == "gemmini,qkv" and report.options["gemmini.dim"] == 8 and report.options["qkv.dim"] == 4
    assert [(s.name, s.layers) for s in report.targets] == [("gemmini", 1), ("qkv", 1)]
    assert report.accelerator_cycles == sum(s.cycles for s in report.targets) > 0
    assert report.offloaded_macs == sum(s.macs for s in report.targets)
    assert [layer.target for layer in report.accelerator_layers] == BOTH
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report
    text = full_text(report)
    assert "on gemmini,qkv (gemmini.dim=8, qkv.dim=4)" in text
    assert f"gemmini    1 layer, {100 * report.targets[0].macs / report.macs:.1f} % of the MACs" in text


def test_cycles_are_those_of_the_first_clock() -> None:
    report = archloom.estimate(mixed(), BOTH, {**SMALL, "qkv.clock_mhz": 500})
    gemmini, qkv = report.targets
    assert (gemmini.clock_hz, qkv.clock_hz) == (1e9, 0.5e9)
    assert report.clock_hz == 1e9 and report.accelerator_cycles == gemmini.cycles + 2 * qkv.cycles


def test_an_artifact_of_two_targets_runs_again(network: Any, tmp_path: Path) -> None:
    (batch,) = samples(mixed(), 1)
    again = archloom.load_compiled(network.save(tmp_path / "two.loom"))
    assert all(np.array_equal(y, again.run(batch)[name]) for name, y in network.run(batch).items())
    assert again.report == network.report
    assert again.compiled.regions[1].steps[0].refused == network.compiled.regions[1].steps[0].refused


def test_the_order_is_one_of_preference() -> None:
    partition = archloom.coverage(mixed(), ["qkv", "gemmini"])
    taken = {op.name: op.taken_by for op in partition.operators if op.taken_by}
    assert taken == {"conv": "qkv", "logits": "qkv"}  # a quantized convolution has weights of floats for it
    assert archloom.coverage(mixed(), "gemmini").shares()["gemmini"] < 1


def test_options_in_full_and_for_all() -> None:
    assert names_of("gemmini, qkv") == ("gemmini", "qkv") and spelled(("gemmini", "qkv")) == "gemmini,qkv"
    gemmini, qkv = choose(BOTH, {"dim": "8"})
    assert gemmini.options["dim"] == qkv.options["dim"] == 8
    gemmini, qkv = choose(BOTH, {"dim": 8, "qkv.dim": 4})
    assert (gemmini.options["dim"], qkv.options["dim"]) == (8, 4)
    resolved = named_options((gemmini, qkv))
    assert named_options(choose(BOTH, resolved)) == resolved
    assert named_options(choose("qkv"))["dim"] == 16
    assert backends(backends("qkv")[0]) == backends(["qkv"])


@pytest.mark.parametrize(("target", "options", "message"), [
    ([], {}, "expected at least one of .*gemmini.*found none"),
    ("", {}, "expected at least one of .*gemmini.*found none"),
    (["gemmini", "gemini"], {}, "unknown target 'gemini'; did you mean 'gemmini'"),
    ("gemmini,gemmini", {}, "target 'gemmini' is named twice in 'gemmini,gemmini'"),
    (["gemmini", 3], {}, "target: expected a name or a list of names, found 3"),
    ([np.ones((1, 3, 8, 8))], {}, "target: expected a name or a list of names, found a ndarray"),
    (BOTH, {"tpu.dim": 1}, "option 'tpu.dim': 'tpu' is not among the targets"),
    (BOTH, {"dims": 1}, "option 'dims': none of gemmini, qkv has it; did you mean 'dim'"),
    (BOTH, {"qkv.dims": 1}, "target 'qkv': unknown option 'dims'"),
    (BOTH, {"qkv.dim": 1}, "target 'qkv': option 'dim': expected an integer from 2 to 256"),
])
def test_what_is_no_choice(target: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        archloom.coverage("gemm(m=4,n=4,k=4)", target, options)


def test_no_target_is_named_like_a_part_of_the_host() -> None:
    from archloom.tvm_backend.targets import registry
    from archloom.uma_targets.qkv import Qkv

    class Xla(Qkv):
        target_name = "xla"  # type: ignore[assignment]

    with pytest.raises(TargetError, match="'xla': the name stands for a part of the host"):
        registry.add(Xla())


# coverage ----------------------------------------------------------------------------------------------------


def test_coverage_has_every_operator_in_the_order_of_the_network() -> None:
    found = archloom.coverage(mixed(), BOTH)
    kinds = [op.op for op in found.operators]
    assert kinds.index("quantize") < kinds.index("conv2d+bias+relu") < kinds.index("dense+bias")
    assert found.macs == sum(op.macs for op in found.operators)
    for op in found.operators:
        assert (op.taken_by is None) == (op.engine is not None)
        assert [r.target for r in op.refused] == (BOTH if op.taken_by is None else BOTH[:BOTH.index(op.taken_by)])
    assert sum(found.shares().values()) == 1


def test_a_refusal_says_what_would_fit() -> None:
    net = Net()
    model = quantized(net.model(net.node("Conv", [net.input("x", 1, 4, 6, 6), net.input("w", 3, 4, 3, 3)], "computed")))
    (computed,) = [op for op in archloom.coverage(model).operators if op.op == "nn.conv2d"]
    (answer,) = computed.refused
    assert answer.reason.startswith("the kernel is not constant")
    assert answer.needs == "A convolution has NCHW data and a constant OIHW kernel."
    text = str(archloom.coverage(model))
    assert "computed: the kernel is not constant" in text and f"it takes: {answer.needs}" in text


def test_coverage_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                      capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(mixed(), "mixed.onnx")
    words = ["compile", "mixed.onnx", "--target", "gemmini,qkv", "-O", "qkv.dim=8", "--coverage"]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert "conv2d+bias+relu" in text and "gemmini_0" in text and "gemmini (patterns: conv2d_pool, " in text
    assert cli.main([*words, "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["schema"] == "archloom.coverage/1" and data["target"] == "gemmini,qkv"
    assert data["options"]["qkv.dim"] == 8
    assert {op["name"]: op["taken_by"] for op in data["operators"] if op["taken_by"]} == {
        "conv": "gemmini", "logits": "qkv"}
    assert sum(data["shares"].values()) == 1 and data["patterns"]["qkv"]
    assert [p.name for p in tmp_path.iterdir()] == ["mixed.onnx"]
    assert cli.main([*words, "-o", "x.loom"]) == 2
    assert "--coverage and --output" in capsys.readouterr().err


def test_options_must_be_a_mapping() -> None:
    with pytest.raises(InputError, match="options: expected a mapping"):
        archloom.coverage("gemm(m=4,n=4,k=4)", BOTH, [("dim", 4)])  # type: ignore[arg-type]
