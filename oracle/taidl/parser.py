"""TAIDL text to syntax tree, by recursive descent.

The grammar of record is ``grammar.lark`` (docs/taidl.md shows it with explanations). Lark takes 150 ms to prepare it;
this parser reads Gemmini in 15 ms and says what it expected. Tests hold the two against each other.
"""

from __future__ import annotations

import re
from pathlib import Path

from archloom.oracle.errors import Position, TaidlError, combined
from archloom.oracle.scanner import Scanner
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.expressions import MAX_NESTING, ExpressionParser
from archloom.oracle.taidl.operators import attribute_named, named
from archloom.oracle.taidl.types import OPEN, PATTERN, element_type

# the artifact of TAIDL's authors marks what a name is: attribute, state or loop variable
_SPACE = re.compile(r"(?:\s|#[^\n]*|@[asl]\.(?=[A-Za-z_]))*")
# where reading goes on after a fault: at the next declaration that begins a line
_RESTART = re.compile(r"^(?:\[|(?:include|param|const|def|alias)\b)", re.MULTILINE)
_HEADER = re.compile(r"isa\b")
_WALK = re.compile(r"\+(?:\s|#[^\n]*\n)*\{")
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*\s*=(?!=)")
_DEFINITION = re.compile(r"(?:def|alias|include)\b")
_NAME = re.compile(r"[A-Za-z_]")
_TENSOR = re.compile(r"%([A-Za-z_][\w.]*)")
_STARTS_STATEMENT = re.compile(r"%[A-Za-z_][\w.]*\s*(?::|->)")
_BUFFER = re.compile(r"\$?([A-Za-z_]\w*)(\[)?")
_HEAD = re.compile(r"\(\s*((?:[A-Za-z_]\w*\s*(?:,\s*[A-Za-z_]\w*\s*)*)?)\)(?!(?:\s|#[^\n]*\n)*\()")
_DTYPE = re.compile(PATTERN)
_OPEN_DTYPE = re.compile(rf"{OPEN}(?=\{{)")
# HxWxC is three dims: a name in capitals ends before an "x"
_OPERATOR = re.compile(r"[-+*/%]|<<|>>")
_DIM_NAME = re.compile(r"[A-Z][A-Z0-9_]*(?=x)|[A-Za-z_]\w*")
_DIM_NUMBER = re.compile(r"([0-9]+)([KM])?")
_BY = re.compile("x")
_SEPARATOR = re.compile("[x,]")


def parse(text: str, file: str = "<string>") -> ast.IsaDef:
    """The syntax tree of a description; TaidlError with line and caret where the text is not TAIDL.

    The error names the first fault of each declaration. Without a line ``isa NAME`` (the paper's texts have none) the
    description has the name of its file.
    """
    return _Parser(Scanner(text, file, _SPACE)).isa()


