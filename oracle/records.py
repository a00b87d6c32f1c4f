"""Frozen dataclasses as plain objects for JSON."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

_LEAVES = frozenset((int, float, str, bool, type(None)))


def plain(value: Any) -> Any:
    """What :func:`dataclasses.asdict` makes of ``value``, without copies of what cannot change: several times faster.

    Lists, tuples and dicts are made anew; values of other types stay as they are.
    """
    kind: Any = type(value)
    if kind in _LEAVES:
        return value
    if kind is tuple or kind is list:
        return kind([plain(v) for v in value])
    if kind is dict:
        return {k: plain(v) for k, v in value.items()}
    names = _names(kind)
    return value if names is None else {name: plain(getattr(value, name)) for name in names}


@lru_cache(maxsize=256)
def _names(kind: Any) -> tuple[str, ...] | None:
    return tuple(f.name for f in fields(kind)) if is_dataclass(kind) else None
