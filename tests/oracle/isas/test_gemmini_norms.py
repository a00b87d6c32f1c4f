"""Gemmini's GELU, layer norm and softmax against plain models: I-BERT's formulas, and Gemmini's statistics of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.interpreter import run, start
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from archloom.oracle.xla import compile_stream
from tests.support.accelerators import ibert_model as ibert
from tests.support.accelerators.gemmini_model import (
    IGELU,
    INV_STDDEV,
    INV_SUM_EXP,
    LAYERNORM,
    MAX,
    MEAN,
    SUM,
    SUM_EXP,
    VARIANCE,
    Model,
)
from tests.support.accelerators.gemmini_streams import (
    ACC,
    ADD,
    ONE,
    V,
    bits,
    config_ld,
    config_norm,
    config_st,
    mvin,
    mvout,
    stream,
)
from tests.support.examples import every, examples
from tests.support.oracle.flat_trace import flat_trace

HBM = 8192
PASSES = {LAYERNORM: ((SUM, MEAN), (VARIANCE, INV_STDDEV)), 4: ((MAX, MAX), (SUM_EXP, INV_SUM_EXP))}
NAMES = {LAYERNORM: "layernorm", IGELU: "gelu", 4: "softmax"}


def oracles(s: Stream, dim: int, x: np.ndarray, *, loops: bool = True, **parameters: int) -> np.ndarray:
    """Y of X by the interpreter, the oracle and, if asked for, its loops, which must agree."""
    isa = taidl.load("gemmini", dim=dim, **parameters)
    y = run(s, isa, {"X": x}, poison=1)["Y"]
    for raising in (True, False) if loops else (True,):
        oracle = compile_stream(s, isa, raising=raising)
        assert oracle.raised == raising
        np.testing.assert_array_equal(np.asarray(oracle(x)[0]), y)
    return y


def rows_of(act: int, x: np.ndarray, dim: int, scale: float, k: ibert.Constants, wide: int = 1) -> np.ndarray:
    """A stream for ``act`` over the rows of X int32[rows, cols], ``wide`` tiles to an mvout, run by all oracles."""
    rows, cols = x.shape
    tiles = [(at, min(wide * dim, cols - at)) for at in range(0, cols, wide * dim)]
    body: list[Instr | Loop] = [config_ld(4 * cols, block_stride=dim),
                                config_st(cols, act=act % 4, scale=bits(scale))]
    body += [config_norm(k.ln2, 0, softmax=act // 4, b=k.b, c=k.c),
             config_norm(k.ln2_inv, 1, softmax=act // 4, b=k.b, c=k.c)]
    out = 64 + 4 * x.size
    load = [mvin(64 + 4 * at + 4 * cols * V("i"), ACC | at, min(dim, cols - at), 1) for at in range(0, cols, dim)]
    commands = [(last if at == tiles[-1][0] else between) << 26 | ACC | at
                for between, last in (*PASSES.get(act, ()), (0, 0)) for at, _ in tiles]
    widths = [width for _ in (*PASSES.get(act, ()), 0) for _, width in tiles]
    places = [at for _ in (*PASSES.get(act, ()), 0) for at, _ in tiles]
    store = [mvout(out + cols * V("i") + at, local, width, 1)
             for at, local, width in zip(places, commands, widths, strict=True)]
    body.append(Loop("i", 0, rows, 1, (*load, *store)))
    sizes = {"dim": dim, "acc_rows": max(64, -(-cols // dim) * dim), "dma_bytes": max(64, wide * dim)}
    s = stream(body, [HbmTensor("X", 64, x.shape, "int32")], [HbmTensor("Y", out, x.shape, "int8")], out + x.size,
               **sizes)
    return oracles(s, **sizes, x=x, loops=cols == 13)


SHAPES = [(1, 1, 4, 1), (3, 4, 4, 1), (2, 7, 5, 1), (3, 13, 4, 1), (2, 24, 4, 1), (2, 21, 4, 3), (2, 40, 16, 2)]
"""Rows, columns, dim, tiles to an mvout."""


def magnitudes(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Integers of all sizes, those at the ends of int32 among them."""
    x = random.integers(-(2**31), 2**31, shape) >> random.integers(0, 31, shape)
    return np.where(random.random(shape) < 0.1, random.choice([-(2**31), 2**31 - 1, 0, -1], shape), x).astype(np.int32)


