"""What an ISA declares, checked: names that are there twice, aliases of nothing, ``def`` blocks with unknown names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from archloom.oracle.errors import TaidlError, suggest
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.statements import blocks, statement_names
from archloom.oracle.taidl.views import view_faults

HBM = "hbm"
"""The global memory, which every ISA has."""


def check_declarations(isa: ast.IsaDef) -> Iterator[TaidlError]:
    """The faults of declarations: names that are there twice, ``def`` blocks that use what they are not given."""
    for include in isa.includes:
        yield fault_at(f"{include.name}.taidl is not there: what includes others is read from a file", include, isa)
    integers: list[ast.Node] = [*isa.parameters, *isa.constants, *isa.registers]
    for group in (integers, isa.buffers, isa.definitions, isa.instructions):
        seen: dict[str, ast.Node] = {}
        for node in group:
            name = _name(node)
            if name in seen:
                yield fault_at(f"{name!r} is already declared at line {seen[name].position.line}", node, isa)
            seen[name] = node
    for buffer in isa.buffers:
        if buffer.name == HBM:
            yield fault_at("'hbm' is the global memory, which is always there", buffer, isa)
    yield from view_faults(isa)
    declared = {_name(n): n for n in integers}
    parts: list[tuple[ast.Node, str, tuple[str, ...]]] = [(i, "attribute", i.attributes) for i in isa.instructions]
    for part, what, given in [*parts, *((d, "parameter", d.parameters) for d in isa.definitions)]:
        for i, name in enumerate(given):
            if name in given[:i]:
                yield fault_at(f"{name!r} appears twice in ({', '.join(given)})", part, isa)
            if name in declared:
                line = declared[name].position.line
                yield fault_at(f"{what} {name!r} of {_name(part)} has the name of the declaration at line {line}", part,
                               isa)
    yield from _alias_faults(isa)
    known = set(declared)
    for definition in isa.definitions:
        yield from _closed(definition.body, known | set(definition.parameters), definition, isa)


def _alias_faults(isa: ast.IsaDef) -> Iterator[TaidlError]:
    """Aliases of what is no instruction, of another instruction's name, or with attributes that tell nothing apart."""
    instructions = {i.name: i for i in isa.instructions}
    ways = {(i.name, frozenset(i.attributes)) for i in isa.instructions}
    targets = {i.name: i.name for i in isa.instructions}
    for alias in isa.aliases:
        written, target = f"alias {alias.name}({', '.join(alias.attributes)})", instructions.get(alias.instruction)
        fault = ""
        if target is None:
            fault = f"unknown instruction {alias.instruction!r}{suggest(alias.instruction, list(instructions))}"
        elif len(alias.attributes) != len(target.attributes) or len(set(alias.attributes)) != len(alias.attributes):
            fault = (f"{written} must have {len(target.attributes)} different attributes, one for each of "
                     f"{target.name}({', '.join(target.attributes)})")
        elif targets.setdefault(alias.name, target.name) != target.name:
            fault = f"{alias.name!r} already stands for {targets[alias.name]}"
        elif (alias.name, frozenset(alias.attributes)) in ways:
            fault = f"{written} has the name and the attributes of another way to write {target.name}"
        if fault:
            yield fault_at(fault, alias, isa)
        ways.add((alias.name, frozenset(alias.attributes)))


def _closed(
    body: Sequence[ast.Statement], known: set[str], owner: ast.Definition, isa: ast.IsaDef
) -> Iterator[TaidlError]:
    for statement in body:
        for node in statement_names(statement):
            if node.name not in known:
                yield fault_at(f"unknown name {node.name!r} in def {owner.name}{suggest(node.name, sorted(known))}",
                               node, isa)
        if isinstance(statement, ast.Let):
            known.add(statement.name)
        for block in blocks(statement):
            inner = {statement.variable} if isinstance(statement, ast.Repeat) else set()
            yield from _closed(block, known | inner, owner, isa)


def fault_at(message: str, node: ast.Node, isa: ast.IsaDef) -> TaidlError:
    """The error at the place of a node, with its line."""
    return TaidlError(message, node.position, isa.text(node.position))


def _name(node: ast.Node) -> str:
    return str(getattr(node, "name", ""))
