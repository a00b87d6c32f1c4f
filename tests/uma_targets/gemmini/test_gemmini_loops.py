"""Gemmini's own software as streams: what they compute, their tiles, and what the preset's graph makes of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.gemmini import gemmini
from archloom.acadl_models.timing import simulate
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, add, conv2d, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.uma_targets.gemmini.target import GEMMINI, RTL
from benchmarks.published.gemmini_loops import Conv, Machine, Matmul, Shape, conv_tiles, matmul_tiles, resadd_stream
from benchmarks.published.gemmini_rtl import layers, macs
from tests.support.examples import examples

PARAMETERS = tuple(gemmini().parameters.items())
ISA = taidl.load("gemmini", **dict(PARAMETERS))
MACHINE = Machine(PARAMETERS)


def same(stream: Stream, expected: Callable[..., np.ndarray], seed: int) -> None:
    """The stream computes ``expected``."""
    rng = np.random.default_rng(seed)
    inputs = {t.name: rng.integers(-50, 50, t.shape).astype(t.dtype) for t in stream.arguments}
    (found,) = interpreter.run(stream, ISA, inputs, poison=1).values()
    np.testing.assert_array_equal(found, expected(**inputs))


def scaled(sums: np.ndarray, scale: float = 1 / 64) -> np.ndarray:
    return np.rint(sums.astype(np.float32) * np.float32(scale)).clip(0, 127)


@examples(2, 50)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 80), st.data())
def test_products(m: int, n: int, k: int, data: st.DataObject) -> None:
    tiles = [data.draw(st.integers(1, 3)) for _ in range(3)]
    same(Matmul(MACHINE, m, n, k, *tiles).stream(),
         lambda A, B, bias: scaled(A.astype(np.int32) @ B.astype(np.int32) + bias), m)


@examples(2, 50)
@given(st.integers(1, 3), st.integers(1, 2), st.integers(3, 5), st.integers(1, 2), st.booleans(), st.data())
def test_convolutions(kernel: int, stride: int, side: int, batch: int, stay: bool, data: st.DataObject) -> None:
    def drawn(most: int) -> int:
        return data.draw(st.integers(1, most))

    shape = Shape(batch, side, drawn(40), drawn(40), kernel, stride, kernel // 2)
    tile = (drawn(batch), drawn(shape.out), drawn(shape.out), 16 * drawn(3), kernel, kernel, 16 * drawn(3))

    def expected(X: np.ndarray, W: np.ndarray, bias: np.ndarray) -> np.ndarray:
        wide = np.pad(X.astype(np.int32), [(0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2, (0, 0)])
        reach = (shape.sums - 1) * stride + 1
        taps = (wide[:, r:r + reach:stride, t:t + reach:stride] @ W[r, t] for r in range(kernel) for t in range(kernel))
        return scaled(sum(taps) + bias)

    same(Conv(MACHINE, shape, tile, stay).stream(), expected, side)


def test_pooling_and_additions() -> None:
    def pooled(X: np.ndarray, W: np.ndarray, bias: np.ndarray) -> np.ndarray:
        sums = scaled(X.astype(np.int32) @ W[0, 0].astype(np.int32) + bias)
        wide = np.pad(sums, [(0, 0), (1, 1), (1, 1), (0, 0)])
        return np.max([wide[:, r:r + 5:2, t:t + 5:2] for r in range(3) for t in range(3)], axis=0)

    same(Conv(MACHINE, Shape(1, 5, 3, 20, 1, 1, 0, (3, 2, 1)), (1, 2, 3, 16, 1, 1, 16)).stream(), pooled, 0)
    same(resadd_stream(20, 70, MACHINE), lambda A, B: (A.astype(int) + B).clip(0, 127), 0)


def test_tiles_fill_half_of_the_memories() -> None:
    for kind, sizes, _ in layers(4, "once"):
        if kind == "matmul":
            i, j, d = matmul_tiles(*sizes, MACHINE)
            assert (i + j) * d * 16 <= MACHINE.rows[0] and i * j * 16 <= MACHINE.rows[1]
        elif kind == "conv":
            shape = Shape(*sizes)
            needs = shape.needs(conv_tiles(shape, MACHINE))
            assert all(need <= room for need, room in zip(needs, MACHINE.rows))


def test_layers_are_those_of_resnet50() -> None:
    for downsample in ("rows", "once"):
        total = sum(calls * macs(kind, sizes) for kind, sizes, calls in layers(1, downsample))
        assert total == pytest.approx(4.09e9, rel=0.005)


def test_rows_and_pages_keep_the_dma_busy() -> None:
    """16 rows of 64 bytes: of 16 under way each takes 100 cycles and 4 beats, so one begins every 7 cycles."""
    def each(**options: int | bool) -> float:
        graph = gemmini(**options)  # type: ignore[arg-type]
        few, many = (simulate(graph, resolve(resadd_stream(rows, 64, MACHINE), ISA)).cycles for rows in (1600, 3200))
        return (many - few) / 100

    assert each(row_requests=True, loop_entries=1024) == pytest.approx(2 * 16 * 7, rel=0.02)
    assert each(row_requests=True, loop_entries=1024, page_cycles=50) == pytest.approx(2 * (16 * 7 + 50), rel=0.02)


EPILOGUE = Epilogue(True, 0.01, True, "int8")


@pytest.mark.parametrize("workload", [
    gemm(64, 64, 64, epilogue=EPILOGUE), conv2d(1, 8, 8, 16, 16, 3, 3, padding=(1, 1, 1, 1), epilogue=EPILOGUE),
    add(4096, epilogue=Epilogue(False, 0.5, True, "int8"))], ids=lambda workload: workload.kind)
def test_the_preset_is_searched_and_costs_more(workload: Workload) -> None:
    cycles = [search(workload, GEMMINI, options).timing.cycles for options in (
        {}, {"preset": "rtl"}, {"preset": "rtl", "page_cycles": 200})]
    assert cycles[0] < cycles[1] < cycles[2]


def test_the_preset_takes_the_place_of_defaults_alone() -> None:
    plain, preset, other = (GEMMINI.graph(options) for options in (
        {}, {"preset": "rtl"}, {"preset": "rtl", "loop_entries": 7}))
    entries = [next(stage.issue_buffer_size for stage in graph.objects.values() if hasattr(stage, "issue_buffer_size"))
               for graph in (plain, preset, other)]
    assert entries == [28, 28 + RTL["loop_entries"], 28 + 7]  # type: ignore[operator]
