"""What the statements of a description consist of: blocks, and the integer expressions that they use themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import names
from archloom.oracle.taidl.opcodes import OPCODES


def blocks(s: ast.Statement) -> tuple[tuple[ast.Statement, ...], ...]:
    """The blocks within a statement."""
    if isinstance(s, ast.If):
        return (s.then, s.otherwise)
    return (s.body,) if isinstance(s, ast.Repeat) else ()


def statement_names(s: ast.Statement) -> Iterator[ast.Name | ast.Element]:
    """The integer names that a statement itself uses (not those of the blocks within it)."""
    for expr in statement_expressions(s):
        yield from names(expr)


def statement_expressions(s: ast.Statement) -> Iterator[ast.Expr]:
    """The integer expressions and conditions of a statement itself."""
    match s:
        case ast.Read(_, kind, piece) | ast.Write(_, kind, piece):
            yield from kind.dims if kind else ()
            for axis in piece.axes:
                yield from _axis_expressions(axis)
        case ast.Op():
            yield from s.type.dims
            yield from (o for o in s.operands if not isinstance(o, ast.Tensor))
            for name, value in s.attributes:
                yield from _attribute_expressions(s.opcode, name, value)
        case ast.Assign(_, index, value):
            yield from (index, value) if index is not None else (value,)
        case ast.Let(_, value) | ast.Assert(value) | ast.If(value) | ast.Repeat(_, value):
            yield value
        case ast.Invoke():
            yield from (a for a in s.arguments if not isinstance(a, ast.Tensor))


def _axis_expressions(axis: ast.Axis) -> Iterator[ast.Expr]:
    if isinstance(axis, ast.At):
        yield axis.index
    elif isinstance(axis, ast.Range):
        yield from (e for e in (axis.start, axis.stop, axis.step) if e is not None)
    else:
        yield axis.base
        for entry in axis.entries:
            yield from entry


def _attribute_expressions(opcode: str, name: str, value: ast.Attribute) -> Iterator[ast.Expr]:
    known = OPCODES[opcode].attributes if opcode in OPCODES else ()
    if not any(a.name == name for a in known):
        # that there is no such attribute, or operator, is all that is to be said
        return
    if isinstance(value, ast.Group):
        yield from value.items
    elif isinstance(value, ast.Region):
        yield from _region_expressions(value.body)
    elif not any(a.name == name and a.kind in ("word", "name", "function") for a in known):
        yield value


def _region_expressions(body: Sequence[ast.Statement]) -> Iterator[ast.Expr]:
    for s in body:
        yield from statement_expressions(s)
        for block in blocks(s):
            yield from _region_expressions(block)
