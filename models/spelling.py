"""``name(key=1,other=2)``: how networks and single operators are written as text, with their sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from archloom.oracle.errors import InputError, Position, render, suggest

_TOKEN = re.compile(r"\s*(?:(?P<name>[A-Za-z_]\w*)|(?P<number>[+-]?\d+(?:\.\d*)?)|(?P<sign>[(),=]))")

_DIGITS = 300
"""Digits that a number may have: a float holds 1e308 at most, and Python reads no integer of thousands of digits."""


@dataclass(frozen=True)
class Parameter:
    """A size: its default (``None``: it must be given), the smallest and the largest value."""

    default: int | None = None
    least: int = 1
    most: int = 2**24


@dataclass
class Spelling:
    """A text read token by token; ``what`` it spells, an ``operator`` or a ``network``, is what messages call it."""

    text: str
    what: str
    at: int = 0

    def read(self, known: Mapping[str, Mapping[str, Parameter]]) -> tuple[str, dict[str, int]]:
        """The name and a value for every parameter; :class:`InputError` with the column of what is wrong.

        Where all have defaults, the name alone will do.
        """
        name, start = self._next("name", f"{'an' if self.what[0] in 'aeiou' else 'a'} {self.what} ({', '.join(known)})")
        if name not in known:
            self.fail(f"unknown {self.what} {name!r}{suggest(name, list(known))}", start)
        parameters, values = known[name], dict[str, int]()
        missing = [key for key, p in parameters.items() if p.default is None]
        if missing or "".join(self.text[self.at:].split()) not in ("", "()"):
            self._next("sign", "'('", "(")
            values = self._values(name, parameters)
            if rest := self.text[self.at:].strip():
                self.fail(f"expected the end of the text after ')', found {rest!r}", self._skip_blanks())
        if missing := [key for key in missing if key not in values]:
            self.fail(f"{name} needs {', '.join(missing)} (parameters: {', '.join(parameters)})", start)
        return name, {key: values.get(key, p.default or 0) for key, p in parameters.items()}

    def fail(self, message: str, column: int) -> NoReturn:
        """InputError that shows the text with a mark at ``column``, from 0."""
        raise InputError(render(message, Position(self.what, 1, column + 1), self.text))

    def _next(self, kind: str, expected: str, sign: str = "") -> tuple[str, int]:
        match = _TOKEN.match(self.text, self.at)
        start = match.start(match.lastgroup) if match and match.lastgroup else self._skip_blanks()
        found = match.group(match.lastgroup) if match and match.lastgroup else self.text[start:start + 1]
        if match is None or match.lastgroup != kind or (sign and found not in sign):
            self.fail(f"expected {expected}, found {repr(found) if found else 'the end of the text'}", start)
        self.at = match.end()
        return found, start

    def _skip_blanks(self) -> int:
        return len(self.text) - len(self.text[self.at:].lstrip())

    def _values(self, of: str, parameters: Mapping[str, Parameter]) -> dict[str, int]:
        values: dict[str, int] = {}
        while True:
            name, start = self._next("name", f"a parameter of {of} ({', '.join(parameters)})")
            if name not in parameters:
                self.fail(f"unknown parameter {name!r} of {of}{suggest(name, list(parameters))}", start)
            if name in values:
                self.fail(f"parameter {name!r} is given twice", start)
            self._next("sign", "'='", "=")
            text, start = self._next("number", f"an integer for {name!r}")
            least, most = parameters[name].least, parameters[name].most
            if "." in text or len(text) > _DIGITS or not least <= int(text) <= most:
                self.fail(f"{name} must be an integer from {least} to {most}, found {text}", start)
            values[name] = int(text)
            if self._next("sign", "',' or ')'", ",)")[0] == ")":
                return values
