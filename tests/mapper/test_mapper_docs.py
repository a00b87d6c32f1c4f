"""The page on mapping: its example prints what it shows, and plans are written as it explains them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from archloom.mapper.mapping import LEVELS
from archloom.mapper.spatial.plan import LEVELS as KEPT
from archloom.mapper.spatial.plan import PATTERNS

DOCS = Path(__file__).parents[2] / "docs"
PAGE, WORMHOLE = ((DOCS / f"{name}.md").read_text() for name in ("mapper", "wormhole"))


def test_the_example_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    ((block, shown),) = re.findall(r"```python\n([^`]*)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "docs/mapper.md", "exec"), {})
    assert capsys.readouterr().out == shown


def test_the_other_examples_run() -> None:
    for block in re.findall(r"```python\n([^`]*)```(?!\n\n```text)", PAGE):
        exec(compile(block, "docs/mapper.md", "exec"), {})


@pytest.mark.slow
def test_the_examples_of_wormhole_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", WORMHOLE, re.DOTALL)
    blocks = [block for block in blocks if "bert_base.onnx" not in block]  # a network of the reader's own
    assert len(blocks) == 5
    for block in blocks:
        known: dict[str, object] = {}
        exec(compile(block, "docs/wormhole.md", "exec"), known)
    np.testing.assert_allclose(known["result"], known["arrays"]["X"].mean(0, dtype=np.float32), atol=1e-3)  # type: ignore[index]


def test_every_word_of_a_plan_is_explained() -> None:
    for word in (*LEVELS, *PATTERNS, *KEPT):
        assert re.search(rf"`{word}|{word}`|:{word}", PAGE), word
