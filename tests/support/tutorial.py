"""The files that docs/tutorials/own_accelerator.md writes: a small accelerator of a user's own, ``tiles``."""

from __future__ import annotations

from pathlib import Path

from tests.support import pages

PAGE = pages.DOCS / "tutorials" / "own_accelerator.md"


def write_tiles(directory: Path) -> None:
    """Write them into ``directory``."""
    for name, text in pages.files(PAGE).items():
        (directory / name).write_text(text, encoding="utf-8")
