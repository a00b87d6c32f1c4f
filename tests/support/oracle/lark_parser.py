"""The parser that lark makes of oracle/taidl/grammar.lark: the reference for the one written by hand."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from lark import Lark, Token
from lark.exceptions import UnexpectedInput

from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.expressions import FUNCTIONS
from archloom.oracle.taidl.operators import attribute_named, named
from archloom.oracle.taidl.types import SPELLED

GRAMMAR = Path(__file__).parents[3] / "src/archloom/oracle/taidl/grammar.lark"
KINDS = (ast.Parameter, ast.Constant, ast.BufferDecl, ast.RegisterDecl, ast.Definition, ast.InstructionDecl, ast.Alias,
         ast.Include)


@cache
def grammar() -> Lark:
    return Lark(GRAMMAR.read_text(), parser="lalr", lexer="contextual", maybe_placeholders=False)


def parse(text: str) -> ast.IsaDef:
    """The syntax tree, without positions; TaidlError where the text is not TAIDL."""
    try:
        tree = grammar().parse(text)
    except UnexpectedInput as error:
        raise TaidlError(str(error)) from None
    headed = tree.children[0].data == "header"
    name = tree.children[0].children[0] if headed else "unnamed"
    declarations = tree.children[1:] if headed else tree.children
    nodes = [_Declarations().build(d) for d in declarations]
    return ast.IsaDef(str(name), *(tuple(n for n in nodes if isinstance(n, kind)) for kind in KINDS))


class _Declarations:
    """A node for each declaration; the rule's name is the method's."""

    def build(self, tree: Any) -> Any:
        return getattr(self, tree.data)(*tree.children)

    def include(self, _: Any, name: Any) -> ast.Include:
        return ast.Include(str(name))

    def parameter(self, _: Any, name: Any, *numbers: Any) -> ast.Parameter:
        default, low, high = map(_integer, numbers[:3])
        if not low <= default <= high:
            raise TaidlError("the default is out of range")
        return ast.Parameter(str(name), default, low, high, *map(_expr, numbers[3:]))

    def constant(self, _: Any, name: Any, value: Any) -> ast.Constant:
        return ast.Constant(str(name), _expr(value))

    def buffer(self, name: Any, rows: Any, base: Any, *of: Any) -> ast.BufferDecl:
        return ast.BufferDecl(str(name), tuple(map(_expr, rows.children)), _type(base), *map(str, of))

    def register(self, name: Any, initial: Any) -> ast.RegisterDecl:
        return ast.RegisterDecl(str(name), None, _expr(initial))

    def register_array(self, name: Any, size: Any, initial: Any) -> ast.RegisterDecl:
        return ast.RegisterDecl(str(name)[:-1], _expr(size), _expr(initial))

    def definition(self, _: Any, name: Any, names: Any, body: Any) -> ast.Definition:
        return ast.Definition(str(name), tuple(map(str, names.children)), _block(body.children))

    def alias(self, _: Any, name: Any, *names: Any) -> ast.Alias:
        *attributes, target = map(str, names)
        return ast.Alias(str(name), tuple(attributes), target)

    def instruction(self, name: Any, attributes: Any, body: Any) -> ast.InstructionDecl:
        return self.bare_instruction(name, attributes, *body.children)

    def bare_instruction(self, name: Any, attributes: Any, *body: Any) -> ast.InstructionDecl:
        names = [_expr(a) for a in attributes.children]
        if not all(isinstance(n, ast.Name) for n in names):
            raise TaidlError("an attribute must be a name")
        plain = tuple(n.name for n in names if isinstance(n, ast.Name))
        return ast.InstructionDecl(str(name), plain, _block(body))


def _block(children: Any) -> tuple[ast.Statement, ...]:
    return tuple(_statement(c.data, c.children) for c in children)


def _statement(rule: str, c: list[Any]) -> ast.Statement:
    match rule:
        case "read":
            return ast.Read(_tensor(c[0]), _type(c[1]), _slice(c[2]))
        case "write":
            return ast.Write(_tensor(c[0]), _type(c[1]) if len(c) == 3 else None, _slice(c[-1]))
        case "operation":
            return _operation(*c)
        case "assign":
            return ast.Assign(str(c[0]), None, _expr(c[1]))
        case "assign_element":
            return ast.Assign(str(c[0])[:-1], _expr(c[1]), _expr(c[2]))
        case "let":
            return ast.Let(str(c[1]), _expr(c[2]))
        case "assert":
            return ast.Assert(_expr(c[1]))
        case "if":
            return ast.If(_expr(c[1]), _block(c[2].children), _block(c[4].children) if len(c) == 5 else ())
        case "repeat":
            return ast.Repeat(str(c[1]), _expr(c[2]), _block(c[3].children))
    return ast.Invoke(str(c[0]), tuple(map(_operand, c[1:])))


def _operation(dst: Any, kind: Any, opcode: Any, *arguments: Any) -> ast.Op:
    operands, attributes = [], []
    for a in arguments:
        if a.data == "attribute":
            attributes.append((str(a.children[0]), _expr(a.children[1])))
        elif a.data == "attribute_group":
            attributes.append((str(a.children[0]), ast.Group(tuple(map(_expr, a.children[1:])))))
        else:
            operands.append(_operand(a))
    name = named(str(opcode))
    return ast.Op(_tensor(dst), _type(kind), name, tuple(operands),
                  tuple((attribute_named(name, k), v) for k, v in attributes))


def _operand(tree: Any) -> ast.Tensor | ast.Expr:
    return ast.Tensor(_tensor(tree.children[0])) if tree.data == "operand" else _expr(tree)


def _type(tree: Any) -> ast.Type:
    at = next(i for i, child in enumerate(tree.children) if isinstance(child, Token))
    dtype, bits = str(tree.children[at]), tree.children[at + 1:]
    return ast.Type(tuple(map(_expr, tree.children[:at])), SPELLED.get(dtype, dtype), _expr(bits[0]) if bits else None)


def _slice(tree: Any) -> ast.Slice:
    name, *axes = tree.children
    return ast.Slice(str(name).lstrip("$").rstrip("["), tuple(map(_axis, axes)))


def _axis(tree: Any) -> ast.Axis:
    if tree.data == "at":
        return ast.At(_expr(tree.children[0]))
    if tree.data == "range":
        parts = {p.data: _expr(p.children[0]) for p in tree.children}
        return ast.Range(parts.get("first"), parts.get("last"), parts.get("every"))
    entries = [e for e in tree.children if getattr(e, "data", "") == "entry"]
    first = tree.children[0]
    base = ast.Number(0) if first is entries[0] else _expr(first)
    return ast.Walk(base, tuple((_expr(e.children[0]), _expr(e.children[1])) for e in entries))


def _expr(tree: Any) -> ast.Expr:
    c = tree.children
    match tree.data:
        case "same":
            return _expr(c[0])
        case "number":
            return ast.Number(_integer(c[0]))
        case "float":
            return ast.Number(float(c[0]))
        case "name":
            return ast.Name(str(c[0]))
        case "element":
            return ast.Element(str(c[0])[:-1], _expr(c[1]))
        case "unary":
            return ast.Unary(str(c[0]), _expr(c[1]))
        case "binary":
            return ast.Binary("//" if c[1] == "/" else str(c[1]), _expr(c[0]), _expr(c[2]))
    name, arguments = str(c[0]), tuple(map(_expr, c[1:]))
    if name not in FUNCTIONS or not FUNCTIONS[name][0] <= len(arguments) <= (FUNCTIONS[name][1] or len(arguments)):
        raise TaidlError(f"no function {name} of {len(arguments)}")
    return ast.Call(name, arguments)


def _tensor(token: Any) -> str:
    return str(token)[1:]


def _integer(token: Any) -> int:
    text = str(token).replace("_", "")
    suffix = {"K": 1024, "M": 1024**2}.get(text[-1])
    if suffix and not text.startswith("0x"):
        return int(text[:-1]) * suffix
    return int(text, 0) if text.startswith("0x") else int(text)
