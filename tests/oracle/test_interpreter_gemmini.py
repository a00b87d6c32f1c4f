"""The TAIDL description of Gemmini against a plain model and against vectors recorded from Spike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from gemmini_model import Model
from gemmini_streams import (
    ACC,
    ADD,
    FULL,
    NONE,
    ONE,
    OS,
    WS,
    bits,
    compute,
    config_ex,
    config_ld,
    config_st,
    mvin,
    mvout,
    preload,
    stream,
    tiled_matmul,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from oracle import taidl
from oracle.interpreter import State, run, start
from oracle.stream import HbmTensor, Instr, Stream, flat_trace

DATA = Path(__file__).parent.parent / "data" / "taidl"
SHARED = Path(__file__).parents[3] / "shared" / "reference" / "taidl" / "golden"


def golden(name: str) -> dict[str, np.ndarray]:
    for folder in (DATA, SHARED):
        if (folder / f"{name}.npz").exists():
            with np.load(folder / f"{name}.npz") as data:
                return {k: data[k] for k in data.files}
    pytest.skip(f"the recorded vectors {name} are not here")


@pytest.mark.parametrize("dataflow", [OS, WS])
@pytest.mark.parametrize(("dim", "tiles"), [(16, 1), (16, 4), (16, 16), (16, 64), (64, 1), (64, 8), (256, 1), (256, 4)])
def test_tiled_matmul_equals_spike(dim: int, tiles: int, dataflow: int) -> None:
    vectors = golden(f"gemmini_tiled_matmul_dim{dim}_i{tiles}_set0")
    result = run(tiled_matmul(dim, tiles, dataflow), taidl.load("gemmini", dim=dim), {k: vectors[k] for k in "ABD"})
    np.testing.assert_array_equal(result["C"], vectors["C"])


def test_matmul_of_many_tiles_equals_spike() -> None:
    """A corner of a recorded product: 32 x 48 of 784 x 1024, over all of K = 256, partial sums in the accumulator."""
    vectors = golden("gemmini_exo_784x1024x256_set0")
    rows, cols, depth = 32, 48, 256
    a, b = vectors["A"][:rows], vectors["B"][:, :cols]
    c_at = 64 + a.size + b.size
    body: list[Instr] = [config_ex(WS), config_ld(depth), config_ld(cols, 1), config_st(4 * cols)]
    for i in range(0, rows, 16):
        for j in range(0, cols, 16):
            for k in range(0, depth, 16):
                body += [
                    mvin(64 + i * depth + k, 0, 16, 16), mvin(64 + a.size + k * cols + j, 16, 16, 16, 1),
                    preload(16, ACC | (ADD if k else 0), 16, 16, 16, 16), compute(0, NONE, 16, 16, 16, 16),
                ]
            body.append(mvout(c_at + 4 * (i * cols + j), ACC | FULL, 16, 16))
    tensors = [HbmTensor("A", 64, a.shape, "int8"), HbmTensor("B", 64 + a.size, b.shape, "int8")]
    out = HbmTensor("C", c_at, (rows, cols), "int32")
    s = stream(body, tensors, [out], c_at + 4 * rows * cols)
    c = run(s, taidl.load("gemmini"), {"A": a, "B": b})["C"]
    np.testing.assert_array_equal(np.clip(c, -128, 127), vectors["C"][:rows, :cols])
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))


# --- random programs against the model ----------------------------------------------------------------------------

SPAD, ACCS, HBM = 64, 48, 4096


def program(random: np.random.Generator, dim: int, length: int) -> list[Instr]:
    """A random program in which every instruction keeps the ISA's rules; values reach their whole range."""
    body = [config_ld(int(random.integers(0, 40)) + 4 * dim, c, block_stride=dim) for c in range(3)]
    body += [config_st(4 * dim + 8), config_ex(int(random.integers(2))), preload(NONE, NONE, 1, 1, 1, 1)]
    return body + [_instruction(random, dim) for _ in range(length)]


def _int(random: np.random.Generator, low: int, high: int) -> int:
    return int(random.integers(low, high + 1))


def _scale(random: np.random.Generator) -> int:
    return (ONE, bits(0.0), bits(float(random.normal())), bits(float(2.0 ** -_int(random, 1, 30))),
            bits(0.5), bits(-1.5))[_int(random, 0, 5)]


def _operand(random: np.random.Generator, dim: int, span: int) -> tuple[int, int, int]:
    """Address, columns and rows of an operand in the scratchpad, or none."""
    address = NONE if random.random() < 0.2 else _int(random, 0, SPAD - span)
    return address, _int(random, 1, dim), _int(random, 1, dim)


