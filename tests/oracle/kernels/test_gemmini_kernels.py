"""The hand-written Gemmini kernels: instruction counts, raising, and results against NumPy and the interpreter."""

from __future__ import annotations

from collections import Counter
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.assembly import parse, to_text
from archloom.oracle.errors import TargetError
from archloom.oracle.interpreter import run
from archloom.oracle.kernel import Kernel
from archloom.oracle.stream import Loop, Node
from archloom.oracle.taidl import load
from examples.gemmini_kernels import EXO_SIZES, Dataflow, exo_matmul, exo_reference, tiled_matmul, tiled_reference
from tests.support.examples import every, examples

PAPER_EXO_COUNTS = {
    (12544, 64, 256): 131713, (12544, 256, 64): 141121, (784, 1024, 256): 122305, (3136, 512, 128): 128577,
    (3136, 128, 512): 119169, (512, 512, 512): 77825,
}
"""Dynamic instructions of the kernels of the TAIDL paper's artifact; moves carry their strides there."""
STRIDES = {"config_ld", "config_st"}


def counts(kernel: Kernel) -> Counter[str]:
    """How many instances of each instruction run."""
    found: Counter[str] = Counter()

    def walk(nodes: tuple[Node, ...], times: int) -> None:
        for node in nodes:
            if isinstance(node, Loop):
                walk(node.body, times * node.extent)
            else:
                found[node.mnemonic] += times  # type: ignore[union-attr]

    walk(kernel.stream.body, 1)
    return found


def inputs(kernel: Kernel, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.integers(-128, 128, t.shape, dtype=np.int8) for t in kernel.arguments]


def raised(kernel: Kernel, given: list[np.ndarray]) -> np.ndarray:
    assert kernel.report.raised
    return kernel.run(*given)


def interpreted(kernel: Kernel, given: list[np.ndarray]) -> np.ndarray:
    arguments = {t.name: x for t, x in zip(kernel.arguments, given, strict=True)}
    return run(kernel.stream, kernel.isa, arguments, poison=1)["C"]


@pytest.mark.parametrize("tiles", [1, 2, 16, 256])
def test_tiled_matmul_runs_the_paper_s_instructions(tiles: int) -> None:
    output = counts(tiled_matmul(16, tiles, "OS"))
    weight = counts(tiled_matmul(16, tiles, "WS"))
    moves = {"mvin": 2 * tiles + 1, "mvout": tiles, "preload": tiles, "config_ex": 1}
    strides = {"config_ld": 1, "config_st": 1}
    assert output == Counter({**moves, "compute_preloaded": tiles, **strides})
    assert weight == Counter({**moves, "compute_preloaded": 1, "compute_accumulated": tiles - 1, **strides})


@pytest.mark.parametrize("size", EXO_SIZES)
def test_exo_kernels_run_the_paper_s_instructions(size: tuple[int, int, int]) -> None:
    kernel = exo_matmul(*size, out="int8", partials=size == (12544, 64, 256))
    found = counts(kernel)
    assert sum(n for k, n in found.items() if k not in STRIDES) == PAPER_EXO_COUNTS[size]
    assert found["config_ld"] == 3 and found["config_st"] == 1


@pytest.mark.first_case
@pytest.mark.parametrize("dataflow", ["OS", "WS"])
@pytest.mark.parametrize(("dim", "tiles"), every(3, [
    (4, 1), (5, 3), (16, 1), (16, 9), (64, 2), (100, 2), (256, 1)]))
def test_tiled_matmul(dim: int, tiles: int, dataflow: Dataflow) -> None:
    kernel = tiled_matmul(dim, tiles, dataflow)
    given = inputs(kernel)
    want = tiled_reference(*given)
    np.testing.assert_array_equal(interpreted(kernel, given), want)
    np.testing.assert_array_equal(raised(kernel, given), want)


@pytest.mark.parametrize("dataflow", ["OS", "WS"])
@pytest.mark.parametrize(("dim", "tiles"), [(16, 256), (64, 64), (256, 16), (1024, 4)])
def test_tiled_matmul_of_the_largest_sizes_is_one_product(dim: int, tiles: int, dataflow: Dataflow) -> None:
    kernel = tiled_matmul(dim, tiles, dataflow)
    assert kernel.report.results[0].operations == (f"dot {dim * tiles}x{dim}x{dim} int8 x int8 -> i32",)


@pytest.mark.slow
def test_tiled_matmul_at_dim_1024() -> None:
    kernel = tiled_matmul(1024, 2)
    given = inputs(kernel)
    wide = given[0].astype(np.float64) @ given[1].astype(np.float64) + given[2]  # exact: below 2 ** 53
    np.testing.assert_array_equal(raised(kernel, given), np.clip(wide, -128, 127).astype(np.int8))


@pytest.mark.slow
@examples(2, 80)
@given(st.integers(1, 70), st.integers(1, 140), st.integers(1, 140), st.sampled_from([4, 12, 16, 32]),
       st.sampled_from(["int8", "int32"]), st.booleans())
def test_exo_matmul_of_any_size(
    n: int, m: int, k: int, dim: int, out: Literal["int8", "int32"], partials: bool
) -> None:
    kernel = exo_matmul(n, m, k, dim=dim, out=out, partials=partials)
    given = inputs(kernel, n)
    want = exo_reference(*given).astype(out)
    np.testing.assert_array_equal(interpreted(kernel, given), want)
    np.testing.assert_array_equal(kernel.run(*given), want)


@pytest.mark.first_case
@pytest.mark.parametrize("size", [(1, 1, 1), (17, 65, 64), (64, 64, 129)])
def test_exo_matmul_at_the_edges(size: tuple[int, int, int]) -> None:
    kernel = exo_matmul(*size)
    given = inputs(kernel)
    np.testing.assert_array_equal(interpreted(kernel, given), exo_reference(*given))
    np.testing.assert_array_equal(raised(kernel, given), exo_reference(*given))


@pytest.mark.slow
@pytest.mark.parametrize("size", [(784, 1024, 256), (512, 512, 512)])
def test_exo_kernels_are_one_product(size: tuple[int, int, int]) -> None:
    kernel = exo_matmul(*size)
    n, m, k = size
    assert kernel.report.results[0].operations == (f"dot {n}x{m}x{k} int8 x int8 -> i32",)
    given = [x // 16 for x in inputs(kernel)]
    np.testing.assert_array_equal(kernel.run(*given), exo_reference(*given))


def test_loops_stay_loops_and_have_an_assembly() -> None:
    for kernel in (tiled_matmul(16, 256, "OS"), exo_matmul(12544, 64, 256), exo_matmul(100, 72, 80)):
        text = to_text(kernel.stream)
        assert len(text.splitlines()) < 200
        assert parse(text) == kernel.stream


def test_a_dim_out_of_range_is_refused() -> None:
    with pytest.raises(TargetError, match="dim.*1024"):
        load("gemmini", dim=1025)


def test_a_stream_of_too_many_tiles_is_refused_by_the_isa() -> None:
    with pytest.raises(TargetError, match="spad_rows"):
        tiled_matmul(1024, 1 << 13)
