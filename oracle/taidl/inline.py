"""Put the blocks of ``def`` in place of their calls, so that an instruction's body stands for itself.

Tensors, ``let`` names and loop variables of a block are renamed for each call (``name~3``: no name of the language
contains ``~``). An argument that is a number or an unchanging name takes the place of the parameter; any other is
bound once, before the block, so that a register updated within the block does not change it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.statements import every

MAX_STATEMENTS = 100_000
"""How long the body of an instruction may become."""

MAX_CALLS = 50
"""How deep ``def`` blocks may call each other."""


def inline(isa: ast.IsaDef, instruction: ast.InstructionDecl) -> tuple[ast.Statement, ...]:
    """The instruction's body without calls; TaidlError for an unknown ``def``, a wrong call or recursion."""
    changing = frozenset(r.name for r in isa.registers)
    return _Inliner(isa, {d.name: d for d in isa.definitions}, changing).block(instruction.body, _Names(), ())


def rename(expr: ast.Expr, names: Mapping[str, ast.Expr]) -> ast.Expr:
    """The expression with names replaced by expressions."""
    if isinstance(expr, ast.Name):
        return names.get(expr.name, expr)
    return expr if isinstance(expr, ast.Number) else ast.with_parts(expr, lambda e: rename(e, names))


def plain(text: str) -> str:
    """A text without the marks of the inlining, for messages."""
    return re.sub(r"~\d+", "", text)


@dataclass
class _Names:
    """What the names of a block stand for; ``suffix`` is empty in the instruction itself."""

    suffix: str = ""
    integers: dict[str, ast.Expr] = field(default_factory=dict)
    tensors: dict[str, str] = field(default_factory=dict)
    stack: tuple[str, ...] = ()
    """The defs around the block."""

    def expr(self, expr: ast.Expr) -> ast.Expr:
        return rename(expr, self.integers) if self.integers else expr

    def tensor(self, name: str) -> str:
        return self.tensors.get(name, name + self.suffix)

    def bind(self, name: str) -> str:
        if self.suffix:
            self.integers[name] = ast.Name(name + self.suffix)
        return name + self.suffix


