"""Reads text piece by piece for parsers: spaces, comments, names, numbers, signs, operators, and places for errors.

Pieces are read on demand, because in TAIDL what ``x`` and ``%`` are depends on where they stand: ``16x64xi8`` is a type
with three parts, ``%T`` a tensor at the start of a statement and the modulo by ``T`` within parentheses.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from typing import ClassVar, Generic, NoReturn, TypeVar

from archloom.oracle.errors import Position, SourceError, TaidlError

V = TypeVar("V")

_SPACE = re.compile(r"(?:\s|#[^\n]*)*")
_NAME = re.compile(r"[A-Za-z_]\w*")
_WORD = re.compile(r"\w+|->|<-|&&|\|\||[=!<>]=|<<|>>|\S")
_NUMBER = re.compile(r"0x_*[0-9A-Fa-f][0-9A-Fa-f_]*\b|(?P<float>[0-9]+(?:\.[0-9]+(?:[eE][-+]?[0-9]+)?|[eE][-+]?[0-9]+))"
                     r"|[0-9]+[KM]?\b")
_SUFFIX = {"K": 1024, "M": 1024 * 1024}

MAX_DIGITS = 300
"""How long a number may be written."""


class Scanner:
    """A place in a text; every reading method skips the space and the comments after what it read.

    ``space`` matches those, ``word`` what errors show as found, up to ``longest`` characters; ``error`` is raised.
    """

    def __init__(
        self, text: str, file: str, space: re.Pattern[str] = _SPACE, word: re.Pattern[str] = _WORD,
        error: type[SourceError] = TaidlError, longest: int | None = 40,
    ) -> None:
        self.text = text
        self.file = file
        self.at = 0
        self._space = space
        self._word = word
        self._error = error
        self._longest = longest
        self._lines = [0, *(m.end() for m in re.finditer("\n", text))]
        self._skip()

    def _skip(self) -> None:
        match = self._space.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def position(self, at: int | None = None) -> Position:
        """Line and column of an offset (by default, of the place)."""
        at = self.at if at is None else at
        line = bisect_right(self._lines, at)
        return Position(self.file, line, at - self._lines[line - 1] + 1)

    def fail(self, message: str, position: Position | None = None) -> NoReturn:
        """Raise the error at a position (by default, here)."""
        raise self._error(message, position or self.position(), self.text)

    def expected(self, what: str) -> NoReturn:
        """Raise the error for something else than what was expected."""
        match = self._word.match(self.text, self.at)
        found = "the end of the text" if match is None else match.group()
        if match is not None:
            found = "the end of the line" if found == "\n" else repr(self.short(found))
        self.fail(f"expected {what}, found {found}")

    def short(self, text: str) -> str:
        """A text for a message, cut where it is long."""
        longest = self._longest
        return text if longest is None or len(text) <= longest else f"{text[:longest - 3]}..."

    # --- what comes next ---

    @property
    def done(self) -> bool:
        return self.at == len(self.text)

    def sees(self, sign: str) -> bool:
        """Whether the text goes on with a sign."""
        return self.text.startswith(sign, self.at)

    def matches(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """What a pattern matches here, without reading it."""
        return pattern.match(self.text, self.at)

    def take(self, pattern: re.Pattern[str]) -> str | None:
        """Read what a pattern matches, or None."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        self._skip()
        return match.group()

    def accept(self, sign: str) -> bool:
        """Read a sign if it comes next; a word only as a whole."""
        end = self.at + len(sign)
        if not self.text.startswith(sign, self.at):
            return False
        if sign[-1].isalnum() and (self.text[end:end + 1].isalnum() or self.text[end:end + 1] == "_"):
            return False
        self.at = end
        self._skip()
        return True

    def need(self, sign: str) -> None:
        """Read a sign that must come next."""
        if not self.accept(sign):
            self.expected(repr(sign))

    def name(self, what: str = "a name") -> str:
        name = self.take(_NAME)
        return self.expected(what) if name is None else name

    def number(self) -> int | float | None:
        """Read a number (decimal, hexadecimal, with the suffix K or M, or a float), or None."""
        match = self.matches(_NUMBER)
        if match is None:
            return None
        if not match["float"]:
            return self.whole(_NUMBER)
        value = float(match.group())
        if not math.isfinite(value):
            self.fail(f"{self.short(match.group())} is beyond the range of floats")
        self.at = match.end()
        self._skip()
        return value

    def whole(self, pattern: re.Pattern[str]) -> int:
        """Read an integer that the pattern matches: decimal, hexadecimal, with the suffix K or M."""
        match = self.matches(pattern)
        assert match is not None
        text = match.group().replace("_", "")
        if len(text) > MAX_DIGITS:
            self.fail(f"the number {self.short(text)} has {len(text)} digits, more than {MAX_DIGITS}")
        self.at = match.end()
        self._skip()
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text[:-1]) * _SUFFIX[text[-1]] if text[-1] in _SUFFIX else int(text)

    def integer(self) -> int:
        """Read an integer that must come next."""
        value = self.number()
        return value if isinstance(value, int) else self.expected("an integer")


class Climbing(Generic[V]):
    """Reads expressions of binary operators by precedence climbing; what they are made of and give, subclasses say.

    ``levels`` has for each operator how tightly it binds; those of the level ``single`` do not associate, all others
    do to the left.
    """

    signs: ClassVar[re.Pattern[str]]
    levels: ClassVar[Mapping[str, int]]
    single: ClassVar[int | None] = None

    def __init__(self, scanner: Scanner) -> None:
        self.s = scanner

    def expr(self, level: int = 0) -> V:
        """An expression of operators of the level and tighter ones."""
        left = self.unary()
        tightest = len(self.levels)
        while True:
            at = self.s.at
            sign = self.sign(level, tightest)
            if sign is None:
                return left
            tightest = self.levels[sign]
            left = self.binary(sign, left, self.expr(tightest + 1), at)
            tightest -= tightest == self.single

    def sign(self, loosest: int, tightest: int) -> str | None:
        """Read an operator of these levels, if one comes next."""
        match = self.s.matches(self.signs)
        if match is None or not loosest <= self.levels[match.group()] <= tightest or self.ends(match.group()):
            return None
        return self.s.take(self.signs)

    def ends(self, sign: str) -> bool:
        """Whether the sign that comes next is no operator here: the expression ends before it."""
        return False

    def unary(self) -> V:
        """An operand with the signs before it."""
        raise NotImplementedError

    def binary(self, sign: str, left: V, right: V, at: int) -> V:
        """What an operator at an offset of the text gives."""
        raise NotImplementedError
