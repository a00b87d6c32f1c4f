"""The files that docs/tutorial_target.md writes: a small accelerator of a user's own, ``tiles``."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "tutorial_target.md"
BLOCK = re.compile(r"(?:\*\*`(?P<file>[\w.]+)`\*\*\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)```\n", re.DOTALL)


def files() -> dict[str, str]:
    """Their texts by name."""
    return {b["file"]: b["text"] for b in BLOCK.finditer(PAGE.read_text(encoding="utf-8")) if b["file"]}


def write_tiles(directory: Path) -> None:
    """Write them into ``directory``."""
    for name, text in files().items():
        (directory / name).write_text(text, encoding="utf-8")
