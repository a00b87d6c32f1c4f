"""RISC-V's vector instructions as QEMU executes them: recorded cases of each, in the interpreter and in XLA."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.interpreter import run
from archloom.oracle.xla import compile_stream
from tests.oracle.isas.test_riscv_v_bfloat16 import BRAIN
from tests.support.accelerators.rvv_cases import VD, Case, scalars_of, stream_of
from tests.support.examples import slow

VECTORS = Path(__file__).parents[2] / "data/rvv_vectors.json.gz"
LENGTHS = (128, 256, 512, 1024)


@cache
def recorded() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(VECTORS.read_bytes()))
    return found


def case_of(vlen: int, kept: Mapping[str, Any]) -> Case:
    values = {k: kept[k] for k in ("state", "mnemonic", "avl", "vtypei", "x", "f", "vxrm", "frm")}
    return Case(vlen, attributes=tuple(kept["attributes"].items()), **values)


def left(vlen: int, kept: Mapping[str, Any], state: bytes) -> bytes:
    """What the case leaves: v8 .. v15, x10, f10, the memory."""
    size = vlen // 8
    registers = [kept["v"].get(str(n), state[n * size:(n + 1) * size].hex()) for n in range(VD, VD + 8)]
    first, changed = kept["memory"][0], bytes.fromhex(kept["memory"][1])
    memory = state[:first] + changed + state[first + len(changed):]
    return bytes.fromhex("".join(registers) + kept["x10"] + kept["f10"]) + memory


def widths(case: Case) -> tuple[str, ...]:
    """The types in which two results are the same if both are NaN."""
    if not case.mnemonic.startswith("vf"):
        return ()
    width = case.sew * (2 if case.mnemonic.startswith("vfw") else 1)
    return (f"float{width}",) if width in (16, 32, 64) else ()


def differs(case: Case, found: np.ndarray, want: bytes) -> bool:
    a, b = found.astype(np.int8).view(np.uint8), np.frombuffer(want, np.uint8)
    same = a == b
    for dtype in widths(case):
        x, y = (v[:case.vlen + 16].view(dtype) for v in (a, b))
        both = np.repeat(np.isnan(x) & np.isnan(y), np.dtype(dtype).itemsize)
        same[:case.vlen + 16] |= both
    return not same.all()


def compare(vlen: int, chosen: slice, raised: bool) -> None:
    kept = recorded()["vlen"][str(vlen)]
    states = {name: bytes.fromhex(text) for name, text in kept["states"].items()}
    cases = [case_of(vlen, k) for k in kept["cases"][chosen]]
    stream, isa = stream_of(vlen, list(states), cases), taidl.load("riscv_v", vlen=vlen)
    values = {name: np.frombuffer(state, np.int8) for name, state in states.items()} | {"scalars": scalars_of(cases)}
    if raised:
        (found,) = compile_stream(stream, isa)(*values.values())
    else:
        (found,) = run(stream, isa, values).values()
    wrong = [case for case, k, row in zip(cases, kept["cases"][chosen], np.asarray(found), strict=True)
             if differs(case, row, left(vlen, k, states[case.state]))]
    assert not wrong, "\n".join(map(str, wrong))


@pytest.mark.first_case
@pytest.mark.parametrize("vlen", LENGTHS)
def test_every_recorded_case_leaves_what_qemu_left(vlen: int) -> None:
    compare(vlen, slice(None), raised=False)


@pytest.mark.parametrize(("vlen", "chosen"), [(128, slice(3, None, 40)), *(slow(v, slice(i, None, 8)) for v in LENGTHS
                                                                           for i in range(8))])
def test_the_raised_oracle_leaves_the_same(vlen: int, chosen: slice) -> None:
    compare(vlen, chosen, raised=True)


def test_every_vector_instruction_is_recorded() -> None:
    names = {n for n in taidl.load("riscv_v").instructions if n.startswith("v") and not n.startswith("vset")} - BRAIN
    cases = [c for kept in recorded()["vlen"].values() for c in kept["cases"]]
    assert {c["mnemonic"] for c in cases} == names
    assert len(cases) >= 4 * len(names)
