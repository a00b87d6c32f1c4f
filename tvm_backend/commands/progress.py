"""A progress bar on stderr, for whatever takes longer than a second on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from archloom.tvm_backend.progress import Progress

PATIENCE_SECONDS = 1.0
WIDTH = 24
_CLEAR = "\r\x1b[K"


@contextmanager
def bar() -> Iterator[Progress]:
    """Give a function ``(what, done, of)`` that draws the bar; the bar is erased at the end."""
    if not sys.stderr.isatty():
        yield lambda what, done, total: None
        return
    start, drawn = time.monotonic(), False

    def show(what: str, done: int, total: int) -> None:
        nonlocal drawn
        if time.monotonic() - start < PATIENCE_SECONDS:
            return
        drawn = True
        filled = WIDTH * done // max(total, 1)
        sys.stderr.write(f"{_CLEAR}[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} {what}"[:120])
        sys.stderr.flush()

    try:
        yield show
    finally:
        if drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
