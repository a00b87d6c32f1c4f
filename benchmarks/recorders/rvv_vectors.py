"""Records what vector instructions do in QEMU, for the tests of ``oracle/isas/riscv_v.taidl``.

Programs in assembly, of GNU's assembler, run by ``qemu-riscv64``: random cases of every instruction, each from a state
of the registers that is kept with what came out. Debian 12 has both::

    apt-get install gcc-riscv64-linux-gnu qemu-user
    python benchmarks/run.py rvv_vectors --write          # tests/data/rvv_vectors.json.gz
"""

from __future__ import annotations

import argparse
import gzip
import itertools
import json
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Stream
from archloom.oracle.taidl.isa import Instruction, Isa
from tests.support.accelerators.rvv_cases import (
    RESULT,
    SCALAR,
    VD,
    VS1,
    VS2,
    Case,
    memory_bytes,
    result_bytes,
)

OUT = Path(__file__).parents[2] / "tests/data/rvv_vectors.json.gz"
VLENS = (128, 256, 512, 1024)
CPU = "rv64,v=true,vlen={vlen},elen=64,vext_spec=v1.0,Zfh=true"
COMPILER = ("riscv64-linux-gnu-gcc", "-march=rv64gcv_zfh", "-nostdlib", "-static", "-xassembler")
SOURCE = "GNU assembler and qemu-riscv64 of Debian 12, written by benchmarks/recorders/rvv_vectors.py"
FRACTIONS = {1: "mf8", 2: "mf4", 4: "mf2", 8: "m1", 16: "m2", 32: "m4", 64: "m8"}
Draw: TypeAlias = Callable[[random.Random, int], int]


# --- states -------------------------------------------------------------------------------------------------------


def whole(width: int) -> Draw:
    """Integers of a width: any, small ones and the ends of the range."""
    ends = [0, 1, (1 << width) - 1, 1 << width - 1, (1 << width - 1) - 1]
    return lambda r, _: r.choice([r.getrandbits(width), r.getrandbits(width), r.getrandbits(3), r.choice(ends)])


