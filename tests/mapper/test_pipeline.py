"""Cycles of nests of loops: figures read off a graph, what overlaps and what does not, against sums done by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl.latency import parse
from archloom.mapper.costs.lines import Cache, misses
from archloom.mapper.costs.pipeline import CLOSE, cycles
from archloom.mapper.costs.rates import Issue, Loop
from archloom.mapper.search import search
from archloom.mapper.tiling import Shape
from archloom.mapper.workload import Epilogue, gemm
from archloom.uma_targets.ai_engine import AiEngine
from archloom.uma_targets.gamma import Gamma
from archloom.uma_targets.oma import Oma
from archloom.uma_targets.plasticine.target import Plasticine
from archloom.uma_targets.qkv import Qkv
from archloom.uma_targets.tpu_v1.target import TpuV1
from benchmarks.mapper.exhaustive import exhaustive
from tests.support.examples import examples, slow

LOAD = {"rows": 16}
"""On qkv: a load of 16 rows takes the unit 16 cycles, and a transfer of 16 x 64 bytes as many; a product 16."""


LINE = Issue("load", moves=64, pieces=16, values=LOAD, beats=16)


def qkv(nest: Loop) -> list[float]:
    return [float(c) for c in np.atleast_1d(cycles(nest, Qkv.kit.accelerator.hardware()))]


def test_an_iteration_takes_as_long_as_the_unit_with_most_to_do() -> None:
    load, product = Issue("load", moves=64, pieces=16, values=LOAD), Issue("gemm")
    assert qkv(Loop(10, (load, product))) == [160]
    assert qkv(Loop(10, (load, Issue("gemm", 3)))) == [480]
    assert qkv(Loop(10, (load, Issue("gemm", np.array([1, 2, 3]))))) == [160, 320, 480]


def test_the_example_that_the_module_reckons_by_hand() -> None:
    load = Issue("load", moves=64, pieces=16, values=LOAD, beats=16)
    found = [qkv(Loop(10, (Issue("gemm", beats=32),), first=(load, load), slots=slots))[0] for slots in (4, 1)]
    ordered = (99 + 16) / 33
    four, one = ((99 + 16 + 32) / slots for slots in (4, 1))
    four, one = (placed + CLOSE * (ordered + placed) for placed in (four, one))
    assert found == pytest.approx([10 * four + 83 + 32 - four, 10 * one])


def test_no_iteration_is_faster_than_its_instructions_are_fetched() -> None:
    """Qkv fetches two a cycle: 16 loads of a row, 16 stores of one and a product keep each unit busy for 16 cycles."""
    row = {"rows": 1}
    one, other, product = Issue("load", 16, values=row), Issue("store", 16, values=row), Issue("gemm")
    assert qkv(Loop(10, (one, product))) == qkv(Loop(10, (other, product))) == [10 * 16]
    assert qkv(Loop(10, (one, other, product))) == [10 * (16 + 16 + 1) / 2]
    # nor faster than the fetches of what comes first and last, and of inner loops
    assert qkv(Loop(10, (product,), first=(one,), last=(other,), slots=99))[0] >= 10 * (16 + 16 + 1) / 2
    assert qkv(Loop(10, (Loop(1, (one,)), other, product))) == [10 * (16 + 16 + 1) / 2]


ISSUES = st.builds(
    lambda mnemonic, times: Issue(mnemonic, times, values={"rows": 1}), st.sampled_from(["load", "store", "gemm"]),
    st.integers(1, 40))
NESTS = st.recursive(
    st.builds(Loop, st.integers(1, 6), st.lists(ISSUES, min_size=1, max_size=4).map(tuple),
              first=st.lists(ISSUES, max_size=2).map(tuple), slots=st.integers(1, 99)),
    lambda inner: st.builds(Loop, st.integers(1, 6), st.lists(inner | ISSUES, min_size=1, max_size=3).map(tuple),
                            first=st.lists(ISSUES, max_size=2).map(tuple), slots=st.integers(1, 99)), max_leaves=6)


def issued(nest: Loop | Issue) -> int:
    """Instructions of a nest, one by one."""
    if isinstance(nest, Issue):
        return int(nest.times)
    return int(nest.times) * sum(map(issued, (*nest.body, *nest.alone, *nest.first, *nest.last)))


@examples(40, 500)
@given(NESTS, st.sampled_from([0.25, 0.5, 1, 2, 4]))
def test_no_nest_is_faster_than_all_its_instructions_are_fetched(nest: Loop, rate: float) -> None:
    """Whatever stands in which loop, whatever comes first, and however many instructions the graph fetches a cycle."""
    hardware = replace(Qkv.kit.accelerator.hardware(), fetched_per_cycle=rate)
    assert float(cycles(nest, hardware)) >= issued(nest) / rate * (1 - 1e-9)


FIGURES = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(1, 5)).map(np.array)
COLUMNS = st.builds(lambda mnemonic, times: Issue(mnemonic, times, values={"rows": 1}),
                    st.sampled_from(["load", "store", "gemm"]), FIGURES)
TABLES = st.recursive(COLUMNS, lambda inner: st.builds(
    Loop, FIGURES, st.lists(inner, min_size=1, max_size=3).map(tuple), st.lists(COLUMNS, max_size=1).map(tuple),
    FIGURES, st.lists(COLUMNS, max_size=2).map(tuple), st.lists(COLUMNS, max_size=1).map(tuple),
    FIGURES.map(lambda slots: slots + 1)), max_leaves=6).filter(lambda nest: isinstance(nest, Loop))


def row(nest: Loop | Issue, i: int) -> Loop | Issue:
    """A nest with the figures of one candidate in place of columns."""
    if isinstance(nest, Issue):
        return replace(nest, times=int(nest.times[i]))
    parts = {name: tuple(row(each, i) for each in getattr(nest, name)) for name in ("body", "alone", "first", "last")}
    figures = {name: int(getattr(nest, name)[i]) for name in ("times", "waits", "slots")}
    return replace(nest, **parts, **figures)


@examples(30, 500)
@given(TABLES)
def test_candidates_in_columns_take_what_each_takes_by_itself(nest: Loop) -> None:
    """Whatever others have none of: iterations, instructions, or what comes first."""
    together = np.broadcast_to(qkv(nest), 3)
    np.testing.assert_allclose(together, [qkv(row(nest, i))[0] for i in range(3)], rtol=1e-12)


@examples(30, 500)
@given(NESTS)
def test_many_instructions_that_are_alike_cost_what_they_would_each_by_themselves(nest: Loop) -> None:
    ones: dict[tuple[object, ...], Issue] = {}

    def shared(part: Loop | Issue) -> Loop | Issue:
        if isinstance(part, Loop):
            body, first, last = (tuple(map(shared, parts)) for parts in (part.body, part.first, part.last))
            return replace(part, body=body, first=first, last=last)  # type: ignore[arg-type]
        key = part.mnemonic, part.moves, part.pieces, str(part.values), part.beats, part.ahead
        return ones.setdefault(key, part).many(part.times, part.units)

    assert qkv(shared(nest)) == qkv(nest)  # type: ignore[arg-type]


@examples(30, 500)
@given(st.integers(2, 12), st.integers(1, 11), st.integers(1, 6), st.integers(1, 30))
def test_loads_of_an_outer_loop_wait_behind_those_that_wait_for_a_place(
    times: int, slots: int, products: int, loads: int
) -> None:
    """Until all inner iterations but as many as there are places are over: then the body's first loads begin."""
    slots = min(slots, times - 1)
    load = replace(LINE, times=loads)
    inner = Loop(times, (Issue("gemm", products),), first=(LINE,), slots=slots)
    assert qkv(Loop(50, (inner,), first=(load,), slots=99))[0] >= 50 * 16 * (products * (times - slots) + loads)


