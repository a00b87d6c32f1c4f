"""docs/convolution.md names files and functions: they exist, and a convolution goes through them in that order."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import onnx
import pytest

from tests.support.tvm_backend.small_networks import int8_cnn

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "convolution.md"
PLACE = re.compile(r"`([\w/]+\.py)`: `([\w.]+)`")
"""How the page names a function: its file, then its name, with that of its class before it."""
WORK = """
import json, sys
from pathlib import Path
import numpy
import archloom

found, package = {}, str(Path(archloom.__file__).parent) + "/"

def note(frame, *_):  # of a call; its lines and its end are of no interest
    file = frame.f_code.co_filename
    if file.startswith(package):
        found.setdefault((file.removeprefix(package), frame.f_code.co_qualname))

sys.settrace(note)
network = archloom.compile(archloom.load("net.onnx"), target="gemmini", options={"dim": 8})
network(numpy.zeros((1, 3, 12, 12), numpy.float32))
network.report.cycles
network.save("net.loom")
sys.settrace(None)
print(json.dumps(list(found)))
"""


def called(folder: Path) -> list[tuple[str, str]]:
    """File and qualified name of each function of archloom that a network calls on its way from its file to an
    artifact, in the order of first calls; in a process and with a cache of its own."""
    onnx.save(int8_cnn(), folder / "net.onnx")
    run = subprocess.run([sys.executable, "-c", WORK], cwd=folder, capture_output=True, text=True, check=True, env={
        **os.environ, "PYTHONPATH": str(ROOT / "src"), "ARCHLOOM_CACHE_DIR": str(folder / "cache")})
    return [(file, name) for file, name in json.loads(run.stdout.splitlines()[-1])]


def defined(file: str) -> set[str]:
    """Qualified names of the functions in a file of archloom."""
    def names(body: list[ast.stmt], before: str) -> Iterator[str]:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield before + node.name
                yield from names(node.body, f"{before}{node.name}." if isinstance(node, ast.ClassDef) else
                                 f"{before}{node.name}.<locals>.")

    return set(names(ast.parse((ROOT / "src" / "archloom" / file).read_text(encoding="utf-8")).body, ""))


def test_what_the_page_names_exists() -> None:
    named = PLACE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 30
    assert [(file, name) for file, name in named if name not in defined(file)] == []


@pytest.mark.slow
def test_a_convolution_goes_through_what_the_page_names(tmp_path: Path) -> None:
    order = {place: number for number, place in enumerate(called(tmp_path))}
    named = PLACE.findall(PAGE.read_text(encoding="utf-8"))
    missing = [place for place in named if place not in order]
    assert missing == []
    late = [(one, other) for one, other in pairwise(named) if order[one] > order[other]]
    assert late == []
