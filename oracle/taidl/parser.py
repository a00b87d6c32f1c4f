"""TAIDL text to syntax tree: LALR(1) by lark, from ``grammar.lark``."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from oracle.errors import Position, TaidlError
from oracle.taidl import ast

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

    Node: TypeAlias = Tree[Token] | Token

FUNCTIONS = {"min": (2, None), "max": (2, None), "cdiv": (2, 2), "select": (3, 3)}
"""Functions of integer expressions and the least and the largest number of their arguments."""

_SUFFIX = {"K": 1024, "M": 1024 * 1024}


@lru_cache(maxsize=1)
def _lark() -> Lark:
    from lark import Lark

    grammar = Path(__file__).with_name("grammar.lark").read_text()
    return Lark(grammar, parser="lalr", lexer="contextual", maybe_placeholders=False)


def parse(text: str, file: str = "<string>") -> ast.IsaDef:
    """The syntax tree of a description; TaidlError with line and caret where the text is not TAIDL."""
    from lark.exceptions import UnexpectedInput

    try:
        tree = _lark().parse(text)
    except UnexpectedInput as error:
        raise _syntax_error(error, text, file) from None
    return _Builder(text, file).isa(tree)


def _syntax_error(error: Any, text: str, file: str) -> TaidlError:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    names = {t.name: t.pattern for t in _lark().terminals}
    if isinstance(error, UnexpectedToken):
        allowed, found = error.accepts or error.expected, str(error.token)
    else:
        assert isinstance(error, UnexpectedCharacters)
        allowed, found = error.allowed, text[error.pos_in_stream] if error.pos_in_stream is not None else ""
    at_end = not found or (isinstance(error, UnexpectedToken) and error.token.type == "$END")
    line, column = (len(text.splitlines()) or 1, 1) if at_end else (error.line, error.column)
    expected = sorted({_terminal(name, names) for name in allowed or () if name not in ("COMMENT",)})
    message = f"expected {', '.join(expected)}; found {'the end of the text' if at_end else repr(found)}"
    return TaidlError(message, Position(file, line, column), text)


_READABLE = {
    "NAME": "a name", "INDEXED": "a name with [", "INT": "an integer", "FLOAT": "a float", "DIM_INT": "an integer",
    "DIM_NAME": "a name", "DTYPE": "an element type", "TENSOR": "%tensor", "OPERAND": "%tensor", "BUFFER": "$buffer",
    "BUFFER_OPEN": "$buffer[", "$END": "the end", "COMPARE": "a comparison",
}


def _terminal(name: str, patterns: dict[str, Any]) -> str:
    if name in _READABLE:
        return _READABLE[name]
    return repr(patterns[name].value.replace("\\", "")) if name in patterns else name


class _Builder:
    """Walks lark's tree; one method for each rule that makes a node."""

    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file

    def position(self, node: Node) -> Position:
        while not hasattr(node, "type"):
            node = node.children[0]  # type: ignore[union-attr]
        return Position(self.file, node.line or 1, node.column or 1)

    def error(self, message: str, position: Position) -> TaidlError:
        return TaidlError(message, position, self.text)

    # --- declarations ---

    def isa(self, tree: Tree[Token]) -> ast.IsaDef:
        groups: dict[str, list[Any]] = {}
        for child in tree.children[1:]:
            node = getattr(self, child.data)(child)  # type: ignore[union-attr]
            groups.setdefault(type(node).__name__, []).append(node)
        picked = {
            field: tuple(groups.get(kind, ()))
            for field, kind in (
                ("parameters", "Parameter"), ("constants", "Constant"), ("buffers", "BufferDecl"),
                ("registers", "RegisterDecl"), ("definitions", "Definition"), ("instructions", "InstructionDecl"),
            )
        }
        return ast.IsaDef(str(tree.children[0]), **picked, source=self.text, position=self.position(tree))

    def parameter(self, tree: Any) -> ast.Parameter:
        _, name, default, low, high = tree.children
        values = [_integer(t) for t in (default, low, high)]
        if not values[1] <= values[0] <= values[2]:
            message = f"parameter {name} has the default {values[0]}, outside of its range {values[1]}..{values[2]}"
            raise self.error(message, self.position(default))
        return ast.Parameter(str(name), *values, position=self.position(name))

    def constant(self, tree: Any) -> ast.Constant:
        _, name, value = tree.children
        return ast.Constant(str(name), self.expr(value), position=self.position(name))

    def buffer(self, tree: Any) -> ast.BufferDecl:
        name, rows, base = tree.children
        return ast.BufferDecl(
            str(name), tuple(self.expr(d) for d in rows.children), self.type(base), position=self.position(name)
        )

    def register(self, tree: Any) -> ast.RegisterDecl:
        name, initial = tree.children
        return ast.RegisterDecl(str(name), None, self.expr(initial), position=self.position(name))

    def register_array(self, tree: Any) -> ast.RegisterDecl:
        name, size, initial = tree.children
        return ast.RegisterDecl(str(name)[:-1], self.expr(size), self.expr(initial), position=self.position(name))

    def definition(self, tree: Any) -> ast.Definition:
        _, name, names, body = tree.children
        parameters = tuple(str(n) for n in names.children)
        return ast.Definition(str(name), parameters, self.block(body.children), position=self.position(name))

    def instruction(self, tree: Any) -> ast.InstructionDecl:
        name, attributes, body = tree.children
        return self._instruction(name, attributes, body.children)

    def bare_instruction(self, tree: Any) -> ast.InstructionDecl:
        name, attributes, *body = tree.children
        return self._instruction(name, attributes, body)

    def _instruction(self, name: Any, attributes: Any, body: list[Any]) -> ast.InstructionDecl:
        names = [self.expr(a) for a in attributes.children]
        for node in names:
            if not isinstance(node, ast.Name):
                raise self.error(f"an attribute of instruction {name} must be a name", node.position)
        plain = tuple(n.name for n in names if isinstance(n, ast.Name))
        return ast.InstructionDecl(str(name), plain, self.block(body), position=self.position(name))

    # --- statements ---

    def block(self, children: list[Any]) -> tuple[ast.Statement, ...]:
        return tuple(getattr(self, "stmt_" + child.data)(child.children) for child in children)

    def stmt_read(self, c: list[Any]) -> ast.Read:
        return ast.Read(_tensor(c[0]), self.type(c[1]), self.slice(c[2]), position=self.position(c[0]))

    def stmt_write(self, c: list[Any]) -> ast.Write:
        kind = self.type(c[1]) if len(c) == 3 else None
        return ast.Write(_tensor(c[0]), kind, self.slice(c[-1]), position=self.position(c[0]))

    def stmt_operation(self, c: list[Any]) -> ast.Op:
        dst, kind, opcode, *arguments = c
        operands: list[ast.Tensor | ast.Expr] = []
        attributes: list[tuple[str, ast.Expr | ast.Group]] = []
        for a in arguments:
            data = getattr(a, "data", None)
            if data == "attribute":
                attributes.append((str(a.children[0]), self.expr(a.children[1])))
            elif data == "attribute_group":
                items = tuple(self.expr(e) for e in a.children[1:])
                attributes.append((str(a.children[0]), ast.Group(items, position=self.position(a))))
            else:
                operands.append(self.operand(a))
        return ast.Op(
            _tensor(dst), self.type(kind), str(opcode), tuple(operands), tuple(attributes), position=self.position(dst)
        )

    def stmt_assign(self, c: list[Any]) -> ast.Assign:
        return ast.Assign(str(c[0]), None, self.expr(c[1]), position=self.position(c[0]))

    def stmt_assign_element(self, c: list[Any]) -> ast.Assign:
        return ast.Assign(str(c[0])[:-1], self.expr(c[1]), self.expr(c[2]), position=self.position(c[0]))

    def stmt_let(self, c: list[Any]) -> ast.Let:
        return ast.Let(str(c[1]), self.expr(c[2]), position=self.position(c[1]))

    def stmt_assert(self, c: list[Any]) -> ast.Assert:
        return ast.Assert(self.expr(c[1]), position=self.position(c[0]))

    def stmt_if(self, c: list[Any]) -> ast.If:
        otherwise = self.block(c[4].children) if len(c) == 5 else ()
        return ast.If(self.expr(c[1]), self.block(c[2].children), otherwise, position=self.position(c[0]))

    def stmt_repeat(self, c: list[Any]) -> ast.Repeat:
        return ast.Repeat(str(c[1]), self.expr(c[2]), self.block(c[3].children), position=self.position(c[0]))

    def stmt_invoke(self, c: list[Any]) -> ast.Invoke:
        return ast.Invoke(str(c[0]), tuple(self.operand(e) for e in c[1:]), position=self.position(c[0]))

    def operand(self, tree: Any) -> ast.Tensor | ast.Expr:
        if tree.data == "operand":
            return ast.Tensor(_tensor(tree.children[0]), position=self.position(tree))
        return self.expr(tree)

    # --- types and slices ---

    def type(self, tree: Any) -> ast.Type:
        *dims, dtype = tree.children
        return ast.Type(tuple(self.expr(d) for d in dims), str(dtype), position=self.position(tree))

    def slice(self, tree: Any) -> ast.Slice:
        name, *axes = tree.children
        buffer = str(name).lstrip("$").rstrip("[")
        return ast.Slice(buffer, tuple(self.axis(a) for a in axes), position=self.position(name))

    def axis(self, tree: Any) -> ast.Axis:
        if tree.data == "at":
            index = self.expr(tree.children[0])
            return ast.At(index, position=index.position)
        if tree.data == "range":
            parts = {p.data: self.expr(p.children[0]) for p in tree.children}
            position = next((e.position for e in parts.values()), ast.NOWHERE)
            return ast.Range(parts.get("first"), parts.get("last"), parts.get("every"), position=position)
        entries = tuple(
            (self.expr(e.children[0]), self.expr(e.children[1]))
            for e in tree.children if getattr(e, "data", "") == "entry"
        )
        first = tree.children[0]
        base = ast.Number(0) if getattr(first, "data", "") == "entry" else self.expr(first)
        return ast.Walk(base, entries, position=self.position(tree))

    # --- expressions ---

    def expr(self, tree: Any) -> ast.Expr:
        c, position = tree.children, self.position(tree)
        match tree.data:
            case "same":
                return self.expr(c[0])
            case "number":
                return ast.Number(_integer(c[0]), position=position)
            case "float":
                return ast.Number(float(c[0]), position=position)
            case "name":
                return ast.Name(str(c[0]), position=position)
            case "element":
                return ast.Element(str(c[0])[:-1], self.expr(c[1]), position=position)
            case "unary":
                return ast.Unary(str(c[0]), self.expr(c[1]), position=position)
            case "binary":
                operator = "//" if c[1] == "/" else str(c[1])
                return ast.Binary(operator, self.expr(c[0]), self.expr(c[2]), position=position)
        return self._call(str(c[0]), tuple(self.expr(e) for e in c[1:]), position)

    def _call(self, name: str, arguments: tuple[ast.Expr, ...], position: Position) -> ast.Call:
        if name not in FUNCTIONS:
            from oracle.errors import suggest

            raise self.error(f"unknown function {name!r}{suggest(name, list(FUNCTIONS))}", position)
        low, high = FUNCTIONS[name]
        if len(arguments) < low or (high is not None and len(arguments) > high):
            wanted = str(low) if low == high else f"at least {low}"
            raise self.error(f"{name} takes {wanted} arguments, {len(arguments)} given", position)
        return ast.Call(name, arguments, position=position)


def _tensor(token: Any) -> str:
    return str(token)[1:]


def _integer(token: Any) -> int:
    text = str(token).replace("_", "")
    if text[-1] in _SUFFIX and not text.startswith("0x"):
        return int(text[:-1]) * _SUFFIX[text[-1]]
    return int(text, 0) if text.startswith("0x") else int(text)
