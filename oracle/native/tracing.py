"""What a trace is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_portable: ContextVar[bool] = ContextVar("portable", default=False)


@contextmanager
def portable() -> Iterator[None]:
    """What is traced within is for other machines, too: StableHLO alone."""
    before = _portable.set(True)
    try:
        yield
    finally:
        _portable.reset(before)


def is_portable() -> bool:
    """Whether machine code must not be called."""
    return _portable.get()
