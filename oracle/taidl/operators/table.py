"""The tables of operators and element types as Markdown, for the manual."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.oracle.taidl.operators import OPCODES
from archloom.oracle.taidl.operators.base import Attribute, Opcode
from archloom.oracle.taidl.types import TYPES


def operators() -> str:
    """A row for each operator: its operands, what it gives, its attributes with their defaults in parentheses."""
    lines = ["| operator | operands | attributes | meaning |", "|---|---|---|---|"]
    lines += [f"| `{op.name}` | {op.arity} | {', '.join(_attributes(op))} | {op.doc} |" for op in OPCODES.values()]
    return "\n".join(lines)


def _attributes(op: Opcode) -> Iterator[str]:
    for a in op.attributes:
        yield f"`{a.name}`" + _default(a) + (f": {', '.join(a.words)}" if a.words else "")


def _default(a: Attribute) -> str:
    if a.default is None:
        return ""
    return " (none)" if a.default == () else f" ({a.default})"


def types() -> str:
    """The names of all element types."""
    return " ".join(TYPES)
