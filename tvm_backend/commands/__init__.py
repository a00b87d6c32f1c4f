"""The commands of the command line, one module for each group, each with a function ``register(subparsers)``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """``text`` for people, ``data`` for ``--json``, and the exit status (0, or 1 where a check failed)."""

    text: str
    data: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0
