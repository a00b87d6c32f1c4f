"""The TAIDL description of Gemmini against a plain model and against vectors recorded from Spike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import State, run, run_state, start
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from tests.support.accelerators.gemmini_model import Model
from tests.support.accelerators.gemmini_streams import (
    ACC,
    ADD,
    FULL,
    NONE,
    ONE,
    OS,
    WS,
    V,
    bits,
    compute,
    config_ex,
    config_ld,
    config_norm,
    config_st,
    mvin,
    mvout,
    preload,
    stream,
    tiled_matmul,
)
from tests.support.examples import examples
from tests.support.oracle.flat_trace import flat_trace

DATA = Path(__file__).parents[2] / "data" / "taidl"


def golden(name: str) -> dict[str, np.ndarray]:
    with np.load(DATA / f"{name}.npz") as data:
        return {k: data[k] for k in data.files}


@pytest.mark.parametrize("dataflow", [OS, WS])
@pytest.mark.parametrize(("dim", "tiles"), [(16, 1), (16, 4), (16, 16), (16, 64), (64, 1), (64, 8), (256, 1)])
def test_tiled_matmul_equals_spike(dim: int, tiles: int, dataflow: int) -> None:
    vectors = golden(f"gemmini_tiled_matmul_dim{dim}_i{tiles}_set0")
    result = run(tiled_matmul(dim, tiles, dataflow), taidl.load("gemmini", dim=dim), {k: vectors[k] for k in "ABD"})
    np.testing.assert_array_equal(result["C"], vectors["C"])


def test_matmul_of_many_tiles_equals_spike() -> None:
    """A corner of a recorded product: 32 x 48 of 784 x 1024, over all of K = 256, partial sums in the accumulator."""
    vectors = golden("gemmini_exo_32x48x256_set0")
    rows, cols, depth = 32, 48, 256
    a, b = vectors["A"], vectors["B"]
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
    np.testing.assert_array_equal(np.clip(c, -128, 127), vectors["C"])
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


def _moved(instruction: Instr, step: int) -> Instr:
    attributes = dict(instruction.attributes)
    if "dram" in attributes and attributes["dram"] != Affine(0):
        attributes["dram"] = attributes["dram"] + V("r") * step
    return Instr(instruction.mnemonic, tuple(attributes.items()))


def both(s: Stream, dim: int, seed: int) -> tuple[State, Model]:
    """The final states of the interpreter and of the model from equal random contents (but for the PEs, zeros)."""
    isa = taidl.load("gemmini", dim=dim, spad_rows=SPAD, acc_rows=ACCS)
    hbm, machine = start(s, isa, {}, poison=seed)
    machine.buffers["pe"][...] = 0
    model = Model(dim, hbm.copy(), machine.buffers["spad"].copy(), machine.buffers["acc"].copy())
    for mnemonic, attributes in flat_trace(s):
        machine.unit(mnemonic, tuple(attributes)).run(tuple(attributes.values()), {})
        model.step(mnemonic, attributes)
    return State(machine.buffers, hbm, machine.registers()), model


@pytest.mark.parametrize("dim", [4, 5, 8])
@given(seed=st.integers(0, 2**32 - 1))
@examples(4, 125)
def test_random_programs_equal_the_model(dim: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    # three rounds, in which the addresses in HBM move on: instances are seen again, and moved
    rounds = Loop("r", 0, 3, 1, tuple(_moved(i, _int(random, 0, 5)) for i in program(random, dim, 40)))
    state, model = both(stream([rounds], [], [], HBM), dim, seed)
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


# --- rules and corners --------------------------------------------------------------------------------------------


def execute(*body: Instr, dim: int = 16, **parameters: int) -> State:
    return run_state(stream(list(body), [], [], HBM), taidl.load("gemmini", dim=dim, **parameters), {}, poison=3)


POOL = {"pool_size": 2, "pool_stride": 2, "pool_out_dim": 2, "porows": 2, "pocols": 2, "orows": 4, "ocols": 4}


@pytest.mark.parametrize(("body", "message"), [
    ([config_ex(2)], r"assert\(dataflow == OS \|\| dataflow == WS\) fails: dataflow = 2, OS = 0, WS = 1"),
    ([config_ex(OS, b_transpose=1)], r"assert\(!\(dataflow == OS && a_transpose == 0 && b_transpose == 1\)\) fails"),
    ([config_ex(WS, a_transpose=1, b_transpose=1)], r"assert\(!\(dataflow == WS && a_transpose == 1 && b_transpose"),
    ([config_ex(OS, sys_shift=32)], r"assert\(0 <= sys_shift && sys_shift <= 31\) fails: sys_shift = 32"),
    ([config_ex(OS, act=2)], r"assert\(act == 0 \|\| act == RELU\) fails"),
    ([config_ex(OS, a_stride=1 << 16)], r"assert\(0 <= a_stride && a_stride <= 65535\) fails"),
    ([config_ld(16, 3)], r"assert\(0 <= channel && channel <= 2\) fails: channel = 3"),
    ([config_ld(-1)], r"assert\(0 <= stride\) fails"),
    ([config_st(16, pool_size=4)], r"assert\(0 <= pool_size && pool_size <= 3\) fails"),
    ([config_st(16, ocols=256)], r"assert\(0 <= orows && .* ocols <= 255\) fails"),
    ([mvin(64, 0, 16, 17)], r"assert\(1 <= rows.* && rows.* <= dim\) fails: rows = 17, dim = 16"),
    ([mvin(64, 0, 65, 16)], r"cols <= max\(dim, dma_bytes // bytes\)\) fails: cols = 65, dim = 16, dma_b"),
    ([mvin(64, ACC, 17, 16)], r"fails: cols = 17, dim = 16, dma_bytes = 64"),
    ([mvin(64, 0, 0, 1)], r"fails: cols = 0"),
    ([mvin(64, NONE + 1, 1, 1)], r"assert\(0 <= local && local <= 4294967295\) fails"),
    ([config_ld(16, block_stride=8), mvin(64, 0, 32, 9)], r"fails: cols = 32, dim = 16, rows = 9, ld_block\[0\] = 8"),
    ([mvin(64, 16384 - 15, 16, 16)], r"\$spad\[.*\] spans 16369\.\.16384, outside of an axis of extent 16384"),
    ([mvin(64, ACC | 1024, 16, 1)], r"\$acc\[.*\] spans 1024\.\.1024, outside of an axis of extent 1024"),
    ([mvin(HBM - 15, 0, 16, 1)], r"\$hbm\[.*\] spans 4081\.\.4096, outside of an axis of extent 4096"),
    ([config_st(15), mvout(64, 0, 16, 2)], r"fails: rows = 2, cols = 16, bytes = 1, st_stride = 15"),
    ([config_st(64), mvout(64, ACC | (1 << 26), 16, 2)], r"fails: command = 1, RESET = 0, .* rows = 2"),
    ([config_st(64), mvout(64, 1 << 26, 16, 1)], r"fails: command = 1, RESET = 0, local = 67108864"),
    ([config_st(64, **POOL), mvout(64, ACC | (1 << 26), 16, 1)], r"fails: command = 1, .* st_pool_stride = 2"),
    ([config_st(64, act=4)], r"assert\(0 <= act && act <= IGELU\) fails: act = 4, IGELU = 3"),
    ([config_st(64, act=2), config_norm(softmax=1)], r"fails: act_msb = 1, st_act = 2, SOFTMAX = 4"),
    ([config_norm(stat_id=4)], r"assert\(0 <= stat_id && stat_id < STATS\) fails: stat_id = 4, STATS = 4"),
    ([config_st(64, act=3, **POOL), mvout(64, ACC, 16, 1)], r"assert\(st_act == 0 \|\| st_act == RELU\) fails"),
    ([config_st(64, **POOL), mvout(64, ACC | FULL, 16, 1)], r"assert\(local >> 31 == 0 \|\| local >> 29 & 1 == 0\)"),
    ([config_st(64, **{**POOL, "pool_out_dim": 1}), mvout(64, ACC, 16, 1)], r"st_pocols <= st_pool_out_dim\) fails"),
    ([preload(1 << 30, NONE, 1, 1, 1, 1)], r"bd <= ROW\) fails: bd = 1073741824"),
    ([preload(0, 0, 17, 1, 1, 1)], r"fails: bd = 0, NONE = 4294967295, bd_cols = 17"),
    ([preload(0, 0, 1, 1, 1, 0)], r"fails: c = 0, NONE = 4294967295, c_cols = 1, dim = 16, c_rows = 0"),
    ([preload(NONE, 0, 1, 1, 1, 1), compute(ACC, NONE, 1, 1, 1, 1)], r"a <= ROW\) fails: a = 2147483648"),
    ([config_ex(WS, c_stride=0), preload(NONE, 0, 1, 1, 1, 2), compute(NONE, NONE, 1, 1, 1, 1)],
     r"assert\(out_rows == 1 \|\| 1 <= ex_c_stride\) fails"),
])
def test_uses_that_the_isa_forbids(body: list[Instr], message: str) -> None:
    with pytest.raises(StreamError, match=message):
        execute(*body)


def test_wide_moves_go_to_blocks_of_rows() -> None:
    """80 columns at dim 32 and 96 DMA bytes: two whole blocks and a tail of 16 columns."""
    body = [config_ld(100, block_stride=40), mvin(100, 8, 80, 3), config_st(96), mvout(2000, 8, 32, 3)]
    state = execute(*body, dim=32, dma_bytes=96)
    before = execute(dim=32, dma_bytes=96)
    for row in range(3):
        line = before.hbm[100 + 100 * row:180 + 100 * row]
        np.testing.assert_array_equal(state.buffers["spad"][8 + row], line[:32])
        np.testing.assert_array_equal(state.buffers["spad"][48 + row], line[32:64])
        np.testing.assert_array_equal(state.buffers["spad"][88 + row, :16], line[64:])
        np.testing.assert_array_equal(state.buffers["spad"][88 + row, 16:], before.buffers["spad"][88 + row, 16:])
        np.testing.assert_array_equal(state.hbm[2000 + 96 * row:2032 + 96 * row], line[:32])


def test_stores_of_several_blocks_come_from_rows_dim_apart() -> None:
    state = execute(config_st(64), mvout(1024, 5, 40, 4))
    for row in range(4):
        blocks = [state.buffers["spad"][5 + 16 * b + row] for b in range(3)]
        np.testing.assert_array_equal(state.hbm[1024 + 64 * row:1064 + 64 * row], np.concatenate(blocks)[:40])


@pytest.mark.parametrize("scale", [1.0, 0.5, 0.0078125, 0.0123, 3.0, -1.0, 0.0, 1e-30, 1e30, float("inf")])
@pytest.mark.parametrize("act", [0, 1])
def test_scaled_stores_of_the_whole_range(scale: float, act: int) -> None:
    """Sums around every half, around powers of two, and at the ends of int32."""
    edges = [0, 1, -1, 127, 128, -128, -129, 2**24 + 1, 2**31 - 1, -(2**31), 12345, -777]
    halves = [round((k + 0.5) / scale) for k in range(-6, 6)] if 0 < abs(scale) < 1e20 else []
    sums = np.array([v for v in edges + halves if -(2**31) <= v < 2**31], np.int64).astype(np.int32)
    sums = np.resize(sums, (2, 16))
    body = [config_ld(64), mvin(64, ACC, 16, 2), config_st(16, act=act, scale=bits(scale)), mvout(1024, ACC, 16, 2)]
    s = stream(body, [HbmTensor("x", 64, (2, 16), "int32")], [HbmTensor("y", 1024, (2, 16), "int8")], HBM)
    y = run(s, taidl.load("gemmini"), {"x": sums})["y"]
    with np.errstate(all="ignore"):
        product = sums.astype(np.float32) * np.float32(scale)
    expected = np.clip(np.rint(np.nan_to_num(product, nan=0.0)), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(y, np.maximum(expected, 0) if act else expected)


@pytest.mark.parametrize("dim", [4, 7, 16, 32])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 1, 1), (3, 5, 7), (4, 4, 4), (13, 9, 17), (33, 16, 20)])
@pytest.mark.parametrize("dataflow", [OS, WS])
def test_ragged_products(dim: int, m: int, n: int, k: int, dataflow: int) -> None:
    """``C = A . B`` in int32 by tiles of any size, with poison around: nothing outside of the tiles is used."""
    rng = np.random.default_rng(dim * m * n * k)
    a, b = (rng.integers(-128, 128, s).astype(np.int8) for s in ((m, k), (k, n)))
    at_b, at_c = 64 + a.size, 64 + a.size + b.size
    body: list[Instr] = [config_ex(dataflow), config_ld(k), config_ld(n, 1), config_st(4 * n)]
    for i in range(0, m, dim):
        for j in range(0, n, dim):
            rows, cols = min(dim, m - i), min(dim, n - j)
            for p in range(0, k, dim):
                depth, last = min(dim, k - p), p + dim >= k
                body += [mvin(64 + i * k + p, 0, depth, rows), mvin(at_b + p * n + j, dim, cols, depth, 1)]
                if dataflow == WS:
                    body += [preload(dim, ACC | (ADD if p else 0), cols, depth, cols, rows),
                             compute(0, NONE, depth, rows, dim, dim)]
                else:
                    body += [preload(NONE, ACC if last else NONE, cols, rows, cols, rows),
                             compute(0, dim, depth, rows, cols, depth, preloaded=p == 0)]
            body.append(mvout(at_c + 4 * (i * n + j), ACC | FULL, cols, rows))
    tensors = [HbmTensor("A", 64, a.shape, "int8"), HbmTensor("B", at_b, b.shape, "int8")]
    s = stream(body, tensors, [HbmTensor("C", at_c, (m, n), "int32")], at_c + 4 * m * n, dim=dim)
    c = run(s, taidl.load("gemmini", dim=dim), {"A": a, "B": b}, poison=1)["C"]
    np.testing.assert_array_equal(c, a.astype(np.int32) @ b.astype(np.int32))