class _Parser(ExpressionParser):
    """One method for each rule of the grammar."""

    def __init__(self, scanner: Scanner) -> None:
        super().__init__(scanner)
        self.blocks = 0
        """Blocks open around the statement."""

    # --- declarations ---

    def isa(self) -> ast.IsaDef:
        s, position = self.s, self.s.position()
        name = self.header()
        nodes: list[ast.Node] = []
        faults: list[TaidlError] = []
        while not s.done:
            start = s.at
            try:
                nodes.append(self.declaration())
            except TaidlError as fault:
                faults.append(fault)
                self.depth = self.blocks = 0
                restart = _RESTART.search(s.text, max(s.at, start + 1))
                if restart is None:
                    break
                s.at = restart.start()
        if faults:
            raise combined(faults)
        return ast.IsaDef.of(name, nodes, s.text, position)

    def header(self) -> str:
        """``isa NAME``, or, where a declaration comes first, the name of the file."""
        s = self.s
        if s.done or s.matches(_HEADER) or not (s.sees("[") or s.matches(_NAME)):
            s.need("isa")
            name = s.name()
            s.accept(";")
            return name
        stem = Path(s.file).stem
        return stem if stem.isidentifier() else "unnamed"

    def declaration(self) -> ast.Node:
        s = self.s
        if s.accept("["):
            return self.bracketed()
        if s.accept("include"):
            return self.include()
        if s.accept("param"):
            return self.parameter()
        if s.accept("def"):
            return self.definition()
        if s.accept("alias"):
            return self.alias()
        constant = s.accept("const")
        position = s.position()
        name = s.name("a declaration (include, param, const, def, alias, [buffer] or [instruction], register = value)")
        size = None
        if not constant and s.accept("["):
            size = self.inside(self.expr, "]")
        s.need("=")
        value = self.expr()
        s.accept(";")
        if constant:
            return ast.Constant(name, value, position=position)
        return ast.RegisterDecl(name, size, value, position=position)

    def include(self) -> ast.Include:
        position, name = self.s.position(), self.s.name()
        self.s.accept(";")
        return ast.Include(name, position=position)

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
        condition = self.expr() if s.accept("where") else None
        s.accept(";")
        return ast.Parameter(name, default, low, high, condition, position=position)

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
        of = s.name("a buffer") if s.accept("=") else None
        s.accept(";")
        return ast.BufferDecl(name, rows, base, of, position=position)

    def definition(self) -> ast.Definition:
        s, position = self.s, self.s.position()
        name = s.name()
        s.need("(")
        parameters = self.listed(lambda: s.take(_TENSOR) or s.name(), ")")
        if not s.sees("{"):
            s.expected("'{'")
        return ast.Definition(name, parameters, self.body(), position=position)

    def alias(self) -> ast.Alias:
        s, position = self.s, self.s.position()
        name = s.name()
        s.need("(")
        attributes = self.listed(s.name, ")")
        s.need("=")
        instruction = s.name()
        s.accept(";")
        return ast.Alias(name, attributes, instruction, position=position)

    def body(self) -> tuple[ast.Statement, ...]:
        """Statements in braces, or, as in the paper's figures, up to the next ``[`` or ``def``."""
        if self.s.accept("{"):
            return self.block()
        statements = []
        while not (self.s.done or self.s.sees("[") or self.s.matches(_DEFINITION)):
            statements.append(self.statement())
        return tuple(statements)

    def block(self) -> tuple[ast.Statement, ...]:
        statements = []
        self.blocks += 1
        if self.blocks > MAX_NESTING:
            self.s.fail(f"blocks are nested more than {MAX_NESTING} deep")
        while not self.s.accept("}"):
            statements.append(self.statement())
        self.blocks -= 1
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
        opcode = named(s.name("an operator"))
        s.need("(")
        arguments = list(self.listed(self.argument, ")"))
        while s.accept(","):  # XLA writes attributes behind the parentheses
            arguments.append(self.attribute())
        operands = tuple(a for a in arguments if not isinstance(a, tuple))
        attributes = tuple((attribute_named(opcode, a[0]), a[1]) for a in arguments if isinstance(a, tuple))
        return ast.Op(name, kind, opcode, operands, attributes, position=position)

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
        return self.attribute() if self.s.matches(_ATTRIBUTE) else self.operand()

    def attribute(self) -> tuple[str, ast.Expr | ast.Group]:
        s = self.s
        name = s.name("an attribute")
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
            letter = self.s.take(_OPEN_DTYPE)
            if letter is not None:
                self.s.need("{")
                return ast.Type(tuple(dims), letter, self.inside(self.expr, "}"), position=position)
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
        for opening, closing in ("{}", "()", "``"):
            if s.accept(opening):
                return self.inside(self.expr, closing)
        number = s.matches(_DIM_NUMBER)
        name = None if number is not None else s.take(_DIM_NAME)
        if number is None and name is None:
            s.expected(what)
        found = ast.Name(name, position=position) if name is not None else ast.Number(
            s.whole(_DIM_NUMBER), position=position)
        if s.matches(_OPERATOR) is not None:
            s.expected("the end of a dimension (an expression stands in braces, such as {2 * dim})")
        return found

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

    def ends(self, sign: str) -> bool:
        """A ``%`` may begin the next statement, a ``+`` the walk of a slice."""
        if sign == "%":
            return not self.depth and self.s.matches(_STARTS_STATEMENT) is not None
        return sign == "+" and self.s.matches(_WALK) is not None
