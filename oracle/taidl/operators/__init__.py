"""The XLA-HLO operators of TAIDL: one table, a family of them in each module, each row with all that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from archloom.oracle.resolved import Shaped
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.operators import (
    bits,
    collective,
    complexes,
    contraction,
    control,
    conversion,
    decomposition,
    elementwise,
    indexing,
    movement,
    normalization,
    random,
    reduction,
    selection,
    transform,
)
from archloom.oracle.taidl.operators.base import Attributes, Opcode
from archloom.oracle.taidl.types import is_open

OPCODES: dict[str, Opcode] = {
    row.name: row
    for module in (movement, conversion, elementwise, bits, complexes, contraction, reduction, indexing, selection,
                   random, decomposition, normalization, transform, collective, control)
    for row in module.ROWS
}
"""Every operator by name."""

SPELLED = {other: row.name for row in OPCODES.values() for other in row.spelled}
"""The operators by XLA's other names."""


def named(opcode: str) -> str:
    """An operator's name by that or another name of it; any other name as it is."""
    return SPELLED.get(opcode, opcode)


def attribute_named(opcode: str, name: str) -> str:
    """The name of an operator's attribute by that or another name of it; any other name as it is."""
    known = OPCODES[opcode].attributes if opcode in OPCODES else ()
    return next((a.name for a in known if name in a.spelled), name)


def fault(opcode: str, result: Shaped, operands: Sequence[Shaped], attributes: Attributes) -> str | None:
    """What is wrong with the types of ``%x = opcode(operands, attributes)``, to be put after ``%x``, or None."""
    if any(is_open(t.dtype) for t in (result, *operands)):
        return None  # judged where the widths are known
    complaint = OPCODES[opcode].rule(result, operands, attributes)
    if complaint is None:
        return None
    return (f" {complaint}" if complaint.startswith("is ") else f": {complaint}").replace("{}", opcode)


Value = Callable[[Any], Any]


def values_of(s: ast.Op, integer: Value, number: Value, region: Value) -> dict[str, Any]:
    """The values of an operator's attributes, defaults included, by what gives those of expressions and regions."""
    given, values = dict(s.attributes), dict[str, Any]()
    for a in OPCODES[s.opcode].attributes:
        e = given.get(a.name)
        if e is None:
            values[a.name] = a.default
        elif isinstance(e, ast.Group):
            values[a.name] = tuple([integer(i) for i in e.items])
        elif a.kind in ("word", "name"):
            assert isinstance(e, ast.Name)
            values[a.name] = word(e) if a.kind == "word" else e.name
        else:
            make = region if isinstance(e, ast.Region) else number if a.kind == "number" else integer
            values[a.name] = make(e)
    return values


def word(value: ast.Expr) -> str:
    """The word that an attribute such as ``kind=max`` names; the case does not matter."""
    return value.name.lower() if isinstance(value, ast.Name) else ""

