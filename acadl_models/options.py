"""What the accelerators' graphs are made from: facts about their parameters, and checks of what is given for them.

A function (or a class) that makes a graph states each parameter where it has it, as ``Annotated[int, Size(1, 64, "rows
of cores")] = 8``: from that :func:`check` knows what may be given, and targets make their options. Each of the other
checks takes options by name and returns what is wrong, in words; :func:`refuse` raises all of it at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias, Union, get_args, get_type_hints

from archloom.oracle.errors import TargetError

Options: TypeAlias = Mapping[str, object]
Ranges: TypeAlias = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Size:
    """An integer from ``low`` to ``high``, a multiple of ``multiple``; None, too, where that is the default. Without
    ``help`` it is no option of targets."""

    low: int
    high: int
    help: str = ""
    unit: str = ""
    multiple: int = 1


@dataclass(frozen=True)
class Flag:
    """True or False."""

    help: str = ""


@dataclass(frozen=True)
class Word:
    """One of ``choices``."""

    choices: Collection[str]
    help: str = ""


@dataclass(frozen=True)
class Clock:
    """A clock in hertz; as an option in MHz, from ``low_mhz`` to ``high_mhz``."""

    help: str
    low_mhz: float = 0.001
    high_mhz: float = 1e6


Fact: TypeAlias = Union[Size, Flag, Word, Clock]


@lru_cache
def facts_of(make: Callable[..., Any]) -> Mapping[str, Fact]:
    """What the parameters of ``make`` say of themselves, in their order; those that say nothing are left out."""
    hints = get_type_hints(make, include_extras=True)
    stated = {name: [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, get_args(Fact))]
              for name, hint in hints.items()}
    return {name: facts[0] for name, facts in stated.items() if facts}


def problems_of(make: Callable[..., Any], options: Options) -> list[str]:
    """What of ``options`` is not as the parameters of ``make`` say."""
    facts = facts_of(make).items()
    sizes = {name: fact for name, fact in facts if isinstance(fact, Size)}
    defaults = inspect.signature(make).parameters
    return [
        *out_of_range(options, {name: (size.low, size.high) for name, size in sizes.items()},
                      [name for name in sizes if defaults[name].default is None]),
        *(problem for name, size in sizes.items() for problem in not_multiples(options, (name,), size.multiple)),
        *no_flags(options, [name for name, fact in facts if isinstance(fact, Flag)]),
        *no_choices(options, {name: fact.choices for name, fact in facts if isinstance(fact, Word)}),
    ]


def check(make: Callable[..., Any], options: Options) -> None:
    """TargetError, named after ``make``, that lists all :func:`problems_of` its ``options``, if there are any."""
    refuse(make.__name__, problems_of(make, options))


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
