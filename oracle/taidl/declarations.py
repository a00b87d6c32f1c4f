"""The checks of declarations: each name once, and ``def`` blocks that use nothing but what they are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.statements import blocks, statement_names

HBM = "hbm"
"""The global memory, which every ISA has."""


def check_declarations(isa: ast.IsaDef) -> Iterator[TaidlError]:
    """The faults of declarations: names that are there twice, ``def`` blocks that use what they are not given."""
    integers: list[ast.Node] = [*isa.parameters, *isa.constants, *isa.registers]
    for group in (integers, isa.buffers, isa.definitions, isa.instructions):
        seen: dict[str, ast.Node] = {}
        for node in group:
            name = _name(node)
            if name in seen:
                yield TaidlError(f"{name!r} is already declared at line {seen[name].position.line}", node.position,
                                 isa.source)
            seen[name] = node
    for buffer in isa.buffers:
        if buffer.name == HBM:
            yield TaidlError("'hbm' is the global memory, which is always there", buffer.position, isa.source)
    declared = {_name(n): n for n in integers}
    parts: list[tuple[ast.Node, str, tuple[str, ...]]] = [(i, "attribute", i.attributes) for i in isa.instructions]
    for part, what, given in [*parts, *((d, "parameter", d.parameters) for d in isa.definitions)]:
        for i, name in enumerate(given):
            if name in given[:i]:
                yield TaidlError(f"{name!r} appears twice in ({', '.join(given)})", part.position, isa.source)
            if name in declared:
                line = declared[name].position.line
                yield TaidlError(f"{what} {name!r} of {_name(part)} has the name of the declaration at line {line}",
                                 part.position, isa.source)
    known = set(declared)
    for definition in isa.definitions:
        yield from _closed(definition.body, known | set(definition.parameters), definition, isa)


def _closed(
    body: Sequence[ast.Statement], known: set[str], owner: ast.Definition, isa: ast.IsaDef
) -> Iterator[TaidlError]:
    for statement in body:
        for node in statement_names(statement):
            if node.name not in known:
                yield TaidlError(f"unknown name {node.name!r} in def {owner.name}{suggest(node.name, sorted(known))}",
                                 node.position, isa.source)
        if isinstance(statement, ast.Let):
            known.add(statement.name)
        for block in blocks(statement):
            inner = {statement.variable} if isinstance(statement, ast.Repeat) else set()
            yield from _closed(block, known | inner, owner, isa)


def _name(node: ast.Node) -> str:
    return str(getattr(node, "name", ""))
