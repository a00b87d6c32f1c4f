"""What commands say on stderr while they run: a progress bar on a terminal, for whatever takes longer than a second,
and lines that archloom logs."""

from __future__ import annotations

import logging
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


class _Lines(logging.Handler):
    """Writes each message in a line of its own, in place of a bar."""

    def emit(self, record: logging.LogRecord) -> None:
        clear = _CLEAR if sys.stderr.isatty() else ""
        print(clear + record.getMessage(), file=sys.stderr, flush=True)


@contextmanager
def messages() -> Iterator[None]:
    """Show what archloom logs meanwhile."""
    log, lines = logging.getLogger("archloom"), _Lines()
    level = log.level
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(lines)
        log.setLevel(level)
