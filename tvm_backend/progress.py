"""What hears how far a long piece of work is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[str, int, int], None]
"""Hears what is being done, how many of the steps are done, and of how many."""