@dataclass
class _Inliner:
    isa: ast.IsaDef
    definitions: dict[str, ast.Definition]
    changing: frozenset[str]
    calls: int = 0
    statements: int = 0

    def block(
        self, body: tuple[ast.Statement, ...], names: _Names, stack: tuple[str, ...]
    ) -> tuple[ast.Statement, ...]:
        out: list[ast.Statement] = []
        self.statements += len(body)
        for statement in body:
            if self.statements > MAX_STATEMENTS:
                raise self.error(f"with every def in place the instruction has more than {MAX_STATEMENTS} statements",
                                 statement)
            if isinstance(statement, ast.Invoke):
                out += self.invoke(statement, names, stack)
            else:
                out.append(self.statement(statement, names, stack))
        return tuple(out)

    def statement(self, s: ast.Statement, n: _Names, stack: tuple[str, ...]) -> ast.Statement:
        if isinstance(s, ast.Op):
            return self.operation(s, n)
        match made := ast.with_parts(s, n.expr):
            case ast.Read():
                return replace(made, dst=n.tensor(made.dst))
            case ast.Write():
                return replace(made, src=n.tensor(made.src))
            case ast.Let():
                return replace(made, name=n.bind(made.name))
            case ast.If():
                return replace(made, then=self.block(made.then, n, stack),
                               otherwise=self.block(made.otherwise, n, stack))
            case ast.Repeat():
                return replace(made, variable=n.bind(made.variable), body=self.block(made.body, n, stack))
        return made

    def operation(self, s: ast.Op, n: _Names) -> ast.Op:
        operands = tuple(
            replace(o, name=n.tensor(o.name)) if isinstance(o, ast.Tensor) else n.expr(o) for o in s.operands
        )
        attributes = tuple((k, self.attribute(s.opcode, k, v, n)) for k, v in s.attributes)
        return replace(s, dst=n.tensor(s.dst), type=ast.with_parts(s.type, n.expr), operands=operands,
                       attributes=attributes)

    def attribute(self, opcode: str, name: str, value: ast.Attribute, n: _Names) -> ast.Attribute:
        if isinstance(value, ast.Group):
            return ast.with_parts(value, n.expr)
        kind = next((a.kind for a in OPCODES[opcode].attributes if a.name == name), "") if opcode in OPCODES else ""
        if kind == "function" and isinstance(value, ast.Name):
            return self.region(value, n.stack)
        return value if kind in ("word", "name") or isinstance(value, ast.Region) else n.expr(value)

    def region(self, name: ast.Name, stack: tuple[str, ...]) -> ast.Region:
        definition = self.named(name.name, name, stack)
        integer = next((p for p in definition.parameters if not p.startswith("%")), None)
        if integer is not None:
            raise self.error(f"def {name.name} is applied to tensors alone, but has the parameter {integer}", name)
        self.calls += 1
        inner = _Names(suffix=f"~{self.calls}", stack=(*stack, name.name))
        body = self.block(definition.body, inner, inner.stack)
        self.pure(body, name)
        return ast.Region(name.name, tuple(inner.tensor(p[1:]) for p in definition.parameters), body,
                          position=name.position)

    def pure(self, body: tuple[ast.Statement, ...], name: ast.Name) -> None:
        for s in every(body):
            if isinstance(s, (ast.Read, ast.Write, ast.Assign, ast.Assert)):
                raise self.error(f"def {name.name} is applied to tensors: it must not read or write buffers, assign "
                                 f"registers or assert (line {s.position.line})", name)

    def invoke(self, call: ast.Invoke, names: _Names, stack: tuple[str, ...]) -> list[ast.Statement]:
        definition = self.find(call, stack)
        self.calls += 1
        inner = _Names(suffix=f"~{self.calls}", stack=(*stack, call.name))
        bound: list[ast.Statement] = []
        for parameter, argument in zip(definition.parameters, call.arguments, strict=True):
            if isinstance(argument, ast.Tensor) != parameter.startswith("%"):
                wanted = "a tensor" if parameter.startswith("%") else "an integer"
                message = f"parameter {parameter} of {call.name} is {wanted}"
                raise self.error(message, argument)
            if isinstance(argument, ast.Tensor):
                inner.tensors[parameter[1:]] = names.tensor(argument.name)
                continue
            value = names.expr(argument)
            if isinstance(value, ast.Number) or (isinstance(value, ast.Name) and value.name not in self.changing):
                inner.integers[parameter] = value
            else:
                bound.append(ast.Let(inner.bind(parameter), value, position=argument.position))
        return [*bound, *self.block(definition.body, inner, (*stack, call.name))]

    def find(self, call: ast.Invoke, stack: tuple[str, ...]) -> ast.Definition:
        definition = self.named(call.name, call, stack)
        if len(call.arguments) != len(definition.parameters):
            raise self.error(
                f"def {call.name} takes {len(definition.parameters)} arguments "
                f"({', '.join(definition.parameters)}), {len(call.arguments)} given", call,
            )
        return definition

    def named(self, name: str, node: ast.Node, stack: tuple[str, ...]) -> ast.Definition:
        definition = self.definitions.get(name)
        if definition is None:
            raise self.error(f"unknown def {name!r}{suggest(name, list(self.definitions))}", node)
        if name in stack:
            raise self.error(f"def {name} calls itself: {' -> '.join((*stack, name))}", node)
        if len(stack) >= MAX_CALLS:
            raise self.error(f"defs call each other more than {MAX_CALLS} deep", node)
        return definition

    def error(self, message: str, node: ast.Node) -> TaidlError:
        return TaidlError(message, node.position, self.isa.text(node.position))
