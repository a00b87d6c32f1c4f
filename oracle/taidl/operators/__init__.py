"""The XLA-HLO operators of TAIDL: one table, a family of them in each module, each row with all that is known of it."""

from __future__ import annotations

from archloom.oracle.taidl.operators import (
    contraction,
    control,
    conversion,
    elementwise,
    indexing,
    movement,
    random,
    reduction,
)
from archloom.oracle.taidl.operators.base import Opcode

OPCODES: dict[str, Opcode] = {
    row.name: row
    for module in (movement, conversion, elementwise, contraction, reduction, indexing, random, control)
    for row in module.ROWS
}
"""Every operator by name."""
