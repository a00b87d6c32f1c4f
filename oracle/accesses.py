"""What an instruction touches, derived from its semantics: windows read, written and accumulated into.

Timing derives dependences, requests and bytes from these; nothing about them is written down a second time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from archloom.oracle.resolved import Access, Op, Read, ResolvedInstr, Window, Write
from archloom.oracle.taidl.types import element_type


def element_bits(dtype: str) -> int:
    """Bits that an element takes in a buffer (a truth value takes a byte)."""
    bits = element_type(dtype).bits
    return 8 if bits == 1 else bits


def accesses(instr: ResolvedInstr) -> tuple[Access, ...]:
    """The instruction's accesses in the order of its statements, without repetitions.

    A write that accumulates stands for its read of the old contents as well.
    """
    touching = [s for s in instr.statements if not isinstance(s, Op)]
    targets = {s.src: s.window for s in touching if isinstance(s, Write) and s.kind == "accumulate"}
    swallowed = _old_contents(instr, targets) if targets else ()
    found: list[Access] = []
    windows: dict[tuple[str, str], list[Window]] = {}
    for s in touching:
        if isinstance(s, Write):
            kind: Literal["read", "write", "accumulate"] = s.kind
        elif s.dst not in swallowed:
            kind = "read"
        else:
            continue
        same = windows.setdefault((s.window.buffer, kind), [])
        if s.window not in same:
            same.append(s.window)
            found.append(Access(s.window, kind))
    return tuple(found)


def _old_contents(instr: ResolvedInstr, targets: Mapping[str, Window]) -> set[str]:
    """The tensors that hold what accumulating writes add to; ``targets`` are these writes, by what they write."""
    reads = {s.dst: s.window for s in instr.statements if isinstance(s, Read)}
    old: set[str] = set()
    for s in instr.statements:
        if isinstance(s, Op) and s.dst in targets:
            # one operand is the old contents, even where both were read from the window
            old.add(next(o for o in s.operands if reads.get(o) == targets[s.dst]))
    return old
