"""Mappings as values, and the tiles of convolutions along one axis."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.mapper.mapping import Mapping
from archloom.mapper.memory import place
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Loop
from archloom.uma_targets.gemmini.conv_axes import Axis, runs
from archloom.uma_targets.kit.nest import each, pieces
from tests.support.examples import examples
from tests.support.mapper import mapped

MAPPING = Mapping("gemm", "ws", (("m", 64), ("n", 32), ("k", 16)), ("n", "m"), (("A", "stream"), ("B", "interleave")),
                  (("A", 4), ("B", 2), ("C", 2)))


@examples(25, 250)
@given(st.one_of(mapped.gemms("ws"), mapped.convs("channels", "os", False), mapped.additions()))
def test_json_gives_the_mapping_back(case: tuple) -> None:
    assert Mapping.from_json(case[1].to_json()) == case[1]


def test_accelerators_have_dataflows_of_their_own() -> None:
    own = Mapping("gemm", "2x4", (("m", 8), ("n", 8), ("k", 8)))
    assert Mapping.from_json(own.to_json()) == own


@pytest.mark.parametrize("text", ["", "null", "3", "{}", MAPPING.to_json()[:-3], MAPPING.to_json().replace("ws", "w s"),
                                  MAPPING.to_json().replace("64", "0"), MAPPING.to_json().replace("stream", "later")])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(MappingError, match="expected the JSON form of a mapping"):
        Mapping.from_json(text)


def test_a_mapping_prints_on_one_line_and_compares() -> None:
    assert str(MAPPING) == "gemm ws m64 n32 k16 n>m A:stream*4 B:interleave*2 C*2 store after"
    assert sorted([MAPPING, Mapping("add", "ws", (("rows", 16),))])[0].kind == "add"
    with pytest.raises(MappingError, match=r"no tile size for 'oh' \(it has: m, n, k\)"):
        MAPPING.size("oh")


@given(st.integers(1, 60), st.integers(1, 20), st.booleans(), st.booleans())
def test_pieces_cover_the_extent_once(extent: int, tile: int, first: bool, last: bool) -> None:
    cut = pieces(extent, tile, peel_first=first, peel_last=last)
    numbers = [(p.first + i, p.size) for p in cut for i in range(p.count)]
    assert [n for n, _ in numbers] == list(range(-(-extent // tile)))
    assert sum(size for _, size in numbers) == extent
    assert not first or cut[0].is_first
    assert not last or cut[-1].is_last


def test_single_iterations_need_no_loop() -> None:
    nodes = each("i", pieces(7, 3), lambda i, run: [Loop("x", 0, 2, 1, ())] if i.is_constant else [])
    assert len(nodes) == 1


@st.composite
def axis_cases(draw: st.DrawFn) -> tuple[Axis, int]:
    kernel, stride, pad, after = (draw(st.integers(low, 4)) for low in (1, 1, 0, 0))
    extent = draw(st.integers(max(1, kernel - pad - after), 24))
    sums = (extent + pad + after - kernel) // stride + 1
    size, step = draw(st.sampled_from([(1, 1), (2, 2), (3, 2), (2, 1), (3, 3)]))
    before, behind = draw(st.integers(0, size - 1)), draw(st.integers(0, size - 1))
    outputs = (sums + before + behind - size) // step + 1
    if outputs < 1:
        size, step, before, outputs = 1, 1, 0, sums
    return Axis(extent, kernel, stride, pad, sums, outputs, size, step, before), draw(st.integers(1, outputs))


@given(axis_cases())
def test_tiles_of_an_axis_hold_what_their_outputs_need(case: tuple[Axis, int]) -> None:
    """Element by element: every sum that a window meets, every input that a sum meets, else padding."""
    axis, tile = case
    outputs = []
    for run in runs(axis, tile):
        for number in range(run.first, run.first + run.count):
            n = Affine(number)
            sums = [int(run.sum_start(n)) + i for i in range(run.sums)]
            start = int(run.output_start(n))
            outputs += range(start, start + run.outputs)
            starts = [o * axis.pool_stride - axis.pool_pad for o in outputs[-run.outputs:]]
            windows = {start + i for start in starts for i in range(axis.pool_size)}
            assert {s for s in windows if 0 <= s < axis.sums} == set(sums)
            assert min(windows) == sums[0] - run.pool_skip
            inputs = [sums[0] * axis.stride - axis.pad + i * axis.load_step for i in range(run.span)]
            assert [0 <= i < axis.extent for i in inputs] == (
                [False] * run.before + [True] * run.inside + [False] * run.after)
            assert not run.inside or inputs[run.before] == int(run.input_start(n))
            for i, s in enumerate(sums):
                assert [inputs[i * axis.local_stride + k] for k in range(axis.kernel)] == [
                    s * axis.stride - axis.pad + k for k in range(axis.kernel)]
            assert run.sums <= axis.tile_sums(tile)
    assert outputs == list(range(axis.outputs))


def test_tensors_are_placed_apart_and_not_at_zero() -> None:
    placed = place([("a", (3,), "int8", 3), ("b", (65,), "int8", 65), ("c", (1,), "int8", 1)], guard_bytes=100)
    assert [t.address for t in placed] == [128, 192, 320]
