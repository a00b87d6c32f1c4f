"""Figures of benchmarks: how each is read from what its benchmark ends with, and what is demanded of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Figure:
    """A figure of a benchmark: how it is read from the benchmark's JSON, what is demanded and what is aimed at."""

    name: str
    read: Callable[[Any], float | bool]
    demand: str
    holds: Callable[[float], bool] | None
    shown: str = "{:.3g}"


Figures: TypeAlias = dict[str, tuple[Figure, ...]]
"""The figures of a script (its ``FIGURES``), by the arguments with which it is run for them."""


def at_most(limit: float) -> tuple[str, Callable[[float], bool]]:
    return f"≤ {limit:g}", lambda value: value <= limit


def at_least(limit: float, unit: str = "") -> tuple[str, Callable[[float], bool]]:
    return f"≥ {limit:,g}{unit}", lambda value: value >= limit


def equals(expected: float) -> tuple[str, Callable[[float], bool]]:
    return f"{expected:g}", lambda value: value == expected


YES = ("yes", bool)
RECORDED = ("–", None)
"""For figures that nobody has set a target for: they are recorded, and get no verdict."""
