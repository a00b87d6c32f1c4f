"""Colours of a terminal: warnings yellow, failures red, what passed green; none where nobody looks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TextIO

from archloom.tvm_backend.report.table import WARNING

_END = "\x1b[0m"
_STARTS = {WARNING: "\x1b[33m", "FAILED: ": "\x1b[31m", "archloom: ": "\x1b[31m", "passed": "\x1b[32m"}
"""How a line begins, and its colour; indented lines below it have the same."""


def painted(text: str, stream: TextIO) -> str:
    """The text as ``stream`` shows it; as it is for what is no terminal, or where ``NO_COLOR`` is set."""
    return "\n".join(_lines(text)) if _has_colours(stream) else text


def _has_colours(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or stream.isatty()


def _lines(text: str) -> Iterator[str]:
    colour = ""
    for line in text.split("\n"):
        if not line.startswith("  "):
            colour = next((c for start, c in _STARTS.items() if line.startswith(start)), "")
        yield f"{colour}{line}{_END}" if colour else line
