"""What the statements of a description consist of: blocks, and the integer expressions that they use themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import names
from archloom.oracle.taidl.operators import OPCODES


def blocks(s: ast.Statement) -> tuple[tuple[ast.Statement, ...], ...]:
    """The blocks within a statement."""
    if isinstance(s, ast.If):
        return (s.then, s.otherwise)
    return (s.body,) if isinstance(s, ast.Repeat) else ()


def every(body: Iterable[ast.Statement]) -> Iterator[ast.Statement]:
    """The statements of a body and of the blocks within, in the order of the text."""
    for s in body:
        yield s
        for block in blocks(s):
            yield from every(block)


def statement_names(s: ast.Statement) -> Iterator[ast.Name | ast.Element]:
    """The integer names that a statement itself uses (not those of the blocks within it)."""
    for expr in statement_expressions(s):
        yield from names(expr)


def statement_expressions(s: ast.Statement) -> Iterator[ast.Expr]:
    """The integer expressions and conditions of a statement itself."""
    if not isinstance(s, ast.Op):
        yield from ast.parts(tuple(getattr(s, f.name) for f in fields(s)))
        return
    yield from ast.parts((s.type, s.operands))
    for name, value in s.attributes:
        yield from _attribute_expressions(s.opcode, name, value)


def _attribute_expressions(opcode: str, name: str, value: ast.Attribute) -> Iterator[ast.Expr]:
    known = OPCODES[opcode].attributes if opcode in OPCODES else ()
    if not any(a.name == name for a in known):
        # that there is no such attribute, or operator, is all that is to be said
        return
    if isinstance(value, ast.Group):
        yield from value.items
    elif isinstance(value, ast.Region):
        yield from (e for s in every(value.body) for e in statement_expressions(s))
    elif not any(a.name == name and a.kind in ("word", "name", "function") for a in known):
        yield value
