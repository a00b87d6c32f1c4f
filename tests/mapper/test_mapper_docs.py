"""The page on mapping explains how plans are written."""

from __future__ import annotations

import re
from pathlib import Path

from archloom.mapper.mapping import LEVELS
from archloom.mapper.spatial.plan import LEVELS as KEPT
from archloom.mapper.spatial.plan import PATTERNS

PAGE = (Path(__file__).parents[2] / "docs" / "mapper.md").read_text()


def test_every_word_of_a_plan_is_explained() -> None:
    for word in (*LEVELS, *PATTERNS, *KEPT):
        assert re.search(rf"`{word}|{word}`|:{word}", PAGE), word
