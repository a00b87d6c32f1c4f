"""Trials of samplers that are not Optuna's: with Optuna's methods, and values that somebody else decides."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from archloom.oracle.errors import InputError


@dataclass(frozen=True)
class Domain:
    """The values that a parameter may have: ``choices``, or numbers from ``low`` to ``high`` (``step`` 0: all between;
    ``log``: their logarithms are even)."""

    name: str
    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    step: float = 0
    log: bool = False
    whole: bool = False

    @property
    def count(self) -> int:
        """How many values there are; InputError where they cannot be counted."""
        if self.choices:
            return len(self.choices)
        if not self.step:
            raise InputError(f"parameter {self.name!r}: a grid takes floats with a step; found none from {self.low:g} "
                             f"to {self.high:g}")
        return int((self.high - self.low) / self.step + 1e-9) + 1

    def at(self, position: int) -> Any:
        """The value at a position from 0 on."""
        if self.choices:
            return self.choices[position]
        value = self.low + position * self.step
        return int(value) if self.whole else min(value, self.high)

    def within(self, share: float) -> Any:
        """The value at a share of the domain, from 0 to 1."""
        if self.log:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
            value = min(max(value, self.low), self.high)
            return round(value) if self.whole else value
        if self.choices or self.step:
            return self.at(min(int(share * self.count), self.count - 1))
        return self.low + share * (self.high - self.low)


Decide: TypeAlias = Callable[[Domain], Any]


class Trial(Protocol):
    """What a space is called with: Optuna's trial, or one alike."""

    @property
    def number(self) -> int: ...
    @property
    def params(self) -> dict[str, Any]: ...
    @property
    def user_attrs(self) -> dict[str, Any]: ...
    def set_user_attr(self, key: str, value: Any) -> None: ...
    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any: ...
    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int: ...
    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False) -> float: ...


class DecidedTrial:
    """A trial whose values are what ``decide`` says of their domains; ``number``: how many there were before it."""

    def __init__(self, decide: Decide, number: int = 0) -> None:
        self._decide, self.number = decide, number
        self.params: dict[str, Any] = {}
        self.domains: dict[str, Domain] = {}
        self.user_attrs: dict[str, Any] = {}

    def set_user_attr(self, key: str, value: Any) -> None:
        self.user_attrs[key] = value

    def report(self, value: float, step: int) -> None:
        """Nothing is made of values on the way."""

    def should_prune(self) -> bool:
        return False

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        return self._value(Domain(name, tuple(choices)), len(choices) > 0)

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        return int(self._value(Domain(name, (), low, high, step, log, True), low <= high and step > 0))

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        return float(self._value(Domain(name, (), low, high, step or 0, log), low <= high))

    def _value(self, domain: Domain, holds_any: bool) -> Any:
        if not holds_any or (domain.log and domain.low <= 0):
            raise InputError(f"parameter {domain.name!r}: expected a domain with values, and above 0 for log=True; "
                             f"found {domain}")
        if domain.name not in self.params:
            self.params[domain.name] = self._decide(domain)
            self.domains[domain.name] = domain
        return self.params[domain.name]


def every() -> Iterator[DecidedTrial]:
    """A trial for each combination of values; each is to be used before the next one is asked for, as the values of
    one parameter may decide whether there is another."""
    path: list[tuple[int, int]] = []
    for number in itertools.count():
        depth = 0

        def decide(domain: Domain) -> Any:
            nonlocal depth
            if depth == len(path):
                path.append((0, domain.count))
            depth += 1
            return domain.at(path[depth - 1][0])

        yield DecidedTrial(decide, number)
        del path[depth:]
        while path and path[-1][0] == path[-1][1] - 1:
            path.pop()
        if not path:
            return
        path[-1] = path[-1][0] + 1, path[-1][1]
