"""What the statements of a description consist of: blocks, and the integer expressions that they use themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

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
        yield from ast.parts(tuple(getattr(s, name) for name in s.field_names))
        return
    yield from ast.parts((s.type, s.operands))
    # that there is no such operator or attribute is all that is to be said
    kinds = {a.name: a.kind for a in OPCODES[s.opcode].attributes} if s.opcode in OPCODES else {}
    for name, value in s.attributes:
        if isinstance(value, ast.Group | ast.Region):
            items = value.items if isinstance(value, ast.Group) else (
                e for inner in every(value.body) for e in statement_expressions(inner))
            yield from items if name in kinds else ()
        elif kinds.get(name, "word") not in ("word", "name", "function"):
            yield value