@pytest.mark.first_case
@pytest.mark.parametrize(("rows", "cols", "dim", "wide"), every(2, SHAPES))
def test_softmax(rows: int, cols: int, dim: int, wide: int) -> None:
    random = np.random.default_rng(rows * cols * dim)
    x = random.integers(-4000, 4000, (rows, cols)).astype(np.int32)
    k = ibert.exponential_constants(1e-3)
    y = rows_of(4, x, dim, 1.0, k, wide)
    np.testing.assert_array_equal(y, ibert.softmax(x, k))
    powers = np.exp((x - x.max(1, keepdims=True)) * 1e-3)
    assert np.abs(y / 127 - powers / powers.sum(1, keepdims=True)).max() < 0.01


@pytest.mark.first_case
@pytest.mark.parametrize(("rows", "cols", "dim", "wide"), every(2, SHAPES))
def test_layer_norm(rows: int, cols: int, dim: int, wide: int) -> None:
    random = np.random.default_rng(rows * cols * dim)
    x = random.integers(-(2**13), 2**13, (rows, cols)).astype(np.int32)
    y = rows_of(LAYERNORM, x, dim, 21.0, ibert.Constants(), wide)
    np.testing.assert_array_equal(y, ibert.to_int8(ibert.layer_norm(x), np.float32(21)))
    if cols > 10:
        exact = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
        assert np.abs(y / 21 - exact).max() < 1.01


@pytest.mark.slow
def test_layer_norm_of_equal_elements() -> None:
    """A variance of 0 counts as 1."""
    x = np.full((2, 9), -77, np.int32)
    np.testing.assert_array_equal(rows_of(LAYERNORM, x, 4, 64.0, ibert.Constants()), np.zeros((2, 9)))


@pytest.mark.first_case
@pytest.mark.parametrize(("rows", "cols", "dim", "wide"), every(3, SHAPES[2:]))
@pytest.mark.parametrize("unit", [0.1, 0.02])
def test_gelu(rows: int, cols: int, dim: int, wide: int, unit: float) -> None:
    random = np.random.default_rng(rows * cols * dim)
    x = (random.uniform(-4, 4, (rows, cols)) / unit).astype(np.int32)
    k = ibert.gelu_constants(unit)
    product = -0.2888 * unit**3 / 4  # what 1 of the product stands for
    y = rows_of(IGELU, x, dim, product / 0.05, k, wide)
    np.testing.assert_array_equal(y, ibert.to_int8(ibert.gelu(x, k), np.float32(product / 0.05)))
    real = x * unit
    exact = real * 0.5 * (1 + np.tanh(np.sqrt(2 / np.pi) * (real + 0.044715 * real**3)))
    assert np.abs(y * 0.05 - exact).max() < 0.05 / 2 + 0.02 + unit


@pytest.mark.first_case
@pytest.mark.parametrize("act", [LAYERNORM, IGELU, 4])
@given(seed=st.integers(0, 2**32 - 1))
@examples(1, 30)
def test_any_numbers_and_constants(act: int, seed: int) -> None:
    """Numbers that wrap, constants without meaning, halvings by any number: all oracles and the formulas agree."""
    random = np.random.default_rng(seed)
    x = magnitudes(random, (2, 9))
    b, c, ln2, ln2_inv = (int(v) for v in magnitudes(random, (4,)))
    k, scale = ibert.Constants(b, c, ln2, ln2_inv), float(2.0 ** random.integers(-30, 8))
    made = {LAYERNORM: lambda: ibert.layer_norm(x), IGELU: lambda: ibert.gelu(x.astype(np.int64), k),
            4: lambda: ibert.softmax(x, k)}
    if act == LAYERNORM:
        x >>= 18  # squares whose sum wraps have no standard deviation
    np.testing.assert_array_equal(rows_of(act, x, 4, scale, k), ibert.to_int8(made[act](), np.float32(scale)))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 15, 16, 17, 2**16, 2**31 - 1, 46340**2, 46340**2 - 1])
