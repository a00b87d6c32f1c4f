"""A host that XLA runs as a whole: its plan, shared programs, and programs kept in artifacts and on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import archloom
from archloom.mapper import disk
from archloom.oracle.xla import executables, forget
from archloom.oracle.xla.oracle import Oracle
from archloom.tvm_backend import programs
from archloom.tvm_backend.host import network as host
from archloom.tvm_backend.targets import regions
from tests.support.examples import slow
from tests.support.kept import change
from tests.support.tvm_backend.artifacts import damage
from tests.support.tvm_backend.networks import Net, attention, executable, quantized, residual_cnn, samples
from tests.support.tvm_backend.reference import ReferenceExecutor

OPTIONS = {"dim": 4}


def deep(layers: int = 3) -> onnx.ModelProto:
    """Products with GELU between them, alike but for weights and scales."""
    net = Net()
    x = net.input("x", 4, 8)
    for i in range(layers):
        product = net.node("MatMul", [x, net.weight(f"w{i}", 8, 8)], f"product{i}")
        x = net.node("Gelu", [product], f"gelu{i}")
    return net.model(x, opset=20)


@pytest.mark.slow
@pytest.mark.parametrize("network", [residual_cnn, attention])
def test_xla_alone_gives_what_it_gives_with_tvm(network: object, monkeypatch: pytest.MonkeyPatch) -> None:
    model = quantized(network())  # type: ignore[operator]
    x = samples(model, 1, seed=4)[0]
    alone = executable(model)
    assert alone.compiled.host.plan is not None and all(op.engine == "xla" for op in alone.compiled.host.ops)
    monkeypatch.setattr(regions, "_goes_to_xla", lambda binding: False)
    both = executable(model)
    assert both.compiled.host.plan is None and any(op.engine == "llvm" for op in both.compiled.host.ops)
    expected = both.run(x, executor=ReferenceExecutor())
    for name, found in alone.run(x, executor=ReferenceExecutor()).items():
        np.testing.assert_array_equal(found, expected[name])


def test_layers_alike_share_a_program() -> None:
    plan = executable(quantized(deep(4))).compiled.host.plan
    assert plan is not None
    between = [call.program for call in plan.calls if call.program is not None][1:-1]
    assert len(between) == 3 and len(set(between)) == 1
    assert len({call.constants for call in plan.calls if call.program == between[0]}) == 3  # of other scales


def _refuse(*_: object) -> None:
    raise AssertionError("something was compiled")


def anew(monkeypatch: pytest.MonkeyPatch, directory: str) -> None:
    """As in a new process with the cache at ``directory``, in which compiling fails."""
    programs.forget()
    forget()
    monkeypatch.setenv(disk.ENVIRONMENT, directory)
    monkeypatch.setattr(Oracle, "stored", _refuse)
    monkeypatch.setattr(host, "_compile", _refuse)


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return quantized(residual_cnn())


@pytest.mark.parametrize("scheme", [slow({}), {"per_channel": True, "symmetric": False}])
def test_an_artifact_runs_without_compiling(
    scheme: dict[str, bool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = archloom.quantize(residual_cnn(), samples(residual_cnn()), **scheme)
    x = samples(model, 1)[0]
    network = archloom.compile(model, options=OPTIONS)
    expected = network.run(x)
    network.save(tmp_path / "net.loom")
    anew(monkeypatch, "")
    found = archloom.load_compiled(tmp_path / "net.loom").run(x)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    programs.forget()
    with pytest.raises(AssertionError, match="something was compiled"):
        archloom.load_compiled(tmp_path / "net.loom", programs=False).run(x)


@pytest.mark.slow
def test_machine_code_is_left_aside_or_not_of_this_machine(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = samples(model, 1)[0]
    network = archloom.compile(model, options=OPTIONS)
    expected = network.run(x)
    network.save(tmp_path / "net.loom")
    monkeypatch.setenv(disk.ENVIRONMENT, "")
    for platform, given in (("another", True), (executables.platform(), False)):
        monkeypatch.setattr(executables, "platform", lambda p=platform: p)
        programs.forget()
        loaded = archloom.load_compiled(tmp_path / "net.loom", programs=given)
        found = loaded.run(x)
        assert all(np.array_equal(found[name], expected[name]) for name in expected)
        own = network.fallbacks  # what its streams do in another way than meant, which the artifact keeps
        assert own and {*own} <= {*loaded.fallbacks}
        assert [f.where for f in loaded.fallbacks if f not in own] == ["machine code of the artifact"] * given


@pytest.mark.slow
def test_another_user_compiles_what_an_artifact_holds(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its machine code nor what it says its programs are called counts: only what they are."""
    x = samples(model, 1)[0]
    network = archloom.compile(model, options=OPTIONS)
    expected = network.run(x)
    path = network.save(tmp_path / "net.loom")
    table = json.loads((path / "host.json").read_text())
    damage(path, "host.json", {"programs": [{**p, "key": "another"} for p in table["programs"]]})
    for file in path.glob("programs/*.bin"):
        damage(path, f"programs/{file.name}", b"no machine code")
    monkeypatch.setenv(disk.ENVIRONMENT, "")
    programs.forget()
    loaded = archloom.load_compiled(path)
    found = loaded.run(x)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)
    assert "it is not signed with this user's key" in [f.why for f in loaded.fallbacks]


@pytest.mark.slow
def test_caches_keep_programs(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path))
    programs.forget()
    x = samples(model, 1)[0]
    expected = archloom.compile(model, options=OPTIONS).run(x)
    anew(monkeypatch, str(tmp_path))
    found = archloom.compile(model, options=OPTIONS).run(x)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_told(
    model: onnx.ModelProto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = archloom.compile(model, options=OPTIONS)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path / "file"))
    programs.forget()
    network.run(samples(model, 1)[0])
    assert [str(f) for f in network.fallbacks if "cache" in f.where] == [
        f"cache in {tmp_path / 'file'}: it cannot be written: File exists "
        "(every process computes again what it would have found there)"]


@pytest.mark.slow
def test_damaged_programs_are_compiled_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = quantized(deep())
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path))
    x = samples(model, 1)[0]
    programs.forget()
    expected = archloom.compile(model, options=OPTIONS).run(x)
    change("programs", lambda value: value[:-7])
    programs.forget()
    found = archloom.compile(model, options=OPTIONS).run(x)
    assert all(np.array_equal(found[name], expected[name]) for name in expected)


@pytest.mark.first_case
@pytest.mark.parametrize(("call", "field", "value", "message"), [
    (0, "inputs", [77], "reads a tensor that is not there"), (0, "program", 9, "names program 9"),
    (0, "constants", [], "called with other constants"), (0, "constants", [99], "reads a tensor that is not there"),
])
def test_a_host_part_that_cannot_be_is_refused(
    model: onnx.ModelProto, tmp_path: Path, call: int, field: str, value: object, message: str
) -> None:
    path = archloom.compile(model, options=OPTIONS).save(tmp_path / "net.loom", programs=False)
    calls = json.loads((path / "host.json").read_text())["calls"]
    calls[call][field] = value
    damage(path, "host.json", {"calls": calls})
    with pytest.raises(archloom.ArtifactError, match=f"net.loom: host.json: .*{message}"):
        archloom.load_compiled(path)
