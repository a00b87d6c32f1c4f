"""Streams of Plasticine: interpreter and XLA oracle agree bit for bit, and with NumPy where numbers are whole."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archloom.acadl_models.plasticine import plasticine
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle import taidl
from archloom.oracle.errors import MappingError, StreamError
from archloom.oracle.interpreter import run
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.plasticine.plan import Machine, Tiling, check, demand, sizes, tiling_of
from archloom.uma_targets.plasticine.target import Plasticine
from tests.support.examples import examples
from tests.support.uma_targets.convolutions import arguments
from tests.support.uma_targets.plasticine_streams import gemm_stream

SIZES = st.sampled_from((1, 2, 3, 5, 7, 8, 13, 16, 17, 29, 31))


def isa_of(**options: int) -> Isa:
    return taidl.load("plasticine", **plasticine(**options).parameters)  # type: ignore[arg-type]


@st.composite
def isas(draw: st.DrawFn) -> Isa:
    """Few and small units, so that everything is cut into pieces."""
    return isa_of(
        rows=draw(st.integers(1, 3)), cols=draw(st.sampled_from((2, 4))), lanes=draw(st.sampled_from((1, 2, 3, 4, 8))),
        pmu_kib=1,
    )


def check_product(stream: Stream, isa: Isa) -> None:
    given_arguments = arguments(stream)
    result = run(stream, isa, given_arguments, poison=3)["C"]
    np.testing.assert_array_equal(result, given_arguments["A"] @ given_arguments["B"])


def blocks_that_fit(m: int, n: int, k: int, machine: Machine) -> list[tuple[int, int, int]]:
    """Rows, vectors and depths of blocks that fit a PMU."""
    return [
        (bm, bn, bk) for bm, bn, bk in itertools.product(*sizes(m, n, k, machine))
        if int(demand(machine, np.array(bm), np.array(bn), np.array(bk))) <= machine.vectors
    ]


def some_tiling(m: int, n: int, k: int, isa: Isa) -> Tiling:
    """One of them with large blocks."""
    machine = Machine.of(dict(isa.parameters))
    return tiling_of(m, n, blocks_that_fit(m, n, k, machine)[-1], machine)


@pytest.mark.slow
@examples(12, 200)
@given(isas(), SIZES, SIZES, SIZES)
def test_products_equal_numpy(isa: Isa, m: int, n: int, k: int) -> None:
    check_product(gemm_stream(m, n, k, dict(isa.parameters), some_tiling(m, n, k, isa)), isa)


@examples(9, 150)
@given(isas(), SIZES, SIZES, SIZES, st.data())
def test_any_tiling_that_fits_is_right(isa: Isa, m: int, n: int, k: int, data: st.DataObject) -> None:
    machine = Machine.of(dict(isa.parameters))
    tiling = tiling_of(m, n, data.draw(st.sampled_from(blocks_that_fit(m, n, k, machine))), machine)
    check(tiling, machine)
    check_product(gemm_stream(m, n, k, dict(isa.parameters), tiling), isa)


@pytest.mark.slow
def test_random_floats_are_close_and_the_oracle_rounds_as_the_interpreter() -> None:
    isa = isa_of(rows=2, cols=4, lanes=4, pmu_kib=1)
    stream = gemm_stream(13, 17, 29, dict(isa.parameters), some_tiling(13, 17, 29, isa))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(t.shape).astype(np.float32) for t in stream.arguments)
    result = run(stream, isa, {"A": a, "B": b})["C"]
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(a, b)[0]), result)
    np.testing.assert_allclose(result, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@examples(12, 200)
@given(isas(), SIZES, SIZES, SIZES, st.data())
def test_any_tiling_is_raised(isa: Isa, m: int, n: int, k: int, data: st.DataObject) -> None:
    machine = Machine.of(dict(isa.parameters))
    tiling = tiling_of(m, n, data.draw(st.sampled_from(blocks_that_fit(m, n, k, machine))), machine)
    oracle = compile_stream(gemm_stream(m, n, k, dict(isa.parameters), tiling), isa)
    assert oracle.raised, oracle.report.explanation


@pytest.mark.slow
@examples(2, 40)
@given(isas(), SIZES, SIZES, SIZES)
@example(isa_of(rows=2, cols=4, lanes=4, pmu_kib=1), 9, 10, 11)
def test_oracle_equals_interpreter(isa: Isa, m: int, n: int, k: int) -> None:
    stream = gemm_stream(m, n, k, dict(isa.parameters), some_tiling(m, n, k, isa))
    given_arguments = arguments(stream)
    expected = run(stream, isa, given_arguments)["C"]
    found = compile_stream(stream, isa)(*(given_arguments[t.name] for t in stream.arguments))
    np.testing.assert_array_equal(np.asarray(found[0]), expected)


ADD, MULTIPLY, MAXIMUM = range(3)


def patterns(body: tuple[Instr, ...], isa: Isa, x: np.ndarray, rows: int, words: int) -> np.ndarray:
    """``body`` between a load of X (a vector a row) to vector 0 and a store of ``rows`` vectors from vector 32 on."""
    lanes = dict(isa.parameters)["lanes"]
    load = Instr.make("load", dram=64, vector=0, rows=len(x), groups=1, width=lanes, h0=4 * lanes, d0=1, n0=1, s0=0)
    store = Instr.make("store", dram=4096, vector=32, rows=rows, groups=1, width=words, h0=4 * words, d0=1)
    stream = Stream(
        "plasticine", isa.parameters, (HbmTensor("X", 64, x.shape, "float32"),),
        (HbmTensor("Y", 4096, (rows, words), "float32"),), 8192, (load, *body, store),
    )
    result = run(stream, isa, {"X": x})["Y"]
    found = compile_stream(stream, isa)(x)
    np.testing.assert_array_equal(np.asarray(found["Y"] if isinstance(found, dict) else found[0]), result)
    return result


@pytest.mark.first_case
@pytest.mark.parametrize(("op", "function"), [(ADD, np.add), (MULTIPLY, np.multiply), (MAXIMUM, np.maximum)])
def test_map(op: int, function: np.ufunc) -> None:
    x = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
    body = (Instr.make("map", op=op, a=0, b=4, c=32, count=4),)
    np.testing.assert_array_equal(patterns(body, isa_of(rows=1, cols=2, lanes=4), x, 4, 4), function(x[:4], x[4:]))


@pytest.mark.slow
@pytest.mark.parametrize(("op", "function"), [(ADD, np.add), (MAXIMUM, np.maximum)])
def test_folds(op: int, function: np.ufunc) -> None:
    x = np.random.default_rng(1).integers(-9, 9, (6, 4)).astype(np.float32)
    isa = isa_of(rows=1, cols=2, lanes=4)
    down = (Instr.make("fold", op=op, a=0, c=32, count=6),)
    np.testing.assert_array_equal(patterns(down, isa, x, 1, 4)[0], function.reduce(x, axis=0))
    across = (Instr.make("fold_lanes", op=op, a=0, c=32, count=6),)
    np.testing.assert_array_equal(patterns(across, isa, x, 6, 1)[:, 0], function.reduce(x, axis=1))


def test_relu() -> None:
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    body = (Instr.make("relu", a=0, c=32, count=3),)
    np.testing.assert_array_equal(patterns(body, isa_of(rows=1, cols=2, lanes=4), x, 3, 4), np.maximum(x, 0))


def test_maximum_is_no_multiplying_fold() -> None:
    isa = isa_of(rows=1, cols=2, lanes=4)
    with pytest.raises(StreamError, match="fold"):
        patterns((Instr.make("fold", op=MULTIPLY, a=0, c=32, count=2),), isa, np.ones((2, 4), np.float32), 1, 4)


def test_tiling_that_does_not_fit_names_every_bound() -> None:
    machine = Machine(units=4, lanes=4, vectors=64)
    with pytest.raises(MappingError, match=r"6 units, of which there are 4: 2 too many.*vectors of a PMU.*pmu_kib"):
        check(Tiling(2, 3, 8, 8, 16), machine)


def test_the_mapper_tiles_a_large_product_over_all_units() -> None:
    machine = Machine(units=64, lanes=16, vectors=4096)
    work = gemm(1024, 1024, 1024, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
    best, _ = Plasticine.kit.accelerator.configure().space(work).first()
    tiling = tiling_of(1024, 1024, (best.size("m"), best.size("n") // machine.lanes, best.size("k")), machine)
    assert tiling.down * tiling.across == 64
    assert tiling.vectors(machine) <= 4096
