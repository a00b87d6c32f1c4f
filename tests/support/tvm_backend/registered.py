"""What tests register is forgotten after them. The registry has no way to forget: only here its table is changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from archloom.tvm_backend.targets import registry


@contextmanager
def forgotten_after() -> Iterator[None]:
    """Targets that are registered or forgotten within are known again as they were before, and files that are run."""
    tables: tuple[dict[Any, Any], ...] = (registry._loaded, registry._ran)
    before, modules = [dict(table) for table in tables], set(sys.modules)
    try:
        yield
    finally:
        for table, known in zip(tables, before, strict=True):
            table.clear()
            table.update(known)
        for name in set(sys.modules) - modules:
            if isinstance(getattr(sys.modules[name], "__loader__", None), registry._Fresh):
                del sys.modules[name]


def forget(name: str) -> None:
    """As in a process that has not asked for the target yet."""
    registry._loaded.pop(name, None)
