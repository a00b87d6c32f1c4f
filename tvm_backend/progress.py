"""How far a long piece of work is: what hears it, and a line that shows it on terminals and in notebooks."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Hears what is being done, how many of the steps are done, and of how many (0: that is not known)."""

PATIENCE_SECONDS, INTERVAL_SECONDS = 1.0, 0.5
"""Before the line is drawn first, and between one drawing and the next."""
WIDTH, LONGEST = 24, 110

_DRAWING = threading.Lock()
"""Of threads that draw: a fork waits for it, so that nobody holds a lock of a stream then."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_DRAWING.acquire, after_in_parent=_DRAWING.release, after_in_child=_DRAWING.release)


@contextmanager
def bar(*, quiet: bool = False, stream: TextIO | None = None) -> Iterator[Progress]:
    """A function that hears of progress, and draws it on ``stream`` (stderr) as long as the work goes on; erased at the
    end. Nothing is drawn where it is to be ``quiet``, and where nobody looks on, as in files and pipes."""
    stream = sys.stderr if stream is None else stream
    if quiet or not is_watched(stream):
        yield lambda what, done, total: None
        return
    line = _Line(stream)
    line.start()
    try:
        yield line.hear
    finally:
        line.end()


def is_watched(stream: TextIO) -> bool:
    """Whether it is a terminal's, or a notebook's."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


class _Line(threading.Thread):
    """Draws what was heard last, from time to time: whoever works has other things to do for seconds."""

    forkable = True
    """Holds no lock at a fork (:mod:`archloom.mapper.parallel`)."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(daemon=True)
        self._stream, self._ended = stream, threading.Event()
        self._heard, self._since, self._drawn = ("reading", 0, 0), time.monotonic(), 0

    def hear(self, what: str, done: int, total: int) -> None:
        self._heard = what, done, total

    def run(self) -> None:
        wait = PATIENCE_SECONDS
        while not self._ended.wait(wait):
            with _DRAWING:
                self._draw(drawing(*self._heard, time.monotonic() - self._since))
            wait = INTERVAL_SECONDS

    def end(self) -> None:
        self._ended.set()
        self.join()
        if self._drawn:
            self._draw("")
            self._stream.write("\r")
            self._stream.flush()

    def _draw(self, text: str) -> None:
        """Over what was drawn before: blanks erase it, as notebooks know no other way."""
        self._stream.write(f"\r{text.ljust(self._drawn)}")
        self._stream.flush()
        self._drawn = len(text)


def drawing(what: str, done: int, total: int, seconds: float) -> str:
    """The line that shows it."""
    text = f"{' '.join(what.split())}, {seconds:.0f} s"
    if total:
        filled = WIDTH * done // total
        text = f"[{'#' * filled}{'.' * (WIDTH - filled)}] {done}/{total} {text}"
    return text[:LONGEST]


class _Messages(logging.Handler):
    """Writes each message in a line of its own, over what is drawn."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        with suppress(OSError):  # where it cannot be written the command goes on
            print(f"\r{text.ljust(LONGEST)}" if is_watched(sys.stderr) else text, file=sys.stderr, flush=True)


@contextmanager
def messages() -> Iterator[None]:
    """Show what archloom logs meanwhile, on stderr."""
    log, handler = logging.getLogger("archloom"), _Messages()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
