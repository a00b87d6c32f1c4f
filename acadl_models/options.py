"""Checks of the options that the accelerators' graphs are made from.

Each check takes options by name and returns what is wrong, in words; :func:`refuse` raises all of it at once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from archloom.oracle.errors import TargetError

Options: TypeAlias = Mapping[str, object]
Ranges: TypeAlias = Mapping[str, tuple[int, int]]


def out_of_range(options: Options, ranges: Ranges, derived: Collection[str] = ()) -> list[str]:
    """The integers that are out of their inclusive ranges; those ``derived`` may be None: the graph has its own."""
    problems = []
    for name, (low, high) in ranges.items():
        value = options[name]
        if value is None and name in derived:
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            problems.append(f"{name} must be an integer from {low} to {high}, not {value!r}")
    return problems


def not_multiples(options: Options, names: Collection[str], of: int, besides: str = "") -> list[str]:
    """The integers that ``of`` does not divide; ``besides`` says what else may stand there."""
    problems = []
    for name in names:
        value = options[name]
        if isinstance(value, int) and value % of:
            problems.append(f"{name} must be a multiple of {of}{besides}, not {value}")
    return problems


def no_flags(options: Options, names: Collection[str]) -> list[str]:
    """The options that are neither True nor False."""
    return [
        f"{name} must be True or False, not {options[name]!r}" for name in names if not isinstance(options[name], bool)
    ]


def no_choices(options: Options, choices: Mapping[str, Collection[str]]) -> list[str]:
    """The words that are none of their choices."""
    return [
        f"{name} must be one of {', '.join(known)}, not {options[name]!r}"
        for name, known in choices.items()
        if options[name] not in known
    ]


def refuse(accelerator: str, problems: Collection[str]) -> None:
    """TargetError with all ``problems``, if there are any."""
    if problems:
        raise TargetError(f"{accelerator}: " + "; ".join(problems))
