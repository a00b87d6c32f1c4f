"""``archloom isa``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from archloom.tvm_backend.cli import main

BAD = "isa bad;\n[b] (4) (4 x i8);\n[i](a) {\n    %X:1x4xi8 <- $c[a];\n    r = 1;\n}\n"


def test_text_goes_to_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "gemmini", "-O", "dim=32"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("gemmini: reference manual\n=====")
    assert "spad 16384 32xi8 524,288" in [" ".join(line.split()) for line in out.splitlines()]
    assert "\nmvin(dram, local, cols, rows)\n....." in out


def test_the_form_follows_the_suffix(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for suffix, start in ((".html", "<!DOCTYPE html>"), (".md", "# oma: reference manual"), (".txt", "oma: reference")):
        path = tmp_path / f"manual{suffix}"
        assert main(["isa", "oma", "-o", str(path)]) == 0
        assert capsys.readouterr().out == f"{path}\n"
        assert path.read_text(encoding="utf-8").startswith(start)


def test_the_description_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "oma", "--format", "taidl"]) == 0
    assert capsys.readouterr().out.startswith("isa oma;\n")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["isa", "gemmini", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["name"] == "gemmini" and data["parameters"]["dim"] == 16
    assert data["buffers"][0] == {"name": "spad", "rows": [16384], "base": "16xi8", "bytes": 262144, "description": "",
                                  "shape": [16384, 16], "dtype": "i8"}
    mvin = next(i for i in data["instructions"] if i["name"] == "mvin")
    assert mvin["attributes"] == ["dram", "local", "cols", "rows"] and set(mvin["writes"]) == {"spad", "acc"}


@pytest.mark.slow
def test_describe_says_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(Path(__file__).parents[3] / "src/archloom/oracle/isas/gemmini.taidl")
    assert main(["isa", path, "--json"]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert main(["describe", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


def test_all_faults_are_told_and_nothing_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad, out = tmp_path / "bad.taidl", tmp_path / "manual.md"
    bad.write_text(BAD)
    assert main(["isa", str(bad), "-o", str(out)]) == 2
    err = capsys.readouterr().err
    assert f"{bad}:4:18: unknown buffer $c" in err and f"{bad}:5:5: unknown register 'r'" in err
    assert "        %X:1x4xi8 <- $c[a];\n                     ^\n" in err and err.endswith("2 errors\n")
    assert not out.exists()


def test_the_check_is_for_the_parameters_that_are_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "narrow.taidl"
    path.write_text("isa narrow;\nparam n = 4 in 1..64;\n[b] (16) (n x i8);\n"
                    "[i]() { %X:{2 * n}x{n}xi8 <- $b[0:2 * n]; }\n")
    assert main(["isa", str(path), "-O", "n=8"]) == 0
    assert main(["isa", str(path), "-O", "n=9"]) == 2
    assert f"{path}:4:30: $b[0:2 * n] spans 0..17, outside of an axis of extent 16" in capsys.readouterr().err


def test_a_file_that_is_no_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "binary.taidl"
    path.write_bytes(b"isa x;\n\xff\xfe")
    assert main(["isa", str(path)]) == 2
    assert "is not UTF-8" in capsys.readouterr().err
