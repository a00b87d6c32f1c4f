"""Latencies: integers, or expressions over an instruction's attributes, registers and the ISA's parameters.

The language (section 3 of the ACADL paper leaves it open): integers, names (``rows``, ``ld_stride[1]``),
``+ - * // %``, unary ``-``, comparisons, ``and or not``, ``a if c else b``, ``min(...)``, ``max(...)``,
``cdiv(a, b)`` (division rounded up) and parentheses, with Python's meaning and precedence over integers; a
comparison is 1 or 0. A text is parsed once, by the small parser below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeAlias, Union

import numpy as np

Latency: TypeAlias = Union[int, str]


@dataclass(frozen=True)
class Num:
    """An integer constant."""

    value: int


@dataclass(frozen=True)
class Name:
    """An attribute, a register or a parameter."""

    name: str


@dataclass(frozen=True)
class Call:
    """An operator or function: ``op`` is one of ``+ - * // % < <= > >= == != and or not neg min max cdiv``."""

    op: str
    arguments: tuple["Node", ...]


@dataclass(frozen=True)
class IfElse:
    """``then if condition else otherwise``; only the branch that is chosen is evaluated."""

    condition: "Node"
    then: "Node"
    otherwise: "Node"


Node: TypeAlias = Union[Num, Name, Call, IfElse]


class LatencyError(ValueError):
    """A latency text that does not parse, or a value that does not exist; callers name the object."""


@dataclass(frozen=True)
class Expression:
    """A parsed latency: its text, its tree and the names that it needs."""

    text: str
    root: Node
    names: frozenset[str]

    @property
    def is_constant(self) -> bool:
        return not self.names

    def evaluate(self, values: Mapping[str, int]) -> int:
        """The value; KeyError for a missing name, LatencyError for a division by zero."""
        return _integer(self.root, values)

    def evaluate_columns(self, values: Mapping[str, "int | np.ndarray"]) -> "int | np.ndarray":
        """The value for each entry of arrays; KeyError for a missing name. Of a choice that all entries make alike one
        branch is evaluated, of others both."""
        return _column(self.root, values)

    def __str__(self) -> str:
        return self.text


def parse(latency: Latency) -> Expression:
    """Parse an integer or a text; raises LatencyError with the column of the fault."""
    if isinstance(latency, bool) or not isinstance(latency, (int, str)):
        raise LatencyError(f"a latency is an integer or an expression in a string, not {latency!r}")
    if isinstance(latency, str) and len(latency) > _MAX_LENGTH:
        raise LatencyError(f"a latency of {len(latency)} characters is longer than the {_MAX_LENGTH} allowed")
    return _parse(str(latency))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression:
    root = _Parser(text).whole()
    return Expression(text, root, frozenset(_names(root)))


def _names(node: Node) -> set[str]:
    if isinstance(node, Name):
        return {node.name}
    if isinstance(node, Num):
        return set()
    parts = node.arguments if isinstance(node, Call) else (node.condition, node.then, node.otherwise)
    return set().union(*(_names(p) for p in parts))


_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+)|(?P<name>[A-Za-z_]\w*(?:\[\d+\])?)|(?P<op>//|<=|>=|==|!=|[-+*%<>(),]))"
)
_WORDS = frozenset(("if", "else", "and", "or", "not"))
_FUNCTIONS: dict[str, tuple[int, int | None]] = {"min": (1, None), "max": (1, None), "cdiv": (2, 2)}
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_MAX_DEPTH = 50
_MAX_LENGTH = 400
"""Both keep the recursion over a tree far from Python's limit."""


