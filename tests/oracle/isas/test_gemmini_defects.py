"""What TAIDL's own Gemmini oracle does wrong, each done right here: by the interpreter and by the XLA oracle alike."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from archloom.oracle.errors import StreamError
from archloom.oracle.kernel import Kernel, KernelIsa, isa
from examples.gemmini_kernels import ACC, ADD, BASE, FULL, config_ex, config_ld, config_st

DIM = 4


def gemmini() -> KernelIsa:
    return isa("gemmini", dim=DIM, spad_rows=64, acc_rows=16)


def both(kernel: Kernel, *arrays: np.ndarray) -> Any:
    """The result, the same by the interpreter and by XLA."""
    right = kernel.interpret(*arrays)
    np.testing.assert_array_equal(kernel.run(*arrays), right)
    return right


def bits(scale: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", scale))[0])


def tensor(name: str, addr: int, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    return {"name": name, "addr": addr, "shape": shape, "dtype": dtype}


# --- a repeating bias is the same in all rows, not in all columns ------------------------------------------------


@pytest.mark.parametrize("dtype", ["int32", "int8"])
def test_a_repeating_bias_repeats_along_the_rows(dtype: str) -> None:
    g, width = gemmini(), np.dtype(dtype).itemsize

    @g.kernel(arg=[tensor("bias", BASE, (DIM,), dtype)], res=[tensor("out", 256, (DIM, DIM), "int32")])
    def broadcast() -> None:
        config_ld(g, 0, 0, shrunk=int(width == 1))
        config_st(g, 4 * DIM)
        g.api.mvin(BASE, ACC, DIM, DIM)
        g.api.mvout(256, ACC + FULL, DIM, DIM)

    bias = np.array([1, -2, 30, -44], dtype)
    np.testing.assert_array_equal(both(broadcast, bias), np.tile(bias.astype(np.int32), (DIM, 1)))


def test_a_repeating_bias_is_added_to_each_row_of_a_product() -> None:
    g = gemmini()
    square = DIM * DIM
    a, b, bias, c = BASE, BASE + square, BASE + 2 * square, BASE + 2 * square + 4 * DIM

    @g.kernel(
        arg=[tensor("A", a, (DIM, DIM), "int8"), tensor("B", b, (DIM, DIM), "int8"),
             tensor("bias", bias, (DIM,), "int32")],
        res=[tensor("C", c, (DIM, DIM), "int32")])
    def biased() -> None:
        config_ex(g, "WS")
        config_ld(g, 0, DIM)
        config_ld(g, 1, 0)
        config_st(g, 4 * DIM)
        g.api.mvin2(bias, ACC, DIM, DIM)
        g.api.mvin(a, 0, DIM, DIM)
        g.api.mvin(b, DIM, DIM, DIM)
        g.api.preload(DIM, ACC + ADD, DIM, DIM, DIM, DIM)
        g.api.compute_preloaded(0, g.NONE, DIM, DIM, DIM, DIM)
        g.api.mvout(c, ACC + FULL, DIM, DIM)

    random = np.random.default_rng(0)
    x, y = (random.integers(-128, 128, (DIM, DIM), dtype=np.int8) for _ in "AB")
    row = np.array([1000, -2000, 3, 1 << 20], np.int32)
    np.testing.assert_array_equal(both(biased, x, y, row), x.astype(np.int32) @ y.astype(np.int32) + row)


# --- an address outside of HBM is refused, not clamped -----------------------------------------------------------


def copying(source: Any, target: int = 80) -> Callable[[], Kernel]:
    def make() -> Kernel:
        g = gemmini()

        @g.kernel(size=96, arg=[tensor("X", BASE, (DIM, DIM), "int8")], res=[tensor("Y", 80, (DIM, DIM), "int8")])
        def copy() -> None:
            config_ld(g, 0, DIM)
            config_st(g, DIM)
            with g.loop(3) as i:
                g.api.mvin(source(i) if callable(source) else source, 0, DIM, DIM)
            g.api.mvout(target, 0, DIM, DIM)

        return copy

    return make


@pytest.mark.parametrize(("make", "message"), [
    (copying(84), r"reads bytes 84\.\.99 of HBM, outside its 96 bytes"),
    (copying(1 << 40), "outside its 96 bytes"),
    (copying(lambda i: 64 + 10 * i), r"reads bytes 84\.\.99 of HBM.*i = 2"),
    (copying(BASE, 92), r"writes bytes 92\.\.107 of HBM"),
    (copying(-4), "HBM"),
])
def test_an_address_outside_of_hbm_is_refused(make: Callable[[], Kernel], message: str) -> None:
    x = np.ones((DIM, DIM), np.int8)
    with pytest.raises(StreamError, match=message):
        make().run(x)
    with pytest.raises(StreamError, match="outside of an axis of extent 96"):
        make().interpret(x)


def test_the_last_bytes_of_hbm_can_be_reached() -> None:
    x = np.arange(DIM * DIM, dtype=np.int8).reshape(DIM, DIM)
    np.testing.assert_array_equal(both(copying(BASE)(), x), x)


# --- assertions are checked when a kernel is compiled, and name the place and the values -------------------------


@pytest.mark.parametrize(("call", "message"), [
    (lambda g: g.api.mvin(BASE, 0, DIM, DIM + 1), r"mvin.*rows <= dim.*rows = 5"),
    (lambda g: g.api.mvin(BASE, 0, 65, 1), r"mvin.*cols <= max\(dim, dma_bytes // bytes.*cols = 65"),
    (lambda g: g.api.config_ex(2, 0, 0, 0, 0, 1, 1, 0), r"config_ex.*dataflow = 2"),
    (lambda g: g.api.preload(ACC, 8, DIM, DIM, DIM, DIM), r"preload.*bd <= ROW.*bd = 2147483648"),
    (lambda g: g.api.mvin(BASE, 63, DIM, DIM), r"mvin.*spad"),
])
def test_assertions_are_checked(call: Callable[[KernelIsa], None], message: str) -> None:
    g = gemmini()

    @g.kernel(arg=[tensor("X", BASE, (256,), "int8")], res=[tensor("Y", 512, (DIM, DIM), "int8")])
    def wrong() -> None:
        config_ld(g, 0, DIM)
        config_st(g, DIM)
        call(g)
        g.api.mvout(512, 0, DIM, DIM)

    with pytest.raises(StreamError, match=f"(?s){message}") as refused:
        wrong.compile()
    assert "test_gemmini_defects.py:" in str(refused.value)
    with pytest.raises(StreamError):
        wrong.interpret(np.ones(256, np.int8))


# --- scaled values are rounded half to even -----------------------------------------------------------------------


def halves() -> np.ndarray:
    """Odd values, whose halves lie between two integers."""
    return np.array([1, 3, 5, -1, -3, -5, 7, -7, 9, 127, -127, 2, 4, 0, -128, 11], np.int8).reshape(DIM, DIM)


def test_mvin_rounds_half_to_even() -> None:
    g = gemmini()

    @g.kernel(arg=[tensor("X", BASE, (DIM, DIM), "int8")], res=[tensor("Y", 128, (DIM, DIM), "int8")])
    def halved() -> None:
        g.api.config_ld(0, DIM, bits(0.5), 0, DIM)
        config_st(g, DIM)
        g.api.mvin(BASE, 0, DIM, DIM)
        g.api.mvout(128, 0, DIM, DIM)

    want = np.rint(halves() * 0.5).astype(np.int8)
    assert want.flat[0] == 0 and want.flat[1] == 2 and want.flat[3] == 0
    np.testing.assert_array_equal(both(halved, halves()), want)


def test_mvout_rounds_half_to_even_and_saturates() -> None:
    g = gemmini()

    @g.kernel(arg=[tensor("X", BASE, (DIM, DIM), "int32")], res=[tensor("Y", 192, (DIM, DIM), "int8")])
    def scaled() -> None:
        config_ld(g, 0, 4 * DIM)
        g.api.config_st(DIM, 0, bits(0.5), 0, 0, 0, 0, 0, 0, 0, 0, 0)
        g.api.mvin(BASE, ACC, DIM, DIM)
        g.api.mvout(192, ACC, DIM, DIM)

    x = halves().astype(np.int32)
    x[3] = [255, -257, 1 << 30, -(1 << 31)]
    np.testing.assert_array_equal(both(scaled, x), np.clip(np.rint(x * 0.5), -128, 127).astype(np.int8))


# --- nothing is left over from one call to the next ---------------------------------------------------------------


def test_a_call_begins_with_zeros() -> None:
    """Scratchpads that are not written read as zeros in every call, whatever an earlier call left."""
    g = gemmini()

    @g.kernel(arg=[tensor("X", BASE, (DIM, DIM), "int8")], res=[tensor("Y", 128, (2 * DIM, DIM), "int8")])
    def spill() -> None:
        config_ld(g, 0, DIM)
        config_st(g, DIM)
        g.api.mvout(128, 0, DIM, DIM)
        g.api.mvin(BASE, 0, DIM, DIM)
        g.api.mvout(128 + DIM * DIM, 0, DIM, DIM)

    for value in (7, -3):
        x = np.full((DIM, DIM), value, np.int8)
        np.testing.assert_array_equal(both(spill, x), np.concatenate([np.zeros_like(x), x]))
