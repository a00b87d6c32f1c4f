"""Interruptions reach a command wherever it is when they come.

Python prints an exception of what it calls by the way (to collect garbage, to drop a reference) and goes on, and
libraries in C++ make an error of their own of one in what they call back: either would lose a ``KeyboardInterrupt``.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

SOON_SECONDS = 0.01
"""After this an interrupt that was lost comes again, and again until Python is where it can be raised."""


@contextlib.contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Within it a ``KeyboardInterrupt`` that Python would print and forget comes again; yields whether any came.

    Only where interrupts are Python's own to handle: a caller's handler, and a signal that is ignored, stay.
    """
    if not _handled_by_python():
        yield lambda: False
        return
    came, hook, alarm = False, sys.unraisablehook, signal.getsignal(signal.SIGALRM)

    def forgotten(what: sys.UnraisableHookArgs) -> None:
        if issubclass(what.exc_type, KeyboardInterrupt):
            _soon(raised)
        else:
            hook(what)

    def raised(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came = True
        if _within(frame, forgotten):  # where it would be lost again
            _soon(raised)
        else:
            signal.default_int_handler(number, frame)

    sys.unraisablehook = forgotten
    signal.signal(signal.SIGINT, raised)
    try:
        yield lambda: came
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if signal.getsignal(signal.SIGALRM) is raised:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
        sys.unraisablehook = hook


def _handled_by_python() -> bool:
    return (threading.current_thread() is threading.main_thread()
            and signal.getsignal(signal.SIGINT) is signal.default_int_handler)


def _soon(raised: Callable[[int, FrameType | None], None]) -> None:
    """No thread: to start one takes locks that an interrupt may find taken."""
    signal.signal(signal.SIGALRM, raised)
    signal.setitimer(signal.ITIMER_REAL, SOON_SECONDS)


def _within(frame: FrameType | None, function: Callable[..., object]) -> bool:
    while frame is not None and frame.f_code is not function.__code__:
        frame = frame.f_back
    return frame is not None
