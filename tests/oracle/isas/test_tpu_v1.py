"""TPU v1: the TAIDL paper's figures 4 and 6, the FIFO's assertions, and every instruction against NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.oracle.errors import StreamError
from archloom.oracle.interpreter import run_state
from archloom.oracle.kernel import Kernel, KernelIsa, isa
from archloom.oracle.taidl import load
from examples.tpu_v1_kernels import (
    bits,
    conv_pool,
    conv_pool_reference,
    gemm,
    gemm_reference,
    mlp,
    mlp_reference,
    packed,
    quantized,
)
from tests.support.examples import every, slow


def values(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def tpu(dim: int = 4) -> KernelIsa:
    return isa("tpu_v1", dim=dim)


def same(kernel: Kernel, *given: np.ndarray) -> np.ndarray:
    """What the oracle gives, which is what the interpreter gives."""
    found = kernel.run(*given)
    np.testing.assert_array_equal(kernel.interpret(*given, poison=1), found)
    return found


def test_storage_is_that_of_figure_4() -> None:
    whole = load("tpu_v1")
    shapes = {name: (b.shape, b.dtype) for name, b in ((n, whole.buffer(n)) for n in (
        "unified_buffer", "accumulator", "weights", "fifo"))}
    assert shapes == {
        "unified_buffer": ((96 << 10, 256), "i8"), "accumulator": ((4 << 10, 256), "i32"),
        "weights": ((256, 256), "i8"), "fifo": ((4, 256, 256), "i8"),
    }


def test_read_weights_is_that_of_figure_6() -> None:
    t = tpu()
    w = values(0, 3, 4, 4)

    @t.kernel(arg={"addr": 5, "shape": (3, 4, 4), "dtype": "int8", "name": "W"})
    def reads() -> None:
        with t.loop(3) as i:
            t.api.read_weights(addr=5 + 16 * i)

    state = run_state(reads.stream, load("tpu_v1", dim=4), {"W": w})
    np.testing.assert_array_equal(state.buffers["fifo"][:3], w)
    assert {name: state.registers[name] for name in ("occupancy", "push", "pop")} == {
        "occupancy": 3, "push": 3, "pop": 0}


def fails(kernel: Kernel) -> str:
    with pytest.raises(StreamError) as caught:
        kernel.compile()
    return str(caught.value)


def test_an_overflow_names_instruction_place_iteration_and_values() -> None:
    t = tpu()

    @t.kernel(size=200)
    def five() -> None:
        with t.loop(5) as i:
            t.api.read_weights(addr=16 * i)

    message = fails(five)
    assert "loop i / instr 0 read_weights: assert(occupancy < TILES) is violated" in message
    assert "occupancy = 4" in message and "(for i = 4)" in message and "test_tpu_v1.py" in message


def test_an_underflow_names_instruction_place_iteration_and_values() -> None:
    t = tpu()

    @t.kernel(size=200)
    def twice() -> None:
        t.api.read_weights(addr=0)
        with t.loop(2) as i:
            t.api.matrix_multiply(ub=i, acc=0, rows=1, take=1, accumulate=0)

    message = fails(twice)
    assert "matrix_multiply: assert(occupancy > 0) is violated: occupancy = 0 (for i = 1)" in message

    @t.kernel(size=200)
    def none() -> None:
        t.api.convolve(ub=0, row_step=1, pixel_step=1, acc=0, height=1, width=1, take=0, accumulate=0)

    assert "instr 0 convolve: assert(taken == 1) is violated: taken = 0" in fails(none)


def test_a_fifo_that_runs_over_after_many_iterations_is_found() -> None:
    """A leak of one tile in every round of a loop that never unrolls."""
    t = tpu()

    @t.kernel(size=16000)
    def leak() -> None:
        with t.loop(100) as i:
            with t.loop(4) as j:
                t.api.read_weights(addr=64 * i + 16 * j)
            with t.loop(3) as j:
                t.api.matrix_multiply(ub=0, acc=j, rows=1, take=1, accumulate=0)

    assert "read_weights: assert(occupancy < TILES) is violated" in fails(leak)


@pytest.mark.slow
@settings(max_examples=6, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 1), st.integers(0, 99))
def test_strided_tiles_biases_and_kept_weights(rows: int, cols: int, height: int, function: int, seed: int) -> None:
    """Tiles that are cut out of a matrix, sums that start from a bias, two products with one tile."""
    t = tpu()
    a, b, bias = values(seed, height, 4), values(seed + 1, 4, 6), np.array([1000, -1000, 7, -(1 << 20)], np.int32)

    @t.kernel(
        arg=[{"addr": 0, "shape": (height, 4), "dtype": "int8"}, {"addr": 32, "shape": (4, 6), "dtype": "int8"},
             {"addr": 64, "shape": (4,), "dtype": "int32"}],
        res={"addr": 128, "shape": (height, cols), "dtype": "int8"},
    )
    def product() -> None:
        t.api.read_host_memory(addr=0, ub=3, rows=height, cols=rows, stride=4)
        t.api.read_bias(addr=64, acc=1, rows=height, cols=cols)
        t.api.read_weights_strided(addr=33, rows=rows, cols=cols, stride=6)
        t.api.matrix_multiply(ub=3, acc=1, rows=height, take=1, accumulate=1)
        t.api.matrix_multiply(ub=3, acc=1, rows=height, take=0, accumulate=1)
        t.api.activate(acc=1, ub=20, rows=height, function=function, scale=bits(0.01))
        t.api.write_host_memory(addr=128, ub=20, rows=height, cols=cols, stride=cols)

    sums = 2 * (a[:, :rows].astype(np.int32) @ b[:rows, 1:1 + cols]) + bias[:cols]
    np.testing.assert_array_equal(same(product, a, b, bias), quantized(sums, 0.01, function == 1))


SIZES = [
    (4, 1, 1, 1, {}), (4, 9, 13, 17, {}), (4, 9, 13, 17, {"ahead": 0}), (4, 30, 32, 32, {"acc_rows": 8, "ahead": 2}),
    (8, 40, 16, 24, {"ub_rows": 64}), (256, 20, 300, 520, {}),
]


@pytest.mark.first_case
@pytest.mark.parametrize(("dim", "m", "n", "k", "sizes"), every(2, SIZES), ids=str)
def test_products_by_hand(dim: int, m: int, n: int, k: int, sizes: dict[str, int]) -> None:
    kernel = gemm(m, n, k, dim, scale=1 / 64, relu=bool(m % 2), **sizes)
    a, b = values(m, m, k), values(n, k, n)
    np.testing.assert_array_equal(same(kernel, a, packed(b, dim)), gemm_reference(a, b, 1 / 64, bool(m % 2)))


@pytest.mark.slow
@pytest.mark.parametrize("ahead", [slow(0), 1, slow(3)])
def test_chains_of_layers_by_hand(ahead: int) -> None:
    widths, scales = (9, 13, 30, 3), (1 / 64, 1 / 100, 1 / 32)
    kernel = mlp(5, widths, scales, 4, ahead=ahead)
    weights = [values(i, k, n) for i, (k, n) in enumerate(pairwise(widths))]
    x = values(9, 5, 9)
    found = same(kernel, x, *(packed(w, 4) for w in weights))
    np.testing.assert_array_equal(found, mlp_reference(x, weights, scales))


@pytest.mark.slow
def test_a_convolution_with_pooling_is_raised() -> None:
    kernel = conv_pool(7, 9, 3, 4, scale=1 / 64)
    x, w = values(0, 7, 9, 4), values(1, 3, 3, 4, 4)
    np.testing.assert_array_equal(same(kernel, x, w), conv_pool_reference(x, w, 1 / 64))
    assert kernel.report.raised


def test_tiles_taken_as_they_come_are_raised_to_one_product() -> None:
    """The FIFO, the buffers and the loops over tiles vanish."""
    kernel = gemm(9, 32, 64, 4, ahead=0, acc_rows=8)
    assert "raised to dot 9x32x64 int8 x int8 -> i32" in str(kernel.report)


def test_loops_stay_loops() -> None:
    small, large = (gemm(64, n, 64, 4, acc_rows=32) for n in (64, 4096))
    assert large.stream.count() > 50 * small.stream.count()
    assert len(large.stream.body) == len(small.stream.body)


def test_what_is_no_fifo_is_refused() -> None:
    t = tpu()

    def with_flags(take: int, accumulate: int) -> Kernel:
        @t.kernel(size=64)
        def wrong() -> None:
            t.api.read_weights(addr=0)
            t.api.matrix_multiply(ub=0, acc=0, rows=1, take=take, accumulate=accumulate)

        return wrong

    for flags in ((2, 0), (1, -1)):
        assert "instr 1 matrix_multiply: assert(" in fails(with_flags(*flags))