def test_what_stands_alone_adds_its_latency_and_inner_loops_follow_each_other() -> None:
    load, product = Issue("load", moves=64, pieces=16, values=LOAD), Issue("gemm")
    # from the first request to the last word: 1 of the unit, 50 of the memory, 16 of the transfer
    assert qkv(Loop(10, (product,), alone=(load,))) == [10 * (16 + 67)]
    assert qkv(Loop(2, (Loop(3, (product,)), Loop(4, (load,))), waits=5)) == [2 * (3 * 16 + 4 * 16 + 5)]
    # the outer loop's loads go on beside the inner loop's products
    assert qkv(Loop(1, (Loop(3, (product,)), Issue("load", 2, 64, 16, values=LOAD)))) == [48]
    assert qkv(Loop(1, (Loop(3, (product,)), Issue("load", 4, 64, 16, values=LOAD)))) == [64]


def test_what_waits_for_one_another_in_a_ring_bounds_an_iteration() -> None:
    load, product = Issue("load", moves=64, pieces=16, values=LOAD), Issue("gemm")
    assert qkv(Loop(10, (product,), rings=(((load, product), 1),))) == [10 * (67 + 16)]
    assert qkv(Loop(10, (product,), rings=(((load, product), 2), ((product,), 1)))) == [10 * (67 + 16) / 2]
    assert qkv(Loop(10, (product,), rings=(((load, product), np.array([4, 8])),))) == [10 * (67 + 16) / 4, 160]