def floats(width: int, spread: int, special: float) -> Draw:
    """Floats within 2 to the power of ``spread``; some special: zeros, infinities, NaN, 1/2, -3/2.

    Subnormal ones come of 32 bits alone: those of 64 bits count as zeros in TAIDL.
    """
    middle, mantissa = {32: (127, 23), 64: (1023, 52)}[width]
    infinity = (2 * middle + 1) << mantissa
    specials = [0, 1 << width - 1, infinity, 1 << width - 1 | infinity, infinity | 1 << mantissa - 1,
                middle - 1 << mantissa, 1 << width - 1 | middle << mantissa | 1 << mantissa - 1]

    def draw(r: random.Random, _: int) -> int:
        if r.random() < special:
            return r.choice(specials)
        exponent = min(max(middle + r.randint(-spread, spread), width // 64), 2 * middle)
        return r.getrandbits(1) << width - 1 | exponent << mantissa | r.getrandbits(mantissa)

    return draw


def offsets(width: int) -> Draw:
    """Multiples of 8 within the memory."""
    return lambda r, vlen: 8 * r.randrange(min(memory_bytes(vlen), 1 << width) // 8)


STATES: dict[str, tuple[int, Draw]] = {
    **{f"whole{w}": (w, whole(w)) for w in (8, 16, 32, 64)},
    "any32": (32, floats(32, 200, 0.3)), "near32": (32, floats(32, 34, 0.15)), "near64": (64, floats(64, 66, 0.15)),
    **{f"offsets{w}": (w, offsets(w)) for w in (8, 16, 32, 64)},
}
"""By name: the width of elements, and how each is drawn."""


def state_of(name: str, vlen: int) -> bytes:
    """All registers; v0 has any bits."""
    width, draw = STATES[name]
    r = random.Random(f"{name} {vlen}")
    made = b"".join(draw(r, vlen).to_bytes(width // 8, "little") for _ in range(32 * vlen // width))
    return r.randbytes(vlen // 8) + made[vlen // 8:]


# --- cases --------------------------------------------------------------------------------------------------------


def cases_of(name: str, count: int) -> Iterator[Case]:
    """Random cases of an instruction that the ISA takes: in QEMU a trap would end the program."""
    r = random.Random(name)
    lengths = itertools.cycle(r.sample(VLENS, len(VLENS)))
    for vlen in itertools.islice(lengths, count):
        isa = taidl.load("riscv_v", vlen=vlen)
        while is_refused(case := attempt(isa.instructions[name], vlen, r), isa):
            pass
        yield case


def is_refused(case: Case, isa: Isa) -> bool:
    body = (Instr.make("vsetvli", rd=0, avl=case.avl, vtypei=case.vtypei), Instr.make("csrwi_frm", value=case.frm),
            Instr.make(case.mnemonic, **dict(case.attributes)))
    try:
        resolve(Stream("riscv_v", (("vlen", case.vlen),), (), (), memory_bytes(case.vlen), body), isa)
    except StreamError:
        return True
    return False


def attempt(instruction: Instruction, vlen: int, r: random.Random) -> Case:
    name = instruction.name
    sew = r.choice((16, 32, 64) if is_float(name) else (8, 16, 32, 64))
    lmul8 = r.choice((1, 2, 4, 8, 8, 8, 16, 32, 64))
    most = max(vlen * lmul8 // 8 // sew, 1)
    avl = r.choice([most, most + 5, r.randint(1, most), r.randint(0, most), max(most - 1, 1)])
    fixed = {"vd": VD, "vs3": VD, "vs2": VS2, "vs1": VS1, "rs1": SCALAR, "rd": RESULT, "dram": 0,
             "vm": r.randint(0, 1), "reach": memory_bytes(vlen),
             "imm": r.randint(0, 31) if is_unsigned(name) else r.randint(-16, 15)}
    if "stride" in instruction.attributes:
        width = width_named(name) // 8
        stride = r.choice([width, 3 * width, -2 * width, *([0] if name.startswith("vl") else [])])
        avl = min(avl, (memory_bytes(vlen) - width) // max(abs(stride), 1))
        fixed |= {"stride": stride, "dram": max(-stride, 0) * max(min(avl, most) - 1, 0)}
    double = STATES["near64"][1](r, vlen) if sew == 64 else 0xFFFFFFFF << 32 | STATES["near32"][1](r, vlen)
    return Case(vlen, state_for(name, sew, r), name, tuple((a, fixed[a]) for a in instruction.attributes), avl,
                vtypei(sew, lmul8, r), scalar(name, r), double, r.randint(0, 3), r.randint(0, 4) if rounds(name) else 0)


def vtypei(sew: int, lmul8: int, r: random.Random) -> int:
    return (lmul8.bit_length() - 4) % 8 | sew.bit_length() - 4 << 3 | r.randint(0, 3) << 6


def is_float(name: str) -> bool:
    return name.startswith(("vf", "vmf")) and name != "vfirst_m"


def is_unsigned(name: str) -> bool:
    """Whether its immediate is unsigned."""
    return name.startswith(("vsll", "vsrl", "vsra", "vssrl", "vssra", "vnsrl", "vnsra", "vnclip", "vslide", "vrgather"))


def rounds(name: str) -> bool:
    """Whether other rounding modes than to nearest even are there."""
    return "_x_f" in name or "_xu_f" in name


def width_named(name: str) -> int:
    """The width in the name of a load or store."""
    return int("".join(c for c in name.split("_")[0] if c.isdigit()))


def scalar(name: str, r: random.Random) -> int:
    near = name.startswith(("vslide", "vrgather")) and r.random() < 0.8
    return r.randint(0, 20) if near else whole(64)(r, 0)


def state_for(name: str, sew: int, r: random.Random) -> str:
    if "xei" in name:
        return f"offsets{width_named(name)}"
    if name.startswith("vrgather") and r.random() < 0.7:
        return f"offsets{16 if '16' in name else sew}"
    width = 2 * sew if name.startswith("vfncvt") else sew
    if not is_float(name) or "_f_x" in name or width < 32 or width > 64:
        return f"whole{sew}"
    # what goes through f64 takes subnormal numbers for zeros
    through = name.startswith(("vfdiv", "vfrdiv", "vfsqrt", "vfwcvt", "vfncvt"))
    close = rounds(name) or through or r.random() < 0.3
    return "near64" if width == 64 else "near32" if close else "any32"


# --- programs -----------------------------------------------------------------------------------------------------


def assembly(case: Case, number: int) -> Iterator[str]:
    """The case, with what it may have changed written to its place."""
    yield from (f"  la x5, {case.state}_state", "  la x6, memory", "  call copied")
    yield f"  la x5, {case.state}_state"
    for group in range(0, 32, 8):
        yield from (f"  vl8re8.v v{group}, (x5)", f"  addi x5, x5, {case.vlen}")
    yield from (f"  li x{SCALAR}, {signed(case.x)}", f"  li x7, {signed(case.f)}", f"  fmv.d.x f{SCALAR}, x7")
    yield from (f"  li x{RESULT}, 0", f"  fmv.d.x f{RESULT}, x0", f"  csrwi vxrm, {case.vxrm}", f"  fsrmi {case.frm}")
    yield from (f"  li x14, {case.avl}", f"  vsetvli x15, x14, {vtype(case.vtypei)}")
    # QEMU 7.2 fails at a conversion with a rounding mode of its own where none is set in its block of translation
    yield from ["  fadd.s f28, f28, f28"] if is_float(case.mnemonic) else []
    yield from executed(case)
    yield from ("  la x6, out", f"  li x7, {number * result_bytes(case.vlen)}", "  add x6, x6, x7")
    yield from (f"  vs8r.v v{VD}, (x6)", f"  addi x6, x6, {case.vlen}", f"  sd x{RESULT}, 0(x6)")
    yield from (f"  fsd f{RESULT}, 8(x6)", "  addi x6, x6, 16", "  la x5, memory", "  call copied")


def executed(case: Case) -> Iterator[str]:
    operands = []
    for name, value in case.attributes:
        if name == "dram":
            yield from ("  la x11, memory", f"  li x13, {value}", "  add x11, x11, x13")
            operands.append("(x11)")
        elif name == "stride":
            yield f"  li x13, {value}"
            operands.append("x13")
        elif name in ("rd", "rs1"):
            operands.append(f"{'f' if is_float(case.mnemonic) else 'x'}{value}")
        elif name == "imm":
            operands.append(str(value))
        elif name == "vm":
            operands += [] if value else ["v0.t"]
        elif name != "reach":
            operands.append(f"v{value}")
    if "merge" in case.mnemonic:
        operands.append("v0")
    yield f"  {case.mnemonic.replace('_', '.')} {', '.join(operands)}"


def signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def vtype(value: int) -> str:
    """``e32, m2, ta, ma``"""
    lmul8 = 1 << (value % 8 + 3) % 8
    return (f"e{8 << (value >> 3) % 8}, {FRACTIONS[lmul8]}, {'ta' if value >> 6 & 1 else 'tu'}, "
            f"{'ma' if value >> 7 else 'mu'}")


BEGIN = """.option norelax
.global _start
.text
_start:
"""
END = """  la x8, out
  li x9, {size}
written:
  li x10, 1
  mv x11, x8
  mv x12, x9
  li x17, 64
  ecall
  sub x9, x9, x10
  add x8, x8, x10
  bnez x9, written
  li x10, 0
  li x17, 93
  ecall
copied:
  li x7, {words}
again:
  ld x28, 0(x5)
  sd x28, 0(x6)
  addi x5, x5, 8
  addi x6, x6, 8
  addi x7, x7, -1
  bnez x7, again
  ret
.bss
.align 6
memory: .space {memory}
out: .space {size}
.data
.align 6
"""
"""Writes what is at ``out`` and ends; ``copied`` moves a memory from x5 to x6."""


def program(vlen: int, cases: Sequence[Case]) -> str:
    """Writes the results of all cases to its output."""
    memory = memory_bytes(vlen)
    lines = [line for number, case in enumerate(cases) for line in assembly(case, number)]
    states = [f"{name}_state: .byte {','.join(map(str, state_of(name, vlen)))}" for name in STATES]
    end = END.format(size=len(cases) * result_bytes(vlen), words=memory // 8, memory=memory)
    return BEGIN + "\n".join([*lines, end, *states, ""])


def run(vlen: int, cases: Sequence[Case]) -> list[bytes]:
    """What each case leaves, in QEMU."""
    with tempfile.TemporaryDirectory() as folder:
        text, made = Path(folder, "cases.s"), Path(folder, "cases")
        text.write_text(program(vlen, cases))
        subprocess.run([*COMPILER, str(text), "-o", str(made)], check=True)
        done = subprocess.run(["qemu-riscv64", "-cpu", CPU.format(vlen=vlen), str(made)], check=True,
                              stdout=subprocess.PIPE)
    row = result_bytes(vlen)
    return [done.stdout[i * row:(i + 1) * row] for i in range(len(cases))]


def recorded(case: Case, state: bytes, row: bytes) -> dict[str, Any]:
    """The case as it is kept: registers that are not as before, and the bytes of memory that are not."""
    size = case.vlen // 8
    registers = {VD + i: row[i * size:(i + 1) * size] for i in range(8)}
    memory = row[case.vlen + 16:]
    changed = [i for i, (a, b) in enumerate(zip(memory, state, strict=True)) if a != b]
    first, last = (changed[0], changed[-1] + 1) if changed else (0, 0)
    kept = {k: v for k, v in asdict(case).items() if k not in ("vlen", "attributes")}
    return {**kept, "attributes": dict(case.attributes),
            "v": {n: v.hex() for n, v in registers.items() if v != state[n * size:(n + 1) * size]},
            "x10": row[case.vlen:case.vlen + 8].hex(), "f10": row[case.vlen + 8:case.vlen + 16].hex(),
            "memory": [first, memory[first:last].hex()]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=4, help="cases of each instruction (default: 4)")
    parser.add_argument("--write", action="store_true", help=f"write {OUT}")
    given = parser.parse_args()
    lengths = {}
    names = [n for n in taidl.load("riscv_v").instructions if n.startswith("v") and not n.startswith("vset")]
    every = [case for name in names for case in cases_of(name, given.count)]
    for vlen in VLENS:
        cases = [c for c in every if c.vlen == vlen]
        states = {name: state_of(name, vlen) for name in STATES}
        found = [recorded(c, states[c.state], row) for c, row in zip(cases, run(vlen, cases), strict=True)]
        lengths[str(vlen)] = {"states": {n: s.hex() for n, s in states.items()}, "cases": found}
        print(f"VLEN {vlen}: {len(found)} cases of {len({c.mnemonic for c in cases})} instructions")
    text = json.dumps({"source": SOURCE, "cpu": CPU, "compiler": " ".join(COMPILER), "vlen": lengths},
                      separators=(",", ":"))
    if given.write:
        OUT.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{OUT}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