class _Parser:
    """Recursive descent over Python's precedences, without chained comparisons."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = self._scan()
        self.at = 0
        self.depth = 0

    def _scan(self) -> list[tuple[str, str, int]]:
        tokens: list[tuple[str, str, int]] = []
        position = 0
        while self.text[position:].strip():
            match = _TOKEN.match(self.text, position)
            if match is None:
                column = position + len(self.text[position:]) - len(self.text[position:].lstrip())
                raise self._error(f"unexpected {self.text[column]!r}", column)
            kind = str(match.lastgroup)
            word = match.group(kind)
            tokens.append(("op" if word in _WORDS else kind, word, match.start(kind)))
            position = match.end()
        return [*tokens, ("end", "", len(self.text))]

    def _error(self, message: str, column: int) -> LatencyError:
        return LatencyError(f"bad latency {self.text!r}, column {column + 1}: {message}")

    def _found(self, expected: str) -> LatencyError:
        kind, word, column = self.tokens[self.at]
        return self._error(f"expected {expected}, found {'the end' if kind == 'end' else repr(word)}", column)

    def _accept(self, *ops: str) -> str | None:
        kind, word, _ = self.tokens[self.at]
        if kind == "op" and word in ops:
            self.at += 1
            return word
        return None

    def _expect(self, op: str) -> None:
        if self._accept(op) is None:
            raise self._found(repr(op))

    def whole(self) -> Node:
        node = self._choice()
        if self.tokens[self.at][0] != "end":
            raise self._found("an operator or the end")
        return node

    def _choice(self) -> Node:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            raise self._error(f"nested deeper than {_MAX_DEPTH}", self.tokens[self.at][2])
        node = self._binary(0)
        if self._accept("if"):
            condition = self._binary(0)
            self._expect("else")
            node = IfElse(condition, node, self._choice())
        self.depth -= 1
        return node

    _LEVELS: tuple[tuple[str, ...], ...] = (("or",), ("and",), ("not",), _COMPARISONS, ("+", "-"), ("*", "//", "%"))

    def _binary(self, level: int) -> Node:
        if level == len(self._LEVELS):
            return self._unary()
        if self._LEVELS[level] == ("not",):
            return self._prefix("not", "not", lambda: self._binary(level + 1))
        node = self._binary(level + 1)
        while op := self._accept(*self._LEVELS[level]):
            node = Call(op, (node, self._binary(level + 1)))
            if op in _COMPARISONS and self.tokens[self.at][1] in _COMPARISONS:
                raise self._error("comparisons do not chain", self.tokens[self.at][2])
        return node

    def _prefix(self, word: str, op: str, operand: Callable[[], Node]) -> Node:
        count = 0
        while self._accept(word):
            count += 1
        node = operand()
        for _ in range(count):
            node = Call(op, (node,))
        return node

    def _unary(self) -> Node:
        return self._prefix("-", "neg", self._atom)

    def _atom(self) -> Node:
        kind, word, _ = self.tokens[self.at]
        if kind == "number":
            self.at += 1
            return Num(int(word))
        if kind == "name":
            self.at += 1
            return self._call(word) if self._accept("(") else Name(word)
        if self._accept("("):
            node = self._choice()
            self._expect(")")
            return node
        raise self._found("a number, a name or '('")

    def _call(self, function: str) -> Node:
        column = self.tokens[self.at - 2][2]
        if function not in _FUNCTIONS:
            raise self._error(f"unknown function {function!r} (valid: {', '.join(sorted(_FUNCTIONS))})", column)
        arguments = [self._choice()]
        while self._accept(","):
            arguments.append(self._choice())
        self._expect(")")
        low, high = _FUNCTIONS[function]
        if len(arguments) < low or (high is not None and len(arguments) > high):
            raise self._error(f"{function} takes {low} arguments, not {len(arguments)}", column)
        return Call(function, tuple(arguments))


def _divided(op: str, a: int, b: int) -> int:
    if b == 0:
        raise LatencyError(f"{a} {op} 0")
    return -(-a // b) if op == "cdiv" else a // b if op == "//" else a % b


_INTEGER: dict[str, Callable[..., int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: _divided("//", a, b),
    "%": lambda a, b: _divided("%", a, b),
    "cdiv": lambda a, b: _divided("cdiv", a, b),
    "<": lambda a, b: int(a < b),
    "<=": lambda a, b: int(a <= b),
    ">": lambda a, b: int(a > b),
    ">=": lambda a, b: int(a >= b),
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "not": lambda a: int(not a),
    "neg": lambda a: -a,
    "min": min,
    "max": max,
}


def _integer(node: Node, values: Mapping[str, int]) -> int:
    if isinstance(node, Num):
        return node.value
    if isinstance(node, Name):
        return int(values[node.name])
    if isinstance(node, IfElse):
        return _integer(node.then if _integer(node.condition, values) else node.otherwise, values)
    if node.op in ("and", "or"):
        left = bool(_integer(node.arguments[0], values))
        decided = left if node.op == "or" else not left
        return int(left if decided else bool(_integer(node.arguments[1], values)))
    arguments = [_integer(a, values) for a in node.arguments]
    return _INTEGER[node.op](*arguments) if len(arguments) > 1 or node.op in ("not", "neg") else arguments[0]


_COLUMN: dict[str, Callable[..., Any]] = {
    **_INTEGER,
    "//": np.floor_divide, "%": np.mod, "cdiv": lambda a, b: -np.floor_divide(-np.asarray(a), b),
    "<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal,
    "not": np.logical_not, "and": np.logical_and, "or": np.logical_or,
    "min": lambda *a: reduce(np.minimum, a), "max": lambda *a: reduce(np.maximum, a),
}


_TRUTHS = frozenset((*_COMPARISONS, "not", "and", "or"))


def _column(node: Node, values: Mapping[str, "int | np.ndarray"]) -> Any:
    if isinstance(node, Num):
        return node.value
    if isinstance(node, Name):
        return values[node.name]
    if isinstance(node, IfElse):
        condition = np.asarray(_column(node.condition, values))
        if not condition.ndim:
            return _column(node.then if condition else node.otherwise, values)
        return np.where(condition, _column(node.then, values), _column(node.otherwise, values))
    found = _COLUMN[node.op](*(_column(a, values) for a in node.arguments))
    return np.asarray(found, np.int64) if node.op in _TRUTHS else found
