"""Integer expressions as text: read into syntax trees by precedence climbing.

The parser of TAIDL builds on :class:`ExpressionParser`; :func:`parse_expression` reads a text that is one expression.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from archloom.oracle.errors import Position, suggest
from archloom.oracle.scanner import Climbing, Scanner
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import operands

T = TypeVar("T")

FUNCTIONS = {"min": (2, None), "max": (2, None), "cdiv": (2, 2), "select": (3, 3)}
"""Functions of integer expressions and the least and the largest number of their arguments."""

LEVELS = (("||",), ("&&",), ("==", "!=", "<=", ">=", "<", ">"), ("|",), ("&",), ("<<", ">>"), ("+", "-"),
          ("*", "//", "%"))
"""Binary operators from the loosest to the tightest; all but the comparisons associate to the left."""

COMPARISON = 2
"""The level of the comparisons, which do not associate."""

MAX_DEPTH = 100
"""How deep an expression may be: the levels of its tree."""

MAX_NESTING = 50
"""How many brackets, or blocks, may be open at once."""

_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[")


def parse_expression(text: str, file: str = "<string>") -> ast.Expr:
    """The tree of a text that is one integer expression or condition; TaidlError with line and caret if it is none."""
    scanner = Scanner(text, file)
    expr = ExpressionParser(scanner).expr()
    if not scanner.done:
        scanner.expected("an operator or the end of the text")
    return expr


class ExpressionParser(Climbing[ast.Expr]):
    """The rules of expressions and of brackets."""

    signs = re.compile(r"\|\||&&|[=!<>]=|<<|>>|//|[<>|&*/%]|[+-](?!>)")
    levels = {sign: level for level, signs in enumerate(LEVELS) for sign in signs} | {"/": len(LEVELS) - 1}
    single = COMPARISON

    def __init__(self, scanner: Scanner) -> None:
        super().__init__(scanner)
        self.depth = 0
        """Open parentheses and brackets around the expression."""
        self.operators = 0
        """Operators read so far."""

    def expr(self, level: int = 0) -> ast.Expr:
        before = self.operators
        made = super().expr(level)
        if self.operators - before > MAX_DEPTH and _deeper(made, MAX_DEPTH):
            self.s.fail(f"this expression is more than {MAX_DEPTH} operators deep: take it apart with let",
                        made.position)
        return made

    def binary(self, sign: str, left: ast.Expr, right: ast.Expr, at: int) -> ast.Binary:
        self.operators += 1
        return ast.Binary("//" if sign == "/" else sign, left, right, position=left.position)

    def unary(self) -> ast.Expr:
        s = self.s
        signs: list[tuple[Position, str]] = []
        while s.sees("-") or s.sees("!"):
            place = s.position()
            signs.append((place, "-" if s.accept("-") else "!"))
            if signs[-1][1] == "!":
                s.need("!")
        value = self.atom(s.position())
        for position, sign in reversed(signs):
            value = ast.Unary(sign, value, position=position)
        self.operators += len(signs)
        return value

    def atom(self, position: Position) -> ast.Expr:
        s = self.s
        for opening, closing in ("()", "``"):
            if s.accept(opening):
                return self.inside(self.expr, closing)
        value = s.number()
        if value is not None:
            return ast.Number(value, position=position)
        # the bracket touches the name, so that an instruction after "register = value" is not taken for an index
        element = s.matches(_ELEMENT)
        if element is not None:
            s.take(_ELEMENT)
            return ast.Element(element[1], self.inside(self.expr, "]"), position=position)
        name = s.name("a value")
        if s.accept("("):
            return self.call(name, self.listed(self.expr, ")"), position)
        return ast.Name(name, position=position)

    def call(self, name: str, arguments: tuple[ast.Expr, ...], position: Position) -> ast.Call:
        if name not in FUNCTIONS:
            self.s.fail(f"unknown function {name!r}{suggest(name, list(FUNCTIONS))}", position)
        low, high = FUNCTIONS[name]
        if len(arguments) < low or (high is not None and len(arguments) > high):
            wanted = str(low) if low == high else f"at least {low}"
            self.s.fail(f"{name} takes {wanted} arguments, {len(arguments)} given", position)
        return ast.Call(name, arguments, position=position)

    # --- brackets ---

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.s.fail(f"brackets are nested more than {MAX_NESTING} deep")

    def inside(self, rule: Callable[[], T], closing: str) -> T:
        """What a rule reads between brackets, the first of which is read."""
        self.enter()
        value = rule()
        self.depth -= 1
        self.s.need(closing)
        return value

    def listed(self, rule: Callable[[], T], closing: str) -> tuple[T, ...]:
        """A list with commas between brackets, the first of which is read."""
        items: list[T] = []
        self.enter()
        if not self.s.sees(closing):
            items.append(rule())
            while self.s.accept(","):
                items.append(rule())
        self.depth -= 1
        if not self.s.accept(closing):
            self.s.expected(f"',' or {closing!r}")
        return tuple(items)


def _deeper(expr: ast.Expr, limit: int) -> bool:
    """Whether the tree of an expression has more levels than the limit; without recursion, as it may have many."""
    level: list[ast.Expr] = [expr]
    for _ in range(limit):
        level = [part for e in level for part in operands(e)]
        if not level:
            return False
    return True
