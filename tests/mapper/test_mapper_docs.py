"""The page on mapping: its example prints what it shows, and plans are written as it explains them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mapper.mapping import LEVELS
from mapper.spatial.plan import LEVELS as KEPT
from mapper.spatial.plan import PATTERNS

PAGE = (Path(__file__).parents[2] / "docs" / "mapper.md").read_text()


def test_the_example_prints_what_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    ((block, shown),) = re.findall(r"```python\n([^`]*)```\n\n```text\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "docs/mapper.md", "exec"), {})
    assert capsys.readouterr().out == shown


def test_every_word_of_a_plan_is_explained() -> None:
    for word in (*LEVELS, *PATTERNS, *KEPT):
        assert re.search(rf"`{word}|{word}`|:{word}", PAGE), word
