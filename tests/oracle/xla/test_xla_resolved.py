"""Raising of resolved streams made by hand: floats keep their order, and what the raiser must refuse or limit."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError
from archloom.oracle.resolved import (
    Buffer,
    Op,
    Read,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedStream,
    TensorType,
    Window,
    WindowDim,
    Write,
)
from archloom.oracle.stream import HbmTensor
from archloom.oracle.xla import compile_resolved
from archloom.oracle.xla.notation.limits import Limits

K = Affine.variable("k")
ROW, BYTES = TensorType((4,), "f32"), TensorType((4, 4), "i8")


def floats(address: Affine | int) -> Window:
    """Four f32 in HBM, as bytes."""
    return Window("hbm", (Affine.of(address),), (WindowDim(0, 4, 4), WindowDim(0, 4, 1)))


REGISTER = Window("r", (Affine(0),), (WindowDim(0, 4, 1),))


def instr(*statements) -> ResolvedInstr:
    return ResolvedInstr("step", (), (), tuple(statements), 0)


def load(address: Affine | int, to: str) -> list:
    return [Read(f"{to}.bytes", floats(address), BYTES), Op(to, "bitcast_convert", (f"{to}.bytes",), (), ROW)]


def sums(n: int, hbm_bytes: int = 4096) -> ResolvedStream:
    """r = 0; for k: r += x[k]; y = r, on rows of four f32."""
    clear = instr(Op("z", "constant", (), (("value", 0),), ROW), Write("z", REGISTER, ROW))
    add = instr(*load(K * 16 + 64, "x"), Read("old", REGISTER, ROW), Op("new", "add", ("old", "x"), (), ROW),
                Write("new", REGISTER, ROW, "accumulate"))
    store = instr(Read("r", REGISTER, ROW), Op("b", "bitcast_convert", ("r",), (), BYTES),
                  Write("b", floats(2048), BYTES))
    return ResolvedStream(
        "sums", "by hand", (), (Buffer("hbm", (hbm_bytes,), "i8"), Buffer("r", (4,), "f32")),
        (HbmTensor("x", 64, (n, 4), "float32"),), (HbmTensor("y", 2048, (4,), "float32"),), hbm_bytes,
        (clear, ResolvedLoop("k", n, (add,)), store))


def values(n: int) -> np.ndarray:
    """Numbers whose float32 sum depends on the order."""
    return (np.random.default_rng(0).standard_normal((n, 4)) * 10.0 ** (np.arange(n) % 9)[:, None]).astype(np.float32)


def in_order(x: np.ndarray) -> np.ndarray:
    total = np.zeros(4, np.float32)
    for row in x:
        total = total + row
    return total


def test_floating_point_sums_keep_the_streams_order():
    oracle, x = compile_resolved(sums(100)), values(100)
    assert oracle.report.raised and oracle.report.results[0].operations == ("chain of 100 over 4",)
    assert np.array_equal(np.asarray(oracle(x)[0]), in_order(x))


def test_reassociation_is_an_option_that_the_report_names():
    oracle, x = compile_resolved(sums(100), reassociate=True), values(100)
    assert oracle.report.raised and "floating-point sums reordered" in str(oracle.report)
    # in whatever order: half a unit of the last place of each partial sum at most, and nothing where sums are exact
    bound = 100 * np.finfo(np.float32).eps / 2 * np.abs(x).sum(0, dtype=np.float64)
    assert (np.abs(np.asarray(oracle(x)[0]) - x.sum(0, dtype=np.float64)) <= bound).all()
    whole = np.random.default_rng(1).integers(-(1 << 16), 1 << 16, (100, 4)).astype(np.float32)
    assert np.array_equal(np.asarray(oracle(whole)[0]), whole.sum(0))


def test_loops_need_32_bit_addresses():
    with pytest.raises(InputError, match="sums runs as loops over its buffers, because .* 2147483648 bytes of HBM"):
        compile_resolved(sums(4, 1 << 31), raising=False)


def test_a_stream_of_too_many_pieces_runs_as_loops():
    oracle = compile_resolved(sums(4), reassociate=True, limits=Limits(steps=3))
    assert oracle.report.results[0].reason == "its reads fall into too many pieces"
    x = values(4)
    assert np.array_equal(np.asarray(oracle(x)[0]), in_order(x))
