"""Options of an accelerator: what an architect or a user may vary, with ranges, defaults and units."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, wraps
from typing import Any, TypeAlias

from archloom.acadl_models.options import Fact, Flag, Size, Word, check, facts_of
from archloom.oracle.errors import TargetError, suggest

OptionValue: TypeAlias = "int | float | str | bool | None"

_KINDS = {int: "an integer", float: "a number", str: "a word", bool: "true or false"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True)
class Option:
    """One option: its type, default, inclusive range or choices, and unit.

    A default of None means that the accelerator derives the value; ``auto`` stands for it in text.
    """

    name: str
    type: type[int] | type[float] | type[str] | type[bool]
    default: OptionValue
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    unit: str = ""

    @property
    def expected(self) -> str:
        """What a value must be, in words: ``an integer from 4 to 256``."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        text = _KINDS[self.type]
        if self.low is not None and self.high is not None:
            text += f" from {self.low:g} to {self.high:g}" if self.type is float else f" from {self.low} to {self.high}"
        return text + (" or auto" if self.default is None else "")

    def read(self, value: Any) -> OptionValue:
        """``value`` (of the option's type, or text) checked; ValueError if it is not what is expected."""
        if value is None or (isinstance(value, str) and value.lower() == "auto" and "auto" not in self.choices):
            if self.default is None:
                return None
            raise ValueError
        parsed = self._parse(value)
        if self.choices and parsed not in self.choices:
            raise ValueError
        if self.low is not None and self.high is not None and not self.low <= parsed <= self.high:  # type: ignore[operator]
            raise ValueError
        return parsed

    def _parse(self, value: Any) -> OptionValue:
        if self.type is bool:
            return value if isinstance(value, bool) else _truth(value)
        if isinstance(value, bool):
            raise ValueError
        if self.type is str:
            if not isinstance(value, str):
                raise ValueError
            return value
        if self.type is int:
            return _integer(value)
        number = float(value)
        if not math.isfinite(number):
            raise ValueError
        return number

    def __str__(self) -> str:
        default = "auto" if self.default is None else self.default
        unit = f" [{self.unit}]" if self.unit else ""
        return f"{self.name}={default}{unit}: {self.help} ({self.expected})"


@dataclass(frozen=True)
class GraphOptions:
    """Options that are parameters of ``make``, the function (or class) that an architecture graph is made from, which
    states ranges, choices, help and defaults where it has them (:mod:`archloom.acadl_models.options`)."""

    make: Callable[..., Any]

    def options(self, after: Mapping[str, Sequence[Option]] | None = None) -> tuple[Option, ...]:
        """An option for each parameter that has a help, in their order; ``after`` some of them others that are no
        parameters of the graph. ``clock_mhz`` stands for the graph's ``clock_hz``."""
        found: list[Option] = []
        parameters = inspect.signature(self.make).parameters
        for name, fact in facts_of(self.make).items():
            if fact.help:
                found.append(_option(name, parameters[name].default, fact))
            found += (after or {}).get(name, ())
        return tuple(found)

    @cached_property
    def graph(self) -> Callable[[Mapping[str, Any]], Any]:
        @wraps(self.make)  # so that the graph's own module can be told
        def made(options: Mapping[str, Any]) -> Any:
            given = inspect.signature(self.make).bind(**self.arguments(options))
            given.apply_defaults()
            check(self.make, given.arguments)
            return self.make(*given.args, **given.kwargs)

        return made

    def arguments(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """What ``make`` is called with: its parameters among the options, and the clock in hertz."""
        names = inspect.signature(self.make).parameters
        return {"clock_hz": options["clock_mhz"] * 1e6} | {k: v for k, v in options.items() if k in names}


def _option(name: str, default: Any, fact: Fact) -> Option:
    if isinstance(fact, Size):
        return Option(name, int, default, fact.help, fact.low, fact.high, unit=fact.unit)
    if isinstance(fact, Flag):
        return Option(name, bool, default, fact.help)
    if isinstance(fact, Word):
        return Option(name, str, default, fact.help, choices=tuple(fact.choices))
    return Option("clock_mhz", float, default / 1e6, fact.help, fact.low_mhz, fact.high_mhz, unit="MHz")


def _truth(value: Any) -> bool:
    if not isinstance(value, str) or value.lower() not in _TRUTH:
        raise ValueError
    return _TRUTH[value.lower()]


def _integer(value: Any) -> int:
    if isinstance(value, str):
        return int(value, 0) if value.lower().startswith("0x") else int(value)
    if isinstance(value, float) or not hasattr(value, "__index__"):
        raise ValueError
    return int(value)


def resolve_options(target: str, options: Sequence[Option], values: Mapping[str, Any]) -> dict[str, OptionValue]:
    """All options with their values, in the order of the schema.

    Values may be text, as from a command line. TargetError that lists every value that is wrong, with the target, the
    option, what was expected and what was found.
    """
    known = {o.name: o for o in options}
    problems = [f"unknown option {name!r}{suggest(name, list(known))}" for name in values if name not in known]
    resolved: dict[str, OptionValue] = {}
    for name, option in known.items():
        given = values.get(name, option.default)
        try:
            resolved[name] = option.default if name not in values else option.read(given)
        except (ValueError, TypeError, OverflowError):
            problems.append(f"option {name!r}: expected {option.expected}, found {given!r}")
    if problems:
        raise TargetError(f"target {target!r}: " + "; ".join(problems))
    return resolved
