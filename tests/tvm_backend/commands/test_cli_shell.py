"""What a shell gets beside results: colours, completions, and the state of the installation."""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from archloom.tvm_backend import cli
from archloom.tvm_backend.commands import completion, doctor
from archloom.tvm_backend.commands.colour import painted

TEXT = "net on gemmini: 2 µs\nwarning: floats:\n  --calibrate\nlayers"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colours_are_for_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert painted(TEXT, io.StringIO()) == TEXT
    first, *warned, last = painted(TEXT, Terminal()).split("\n")
    assert [first, last] == ["net on gemmini: 2 µs", "layers"]
    assert all(line.startswith("\x1b[33m") and line.endswith("\x1b[0m") for line in warned)
    monkeypatch.setenv("NO_COLOR", "1")
    assert painted(TEXT, Terminal()) == TEXT


def test_names_are_completed() -> None:
    args = argparse.Namespace(target="gemmini")
    assert "gemmini" in completion.targets("gem") and "gemmini,qkv" in completion.targets("gemmini,q")
    assert {"dim=", "dataflow=ws"} <= set(completion.options("d", args))
    assert {"mobilenet_v2", "gemm("} <= set(completion.models("m")) and "none" in completion.hosts("")
    completers = {action.dest for parser in _parsers() for action in parser._actions if hasattr(action, "completer")}
    assert {"model", "target", "option", "host"} <= completers


def _parsers() -> list[argparse.ArgumentParser]:
    (commands,) = (a for a in cli.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    return list(commands.choices.values())


@pytest.mark.slow
def test_a_shell_is_answered(tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    asked = {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(tmp_path / "answer"), "COMP_POINT": "12",
             "COMP_LINE": "archloom est", "_ARGCOMPLETE_IFS": "\n"}
    subprocess.run([sys.executable, "-m", "archloom"], env={**os.environ, **asked}, check=False, capture_output=True)
    assert (tmp_path / "answer").read_text().strip() == "estimate"


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.main(["doctor", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["failure"] is None and found["cores"] >= 1 and found["host"]
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", "")
    monkeypatch.setattr(doctor, "_self_check", lambda: ("a matrix differs", 0.1))
    assert cli.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "warning: nothing is kept: ARCHLOOM_CACHE_DIR is empty" in out and "FAILED: a matrix differs" in out
