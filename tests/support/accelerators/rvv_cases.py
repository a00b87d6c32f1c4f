"""Cases of single RISC-V vector instructions: how they are written down, and as streams of ``riscv_v.taidl``.

A case loads all vector registers from a state, sets the scalars, vtype and rounding modes, and executes one
instruction. What may change is v8 .. v15, x10, f10 and a copy of the state in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from archloom.oracle.stream import HbmTensor, Instr, Node, Stream

VD, VS2, VS1, SCALAR, RESULT = 8, 16, 24, 12, 10
"""The registers of all cases; the mask is v0."""


@dataclass(frozen=True)
class Case:
    """One instruction, with its attributes, and what is set before it.

    ``x`` is x12, ``f`` the bits of f12, both unsigned of 64 bits; ``dram`` among the attributes counts from the memory.
    """

    vlen: int
    state: str
    mnemonic: str
    attributes: tuple[tuple[str, int], ...]
    avl: int
    vtypei: int
    x: int
    f: int
    vxrm: int
    frm: int

    @property
    def sew(self) -> int:
        return 8 << (self.vtypei >> 3) % 8


def memory_bytes(vlen: int) -> int:
    """The memory has what the 32 registers have."""
    return 4 * vlen


def result_bytes(vlen: int) -> int:
    """Of a case: eight vector registers, two scalars, the memory."""
    return vlen + 16 + memory_bytes(vlen)


def stream_of(vlen: int, states: Sequence[str], cases: Sequence[Case]) -> Stream:
    """The cases one after the other, each from its state; the results are one row of bytes for each."""
    size, row = memory_bytes(vlen), result_bytes(vlen)
    at = {name: i * size for i, name in enumerate(states)}
    scalars = len(states) * size
    first = scalars + 16 * len(cases)
    body: list[Node] = []
    for i, case in enumerate(cases):
        body += _instructions(case, at[case.state], scalars + 16 * i, first + i * row)
    arguments = (*(HbmTensor(name, at[name], (size,), "int8") for name in states),
                 HbmTensor("scalars", scalars, (len(cases), 16), "int8"))
    result = HbmTensor("changed", first, (len(cases), row), "int8")
    return Stream("riscv_v", (("vlen", vlen),), arguments, (result,), first + len(cases) * row, tuple(body), "cases")


def scalars_of(cases: Sequence[Case]) -> np.ndarray:
    """x12 and f12 of each case, as bytes."""
    return np.array([[c.x, c.f] for c in cases], np.uint64).view(np.int8)


def _instructions(case: Case, state: int, scalars: int, out: int) -> Iterator[Instr]:
    make, vlen = Instr.make, case.vlen
    memory = out + vlen + 16
    yield make("vsetvli", rd=0, avl=vlen, vtypei=3)
    for group in range(0, 32, 8):
        yield make("vle8_v", vd=group, dram=state + group * vlen // 8, vm=1)
        yield make("vse8_v", vs3=group, dram=memory + group * vlen // 8, vm=1)
    yield make("ld", rd=SCALAR, dram=scalars)
    yield make("fld", rd=SCALAR, dram=scalars + 8)
    yield make("li", rd=RESULT, value=0)
    yield make("fmv_d_x", rd=RESULT, rs1=RESULT)
    yield make("csrwi_vxrm", value=case.vxrm)
    yield make("csrwi_frm", value=case.frm)
    yield make("vsetvli", rd=15, avl=case.avl, vtypei=case.vtypei)
    yield make(case.mnemonic, **{k: v + memory if k == "dram" else v for k, v in case.attributes})
    yield make("vsetvli", rd=0, avl=vlen, vtypei=3)
    yield make("vse8_v", vs3=VD, dram=out, vm=1)
    yield make("sd", rs2=RESULT, dram=out + vlen)
    yield make("fsd", rs2=RESULT, dram=out + vlen + 8)
