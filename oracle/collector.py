"""Python's cyclic garbage collector, paused where it only costs time."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def paused() -> Iterator[None]:
    """No cyclic collection inside; also a decorator.

    Resolving, raising, searching and interpreting make many small objects that live until the end and hold no cycles:
    the collector would scan them over and over, for a quarter of the time. Reference counting goes on.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
