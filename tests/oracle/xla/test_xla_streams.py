"""The XLA oracle equals the interpreter bit for bit, raised and as loops, and raises what it should."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, Pool, add, conv2d, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Loop, Stream
from archloom.oracle.xla import Oracle, compile_stream
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from tests.support.accelerators import gemmini_streams as g
from tests.support.accelerators.gemmini_random import gemmini_streams
from tests.support.examples import every, examples, slow


def arguments(stream: Stream, seed: int = 0) -> dict[str, np.ndarray]:
    """Full-range int8 and moderate int32 values."""
    rng = np.random.default_rng(seed)
    limits = {"int8": 128, "int32": 1 << 20}
    return {t.name: rng.integers(-limits[t.dtype], limits[t.dtype], t.shape).astype(t.dtype) for t in stream.arguments}


def check(stream: Stream, *, raising: bool = True, seed: int = 0) -> Oracle:
    """Compare with the interpreter."""
    isa = taidl.load(stream.isa, **dict(stream.parameters))
    given_ = arguments(stream, seed)
    want = interpreter.run(stream, isa, given_)
    oracle = compile_stream(stream, isa, raising=raising)
    for tensor, got in zip(stream.results, oracle(*given_.values()), strict=True):
        assert got.shape == tensor.shape and str(got.dtype) == tensor.dtype
        assert np.array_equal(np.asarray(got), want[tensor.name]), tensor.name
    return oracle


def operations(oracle: Oracle) -> list[str]:
    assert oracle.report.raised, str(oracle.report)
    return [o for r in oracle.report.results for o in r.operations]


def epilogue(bias: bool = False, relu: bool = False, out: str = "int8", pool: Pool | None = None) -> Epilogue:
    return Epilogue(bias=bias, scale=1.0 if out == "int32" else 0.013, relu=relu, out_dtype=out, pool=pool)


def gemm_stream(m, n, k, dim=4, df="ws", tile=(8, 8, 8), loads=("stream", "stream"), order=("m", "n"), batch=1,
                slots=(2, 2, 2), **more) -> Stream:
    work = gemm(m, n, k, batch=batch, epilogue=epilogue(**more))
    sizes = tuple((d, min(t, x)) for d, t, x in zip("mnk", tile, (m, n, k), strict=True))
    mapping = Mapping("gemm", df, sizes, order, tuple(zip("AB", loads)), tuple(zip("ABC", slots)))
    return GemminiEmitter(taidl.load("gemmini", dim=dim).parameters).emit(work, mapping)


def conv_stream(image, kernel, o, dim=4, stride=1, pad=(1, 1, 1, 1), tile=(2, 4, 8, 4), order=("p", "o"), batch=1,
                loads=("stream", "stream"), packing="channels", **more) -> Stream:
    (h, w, c), (kh, kw) = image, kernel
    work = conv2d(batch, h, w, c, o, kh, kw, stride=(stride, stride), padding=pad, epilogue=epilogue(**more))
    extents = (work.output.shape[1], work.output.shape[2], o, c)
    sizes = tuple((d, min(t, x)) for d, t, x in zip(("oh", "ow", "o", "c"), tile, extents, strict=True))
    slots = (("X", 2), ("W", 2), ("C", 2))
    mapping = Mapping("conv2d", "ws", sizes, order, tuple(zip("XW", loads)), slots, "after", packing)
    return GemminiEmitter(taidl.load("gemmini", dim=dim).parameters).emit(work, mapping)


GEMMS = {
    "one element": {"m": 1, "n": 1, "k": 1},
    "below dim": {"m": 3, "n": 2, "k": 3, "bias": True},
    "exact": {"m": 16, "n": 16, "k": 16},
    "edges everywhere": {"m": 25, "n": 18, "k": 13, "bias": True, "relu": True},
    "last column alone": {"m": 7, "n": 17, "k": 47, "tile": (16, 4, 8), "loads": ("hoist", "hoist"),
                          "order": ("n", "m"), "bias": True},
    "output stationary": {"m": 25, "n": 18, "k": 13, "df": "os", "bias": True},
    "output stationary, int32": {"m": 9, "n": 11, "k": 21, "df": "os", "out": "int32"},
    "interleaved loads": {"m": 25, "n": 18, "k": 23, "loads": ("interleave", "hoist"), "order": ("n", "m")},
    "batch as rows": {"m": 11, "n": 3, "k": 11, "tile": (8, 4, 16), "batch": 3, "out": "int32"},
    "dim 16": {"m": 100, "n": 70, "k": 50, "dim": 16, "tile": (64, 32, 32)},
}


@pytest.mark.parametrize("case", every(3, GEMMS))
def test_gemm_is_one_dot(case):
    options = GEMMS[case]
    made = operations(check(gemm_stream(**options)))
    rows = options["m"] * options.get("batch", 1)
    if case != "one element":
        assert made == [f"dot {rows}x{options['n']}x{options['k']} int8 x int8 -> i32"]


CONVS = {
    "padded 3x3": ({"image": (8, 8, 8), "kernel": (3, 3), "o": 8, "bias": True}, 1),
    "tiles with edges": ({"image": (12, 14, 4), "kernel": (3, 3), "o": 4, "tile": (4, 7, 4, 4), "out": "int32"}, 1),
    "strided": ({"image": (9, 9, 5), "kernel": (3, 3), "o": 6, "stride": 2, "relu": True}, 1),
    "input kept for all channels": ({"image": (6, 6, 8), "kernel": (3, 3), "o": 12, "tile": (6, 6, 4, 4),
                                     "loads": ("interleave", "stream"), "out": "int32"}, 1),
    "weights hoisted": ({"image": (16, 16, 8), "kernel": (3, 3), "o": 12, "stride": 2, "tile": (1, 8, 8, 4),
                         "loads": ("interleave", "hoist")}, 1),
    "1x1 strided": ({"image": (8, 8, 8), "kernel": (1, 1), "o": 8, "stride": 2, "pad": (0, 0, 0, 0)}, 1),
    "unpadded 2x3": ({"image": (7, 6, 3), "kernel": (2, 3), "o": 5, "pad": (0, 0, 0, 0), "batch": 2}, 1),
    "pooled": ({"image": (8, 8, 4), "kernel": (3, 3), "o": 4, "pool": Pool(2, 2, (0, 0, 0, 0)), "relu": True}, 64),
    "pooled with overlap": ({"image": (8, 8, 4), "kernel": (3, 3), "o": 4, "pool": Pool(3, 2, (1, 1, 1, 1))}, 64),
}


@pytest.mark.parametrize("case", every(3, CONVS))
def test_convolution_is_few_dots(case):
    options, most = CONVS[case]
    made = operations(check(conv_stream(**options)))
    assert 1 <= len(made) <= most


@pytest.mark.slow
def test_packed_kernel_rows():
    """Rows of the scratchpad that several moves fill in part: raised or not, the values are right."""
    check(conv_stream(image=(5, 5, 3), kernel=(3, 3), o=4, packing="kernel_row"))


def test_residual_add_needs_no_contraction():
    work = add(200, epilogue=Epilogue(bias=False, scale=0.7, relu=True, out_dtype="int8"))
    mapping = Mapping("add", "ws", (("rows", 8),), (), (), (("C", 2),))
    assert operations(check(GemminiEmitter(taidl.load("gemmini", dim=4).parameters).emit(work, mapping))) == []


@pytest.mark.parametrize("make", [
    slow(lambda: gemm_stream(13, 9, 11, bias=True, df="os")), slow(lambda: gemm_stream(13, 9, 11, relu=True)),
    lambda: conv_stream((5, 6, 3), (3, 3), 4, tile=(2, 4, 4, 4)),
], ids=["os", "ws", "conv"])
def test_loops_equal_the_interpreter(make):
    oracle = check(make(), raising=False)
    assert not oracle.report.raised and "switched off" in oracle.report.results[0].reason


def copies(*steps, size: int = 64, result: int = 256, loops: tuple[tuple[str, int], ...] = ()) -> Stream:
    """A stream of moves with one argument of ``size`` bytes at 64 and one result as large."""
    body: tuple = (g.config_ld(4, 0, block_stride=4), g.config_st(4), *steps)
    for var, extent in loops:
        body = (*body[:2], Loop(var, 0, extent, 1, body[2:]))
    return Stream("gemmini", (("acc_rows", 64), ("dim", 4), ("spad_rows", 64)), (HbmTensor("x", 64, (size,), "int8"),),
                  (HbmTensor("y", result, (size,), "int8"),), 1024, body, "copies")


def test_hbm_written_and_read_again():
    i = Affine.variable("i")
    first = Loop("i", 0, 4, 1, (g.mvin(i * 16 + 64, i * 4, 4, 4), g.mvout(i * 16 + 512, i * 4, 4, 4)))
    again = Loop("j", 0, 4, 1, (g.mvin(Affine.variable("j") * -16 + 560, 16, 4, 4),
                                g.mvout(Affine.variable("j") * 16 + 256, 16, 4, 4)))
    oracle = check(copies(first, again))
    assert oracle.report.raised


def test_updated_in_place():
    i = Affine.variable("i")
    shift = Loop("i", 0, 3, 1, (g.mvin(i * 16 + 80, 0, 4, 4), g.mvout(i * 16 + 64, 0, 4, 4)))
    check(copies(shift, result=64))


def test_value_carried_by_one_iteration():
    i = Affine.variable("i")
    body = (g.mvout(i * 16 + 256, 0, 4, 4), g.mvin(i * 16 + 64, 0, 4, 4))
    oracle = check(copies(g.mvin(64 + 48, 0, 4, 4), Loop("i", 0, 4, 1, body)))
    assert oracle.report.raised


def test_recurrence_stays_a_loop():
    """Each iteration reads what the one before wrote to HBM: a chain, which has no index notation."""
    i = Affine.variable("i")
    body = (g.mvin(i * 4 + 64, g.ACC, 4, 1, 1), g.mvin(i * 4 + 256, g.ACC | g.ADD, 4, 1, 1),
            g.mvout(i * 4 + 260, g.ACC, 4, 1))
    stream = copies(g.config_ld(4, 1, shrunk=1, block_stride=4), Loop("i", 0, 15, 1, body))
    oracle = check(stream)
    assert not oracle.report.raised
    assert "carr" in oracle.report.results[0].reason


def test_what_is_never_written_is_zero():
    check(copies(g.mvin(64, 0, 4, 2), g.mvout(256, 0, 4, 2)))


@examples(6, 200)
@given(gemmini_streams())
def test_random_streams(stream):
    # loops over hundreds of different instructions take XLA long to compile: they have a test with fewer of them
    if compile_stream(stream, taidl.load(stream.isa, **dict(stream.parameters))).raised:
        check(stream)


@pytest.mark.slow
@examples(1, 20)
@given(gemmini_streams(depth=1))
def test_random_streams_as_loops(stream):
    check(stream, raising=False)


@examples(4, 60)
@given(st.data())
def test_random_gemms(data):
    size = st.integers(1, 40)
    tile = st.sampled_from([4, 8, 16])
    loads = st.sampled_from(["stream", "hoist", "interleave"])
    pick = data.draw
    oracle = check(gemm_stream(
        pick(size), pick(size), pick(size), df=pick(st.sampled_from(["ws", "os"])),
        tile=(pick(tile), pick(tile), pick(tile)),
        loads=(pick(loads), pick(loads)), order=pick(st.sampled_from([("m", "n"), ("n", "m")])),
        batch=pick(st.integers(1, 2)), slots=tuple(pick(st.integers(1, 2)) for _ in range(3)),
        bias=pick(st.booleans()), out=pick(st.sampled_from(["int8", "int32"]))))
    assert len(operations(oracle)) <= 1


@examples(2, 40)
@given(st.data())
def test_random_convolutions(data):
    pick = data.draw
    side, few = st.integers(3, 10), st.integers(1, 9)
    kernel = pick(st.sampled_from([(1, 1), (3, 3), (2, 3), (3, 1)]))
    pad = pick(st.sampled_from([(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)]))
    loads = st.sampled_from(["stream", "hoist", "interleave"])
    arguments = {
        "stride": pick(st.integers(1, 2)), "pad": pad,
        "tile": (pick(st.sampled_from([1, 2, 4])), pick(st.sampled_from([2, 4, 8])), pick(st.sampled_from([4, 8])), 4),
        "order": pick(st.sampled_from([("p", "o"), ("o", "p")])), "batch": pick(st.integers(1, 2)),
        "loads": (pick(loads), pick(loads)), "bias": pick(st.booleans()),
        "packing": pick(st.sampled_from(["channels", "kernel_row"]))}
    try:
        stream = conv_stream((pick(side), pick(side), pick(few)), kernel, pick(few), **arguments)
    except MappingError:  # not every drawn mapping is one: packed rows need columns, tiles a place
        reject()
    check(stream)