def _config(random: np.random.Generator, dim: int) -> Instr:
    which = _int(random, 0, 3)
    if which == 0:
        return config_ld(_int(random, 0, 3 * dim), _int(random, 0, 2), scale=_scale(random), shrunk=_int(random, 0, 1),
                         block_stride=_int(random, dim, dim + 3))
    if which == 1:
        dataflow = _int(random, 0, 1)
        a, b = ((0, 0), (1, 0), (1, 1) if dataflow == OS else (0, 1))[_int(random, 0, 2)]
        return config_ex(dataflow, act=_int(random, 0, 1), sys_shift=_int(random, 0, 12), a_transpose=a, b_transpose=b,
                         a_stride=_int(random, 0, 2), c_stride=_int(random, 1, 2),
                         set_only_strides=int(random.random() < 0.2))
    pool = {}
    if which == 2:
        # the stores that follow are pooled
        pool = {"pool_size": _int(random, 1, 3), "pool_stride": _int(random, 1, 3), "pool_upad": _int(random, 0, 2),
                "pool_lpad": _int(random, 0, 2), "pool_out_dim": 4, "porows": _int(random, 1, 3),
                "pocols": _int(random, 1, 4), "orows": _int(random, 1, 5), "ocols": _int(random, 1, 5)}
    return config_st(_int(random, 0, 9) + 4 * dim, act=_int(random, 0, 1), scale=_scale(random), **pool)


def _instruction(random: np.random.Generator, dim: int) -> Instr:
    which = _int(random, 0, 9)
    if which < 2:
        return _config(random, dim)
    if which < 5:
        dram = 0 if random.random() < 0.1 else _int(random, 1, HBM // 2)
        if random.random() < 0.5:
            return mvin(dram, _int(random, 0, 8), _int(random, 1, min(3 * dim, 64)), _int(random, 1, dim),
                        _int(random, 0, 2))
        local = ACC | (ADD * _int(random, 0, 1)) | _int(random, 0, ACCS - dim)
        return mvin(dram, local, _int(random, 1, dim), _int(random, 1, dim), _int(random, 0, 2))
    if which == 5:
        local = _int(random, 0, 20) | (ACC * _int(random, 0, 1))
        return mvout(_int(random, HBM // 2, HBM - 1500), local, _int(random, 1, dim), _int(random, 1, dim))
    if which < 8:
        bd, cols, rows = _operand(random, dim, dim)
        c = (NONE, _int(random, 0, SPAD - 2 * dim), ACC | (ADD * _int(random, 0, 1)) | _int(random, 0, ACCS - 2 * dim))
        return preload(bd, c[_int(random, 0, 2)], cols, rows, _int(random, 1, dim), _int(random, 1, dim))
    a, a_cols, a_rows = _operand(random, dim, 2 * dim)
    bd, bd_cols, bd_rows = _operand(random, dim, dim)
    return compute(a, bd, a_cols, a_rows, bd_cols, bd_rows, preloaded=bool(random.integers(2)))


def both(s: Stream, dim: int, seed: int) -> tuple[State, Model]:
    """The final states of the interpreter and of the model from equal random contents (but for the PEs, zeros)."""
    isa = taidl.load("gemmini", dim=dim, spad_rows=SPAD, acc_rows=ACCS)
    hbm, machine = start(s, isa, {}, poison=seed)
    machine.buffers["pe"][...] = 0
    model = Model(dim, hbm.copy(), machine.buffers["spad"].copy(), machine.buffers["acc"].copy())
    for mnemonic, attributes in flat_trace(s):
        machine.step(mnemonic, tuple(attributes.items()), {})
        model.step(mnemonic, attributes)
    return State(machine.buffers, hbm, machine.registers()), model


@pytest.mark.parametrize("dim", [4, 5, 8])
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_random_programs_equal_the_model(dim: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    s = stream([*program(random, dim, 60)], [], [], HBM)
    state, model = both(s, dim, seed)
    np.testing.assert_array_equal(state.buffers["spad"], model.spad)
    np.testing.assert_array_equal(state.buffers["acc"], model.acc)
    np.testing.assert_array_equal(state.buffers["pe"], np.array(model.pe))
    np.testing.assert_array_equal(state.hbm, model.hbm)


def test_random_programs_reach_every_instruction_and_field() -> None:
    """The generator above is worth its name: what it produces covers stores, pools, both dataflows, both targets."""
    seen: dict[str, set[int]] = {}
    for seed in range(30):
        for i in program(np.random.default_rng(seed), 4, 60):
            for name, value in i.attributes:
                seen.setdefault(f"{i.mnemonic}.{name}", set()).add(int(value))
    assert seen["config_ex.dataflow"] == {OS, WS}
    assert {0, 1, 2, 3} <= seen["config_st.pool_stride"]
    assert {0, 1} == seen["config_ld.shrunk"] == seen["config_st.act"] == seen["config_ex.b_transpose"]
    assert NONE in seen["preload.c"] and NONE in seen["compute_preloaded.a"]
    assert {m.split(".")[0] for m in seen} >= {"mvin", "mvin2", "mvin3", "mvout", "compute_accumulated"}
