"""What the accelerators' graphs are made from: facts about their parameters, and checks of what is given for them.

A function (or a class) that makes a graph states each parameter where it has it, as ``Annotated[int, Size(1, 64, "rows
of cores")] = 8``: from that :func:`check` knows what may be given, and targets make their options. :func:`refuse`
raises all that is wrong at once, in words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias, Union, get_args, get_type_hints

from archloom.oracle import taidl
from archloom.oracle.accesses import bits_of
from archloom.oracle.errors import TaidlError, TargetError, suggest
from archloom.oracle.taidl.isa import Isa

Options: TypeAlias = Mapping[str, object]


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


@dataclass(frozen=True)
class Stated:
    """The sizes that an ISA states, by its name or its file: what a graph's parameters may be, what they are by
    default, and how large its storages are. So each stands in one place."""

    name_or_path: str | Path

    def __getitem__(self, name: str) -> int:
        """A parameter or a constant by default; TaidlError where there is none."""
        scope = taidl.declared(self.name_or_path).scope
        if name not in scope:
            near = suggest(name, list(scope))
            raise TaidlError(f"{self.name_or_path}: no parameter and no constant is {name!r}{near}")
        return scope[name]

    def size(self, parameter: str, help: str = "", unit: str = "", least: int | None = None) -> Size:
        """What a parameter may be, from ``least`` on where the machine needs more; TaidlError where there is none."""
        stated = taidl.parameter(self.name_or_path, parameter)
        return Size(stated.low if least is None else least, stated.high, help, unit)

    def kib(self, buffer: str, parts: int = 1) -> int:
        """The size of a buffer by default, or of one of its equal parts, in KiB."""
        return bits_of(taidl.declared(self.name_or_path).buffer(buffer)) // (parts << 13)

    def row_bytes(self, buffer: str, options: Options) -> int:
        """The bytes of a row of a buffer, of an ISA of these ``options``."""
        held = taidl.declared(self.name_or_path, **self._among(options)).buffer(buffer)
        return bits_of(held) // (8 * held.shape[0])

    def isa(self, options: Options, **others: int) -> Isa:
        """The ISA's declarations: its parameters are those of ``options`` that have their names, and ``others``.
        TargetError for a parameter that is neither, or cannot be what it is."""
        given = {**self._among(options), **others}
        missing = [name for name, _ in taidl.declared(self.name_or_path).parameters if name not in given]
        refuse(str(self.name_or_path), [f"parameter {name} of the ISA follows from no option" for name in missing])
        return taidl.declared(self.name_or_path, **given)

    def checked(self, make: Callable[..., Any], options: Options) -> Isa:
        """:meth:`isa` of options that are as the parameters of ``make`` say; TargetError that lists what is not."""
        check(make, options)
        return self.isa(options)

    def _among(self, options: Options) -> dict[str, Any]:
        return {name: options[name] for name, _ in taidl.declared(self.name_or_path).parameters if name in options}


@lru_cache
def facts_of(make: Callable[..., Any]) -> Mapping[str, Fact]:
    """What the parameters of ``make`` say of themselves, in their order; those that say nothing are left out."""
    hints = get_type_hints(make, include_extras=True)
    stated = {name: [m for m in getattr(hint, "__metadata__", ()) if isinstance(m, get_args(Fact))]
              for name, hint in hints.items()}
    return {name: facts[0] for name, facts in stated.items() if facts}


def problems_of(make: Callable[..., Any], options: Options) -> list[str]:
    """What of ``options`` is not as the parameters of ``make`` say."""
    defaults = inspect.signature(make).parameters
    out_of_range, multiples, others = list[str](), list[str](), list[str]()
    for name, fact in facts_of(make).items():
        value = options[name]
        if isinstance(fact, Size) and not (value is None and defaults[name].default is None):  # the graph has its own
            if isinstance(value, bool) or not isinstance(value, int) or not fact.low <= value <= fact.high:
                out_of_range.append(f"{name} must be an integer from {fact.low} to {fact.high}, not {value!r}")
            multiples += not_multiple(name, value, fact.multiple)
        elif isinstance(fact, Flag) and not isinstance(value, bool):
            others.append(f"{name} must be True or False, not {value!r}")
    for name, fact in facts_of(make).items():
        if isinstance(fact, Word) and options[name] not in fact.choices:
            others.append(f"{name} must be one of {', '.join(fact.choices)}, not {options[name]!r}")
    return [*out_of_range, *multiples, *others]


def not_multiple(name: str, value: object, of: int, besides: str = "") -> list[str]:
    """An integer that ``of`` does not divide; ``besides`` says what else may stand there."""
    wrong = isinstance(value, int) and value % of
    return [f"{name} must be a multiple of {of}{besides}, not {value}"] if wrong else []


def check(make: Callable[..., Any], options: Options, *others: str) -> None:
    """TargetError, named after ``make``, that lists all :func:`problems_of` its ``options``, and ``others``, if there
    are any."""
    refuse(make.__name__, [*problems_of(make, options), *others])


def refuse(accelerator: str, problems: Collection[str]) -> None:
    """TargetError with all ``problems``, if there are any."""
    if problems:
        raise TargetError(f"{accelerator}: " + "; ".join(problems))
