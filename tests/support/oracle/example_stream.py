"""A stream with one of everything: parameters, tensors, instructions, a loop of places and empty ones."""

from __future__ import annotations

from archloom.oracle.affine import Affine
from archloom.oracle.stream import HbmTensor, Instr, Loop, Parallel, Stream

I, C = Affine.variable("i"), Affine.variable("c")

STREAM = Stream(
    "gemmini",
    (("dim", 16), ("spad_rows", 1024)),
    (HbmTensor("A", 64, (512, 512), "int8"), HbmTensor("conv/W:0", 0x40040, (4,), "int32")),
    (HbmTensor("C", 0x80040, (), "int8"),),
    786496,
    (
        Instr.make("fence"),
        Loop("i", 0, 512, 16, (
            Instr.make("mvin", dram=64 + 512 * I, local=I // 16 % 2 * 16, cols=16, rows=16),
            Parallel("c", 8, "x", (Instr.make("go", at=C * -3 + I),)),
        )),
        Loop("down", 5, -1, -2, ()),
    ),
    "my matmul",
)
