"""What tests register is forgotten after them. The registry has no way to forget: only here its table is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from archloom.tvm_backend.targets import registry


@contextmanager
def forgotten_after() -> Iterator[None]:
    """Targets that are registered or forgotten within are known again as they were before."""
    before = dict(registry._loaded)
    try:
        yield
    finally:
        registry._loaded.clear()
        registry._loaded.update(before)


def forget(name: str) -> None:
    """As in a process that has not asked for the target yet."""
    registry._loaded.pop(name, None)
