"""docs/tutorial_isa.md: its files, commands and programs in an empty directory print what the page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "tutorial_isa.md"
BLOCK = re.compile(r"(?:\*\*`(?P<file>[\w.]+)`\*\*\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)```\n", re.DOTALL)
SHELL = 'archloom() { "$PYTHON" -m archloom.tvm_backend.cli "$@"; }; python() { "$PYTHON" "$@"; };\n'


def run(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=120,
                          env={"PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin",
                               "HOME": str(directory)})
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout + done.stderr


def transcript(directory: Path) -> list[tuple[str, str]]:
    """What each command or program of the page printed, and what the page shows."""
    directory.mkdir(exist_ok=True)
    blocks = list(BLOCK.finditer(PAGE.read_text(encoding="utf-8")))
    printed: list[tuple[str, str]] = []
    for n, block in enumerate(blocks):
        if block["file"]:
            (directory / block["file"]).write_text(block["text"], encoding="utf-8")
        elif block["kind"] in ("sh", "python"):
            start = ["bash", "-c", SHELL + block["text"]] if block["kind"] == "sh" else [
                sys.executable, "-c", block["text"]]
            assert blocks[n + 1]["kind"] == "text"
            printed.append((run(start, directory), blocks[n + 1]["text"]))
    return printed


@pytest.mark.slow
def test_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    printed = transcript(tmp_path / "fresh")
    assert len(printed) == 7
    for found, shown in printed:
        assert re.sub(r"^.*\.py:\d+: |^<string>:\d+: ", "", found) == shown
    assert (tmp_path / "fresh" / "matvec.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


def test_the_user_writes_fewer_than_sixty_lines() -> None:
    files = [b["text"] for b in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if b["file"]]
    assert len(files) == 2
    lines = [line.strip() for text in files for line in text.splitlines() if line.strip()]
    assert len(lines) < 60
    own = [line for line in lines if not line.startswith("#")]
    assert f"in {len(own)} lines" in PAGE.read_text(encoding="utf-8").replace("\n", " ")