def test_square_roots_of_the_paper_are_those_of_doubles(n: int) -> None:
    assert ibert.square_root(n) == int(np.sqrt(np.float64(n)))


# --- statistics in any order ----------------------------------------------------------------------------------------


def program(random: np.random.Generator, dim: int, length: int) -> list[Instr]:
    """Configurations, loads, commands to any statistics and stores in any order."""
    body = [config_ld(4 * dim + 9, block_stride=dim), config_st(64), config_norm(693, 0, b=1353, c=959553)]
    for _ in range(length):
        which = int(random.integers(0, 10))
        if which == 0:
            b, c, q = (int(v) for v in magnitudes(random, (3,)))
            body += [config_st(64), config_norm(q, int(random.integers(2)), b=b, c=c, stat_id=int(random.integers(4)))]
        elif which == 1:
            body += [config_st(64), config_norm(94, 1, b=1353, c=959553)]
            body.append(config_norm(693, 0, b=1353, c=959553, softmax=1))
        elif which == 2:
            body.append(config_norm(stat_id=int(random.integers(4)), only_id=1))
        elif which == 3:
            # the activation 0 leaves softmax on: another one first
            scale = (ONE, bits(0.37), bits(2.0**-20))[int(random.integers(3))]
            body += [config_st(64, act=1), config_st(64, act=int(random.integers(4)), scale=scale)]
        elif which == 4:
            local = ACC | ADD * int(random.integers(2)) | int(random.integers(2 * dim))
            body.append(mvin(int(random.integers(1, HBM // 2)), local, int(random.integers(1, dim + 1)), 1))
        else:
            command = int(random.integers(8))
            rows = 1 if command else int(random.integers(1, dim + 1))
            local = ACC | command << 26 | int(random.integers(dim))
            body.append(mvout(int(random.integers(HBM // 2, HBM - 1024)), local, int(random.integers(1, 2 * dim + 3)),
                              rows))
    return body


@pytest.mark.slow
@pytest.mark.parametrize("dim", [4, 5])
@given(seed=st.integers(0, 2**32 - 1))
@examples(5, 150)
def test_commands_in_any_order_equal_the_model(dim: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    s = stream(list(program(random, dim, 60)), [], [], HBM)
    isa = taidl.load("gemmini", dim=dim, spad_rows=64, acc_rows=64)
    hbm, machine = start(s, isa, {}, poison=seed)
    for name, buffer in machine.buffers.items():
        if name.startswith("stat"):
            buffer[...] = 0
    acc = machine.buffers["acc"]
    acc >>= random.integers(0, 28, acc.shape).astype(acc.dtype)
    model = Model(dim, hbm.copy(), machine.buffers["spad"].copy(), acc.copy())
    for mnemonic, attributes in flat_trace(s):
        with np.errstate(all="ignore"):
            machine.unit(mnemonic, tuple(attributes)).run(tuple(attributes.values()), {})
        model.step(mnemonic, attributes)
    np.testing.assert_array_equal(hbm, model.hbm)
    np.testing.assert_array_equal(machine.buffers["acc"], model.acc)


@pytest.mark.slow
def test_two_rows_take_turns() -> None:
    """Statistics of two rows at a time, as Gemmini's own software gathers them to keep the pipeline busy."""
    x = np.random.default_rng(0).integers(-3000, 3000, (2, 8)).astype(np.int32)
    k = ibert.exponential_constants(1e-3)
    body: list[Any] = [config_ld(32, block_stride=4), config_st(8), mvin(64, ACC, 4, 2), mvin(80, ACC | 4, 4, 2),
                       config_norm(k.ln2, 0, softmax=1, b=k.b, c=k.c), config_norm(k.ln2_inv, 1, b=k.b, c=k.c)]
    for between, last in (*PASSES[4], (0, 0)):
        for row in range(2):
            body.append(config_norm(stat_id=row, only_id=1))
            body += [mvout(128 + 8 * row + at, ACC | (last if at else between) << 26 | at + row, 4, 1) for at in (0, 4)]
    s = stream(body, [HbmTensor("X", 64, x.shape, "int32")], [HbmTensor("Y", 128, x.shape, "int8")], 144, dim=4)
    np.testing.assert_array_equal(oracles(s, 4, x), ibert.softmax(x, k))