def test_what_is_on_chip_beside_units_is_kept_busy() -> None:
    assert qkv(Loop(10, (Issue("gemm", 3, links={"bus": 20}), Issue("gemm", links={"bus": 7})))) == [10 * 67]


def test_few_places_ahead_leave_the_latency_uncovered() -> None:
    load = Issue("load", moves=64, pieces=16, values=LOAD)
    assert qkv(Loop(8, (load,))) == [8 * 16]
    assert qkv(Loop(8, (Issue("load", moves=64, pieces=16, ahead=2, values=LOAD),))) == [8 * 67 / 2]
    assert qkv(Loop(8, (Issue("load", moves=64, pieces=16, ahead=1, values=LOAD),))) == [8 * 67]


def test_links_and_shared_ports_are_those_of_the_graph() -> None:
    hardware = TpuV1.kit.accelerator.hardware()
    weights = cycles(Loop(1, (Issue("read_weights_strided", moves=256 * 256),)), hardware)
    assert weights == np.ceil(256 * 256 / 46)
    assert hardware.way("read_host_memory").link != hardware.way("read_weights").link
    plasticine = Plasticine.kit.accelerator.hardware()
    # four generators share one port to memory
    alone = cycles(Loop(1, (Issue("load", 100, 51, 100),)), plasticine)
    assert alone == 100 * 100
    # a load waits behind the pattern that holds the port of its PMU, as often as one does
    short, long = (float(cycles(Loop(1, (
        Issue("load", 100, 51, 1, words={"pmu": 1}), Issue("fold_product", 64, words={"pmu": burst}, values={
            "k": 1, "n": 1}))), plasticine)) for burst in (1, 150))
    assert short > 150 and 1.5 * short < long < short + 100 * 150 / 16


def test_a_link_moves_the_whole_of_a_request_and_memory_its_pieces() -> None:
    engine = AiEngine.kit.accelerator.hardware()  # streams of 4 bytes a cycle, memory of 64
    assert cycles(Loop(1, (Issue("read_a", moves=21, pieces=20, units=1),)), engine) == 21 * 20 / 4 + 1
    assert cycles(Loop(1, (Issue("read_a", moves=1, pieces=20, units=1),)), engine) == 20 + 1


@pytest.mark.parametrize("slots", [1, 2])
def test_what_inner_loops_need_stands_right_behind_what_outer_ones_do(slots: int) -> None:
    load, product = Issue("load", moves=64, pieces=16, values=LOAD, beats=16), Issue("gemm", beats=32)
    nest = Loop(100, (Loop(1, (product,), first=(load,), slots=2),), first=(load,), slots=slots)
    # 16 until the unit takes the second load, 67 for that and 16 to write it, 48 for the product: no load waits alone
    assert qkv(nest)[0] == pytest.approx(100 * (16 + 67 + 16 + 48) / slots, rel=0.02)


def test_a_body_begins_when_what_a_share_of_it_takes_up_is_in_time() -> None:
    """Of four loads of 16 cycles the last starts 48 cycles after the first; a quarter of the body takes 24."""
    load, product = Issue("load", 4, moves=64, pieces=16, values=LOAD), Issue("gemm", 6)
    free, late, whole = (qkv(Loop(1, (product,), first=(load,), taken=taken))[0] for taken in (
        (), ((1, 0.25),), ((1, 1),)))
    assert late - free == 48 - 24 and whole == free


