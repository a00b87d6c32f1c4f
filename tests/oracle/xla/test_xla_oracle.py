"""The interface of the XLA oracle: arguments, tracing, cache, report, imports."""

from __future__ import annotations

import subprocess
import sys

import jax
import numpy as np
import pytest

from archloom.oracle import taidl
from archloom.oracle.errors import InputError, StreamError
from archloom.oracle.stream import HbmTensor, Stream
from archloom.oracle.xla import compile_stream
from archloom.oracle.xla.executables import Unloadable, load
from archloom.oracle.xla.notation.limits import Exhausted, Limits, Unraisable
from tests.support.accelerators import gemmini_streams as g


@pytest.fixture(scope="module")
def matmul():
    stream = g.tiled_matmul(4, 3, g.WS)
    isa = taidl.load("gemmini", **dict(stream.parameters))
    return stream, isa, compile_stream(stream, isa)


def values(stream: Stream) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(-128, 128, t.shape, dtype=np.int8) for t in stream.arguments]


def want(a: np.ndarray, b: np.ndarray, d: np.ndarray) -> np.ndarray:
    total = a.astype(np.int64) @ b.astype(np.int64) + d
    return np.clip(total, -128, 127).astype(np.int8)


def test_arguments_by_name_give_the_result(matmul):
    stream, _, oracle = matmul
    by_name = dict(zip((t.name for t in stream.arguments), values(stream), strict=True))
    (got,) = oracle(*by_name.values())
    assert np.array_equal(np.asarray(got), want(*(by_name[n] for n in ("A", "B", "D"))))


def test_equal_streams_share_a_program(matmul):
    _stream, isa, oracle = matmul
    again = g.tiled_matmul(4, 3, g.WS)
    assert compile_stream(again, isa).program is oracle.program
    assert compile_stream(again, isa, raising=False).program is not oracle.program


def test_traces_inside_other_functions(matmul):
    stream, _, oracle = matmul
    given = values(stream)

    @jax.jit
    def negated(*arrays):
        return -oracle.function(*arrays)[0]

    assert np.array_equal(np.asarray(negated(*given)), -np.asarray(oracle(*given)[0]))


def test_compiles_ahead_of_time(matmul):
    stream, _, oracle = matmul
    given = [jax.device_put(x) for x in values(stream)]
    assert np.array_equal(np.asarray(oracle.compile()(*given)[0]), np.asarray(oracle(*given)[0]))


@pytest.mark.parametrize("ahead", [False, True])
def test_runs_as_loops_where_a_tensor_on_the_way_is_too_large(matmul, ahead):
    stream, isa, whole = matmul
    oracle = compile_stream(stream, isa, limits=Limits(elements=20 + ahead, elements_for_one=0))
    given = [jax.device_put(x) for x in values(stream)]
    run = oracle.compile() if ahead else oracle
    assert np.array_equal(np.asarray(run(*given)[0]), np.asarray(whole(*given)[0]))
    assert whole.raised and not oracle.raised
    assert oracle.report.strategies[-1].reason.startswith("a tensor on the way would have")


def test_wrong_number_of_arguments(matmul):
    _, _, oracle = matmul
    with pytest.raises(InputError, match=r"the oracle of test takes 3 arguments \(A, B, D\), found 1"):
        oracle(np.zeros(3, np.int8))


def test_wrong_shape_and_type(matmul):
    stream, _, oracle = matmul
    a, b, d = values(stream)
    with pytest.raises(InputError, match=r"argument A .* must be int8\[12, 4\], found int8\[4, 12\]"):
        oracle(a.T, b, d)
    with pytest.raises(InputError, match=r"argument B .* must be int8\[4, 4\], found int32\[4, 4\]"):
        oracle(a, b.astype(np.int32), d)
    with pytest.raises(InputError, match=r"argument D .* must be an array of int8\[12, 4\], found list"):
        oracle(a, b, d.tolist())


def test_types_that_jax_lacks_are_refused(matmul):
    stream, isa, _ = matmul
    wide = HbmTensor("W", 64, (4,), "int64")
    with pytest.raises(InputError, match="tensor W of test is int64, which JAX does not take and give"):
        compile_stream(Stream(*(*list(vars(stream).values())[:2], (wide,), (), 1024, (), "test")), isa)


def test_streams_that_the_isa_refuses(matmul):
    stream, isa, _ = matmul
    bad = Stream("gemmini", stream.parameters, (), (), 1024, (g.mvin(64, 0, 4, 99),), "bad")
    with pytest.raises(StreamError, match="rows"):
        compile_stream(bad, isa)


def test_report_names_operations(matmul):
    _, _, oracle = matmul
    assert oracle.report.raised
    assert "C: raised to dot" in str(oracle.report)


def test_report_names_the_reason_for_loops(matmul):
    stream, isa, _ = matmul
    assert "C: loops, because raising is switched off" in str(compile_stream(stream, isa, raising=False).report)


def test_import_is_light():
    code = "import sys, archloom.oracle.xla; print([m for m in ('jax', 'torch', 'tvm') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("data", [b"", b"no program", b"\0" * 100])
def test_what_cannot_be_loaded_says_why(data):
    found = load(data)
    assert isinstance(found, Unloadable) and found.reason.startswith("XLA refuses it: ")


def test_refusals_name_the_innermost_item():
    inner, outer = object(), object()
    found = Unraisable("why", ring="rows").at(inner).at(outer).refusal
    assert (found.reason, found.item, found.ring) == ("why", inner, "rows")
    assert Exhausted("too much").at(inner).refusal.item is None
