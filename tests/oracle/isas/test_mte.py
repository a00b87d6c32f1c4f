"""MTE against NumPy: sizes of every geometry, and random programs, in the interpreter and in XLA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.oracle.xla import compile_stream
from tests.support.accelerators.mte_model import TYPES, Machine, dtype_of, geometry
from tests.support.examples import examples

MEMORY, USED = 1 << 13, 4
"""Bytes of memory, and the registers that programs use; v0 .. v3 begin with the first bytes of memory."""
make = Instr.make


@dataclass(frozen=True)
class Step:
    """An instruction, and the same on the model."""

    instruction: Instr
    model: Callable[[Machine], None]


@st.composite
def steps(draw: st.DrawFn, vlen: int, rlen: int) -> list[Step]:
    """Sizes, tiles loaded and multiplied, masks, stores: of one type, in any order after the sizes."""
    ttypeio, floats = draw(st.integers(0, 7)), draw(st.booleans())
    sewi, sewo = TYPES[ttypeio]
    floats = floats and sewi >= 16
    most = geometry(vlen, rlen, sewi, sewo)
    sizes = [draw(st.integers(1, 5)) for _ in most]
    made = [Step(make(f"tss{w}", rd=0, request=n, ttypeio=ttypeio), lambda m, w=w, n=n: m.tss(w, n, ttypeio))
            for w, n in zip("mnk", sizes, strict=True)]
    granted = [min(n, limit) for n, limit in zip(sizes, most, strict=True)]
    brain = draw(st.booleans()) and sewi == 16 < sewo
    made.append(Step(make("csrwi_bfloat", value=int(brain)), lambda m: None))
    for _ in range(draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["load", "load", "multiply", "multiply", "store", "mask"]))
        made.append(draw(ONE[kind](vlen, rlen, (ttypeio, granted, floats, brain))))
    return made


Context = tuple[int, list[int], bool, bool]
registers = st.integers(0, USED - 1)


@st.composite
def loads(draw: st.DrawFn, vlen: int, rlen: int, context: Context) -> Step:
    operand, transposed, vd = draw(st.sampled_from(["a", "b", "c", "bt"])), draw(st.booleans()), draw(registers)
    stride, address = draw(strides(rlen)), draw(st.integers(0, 64))
    fits(vlen, rlen, context, operand)
    return Step(make(f"{'t' * transposed}tl{operand}", vd=vd, dram=address, stride=stride),
                lambda m: m.load(operand, vd, address, stride, transposed))


def fits(vlen: int, rlen: int, context: Context, operand: str) -> None:
    """Of mixed precision B is not loaded as it is of uniform, and the other way round, unless there is room."""
    ttypeio, (m, n, k), _, _ = context
    sewi, sewo = TYPES[ttypeio]
    rows, columns, bits = {"a": (m, k, sewi), "b": (k, n, sewi), "c": (m, n, sewo), "bt": (n, k, sewi)}[operand]
    assume(rows <= vlen // rlen and columns <= rlen // bits)


def strides(rlen: int) -> st.SearchStrategy[int]:
    return st.sampled_from([0, rlen // 8, 40, 43, 56])


@st.composite
def multiplies(draw: st.DrawFn, vlen: int, rlen: int, context: Context) -> Step:
    ttypeio, _, floats, brain = context
    sewi, sewo = TYPES[ttypeio]
    vd, vs1, vs2 = draw(st.permutations(range(USED)))[:3]
    name = f"t{'f' * floats}{'w' * (sewi < sewo)}mul"
    return Step(make(name, vd=vd, vs1=vs1, vs2=vs2), lambda m: m.multiply(vd, vs1, vs2, floats, brain))


@st.composite
def stores(draw: st.DrawFn, vlen: int, rlen: int, context: Context) -> Step:
    transposed, vd, address = draw(st.booleans()), draw(registers), draw(st.integers(0, 64))
    stride = draw(st.sampled_from([40, 43, 56]))
    return Step(make(f"{'t' * transposed}tsc", vd=vd, dram=MEMORY // 2 + address, stride=stride),
                lambda m: m.store(vd, MEMORY // 2 + address, stride, transposed))


@st.composite
def masks(draw: st.DrawFn, vlen: int, rlen: int, context: Context) -> Step:
    operand, vd = draw(st.sampled_from(["a", "b", "c", "bt"])), draw(registers)
    bits = TYPES[context[0]][operand == "c"]
    count = draw(st.integers(0, min(vlen // bits, 70)))
    fits(vlen, rlen, context, operand)
    return Step(make(f"tvmask{operand}", vd=vd, count=count), lambda m: m.mask(operand, vd, count))


ONE = {"load": loads, "multiply": multiplies, "store": stores, "mask": masks}


@st.composite
def programs(draw: st.DrawFn, longest: int) -> tuple[int, int, list[Step], np.ndarray]:
    """VLEN, RLEN, a program, and the memory: any bytes, or floats of one width around 1."""
    vlen = 1 << draw(st.integers(8, longest))
    rlen = 1 << draw(st.integers(6, min(12, vlen.bit_length() - 1)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 20)))
    near = draw(st.sampled_from([0, 16, 32, 64]))
    memory = rng.integers(0, 256, MEMORY).astype(np.uint8)
    if near:
        memory = rng.standard_normal(8 * MEMORY // near).astype(dtype_of(near, True)).view(np.uint8)
    return vlen, rlen, draw(steps(vlen, rlen)), memory


def stream_of(vlen: int, rlen: int, program: list[Step]) -> Stream:
    """The program between registers that are loaded, and stored behind the memory."""
    parts = min(vlen // 8 * USED, MEMORY)
    around = [make("vsetvli", rd=0, avl=parts, vtypei=2)]
    body = [*around, make("vle8_v", vd=0, dram=0, vm=1), *(s.instruction for s in program), *around,
            make("vse8_v", vs3=0, dram=MEMORY, vm=1)]
    memory, registers = HbmTensor("memory", 0, (MEMORY,), "int8"), HbmTensor("registers", MEMORY, (parts,), "int8")
    return Stream("mte", (("vlen", vlen), ("registers", 32), ("rlen", rlen)), (memory,), (memory, registers),
                  MEMORY + parts, tuple(body), "program")


def expected(vlen: int, rlen: int, program: list[Step], memory: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    machine = Machine(vlen, rlen, memory.copy())
    parts = min(vlen // 8 * USED, MEMORY)
    machine.v.reshape(-1)[:parts] = memory[:parts]
    with np.errstate(all="ignore"):
        for step in program:
            step.model(machine)
    return machine.memory, machine.v.reshape(-1)[:parts]


def same(found: np.ndarray, want: np.ndarray, bits: int) -> bool:
    """Bit for bit; where both are no number in C's type, any will do."""
    a, b = found.view(np.uint8), want
    equal = a == b
    if bits >= 16:
        for shift in range(bits // 8):
            cut = slice(shift, shift + (a.size - shift) // (bits // 8) * (bits // 8))
            x, y = (np.ascontiguousarray(v[cut]).view(dtype_of(bits, True)) for v in (a, b))
            equal[cut] |= np.repeat(np.isnan(x) & np.isnan(y), bits // 8)
    return bool(equal.all())


def check(case: tuple[int, int, list[Step], np.ndarray], raised: bool) -> None:
    vlen, rlen, program, memory = case
    stream, isa = stream_of(vlen, rlen, program), taidl.load("mte", vlen=vlen, rlen=rlen)
    bits = TYPES[dict(program[0].instruction.attributes)["ttypeio"].constant][1]
    if raised:
        found = [np.asarray(v) for v in compile_stream(stream, isa)(memory.view(np.int8))]
    else:
        found = list(run(stream, isa, {"memory": memory.view(np.int8)}).values())
    for got, want in zip(found, expected(vlen, rlen, program, memory), strict=True):
        assert same(got, want, bits), [str(s.instruction) for s in program]


@pytest.mark.slow
@given(programs(16))
@examples(40, 2000)
def test_programs_leave_what_numpy_leaves(case: tuple[int, int, list[Step], np.ndarray]) -> None:
    check(case, raised=False)


@pytest.mark.slow
@given(programs(10))
@examples(3, 200)
def test_the_raised_oracle_leaves_the_same(case: tuple[int, int, list[Step], np.ndarray]) -> None:
    check(case, raised=True)


@pytest.mark.parametrize(("vlen", "rlen", "ttypeio", "sizes"), [
    (8192, 512, 2, (16, 16, 16)), (8192, 512, 5, (16, 16, 32)), (8192, 512, 7, (16, 16, 64)),
    (8192, 2048, 2, (4, 64, 4)), (8192, 512, 3, (16, 8, 8)), (8192, 512, 6, (16, 8, 16)),
    (16384, 512, 2, (32, 16, 16)), (16384, 512, 5, (32, 16, 32)), (8192, 1024, 5, (8, 8, 64)),
    (8192, 256, 2, (32, 8, 8)), (256, 64, 0, (4, 8, 4)), (65536, 65536, 0, (1, 4095, 1)),
])
def test_what_is_granted_is_what_the_equations_give(
    vlen: int, rlen: int, ttypeio: int, sizes: tuple[int, int, int]
) -> None:
    body: list[Instr] = []
    for i, w in enumerate("mnk"):
        body += [make(f"tss{w}", rd=5, request=1 << 20, ttypeio=ttypeio), make("sd", rs2=5, dram=8 * i)]
    stream = Stream("mte", (("vlen", vlen), ("registers", 32), ("rlen", rlen)), (),
                    (HbmTensor("granted", 0, (24,), "int8"),), 24, tuple(body), "sizes")
    (found,) = run(stream, taidl.load("mte", vlen=vlen, rlen=rlen), {}).values()
    assert tuple(found.view(np.int64)) == sizes
    assert geometry(vlen, rlen, *TYPES[ttypeio]) == sizes


@pytest.mark.parametrize(("parameters", "body", "message"), [
    ({"vlen": 384}, [make("tssm", rd=0, request=1, ttypeio=2)], "vlen = 384"),
    ({"rlen": 320}, [make("tssm", rd=0, request=1, ttypeio=2)], "rlen = 320"),
    ({"vlen": 256}, [make("tssm", rd=0, request=1, ttypeio=2)], "rlen <= vlen.* rlen = 512, vlen = 256"),
    ({}, [make("tssm", rd=0, request=1, ttypeio=8)], "ttypeio = 8"),
    ({}, [make("tla", vd=0, dram=0, stride=0)], "rows"),
    ({"registers": 8}, [make("tssm", rd=0, request=1, ttypeio=2), make("tssk", rd=0, request=1, ttypeio=2),
                        make("tla", vd=8, dram=0, stride=0)], "registers"),
])
def test_faults_name_the_figure(parameters: dict[str, int], body: list[Instr], message: str) -> None:
    isa = taidl.load("mte", **parameters)
    stream = Stream("mte", isa.parameters, (), (), 64, tuple(body), "fault")
    with pytest.raises(StreamError, match=message):
        run(stream, isa, {})
