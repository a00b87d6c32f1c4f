"""TAIDL text to syntax tree, by recursive descent.

The grammar of record is ``grammar.lark`` (docs/taidl.md shows it with explanations). Lark takes 150 ms to prepare it;
this parser reads Gemmini in 15 ms and says what it expected. Tests hold the two against each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from oracle.errors import Position, suggest
from oracle.taidl import ast
from oracle.taidl.scanner import Scanner
from oracle.taidl.types import PATTERN, element_type

T = TypeVar("T")

FUNCTIONS = {"min": (2, None), "max": (2, None), "cdiv": (2, 2), "select": (3, 3)}
"""Functions of integer expressions and the least and the largest number of their arguments."""

LEVELS = (("||",), ("&&",), ("==", "!=", "<=", ">=", "<", ">"), ("|",), ("&",), ("<<", ">>"), ("+", "-"),
          ("*", "//", "%"))
"""Binary operators from the loosest to the tightest; all but the comparisons associate to the left."""

COMPARISON = 2
"""The level of the comparisons, which do not associate."""

_SIGNS = tuple(
    re.compile(pattern)
    for pattern in (r"\|\|", "&&", "[=!<>]=|[<>](?![<>])", r"\|(?!\|)", "&(?!&)", "<<|>>", r"[+-](?!>)", "//|[*/%]")
)
_TENSOR = re.compile(r"%([A-Za-z_][\w.]*)")
_STARTS_STATEMENT = re.compile(r"%[A-Za-z_][\w.]*\s*(?::|->)")
_BUFFER = re.compile(r"\$?([A-Za-z_]\w*)(\[)?")
_ELEMENT = re.compile(r"([A-Za-z_]\w*)\[")
_HEAD = re.compile(r"\(\s*((?:[A-Za-z_]\w*\s*(?:,\s*[A-Za-z_]\w*\s*)*)?)\)(?!(?:\s|#[^\n]*)*\()")
_DTYPE = re.compile(PATTERN)
# HxWxC is three dims: a name in capitals ends before an "x"
_DIM_NAME = re.compile(r"[A-Z][A-Z0-9_]*(?=x)|[A-Za-z_]\w*")
_DIM_NUMBER = re.compile(r"([0-9]+)([KM])?")
_BY = re.compile("x")
_SEPARATOR = re.compile("[x,]")


def parse(text: str, file: str = "<string>") -> ast.IsaDef:
    """The syntax tree of a description; TaidlError with line and caret where the text is not TAIDL."""
    return _Parser(Scanner(text, file)).isa()


class _Parser:
    """One method for each rule of the grammar."""

    def __init__(self, scanner: Scanner) -> None:
        self.s = scanner
        self.depth = 0
        """Open parentheses and brackets around the expression: within them ``%name`` is a modulo."""

    # --- declarations ---

    def isa(self) -> ast.IsaDef:
        s, position = self.s, self.s.position()
        s.need("isa")
        name = s.name()
        s.accept(";")
        nodes: list[ast.Node] = []
        while not s.done:
            nodes.append(self.declaration())

        def all_of(kind: type[T]) -> tuple[T, ...]:
            return tuple(n for n in nodes if isinstance(n, kind))

        return ast.IsaDef(
            name, all_of(ast.Parameter), all_of(ast.Constant), all_of(ast.BufferDecl), all_of(ast.RegisterDecl),
            all_of(ast.Definition), all_of(ast.InstructionDecl), source=s.text, position=position,
        )

    def declaration(self) -> ast.Node:
        s = self.s
        if s.accept("["):
            return self.bracketed()
        if s.accept("param"):
            return self.parameter()
        if s.accept("def"):
            return self.definition()
        constant = s.accept("const")
        position = s.position()
        name = s.name("a declaration (param, const, def, [buffer] or [instruction], register = value)")
        size = None
        if not constant and s.accept("["):
            size = self.inside(self.expr, "]")
        s.need("=")
        value = self.expr()
        s.accept(";")
        if constant:
            return ast.Constant(name, value, position=position)
        return ast.RegisterDecl(name, size, value, position=position)

    def parameter(self) -> ast.Parameter:
        s, position = self.s, self.s.position()
        name = s.name()
        s.need("=")
        default = s.integer()
        s.need("in")
        low = s.integer()
        s.need("..")
        high = s.integer()
        if not low <= default <= high:
            s.fail(f"parameter {name} has the default {default}, outside of its range {low}..{high}", position)
        s.accept(";")
        return ast.Parameter(name, default, low, high, position=position)

    def bracketed(self) -> ast.BufferDecl | ast.InstructionDecl:
        s, position = self.s, self.s.position()
        name = s.name()
        s.need("]")
        head = s.matches(_HEAD)
        if head is not None:
            s.take(_HEAD)
            attributes = tuple(a.strip() for a in head[1].split(",")) if head[1].strip() else ()
            return ast.InstructionDecl(name, attributes, self.body(), position=position)
        s.need("(")
        rows = self.dims()
        s.need(")")
        if not s.sees("("):
            s.fail(f"the attributes of instruction {name} must be names", position)
        s.need("(")
        base = self.type()
        s.need(")")
        s.accept(";")
        return ast.BufferDecl(name, rows, base, position=position)

    def definition(self) -> ast.Definition:
        s, position = self.s, self.s.position()
        name = s.name()
        s.need("(")
        parameters = self.listed(lambda: s.take(_TENSOR) or s.name(), ")")
        if not s.sees("{"):
            s.expected("'{'")
        return ast.Definition(name, parameters, self.body(), position=position)

    def body(self) -> tuple[ast.Statement, ...]:
        """Statements in braces, or, as in the paper's figures, up to the next ``[`` or ``def``."""
        if self.s.accept("{"):
            return self.block()
        statements = []
        while not (self.s.done or self.s.sees("[") or self.s.matches(re.compile(r"def\b"))):
            statements.append(self.statement())
        return tuple(statements)

    def block(self) -> tuple[ast.Statement, ...]:
        statements = []
        while not self.s.accept("}"):
            statements.append(self.statement())
        return tuple(statements)

    # --- statements ---

    def statement(self) -> ast.Statement:
        s, position = self.s, self.s.position()
        if s.sees("%"):
            statement = self.tensor_statement(position)
        elif s.accept("IF"):
            statement = self.branch(position)
        elif s.accept("REPEAT"):
            statement = self.repeat(position)
        elif s.accept("assert"):
            s.need("(")
            statement = ast.Assert(self.inside(self.expr, ")"), position=position)
        elif s.accept("let"):
            position, name = s.position(), s.name()
            s.need("=")
            statement = ast.Let(name, self.expr(), position=position)
        else:
            statement = self.named(position)
        s.accept(";")
        return statement

    def named(self, position: Position) -> ast.Statement:
        s = self.s
        name = s.name("a statement")
        if s.accept("("):
            return ast.Invoke(name, self.listed(self.operand, ")"), position=position)
        index = self.inside(self.expr, "]") if s.accept("[") else None
        s.need("=")
        return ast.Assign(name, index, self.expr(), position=position)

    def tensor_statement(self, position: Position) -> ast.Statement:
        s = self.s
        name = self.tensor_name()
        kind = self.type() if s.accept(":") else None
        if s.accept("->"):
            return ast.Write(name, kind, self.slice(), position=position)
        if kind is None:
            s.expected("':' and a type, or '->'")
        if s.accept("<-"):
            return ast.Read(name, kind, self.slice(), position=position)
        if not s.accept("="):
            s.expected("'<-', '->' or '='")
        opcode = s.name("an operator")
        s.need("(")
        operands: list[ast.Tensor | ast.Expr] = []
        attributes: list[tuple[str, ast.Expr | ast.Group]] = []
        for argument in self.listed(self.argument, ")"):
            if isinstance(argument, tuple):
                attributes.append(argument)
            else:
                operands.append(argument)
        return ast.Op(name, kind, opcode, tuple(operands), tuple(attributes), position=position)

    def tensor_name(self) -> str:
        text = self.s.take(_TENSOR)
        return text[1:] if text is not None else self.s.expected("%tensor")

    def branch(self, position: Position) -> ast.If:
        s = self.s
        s.need("(")
        condition = self.inside(self.expr, ")")
        s.need("{")
        then = self.block()
        otherwise: tuple[ast.Statement, ...] = ()
        if s.accept("ELSE"):
            s.need("{")
            otherwise = self.block()
        return ast.If(condition, then, otherwise, position=position)

    def repeat(self, position: Position) -> ast.Repeat:
        s = self.s
        s.need("(")
        variable = s.name()
        s.need(",")
        count = self.inside(self.expr, ")")
        s.need("{")
        return ast.Repeat(variable, count, self.block(), position=position)

    def argument(self) -> ast.Tensor | ast.Expr | tuple[str, ast.Expr | ast.Group]:
        s = self.s
        if not s.matches(re.compile(r"[A-Za-z_]\w*\s*=(?!=)")):
            return self.operand()
        name = s.name()
        s.need("=")
        position = s.position()
        if s.accept("{"):
            return name, ast.Group(self.listed(self.expr, "}"), position=position)
        return name, self.expr()

    def operand(self) -> ast.Tensor | ast.Expr:
        position = self.s.position()
        if self.s.sees("%"):
            return ast.Tensor(self.tensor_name(), position=position)
        return self.expr()

    # --- types and slices ---

    def type(self) -> ast.Type:
        position = self.s.position()
        dims: list[ast.Expr] = []
        while True:
            place = self.s.position()
            dtype = self.s.take(_DTYPE)
            if dtype is not None:
                try:
                    return ast.Type(tuple(dims), element_type(dtype).name, position=position)
                except ValueError as error:
                    self.s.fail(str(error), place)
            dims.append(self.dim("a dimension or an element type"))
            if self.s.take(_BY) is None:
                self.s.expected("'x' and the element type")

    def dims(self) -> tuple[ast.Expr, ...]:
        dims: list[ast.Expr] = []
        if self.s.sees(")"):
            return ()
        while True:
            dims.append(self.dim("a dimension"))
            if self.s.take(_SEPARATOR) is None:
                return tuple(dims)

    def dim(self, what: str) -> ast.Expr:
        s, position = self.s, self.s.position()
        for opening, closing in ("{}", "()"):
            if s.accept(opening):
                return self.inside(self.expr, closing)
        number = s.matches(_DIM_NUMBER)
        if number is not None:
            s.take(_DIM_NUMBER)
            return ast.Number(int(number[1]) * {None: 1, "K": 1024, "M": 1024**2}[number[2]], position=position)
        name = s.take(_DIM_NAME)
        return ast.Name(name, position=position) if name is not None else s.expected(what)

    def slice(self) -> ast.Slice:
        s, position = self.s, self.s.position()
        match = s.matches(_BUFFER)
        if match is None:
            s.expected("$buffer")
        s.take(_BUFFER)
        axes = self.listed(self.axis, "]") if match[2] else ()
        return ast.Slice(match[1], axes, position=position)

    def axis(self) -> ast.Axis:
        s, position = self.s, self.s.position()
        if s.accept("{"):
            return ast.Walk(ast.Number(0), self.listed(self.entry, "}"), position=position)
        start = None if s.sees(":") else self.expr()
        if start is not None and s.accept("+"):
            s.need("{")
            return ast.Walk(start, self.listed(self.entry, "}"), position=position)
        if not s.accept(":"):
            assert start is not None
            return ast.At(start, position=position)
        stop = None if s.sees(":") or self.ends_axis() else self.expr()
        step = self.expr() if s.accept(":") and not self.ends_axis() else None
        return ast.Range(start, stop, step, position=position)

    def ends_axis(self) -> bool:
        return self.s.sees(",") or self.s.sees("]")

    def entry(self) -> tuple[ast.Expr, ast.Expr]:
        extent = self.expr()
        self.s.need(":")
        return extent, self.expr()

    # --- expressions ---

    def expr(self, level: int = 0) -> ast.Expr:
        if level == len(LEVELS):
            return self.unary()
        left = self.expr(level + 1)
        while (sign := self.sign(level)) is not None:
            right = self.expr(level + 1)
            left = ast.Binary("//" if sign == "/" else sign, left, right, position=left.position)
            if level == COMPARISON:
                break
        return left

    def sign(self, level: int) -> str | None:
        """Read an operator of the level, if one comes next."""
        s = self.s
        if s.sees("%") and not self.depth and s.matches(_STARTS_STATEMENT):
            return None
        if s.sees("+") and s.matches(re.compile(r"\+(?:\s|#[^\n]*)*\{")):
            return None
        return s.take(_SIGNS[level])

    def unary(self) -> ast.Expr:
        s, position = self.s, self.s.position()
        for sign in "-!":
            if s.sees(sign) and s.accept(sign):
                return ast.Unary(sign, self.unary(), position=position)
        return self.atom(position)

    def atom(self, position: Position) -> ast.Expr:
        s = self.s
        if s.accept("("):
            return self.inside(self.expr, ")")
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

    def inside(self, rule: Callable[[], T], closing: str) -> T:
        """What a rule reads between brackets, the first of which is read."""
        self.depth += 1
        value = rule()
        self.depth -= 1
        self.s.need(closing)
        return value

    def listed(self, rule: Callable[[], T], closing: str) -> tuple[T, ...]:
        """A list with commas between brackets, the first of which is read."""
        items: list[T] = []
        self.depth += 1
        if not self.s.sees(closing):
            items.append(rule())
            while self.s.accept(","):
                items.append(rule())
        self.depth -= 1
        if not self.s.accept(closing):
            self.s.expected(f"',' or {closing!r}")
        return tuple(items)
