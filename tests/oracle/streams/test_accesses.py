"""What instructions touch: order, accumulation, runs of words, footprints and exact intersection."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle import taidl
from archloom.oracle.accesses import accesses, bytes_of, elements, footprint, intersects, meet, runs, words
from archloom.oracle.affine import Affine
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Access, Buffer, Window, WindowDim
from tests.support.oracle import gemmini_streams as g
from tests.support.oracle.strategies import Gemm
from tests.support.oracle.toy_isa import TOY, instructions, stream

SPAD, HBM = Buffer("spad", (64, 8), "i8"), Buffer("hbm", (1 << 16,), "i8")


def of_gemm(**choices: object) -> dict[str, list[tuple[str, str]]]:
    """For each mnemonic of a GEMM the (kind, buffer) of its accesses."""
    s = Gemm(4, 8, 8, 8, **choices).stream()  # type: ignore[arg-type]
    resolved = resolve(s, taidl.load("gemmini", **dict(s.parameters)))
    return {i.mnemonic: [(a.kind, a.window.buffer) for a in accesses(i)] for i in instructions(resolved)}


def test_accesses_of_a_weight_stationary_gemm() -> None:
    found = of_gemm(dataflow=g.WS)
    assert found["config_ex"] == found["preload"] == []
    assert found["mvin"] == [("read", "hbm"), ("write", "spad")]
    assert found["mvin3"] == [("read", "hbm"), ("write", "acc")]
    assert found["compute_preloaded"] == [
        ("read", "spad"), ("write", "pe"), ("read", "spad"), ("read", "pe"), ("accumulate", "acc")
    ]
    assert found["mvout"] == [("read", "acc"), ("write", "hbm")]


def test_accesses_of_an_output_stationary_gemm() -> None:
    found = of_gemm(dataflow=g.OS)
    assert found["compute_preloaded"] == [
        ("write", "pe"), ("read", "spad"), ("read", "spad"), ("accumulate", "pe"), ("read", "pe"), ("accumulate", "acc")
    ]


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("sum row=3, from=9", [("read", 9), ("accumulate", 3)]),
        # the old contents are added to themselves: read as an operand, and accumulated into
        ("sum row=3, from=3", [("read", 3), ("accumulate", 3)]),
        ("choose which=0, v=2\nsized dram=0, which=0", [("read", 0), ("read", 1)]),
    ],
)
def test_accumulations_swallow_the_read_of_the_old(body: str, kinds: list[tuple[str, int]]) -> None:
    instr = instructions(resolve(stream(body), TOY))[-1]
    found = [(a.kind, int(a.window.offsets[0])) for a in accesses(instr) if a.window.buffer == "mem"]
    assert found == kinds


def test_repeated_accesses_are_named_once() -> None:
    instr = instructions(resolve(stream("get dram=0, row=0, rows=2"), TOY))[0]
    assert accesses(instr) == tuple(dict.fromkeys(accesses(instr)))
    assert [type(a) for a in accesses(instr)] == [Access, Access]


def windows(rank: int, offsets: st.SearchStrategy[Affine]) -> st.SearchStrategy[Window]:
    """Windows with up to three dims, strides of either sign."""
    dims = st.lists(
        st.builds(WindowDim, st.integers(0, rank - 1), st.integers(1, 4), st.integers(-5, 9)), max_size=3
    ).map(tuple)
    return st.builds(Window, st.just("b"), st.tuples(*[offsets] * rank), dims)


def brute(window: Window, values: dict[str, int]) -> set[tuple[int, ...]]:
    """The elements by enumeration."""
    base = [o.evaluate(values) for o in window.offsets]
    found = set()
    for index in itertools.product(*(range(d.extent) for d in window.dims)):
        at = list(base)
        for i, d in zip(index, window.dims, strict=True):
            at[d.axis] += i * d.stride
        found.add(tuple(at))
    return found


_constants = st.integers(0, 30).map(Affine.of)
_moving = st.builds(lambda a, b, c: Affine.of("i") * a + Affine.of("j") % 3 * b + c, *[st.integers(-9, 9)] * 3)


@given(windows(2, _moving), windows(2, _moving), st.tuples(*[st.integers(0, 5)] * 4))
def test_intersection_is_exact(a: Window, b: Window, at: tuple[int, int, int, int]) -> None:
    first, second = {"i": at[0], "j": at[1]}, {"i": at[2], "j": at[3]}
    expected = not brute(a, first).isdisjoint(brute(b, second))
    assert intersects(a, first, b, second) == expected
    bounds = {"i": (0, 5), "j": (0, 5)}
    if expected:
        assert meet(footprint(a, bounds), footprint(b, bounds))


def test_windows_of_different_buffers_do_not_meet() -> None:
    a, b = Window("x", (Affine(0),), ()), Window("y", (Affine(0),), ())
    assert not intersects(a, {}, b, {})


@given(windows(2, _moving), st.integers(0, 5), st.integers(0, 5))
def test_footprints_contain_the_elements(a: Window, i: int, j: int) -> None:
    box = footprint(a, {"i": (0, 5), "j": (0, 5)})
    for element in brute(a, {"i": i, "j": j}):
        assert all(low <= x <= high for x, (low, high) in zip(element, box, strict=True))


@given(windows(1, _constants))
def test_runs_are_the_maximal_runs_of_words(a: Window) -> None:
    base = a.offsets[0].constant
    rows = sorted({e[0] - base for e in brute(a, {})})
    assert words(a).tolist() == rows
    found = runs(a)
    assert [first + i for first, n in found for i in range(n)] == rows
    assert all(first + n < following for (first, n), (following, _) in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        ((), ((0, 1),)),
        ((WindowDim(0, 16, 1),), ((0, 16),)),
        ((WindowDim(0, 4, 100), WindowDim(0, 16, 1)), ((0, 16), (100, 16), (200, 16), (300, 16))),
        ((WindowDim(0, 4, 16), WindowDim(0, 16, 1)), ((0, 64),)),
        ((WindowDim(0, 4, 0), WindowDim(0, 8, 1)), ((0, 8),)),
        ((WindowDim(0, 3, 2), WindowDim(1, 8, 1)), ((0, 1), (2, 1), (4, 1))),
    ],
)
def test_runs(dims: tuple[WindowDim, ...], expected: tuple[tuple[int, int], ...]) -> None:
    assert runs(Window("b", (Affine.of("i"), Affine(0)), dims)) == expected


def test_runs_of_another_buffer_are_refused() -> None:
    with pytest.raises(ValueError, match=r"a window of \$b has no runs in \$spad"):
        runs(Window("b", (Affine(0),), ()), SPAD)


def test_bytes_and_elements() -> None:
    window = Window("spad", (Affine.of("i"), Affine(2)), (WindowDim(0, 2, 3), WindowDim(1, 4, 1)))
    assert bytes_of(window, SPAD) == 8
    assert elements(window, SPAD).tolist() == [0, 1, 2, 3, 24, 25, 26, 27]
    assert np.array_equal(elements(window, SPAD, {"i": 1}), elements(window, SPAD) + 10)
    wide = Buffer("acc", (64, 8), "i32")
    assert bytes_of(Window("acc", (Affine(0), Affine(0)), (WindowDim(1, 8, 1),)), wide) == 32
    # rows that are read again and again are bytes that are read once
    assert bytes_of(Window("hbm", (Affine(0),), (WindowDim(0, 16, 0), WindowDim(0, 16, 4))), HBM) == 16


@pytest.mark.parametrize(("dtype", "size"), [("i1", 5), ("i4", 3), ("u2", 2), ("f4e2m1fn", 3), ("f8e4m3fn", 5),
                                             ("!quant.uniform<i4:f32, 0.5>", 3), ("f64", 40)])
def test_elements_of_every_width_have_bytes(dtype: str, size: int) -> None:
    window = Window("b", (Affine(0),), (WindowDim(0, 5, 1),))
    assert bytes_of(window, Buffer("b", (8,), dtype)) == size
