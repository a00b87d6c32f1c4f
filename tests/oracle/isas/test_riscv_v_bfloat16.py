"""Zvfbfmin and Zvfbfwma, which the emulator that recorded the rest does not have: against NumPy with ml_dtypes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given

from archloom.oracle import taidl
from archloom.oracle.interpreter import run
from archloom.oracle.stream import HbmTensor, Instr, Stream, emitted_for
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples, randoms

BRAIN = frozenset({"vfwcvtbf16_f_f_v", "vfncvtbf16_f_f_w", "vfwmaccbf16_vv", "vfwmaccbf16_vf"})
KINDS = {"int8": 8, "int16": 16, "int32": 32}
BFLOAT = np.dtype(ml_dtypes.bfloat16)
VLENS = (128, 256, 1024)
SPECIAL = np.array([0, 1, 0x7F80, 0x7F7F, 0x7FC1, 0x007F, 0x0080, 0x3F80], np.uint32)


def ran(vlen: int, count: int, name: str, arrays: dict[str, np.ndarray], *, masked: bool = False, raised: bool = False,
        ) -> np.ndarray:
    """What an instruction makes of the first ``count`` elements of ``b`` (or its first alone), ``c`` and ``mask`` in
    ``a``, and leaves of the others."""
    tensors, at = [], 0
    for key, array in arrays.items():
        tensors.append(HbmTensor(key, at, array.shape, str(array.dtype)))
        at += -(-array.nbytes // 64) * 64
    place = {t.name: t.address for t in tensors}
    registers = {"a": 8, "b": 16, "c": 20, "mask": 0}
    with emitted_for(taidl.load("riscv_v", vlen=vlen)):
        nodes: list[Any] = []
        for key in arrays:
            bits = KINDS[str(arrays[key].dtype)]
            group = {8: 0, 16: 1, 32: 2}[bits]
            length = arrays[key].size
            nodes += [Instr.make("vsetvli", rd=0, avl=length, vtypei=(bits // 16) << 3 | group),
                      Instr.make(f"vle{bits}_v", vd=registers[key], dram=place[key], vm=1)]
        nodes.append(Instr.make("flw", rd=3, dram=place["b"]))
        nodes.append(Instr.make("vsetvli", rd=0, avl=count, vtypei=1 << 3 | 1))
        given = {"vs2": registers["b"]}
        if "macc" in name:
            given |= {"vs2": registers["c"], **({"rs1": 3} if name.endswith("vf") else {"vs1": registers["b"]})}
        nodes.append(Instr.make(name, vd=8, vm=int(not masked), **given))
        bits = KINDS[str(arrays["a"].dtype)]
        nodes += [Instr.make("vsetvli", rd=0, avl=arrays["a"].size, vtypei=(bits // 16) << 3 | (bits // 16)),
                  Instr.make(f"vse{bits}_v", vs3=8, dram=place["a"], vm=1)]
    stream = Stream("riscv_v", (("vlen", vlen),), tuple(tensors), (tensors[0],), at, tuple(nodes))
    isa = taidl.load("riscv_v", vlen=vlen)
    if raised:
        return np.asarray(compile_stream(stream, isa)(*arrays.values())[0])
    return run(stream, isa, arrays)["a"]


def wanted(name: str, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The definition, for all elements, as bits."""
    with np.errstate(all="ignore"):
        if name.startswith("vfncvt"):
            return arrays["b"].view(np.float32).astype(BFLOAT).view(np.int16)
        x = arrays["b"].view(BFLOAT).astype(np.float64)
        if name.startswith("vfwcvt"):
            return arrays["b"].view(BFLOAT).astype(np.float32).view(np.int32)
        factor = x[0] if name.endswith("vf") else x
        product = factor * arrays["c"].view(BFLOAT).astype(np.float64)
        return (product + arrays["a"].view(np.float32).astype(np.float64)).astype(np.float32).view(np.int32)


def drawn(r: Any, name: str, size: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(r.getrandbits(32))
    if "macc" in name:  # of a size, so that float64 has their sums exactly
        b, c = (rng.uniform(-4, 4, size).astype(BFLOAT).view(np.int16) for _ in "bc")
        return {"a": rng.uniform(-9, 9, size).astype(np.float32).view(np.int32), "b": b, "c": c}
    bits = rng.integers(0, 1 << 32, size, np.uint32)
    bits[:len(SPECIAL)] = SPECIAL[:size] << np.uint32(16)
    bits[len(SPECIAL):2 * len(SPECIAL)] |= np.uint32(0x8000)
    bits[-6:] = bits[-6:] & np.uint32(0xFFFF8000) | np.uint32(0x8000)  # in the middle of two
    if name.startswith("vfwcvt"):
        return {"a": rng.integers(-99, 99, size).astype(np.int32), "b": (bits >> np.uint32(16)).astype(np.uint16).view(
            np.int16)}
    return {"a": rng.integers(-99, 99, size).astype(np.int16), "b": bits.view(np.int32)}


def same(found: np.ndarray, want: np.ndarray) -> bool:
    """To the last bit, but that a NaN is equal to any."""
    kind = np.float32 if found.dtype == np.int32 else BFLOAT
    with np.errstate(invalid="ignore"):
        nan = np.isnan(found.view(kind)) & np.isnan(want.view(kind))
    return bool(((found == want) | nan).all())


def held(r: Any, name: str, raised: bool) -> None:
    vlen = r.choice(VLENS)
    size = vlen // 8  # of two registers of 16 bits
    arrays, count = drawn(r, name, size), r.randint(1, size)
    masked = r.random() < 0.5
    mask = np.random.default_rng(r.getrandbits(32)).integers(0, 2, size).astype(bool)
    given = arrays | ({"mask": np.packbits(mask, bitorder="little").view(np.int8)} if masked else {})
    active = (np.arange(size) < count) & (mask if masked else True)
    want = np.where(active, wanted(name, arrays), arrays["a"])
    found = ran(vlen, count, name, given, masked=masked, raised=raised)
    assert same(found, want)


@pytest.mark.parametrize("name", sorted(BRAIN))
@examples(4, 300)
@given(randoms)
def test_brain_floats_are_those_of_ml_dtypes(name: str, r: Any) -> None:
    held(r, name, raised=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BRAIN))
@examples(3, 30)
@given(randoms)
def test_the_raised_oracle_has_the_same(name: str, r: Any) -> None:
    held(r, name, raised=True)
