"""docs/tvm.md: its blocks in order, in an empty directory, print what the page shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tvm.md"
BLOCK = re.compile(r"(?:\*\*`(?P<file>[\w.]+)`\*\*\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)```\n", re.DOTALL)
SHELL = 'python() { "$PYTHON" "$@"; };\n'
DRIVER = """
import contextlib, io, json, sys
known, printed = {}, []
for block in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(block, "docs/tvm.md", "exec"), known)
    printed.append(out.getvalue())
print(json.dumps(printed))
"""


def run(command: list[str], directory: Path, given: str = "") -> str:
    path = os.pathsep.join([str(ROOT / "src"), str(directory)])
    done = subprocess.run(command, cwd=directory, input=given, capture_output=True, text=True, check=False, timeout=600,
                          env={**os.environ, "PYTHON": sys.executable, "PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(directory: Path) -> None:
    """The package of the page, as far as Python sees: metadata with entry points beside its module."""
    stated = tomllib.loads((directory / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    metadata = directory / f"{stated['name']}-{stated['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {stated['name']}\nVersion: {stated['version']}\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text("".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in offers.items())
        for group, offers in stated["entry-points"].items()), encoding="utf-8")


def transcript(directory: Path) -> list[tuple[str, str]]:
    """What each block of the page printed, and what the page shows."""
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    for block in blocks:
        if block["file"]:
            (directory / block["file"]).write_text(block["text"], encoding="utf-8")
    shown = [after["text"] if after is not None and after["kind"] == "text" else "" for after in (*blocks[1:], None)]
    python = [(b["text"], s) for b, s in zip(blocks, shown, strict=True) if b["kind"] == "python"]
    printed = json.loads(run([sys.executable, "-c", DRIVER], directory, json.dumps([text for text, _ in python])
                             ).splitlines()[-1])
    found = list(zip(printed, [s for _, s in python], strict=True))
    install(directory)
    return found + [(run(["bash", "-c", SHELL + b["text"]], directory), s)
                    for b, s in zip(blocks, shown, strict=True) if b["kind"] == "sh"]


@pytest.mark.slow
def test_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    printed = transcript(tmp_path)
    assert len(printed) == 16
    for found, shown in printed:
        assert found == shown
