"""``archloom trace``: artifacts, operators and streams; what is wrong gets one message and exit status 2."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import onnx
import pytest

from archloom.tvm_backend import cli
from tests.support.tvm_backend.small_networks import int8_cnn

GEMM = "gemm(m=32,n=32,k=32)"
DIM = ("-O", "dim=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The artifact ``net.loom`` of a small network, and the stream of its first layer, ``layer.asm``."""
    path = tmp_path_factory.mktemp("trace")
    onnx.save(int8_cnn(), path / "net.onnx")
    assert cli.main(["compile", str(path / "net.onnx"), *DIM, "-o", str(path / "net.loom")]) == 0
    return path


def layers(folder: Path, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    capsys.readouterr()
    assert cli.main(["report", str(folder / "net.loom"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["layers"]
    return [layer for layer in found if layer["where"] == "accelerator"]


@pytest.mark.slow
def test_a_window_of_a_layer_of_an_artifact(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    layer = layers(folder, capsys)[0]
    target = folder / "layer.json.gz"
    words = [str(folder / "net.loom"), "--layer", layer["name"], "--from", "100", "--cycles", "10000000"]
    assert cli.main(["trace", *words, "-o", str(target), "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["output"] == str(target) and (data["from"], data["to"]) == (100, layer["cycles"])
    document = json.loads(gzip.decompress(target.read_bytes()))
    slices = [e for e in document["traceEvents"] if e["ph"] == "X"]
    assert max(e["ts"] + e["dur"] for e in slices) == layer["cycles"] and min(e["ts"] for e in slices) == 100
    assert {"instruction", "request", "fetch", "step", "stall,dependency"} <= {e["cat"] for e in slices}
    assert document["otherData"]["clock_hz"] == 1e9


def test_an_operator_and_its_stream_give_the_same_trace(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = layers(folder, capsys)[0]["name"]
    assert cli.main(["asm", str(folder / "net.loom"), "--layer", name, "-o", str(tmp_path / "layer.asm")]) == 0
    words = ("--from", "50", "--cycles", "400")
    assert cli.main(["trace", str(folder / "net.loom"), "--layer", name, *words, "-o", str(tmp_path / "a.json")]) == 0
    assert cli.main(["trace", str(tmp_path / "layer.asm"), *DIM, *words, "-o", str(tmp_path / "b.json")]) == 0
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_an_operator_is_mapped_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", GEMM, *DIM, "-o", str(tmp_path / "t.json")]) == 0
    assert "open it in ui.perfetto.dev (1 us is 1 cycle)" in capsys.readouterr().out


def test_a_window_may_end_after_any_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["trace", GEMM, *DIM, "--cycles", str(10**30), "-o", str(tmp_path / "t.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to"] < 10_000


@pytest.mark.slow
def test_an_operator_of_a_target_of_floats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (GEMM, "-t", "plasticine")
    assert cli.main(["estimate", *words, "--json"]) == 0
    cycles = json.loads(capsys.readouterr().out)["cycles"]
    assert cli.main(["trace", *words, "-o", str(tmp_path / "t.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["to"] == cycles


def test_a_window_with_too_many_steps(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("archloom.acadl_models.timing.engine.window.MOST_STEPS", 100)
    assert cli.main(["trace", GEMM, *DIM, "-o", str(tmp_path / "t.json")]) == 2
    assert "has more than 100 steps" in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_bad_outputs_and_layers(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for output, message in ((tmp_path / "none" / "t.json", "is no directory"), (tmp_path, "it is a directory")):
        assert cli.main(["trace", GEMM, "-o", str(output)]) == 2
        assert message in capsys.readouterr().err
    names = [layer["name"] for layer in layers(folder, capsys)]
    for words, message in (((), f"say which layer with --layer (it has: {', '.join(names)})"),
                           (("--layer", names[0] + "x"), f"did you mean {names[0]!r}?")):
        assert cli.main(["trace", str(folder / "net.loom"), *words, "-o", str(tmp_path / "t.json")]) == 2
        assert message in capsys.readouterr().err


def test_a_stream_for_another_machine(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = layers(folder, capsys)[0]["name"]
    text = str(tmp_path / "layer.asm")
    assert cli.main(["asm", str(folder / "net.loom"), "--layer", name, "-o", text]) == 0
    for words, message in ((("-O", "dim=16"), "dim=8, not 16"), (("-t", "oma"), "a stream of ISA 'gemmini'")):
        assert cli.main(["trace", text, *words, "-o", str(tmp_path / "t.json")]) == 2
        assert message in capsys.readouterr().err
