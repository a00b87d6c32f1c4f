"""The commands on a small network: JSON on stdout, files where they were asked for, exit status."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from archloom.mapper import disk
from archloom.tvm_backend import cli
from archloom.tvm_backend.artifact.files import is_artifact
from archloom.tvm_backend.estimate import network as estimate
from tests.support.kept import change, kept_on_disk
from tests.support.tvm_backend.small_networks import float_cnn, images, int8_cnn

DIM = ("-O", "dim=8")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``net.onnx`` and ``in.npz`` (two images), and the artifact ``net.loom`` made of them."""
    path = tmp_path_factory.mktemp("cli")
    onnx.save(int8_cnn(), path / "net.onnx")
    np.savez(path / "in.npz", image=images(2))
    assert cli.main(["compile", str(path / "net.onnx"), *DIM, "-o", str(path / "net.loom")]) == 0
    return path


def _json(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> Any:
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == status
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    return json.loads(out)


def test_targets(capsys: pytest.CaptureFixture[str]) -> None:
    (target,) = (t for t in _json(capsys, "targets")["targets"] if t["name"] == "gemmini")
    assert target["name"] == "gemmini" and target["options"][0]["name"] == "dim"


def test_describe(capsys: pytest.CaptureFixture[str]) -> None:
    data = _json(capsys, "describe", "gemmini", "-O", "dim=32")
    assert data["values"]["dim"] == 32 and data["isa"]["parameters"]["dim"] == 32
    assert {"mvin", "mvout", "compute_preloaded"} <= {i["name"] for i in data["isa"]["instructions"]}
    assert any("int8 with zero point 0" in rule for rule in data["takes"]["nn.conv2d"])
    assert cli.main(["describe", "gemmini", "--dot"]) == 0
    assert capsys.readouterr().out.startswith("digraph")


def test_describe_prints_and_reads_df(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["describe", "mesh", "-O", "x=2", "-O", "y=1", "--df"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "mine.df").write_text(text)
    assert cli.main(["describe", str(tmp_path / "mine.df"), "--df"]) == 0
    assert capsys.readouterr().out == text
    assert _json(capsys, "describe", str(tmp_path / "mine.df"))["dims"] == {"rows": 1, "columns": 2}
    (tmp_path / "mine.df").write_text(text.replace("throughput = 64", "throughput = none"))
    assert cli.main(["describe", str(tmp_path / "mine.df")]) == 2
    error = capsys.readouterr().err
    assert "mine.df: df, line 5, column 56: throughput must be an integer of at least 1, not 'none'" in error
    assert cli.main(["describe", str(tmp_path / "mine.df"), "-O", "rows=2"]) == 2
    assert "has no option rows (there is: rates)" in capsys.readouterr().err
    assert cli.main(["describe", str(tmp_path / "none.df")]) == 2
    assert "none.df" in capsys.readouterr().err


def test_describe_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drawing = tmp_path / "gemmini.svg"
    data = _json(capsys, "describe", "gemmini", "--svg", str(drawing))
    assert "scratchpad[4]" in drawing.read_text() and drawing.read_text().rstrip().endswith("</svg>")
    assert any(box["name"] == "scratchpad[4]" and box["count"] == 4 for box in data["graph"]["tree"])
    assert cli.main(["describe", "gemmini", "--svg", str(tmp_path / "none" / "x.svg")]) == 2


@pytest.mark.slow
def test_compile(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = _json(capsys, "compile", str(folder / "net.onnx"), *DIM, "-o", str(folder / "zipped.zip"))
    assert data["offloaded"] == ["stem", "branch", "add", "down", "logits"]
    assert data["offloaded_macs_share"] == 1.0 and data["cycles"] > 0
    assert all(host["reason"] for host in data["host"])
    assert is_artifact(Path(data["artifact"]))


def test_compile_writes_beside_nothing_else(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    data = _json(capsys, "compile", "gemm(m=4,n=4,k=4)", *DIM)
    assert data["artifact"] == "gemm.loom" and [p.name for p in tmp_path.iterdir()] == ["gemm.loom"]


def test_run(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.npz"
    data = _json(capsys, "run", str(folder / "net.loom"), "--input", str(folder / "in.npz"), "--output", str(out))
    assert data["runs"] == 2 and data["outputs"] == [{"name": "logits", "shape": [2, 5], "dtype": "float32"}]
    assert np.load(out)["logits"].shape == (2, 5)


@pytest.mark.parametrize(("array", "message"), [
    (np.zeros((1, 3, 12, 11), np.float32), r"samples of shape \(1, 3, 12, 12\) .* found shape"),
    (np.zeros((1, 3, 12, 12)), "found dtype float64"),
    (np.zeros((0, 3, 12, 12), np.float32), "found shape"),
])
def test_run_refuses_other_inputs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], array: np.ndarray,
                                  message: str) -> None:
    np.savez(tmp_path / "in.npz", image=array)
    out = tmp_path / "out.npz"
    assert cli.main(["run", str(folder / "net.loom"), "--input", str(tmp_path / "in.npz"), "--output", str(out)]) == 2
    captured = capsys.readouterr()
    assert re.search(rf"in.npz: 'image': .*{message}", captured.err) and captured.out == "" and not out.exists()


def test_run_names_inputs(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "in.npz", imag=images(1))
    words = ["run", str(folder / "net.loom"), "--input", str(tmp_path / "in.npz"), "--output", str(tmp_path / "o.npz")]
    assert cli.main(words) == 2
    assert "no input is named 'imag'; did you mean 'image'?" in capsys.readouterr().err


def test_run_onto_a_full_disk(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", str(folder / "net.loom"), "--input", str(folder / "in.npz"), "--output", "/dev/full"]
    assert cli.main(words) == 2
    assert "/dev/full: cannot be written: No space left on device" in capsys.readouterr().err


def test_report_of_an_artifact(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = _json(capsys, "report", str(folder / "net.loom"))
    assert report["schema"] == "archloom.report/2"
    assert cli.main(["report", str(folder / "net.loom"), "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["name"] for row in rows] == [layer["name"] for layer in report["layers"]]
    assert cli.main(["report", str(folder / "net.loom"), "-o", str(tmp_path / "r.json")]) == 0
    assert json.loads((tmp_path / "r.json").read_text()) == report


def test_estimate_and_its_cache(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))
    words = ("estimate", str(folder / "net.onnx"), *DIM)
    first = _json(capsys, *words)
    assert {"schema", "model", "target", "options", "clock_hz", "cycles", "seconds", "macs", "offloaded_macs",
            "layers"} <= set(first)
    assert len(kept_on_disk("reports")) == 1
    monkeypatch.setattr("archloom.tvm_backend.estimate.network._timed",
                        lambda *_, **__: pytest.fail("the cache was not used"))
    estimate.forget()
    assert _json(capsys, *words) == first
    monkeypatch.undo()
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))
    change("reports", lambda value: value[:-1] + bytes([value[-1] ^ 1]))
    estimate.forget()
    assert _json(capsys, *words) == first
    assert _json(capsys, *words, "--no-cache") == first


def test_what_is_kept_is_shown_limited_and_cleared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))
    assert _json(capsys, "cache")["kinds"] == [] and not list(tmp_path.iterdir())
    for number in range(3):
        disk.store("plans", str(number), b"plan")
    disk.store("reports", "a", b"report")
    found = _json(capsys, "cache", "--limit", "1.5 MiB")
    assert {kind["name"]: kind["results"] for kind in found["kinds"]} == {"plans": 3, "reports": 1}
    assert found["limit"] == 3 * 2**19 == _json(capsys, "cache")["limit"] and found["bytes"] > 0
    assert [kind["name"] for kind in _json(capsys, "cache", "--clear", "plans")["kinds"]] == ["reports"]
    assert cli.main(["cache", "--clear", "report"]) == 2 and "did you mean 'reports'" in capsys.readouterr().err
    assert not _json(capsys, "cache", "--clear")["kinds"]
    for size in ("0", "1", "many", "-1G", "1e9"):
        with pytest.raises(SystemExit) as refused:
            cli.main(["cache", f"--limit={size}"])
        assert refused.value.code == 2 and f"found '{size}'" in capsys.readouterr().err
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", "")
    assert cli.main(["cache"]) == 2 and "ARCHLOOM_CACHE_DIR is empty" in capsys.readouterr().err


def test_estimate_cycles_fall_with_dim(capsys: pytest.CaptureFixture[str]) -> None:
    cycles = [_json(capsys, "estimate", "gemm(m=64,n=64,k=64)", "-O", f"dim={dim}")["cycles"] for dim in (4, 8, 16)]
    assert cycles == sorted(cycles, reverse=True) and len(set(cycles)) == 3


def test_check(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "labels.npy", np.array([0, 1]))
    data = _json(capsys, "check", str(folder / "net.onnx"), *DIM, "--inputs", str(folder / "in.npz"), "--labels",
                 str(tmp_path / "labels.npy"))
    assert data["passed"] and all(layer["bit_exact"] for layer in data["layers"])
    assert set(data["accuracy"]) == {"float", "quantized", "accelerator", "reference"}
    assert data["accuracy"]["float"] is None and data["first_difference"] is None
    assert data["outputs"][0]["max_abs_error"] == 0


def test_check_that_fails_has_status_1(folder: Path, capsys: pytest.CaptureFixture[str],
                                       monkeypatch: pytest.MonkeyPatch) -> None:
    from archloom.tvm_backend.executors import InterpreterExecutor

    right = InterpreterExecutor.run
    monkeypatch.setattr(InterpreterExecutor, "run", lambda self, step, arguments, *_: right(self, step, arguments) + 1)
    data = _json(capsys, "check", str(folder / "net.onnx"), *DIM, "--samples", "1", status=1)
    assert not data["passed"] and len(data["failures"]) == len(data["layers"])


def test_float_network_is_quantized_on_demand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(float_cnn(), tmp_path / "float.onnx")
    np.savez(tmp_path / "in.npz", image=images(4))
    for calibration in (str(tmp_path / "in.npz"), "random:2"):
        data = _json(capsys, "estimate", str(tmp_path / "float.onnx"), *DIM, "--calibrate", calibration)
        assert data["offloaded_macs_share"] == 1.0
    assert _json(capsys, "estimate", str(tmp_path / "float.onnx"), *DIM)["offloaded_macs_share"] == 0.0
    by_name = _json(capsys, "estimate", "digits_cnn", *DIM, "--calibrate", "random:2", "--per-channel")
    assert by_name["model"] == "digits_cnn" and by_name["offloaded_macs_share"] == 1.0
    assert any("int32" in layer["op"] for layer in by_name["layers"])  # a factor for each channel is the host's
    for wrong in ("random:0", "random:x"):
        assert cli.main(["estimate", str(tmp_path / "float.onnx"), "--calibrate", wrong]) == 2
        assert "expected random:N with N at least 1" in capsys.readouterr().err


def test_asm_round_trip(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = _json(capsys, "asm", str(folder / "net.loom"), "--layer", "stem")
    assert data["instructions"] == sum(data["instances"].values()) > data["static_instructions"]
    (tmp_path / "stem.loom").write_text(data["text"])
    again = _json(capsys, "asm", str(tmp_path / "stem.loom"))
    assert again == data
    binary = str(tmp_path / "stem.bin")
    assert cli.main(["asm", str(tmp_path / "stem.loom"), "--binary", "-o", binary]) == 0
    assert _json(capsys, "asm", binary) == data
    assert cli.main(["asm", binary, "--explain"]) == 0
    out = capsys.readouterr().out
    assert "follows its ISA and stays inside its memories" in out and "raised to" in out and "vanishes" in out
    explained = _json(capsys, "asm", binary, "--explain")["oracle"]
    assert explained["raised"] and [r["raised"] for r in explained["results"]] == [True]
    assert {b["buffer"] for b in explained["buffers"]} == {"hbm", "spad", "acc", "pe"}


def test_the_only_layer_needs_no_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = str(tmp_path / "one.loom")
    assert cli.main(["compile", "gemm(m=5,n=7,k=11)", *DIM, "-o", out]) == 0
    capsys.readouterr()
    data = _json(capsys, "asm", out)
    assert data == _json(capsys, "asm", out, "--layer", data["name"])


def test_damaged_artifact(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import shutil

    copy = tmp_path / "net.loom"
    shutil.copytree(folder / "net.loom", copy)
    stream = sorted((copy / "streams").iterdir())[0]
    stream.write_bytes(stream.read_bytes()[:-3])
    for words in (["asm", str(copy), "--layer", "stem"],
                  ["run", str(copy), "--input", str(folder / "in.npz"), "--output", str(tmp_path / "o.npz")]):
        assert cli.main(words) == 2
        assert f"streams/{stream.name} is truncated" in capsys.readouterr().err
    assert not (tmp_path / "o.npz").exists()
