"""Bit patterns in a stream as arguments, so that streams which differ in their scales alone share one program.

A network's layers often have one shape and one mapping, but each its own output scale. The scale reaches the stream's
tensors as a scalar ``u32`` constant, the bits of a float. Taken out of the program, it costs nothing at run time,
and such layers are raised and compiled once.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from archloom.oracle.affine import Affine
from archloom.oracle.nests import rewritten
from archloom.oracle.resolved import Op, Read, ResolvedInstr, ResolvedStream, Statement, TensorType, Window, WindowDim
from archloom.oracle.stream import HbmTensor
from archloom.oracle.xla.notation.variables import BIT_PATTERNS

WIDTH = 4


def take_out(stream: ResolvedStream) -> tuple[ResolvedStream, np.ndarray]:
    """The stream without its name, attributes and bit patterns, and the patterns as ``uint32[n]``.

    Where there are patterns, the stream takes them as one more argument, behind its HBM. Equal patterns share a place:
    which places are equal is part of the program.
    """
    places: dict[int, int] = {}
    base = -(-stream.hbm_bytes // WIDTH) * WIDTH
    body = rewritten(stream.body, lambda i: [_instruction(i, places, base)] if i.statements else [])
    plain = replace(stream, name="", body=body)
    if places:
        held = HbmTensor(BIT_PATTERNS, base, (len(places),), "uint32")
        plain = replace(plain, arguments=(*stream.arguments, held), hbm_bytes=base + WIDTH * len(places),
                        buffers=tuple(replace(b, shape=(base + WIDTH * len(places),)) if b.name == "hbm" else b
                                      for b in stream.buffers))
    return plain, np.array(list(places), np.uint32)


def _instruction(instr: ResolvedInstr, places: dict[int, int], base: int) -> ResolvedInstr:
    statements: list[Statement] = []
    for s in instr.statements:
        pattern = _pattern(s)
        if pattern is None:
            statements.append(s)
            continue
        assert isinstance(s, Op)
        place = base + WIDTH * places.setdefault(pattern, len(places))
        window = Window("hbm", (Affine(place),), (WindowDim(0, WIDTH, 1),))
        held = f"{s.dst}.bytes"
        statements.append(Read(held, window, TensorType((WIDTH,), "i8")))
        statements.append(Op(s.dst, "bitcast_convert", (held,), (), s.type))
    return replace(instr, attributes=(), registers=(), statements=tuple(statements))


def _pattern(s: Statement) -> int | None:
    """The bits of a scalar ``u32`` constant that does not depend on loops."""
    if not isinstance(s, Op) or s.opcode != "constant" or s.type != TensorType((), "u32"):
        return None
    value = s.attribute("value")
    if isinstance(value, Affine):
        if not value.is_constant:
            return None
        value = value.constant
    return int(value) & 0xFFFFFFFF if isinstance(value, int) else None
