"""Progress is shown where somebody looks on, while the work goes on, and nothing of it is left."""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import archloom
from archloom.tvm_backend import progress
from archloom.tvm_backend.progress import bar, drawing
from tests.support.tvm_backend.small_networks import float_cnn


class Watched(io.StringIO):
    """A terminal that can be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.written.set()
        return super().write(text)


class Cell(Watched):
    """What a notebook's cell writes to is no terminal."""

    def isatty(self) -> bool:
        return False


Cell.__module__ = "ipykernel.iostream"


@pytest.mark.parametrize("kind", [Watched, Cell])
def test_a_line_is_drawn_while_it_lasts_and_erased(kind: type[Watched]) -> None:
    stream = kind()
    with patch.object(progress, "PATIENCE_SECONDS", 0.0), bar(stream=stream) as heard:
        heard("conv1", 1, 4)
        assert stream.written.wait(60)
    text = stream.getvalue()
    assert text.startswith("\r")
    shown, blanks, end = text.split("\r")[-3:]
    assert blanks == " " * len(shown) and not end


def test_what_is_drawn() -> None:
    assert drawing("conv1", 1, 4, 3.2) == "[######..................] 1/4 conv1, 3 s"
    assert drawing("reading\nnet", 0, 0, 12.0) == "reading net, 12 s"
    assert len(drawing("x" * 500, 1, 4, 0.0)) == progress.LONGEST


@pytest.mark.parametrize(("stream", "options"), [(io.StringIO(), {}), (Watched(), {"quiet": True})])
def test_nothing_is_drawn_where_nobody_looks(stream: io.StringIO, options: dict[str, Any]) -> None:
    with patch.object(progress, "PATIENCE_SECONDS", 0.0), bar(stream=stream, **options) as heard:
        heard("conv1", 1, 4)
    assert not stream.getvalue()


def test_whoever_calls_from_python_is_shown_how_far_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))  # what is known already takes no time to be shown
    heard: list[str] = []
    monkeypatch.setattr(progress._Line, "hear", lambda self, what, done, total: heard.append(what))
    monkeypatch.setattr("sys.stderr", Watched())
    model = float_cnn()
    (x,) = model.graph.input
    quantized = archloom.quantize(model, np.zeros([d.dim_value for d in x.type.tensor_type.shape.dim], np.float32))
    assert {"calibrating with sample 1", "quantizing"} <= set(heard)
    calls = [archloom.estimate, archloom.compile, archloom.check, lambda m: archloom.estimate_many([m], workers=1)]
    for call in calls:
        heard.clear()
        call(quantized)
        assert heard, call
    heard.clear()
    archloom.estimate(archloom.load(quantized), quiet=True)
    assert not heard


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_messages_that_cannot_be_written_end_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that the engine is compiled, which happens once."""
    with open("/dev/full", "wb", buffering=0) as full:
        monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(full, write_through=True))
        with progress.messages():
            logging.getLogger("archloom").info("something that takes long")
        with pytest.raises(OSError):
            print("the test's own words", file=sys.stderr, flush=True)
