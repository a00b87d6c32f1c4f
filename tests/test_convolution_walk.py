"""docs/convolution.md names files and functions: they exist, and a convolution goes through them in that order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import archloom
from tests.support.tvm_backend.small_networks import int8_cnn

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "convolution.md"
PLACE = re.compile(r"`([\w/]+\.py)`: `([\w.]+)`")
"""How the page names a function: its file, then its name, with that of its class before it."""


def called(work: Any) -> list[tuple[str, str]]:
    """File and qualified name of each function of archloom that ``work`` calls, in the order of first calls."""
    found: dict[tuple[str, str], None] = {}
    package = Path(archloom.__file__).parent

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(package)):
            name = frame.f_code.co_qualname.replace("<locals>.", "")
            found.setdefault((str(Path(file).relative_to(package)), name))

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return list(found)


def test_a_convolution_goes_through_what_the_page_names(tmp_path: Path) -> None:
    import onnx

    onnx.save(int8_cnn(), tmp_path / "net.onnx")

    def work() -> None:
        network = archloom.compile(archloom.load(tmp_path / "net.onnx"), target="gemmini", options={"dim": 8})
        network(__import__("numpy").zeros((1, 3, 12, 12), "float32"))
        assert network.report.cycles > 0
        network.save(tmp_path / "net.loom")

    order = {place: number for number, place in enumerate(called(work))}
    named = PLACE.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    missing = [place for place in named if place not in order]
    assert missing == []
    numbers = [order[place] for place in named]
    assert numbers == sorted(numbers)
