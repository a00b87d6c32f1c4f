"""Writes that add to what they were read from."""

from __future__ import annotations

from dataclasses import replace

from archloom.oracle.resolved import Op, Read, Statement, Write


def mark_accumulations(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Mark the writes of ``old + x`` to the window that ``old`` was read from, where both go nowhere else."""
    uses: dict[str, int] = {}
    for s in statements:
        for name in s.operands if isinstance(s, Op) else (s.src,) if isinstance(s, Write) else ():
            uses[name] = uses.get(name, 0) + 1
    definitions = {s.dst: (i, s) for i, s in enumerate(statements) if not isinstance(s, Write)}
    result = list(statements)
    for i, s in enumerate(statements):
        if not isinstance(s, Write) or uses[s.src] != 1:
            continue
        _, total = definitions[s.src]
        if not isinstance(total, Op) or total.opcode != "add":
            continue
        for operand in total.operands:
            at, old = definitions[operand]
            if isinstance(old, Read) and old.window == s.window and uses[operand] == 1 and not any(
                isinstance(between, Write) and between.window.buffer == s.window.buffer
                for between in statements[at:i]
            ):
                result[i] = replace(s, kind="accumulate")
                break
    return tuple(result)