def test_stores_that_find_no_place_to_wait_hold_up_what_follows() -> None:
    """Each that is too many makes an iteration longer by the 16 cycles that it takes, however long the body is."""
    hardware, product = Qkv.kit.accelerator.hardware(), Issue("gemm", 100)
    room = hardware.issue_entries - 1 + hardware.unit("gemm").queue + hardware.unit("store").queue
    one, full, over, more = (qkv(Loop(10, (product,), last=(Issue("store", n, values=LOAD),)))[0] / 10
                             for n in (1, room, room + 10, room + 12))
    assert full == pytest.approx(one, rel=0.01)
    assert over - full == pytest.approx(10 * 16 + CLOSE * (100 * 16 + 10 * 16))
    assert more - over == pytest.approx(2 * 16 * (1 + CLOSE))


def test_the_place_of_an_operand_bounds_the_loads_ahead_of_it() -> None:
    load, product = Issue("load", moves=64, pieces=16, values=LOAD, beats=16), Issue("gemm", beats=32)
    one, two, many = (qkv(Loop(100, (product,), first=(load,), slots=slots))[0] for slots in (1, 2, 16))
    # 67 for the load, 16 to write it; 16 for each operand, product and sums
    assert 100 * 131 < one < 1.05 * 100 * 131 and one / two == pytest.approx(2, rel=0.05) and many < 0.3 * two
    # loads of another loop stand behind those that wait for a place
    inner = Loop(8, (product,), first=(load,), slots=2)
    alone, after = (qkv(Loop(50, (inner,), first=first, slots=99))[0] for first in ((), (load,)))
    assert alone < after < alone + 50 * 83


@pytest.mark.parametrize("text", [
    "rows", "max(rows, take * dim)", "cdiv(rows, 4) * 2 - 1", "rows // 3 + rows % 3", "!take",
    "select(rows > 5 && take == 1, 1, rows)", "-rows + min(rows, dim, 7)", "rows == dim || take != 1",
])
@given(rows=st.lists(st.integers(1, 40), min_size=1, max_size=5), take=st.integers(0, 1))
def test_latencies_of_columns_are_those_of_each_entry(text: str, rows: list[int], take: int) -> None:
    expression = parse(text)
    found = expression.evaluate_columns({"rows": np.array(rows), "take": take, "dim": 8})
    expected = [expression.evaluate({"rows": r, "take": take, "dim": 8}) for r in rows]
    np.testing.assert_array_equal(np.broadcast_to(found, len(rows)), expected)


def test_a_cache_that_holds_everything_misses_each_line_once() -> None:
    cache, = Cache.of(Oma.kit.accelerator.hardware())
    assert Cache.of(Oma.kit.accelerator.hardware({"cache": False})) == ()
    large = Cache(1 << 12, 8, cache.line_bytes, 1, 10)
    shape = Shape(1, 64, 64, 64, 1, 1, True)
    columns = {d: np.array([64, 8]) for d in "mnk"} | {"order": np.zeros(2, int)}
    whole, cut = misses(shape, columns, large, (("m", "n", "k"),))
    # A, B and C, and biases of four bytes, with what they may reach into a line more
    assert whole == pytest.approx((3 * (64 * 64 - 1) + 4 * 64 - 1) / cache.line_bytes + 4)
    # a column of 64 rows that lie two lines apart falls on half of the sets, in each on 8 lines of 2 ways
    small = Cache(16, 2, cache.line_bytes, 1, 10)
    rows, one = np.array([8, 16, 17, 64]), np.ones(4)
    assert small.staying(rows, one, 64, np.zeros(4)).tolist() == pytest.approx([1, 1, 14 / 17, 0])
    assert (small.staying(rows, one, 64, np.full(4, 4.0))[:3] < small.staying(rows, one, 64, np.zeros(4))[:3]).all()
    assert cut > whole


@pytest.mark.parametrize("kit, sizes", [
    slow(Gamma.kit, (20, 24, 40)), (Plasticine.kit, (40, 40, 36)), slow(Qkv.kit, (40, 48, 33))])
def test_what_is_taken_is_within_a_tenth_of_the_best_of_all(kit, sizes) -> None:  # type: ignore[no-untyped-def]
    floats = kit.numbers == "float32"
    work = gemm(*sizes, dtype="float32" if floats else "int8",
                epilogue=Epilogue(True, 1.0 if floats else 0.01, True, "float32" if floats else "int8"))
    found = search(work, kit.accelerator, use_cache=False)
    _, best = exhaustive(work, kit.accelerator)
    assert best <= found.timing.cycles <= 1.1 * best
