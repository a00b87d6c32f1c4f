"""What an instruction touches, derived from its semantics: windows read, written and accumulated into.

Timing derives dependences, requests and bytes from these; nothing about them is written down a second time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from archloom.oracle.resolved import Access, Buffer, Op, Read, ResolvedInstr, Statement, Window, Write
from archloom.oracle.taidl.types import element_type

Kind: TypeAlias = Literal["read", "write", "accumulate"]


def element_bits(dtype: str) -> int:
    """Bits that an element takes in a buffer (a truth value takes a byte)."""
    bits = element_type(dtype).bits
    return 8 if bits == 1 else bits


def bits_of(buffer: Buffer) -> int:
    """Bits of a whole buffer."""
    return element_bits(buffer.dtype) * math.prod(buffer.shape)


class Touching(tuple[Statement, ...]):
    """Statements whose accesses are known already, as whoever made them made many of their kind.

    ``alike``: one object for all that differ in where their windows lie alone, buffers and dimensions being the same;
    None where nothing is known of others.
    """

    accesses: tuple[Access, ...]
    alike: object = None


def accesses(instr: ResolvedInstr) -> tuple[Access, ...]:
    """The instruction's accesses in the order of its statements, without repetitions.

    A write that accumulates stands for its read of the old contents as well.
    """
    statements = instr.statements
    return statements.accesses if isinstance(statements, Touching) else touched(statements)


def touched(statements: Sequence[Statement]) -> tuple[Access, ...]:
    """The accesses of statements, as :func:`accesses` says."""
    adding = accumulations(statements)
    swallowed = set(adding.values())
    found: list[Access] = []
    windows: dict[tuple[str, str], list[Window]] = {}
    for number, s in enumerate(statements):
        if isinstance(s, Op) or (isinstance(s, Read) and s.dst in swallowed):
            continue
        kind: Kind = "read" if isinstance(s, Read) else "accumulate" if number in adding else s.kind
        same = windows.setdefault((s.window.buffer, kind), [])
        if s.window not in same:
            same.append(s.window)
            found.append(Access(s.window, kind))
    return tuple(found)


def accumulations(statements: Sequence[Statement]) -> dict[int, str]:
    """The writes of ``old + x`` to the window that ``old`` was read from, by number, each with ``old``.

    What counts is the equation, however it is written; ``old`` and what it is added up to go nowhere else.
    """
    uses = Counter(name for s in statements for name in _read_by(s))
    made = {s.dst: (i, s) for i, s in enumerate(statements) if not isinstance(s, Write)}
    found = {}
    for number, s in enumerate(statements):
        if isinstance(s, Write):
            for at, old in _summands(s.src, uses, made):
                if old.window == s.window and not _written(statements[at:number], s.window.buffer):
                    found[number] = old.dst
                    break
    return found


def _read_by(s: Statement) -> tuple[str, ...]:
    return s.operands if isinstance(s, Op) else (s.src,) if isinstance(s, Write) else ()


def _summands(
    total: str, uses: Mapping[str, int], made: Mapping[str, tuple[int, Read | Op]]
) -> Iterator[tuple[int, Read]]:
    """What is read to be a summand of ``total``, with its number among the statements."""
    rest: list[tuple[str, bool, str | None]] = [(total, True, None)]
    while rest:
        name, plus, dtype = rest.pop()
        if name not in made or uses[name] != 1:
            continue
        at, s = made[name]
        if isinstance(s, Read):
            if plus:
                yield at, s
        elif s.opcode in MOVES:
            # the elements of a view, if they are as wide: those of other widths lie in other places
            if s.opcode != "bitcast_convert" or made[s.operands[0]][1].type.shape == s.type.shape:
                rest.append((s.operands[0], plus, dtype))
        elif dtype in (None, s.type.dtype):
            # a sum is of one type: the bits of a sum of floats are no summand of integers
            rest += [(s.operands[i], plus == sign, s.type.dtype) for i, sign in TERMS.get(s.opcode, ())][::-1]


def _written(statements: Sequence[Statement], buffer: str) -> bool:
    return any(isinstance(s, Write) and s.window.buffer == buffer for s in statements)


TERMS: Mapping[str, tuple[tuple[int, bool], ...]] = {
    "add": ((0, True), (1, True)), "subtract": ((0, True), (1, False)), "negate": ((0, False),), "fma": ((2, True),)}
"""The operands that are terms of a sum, by operator, and whether they are added."""
MOVES = frozenset({"copy", "reshape", "bitcast_convert"})
"""Operators of one tensor whose elements keep their order and their bits."""
