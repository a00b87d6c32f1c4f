"""Operators without index notation in raised streams, and streams of which only a part stays loops."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st

from archloom.oracle import interpreter
from archloom.oracle.assembly import parse
from archloom.oracle.stream import Stream
from archloom.oracle.xla import Oracle, compile_stream
from archloom.oracle.xla.notation.limits import Limits
from tests.support.examples import examples
from tests.support.oracle.whole_streams import WHOLE, whole_streams

# each step of shrinking would compile anew
UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)


def agree(stream: Stream, seed: int = 0) -> Oracle:
    """The oracle, which gives what the interpreter gives."""
    rng = np.random.default_rng(seed)
    given = {t.name: rng.integers(-9, 99, t.shape).astype(t.dtype) for t in stream.arguments}
    oracle = compile_stream(stream, WHOLE)
    want = interpreter.run(stream, WHOLE, given)
    for tensor, value in zip(stream.results, oracle(*given.values()), strict=True):
        np.testing.assert_array_equal(np.asarray(value), want[tensor.name], str(oracle.report))
    return oracle


def program(body: str) -> Stream:
    """Rows of X at 0 to rows of Y at 1024."""
    return parse(f".isa whole\n.hbm 2048\n.arg X int32[24, 4] @0\n.result Y int32[24, 4] @1024\n{body}")


LOAD = "loop r in 0..16 {\n  load dram=16*r, row=r\n}\n"
STORE = "loop s in 0..16 {\n  store dram=1024 + 16*s, row=s\n}\n"


@pytest.mark.parametrize(("body", "operations"), [
    ("loop i in 0..8 {\n  load dram=16*i, row=i\n  sort row=i, from=i\n  store dram=1024 + 16*i, row=i\n}\n",
     ("8 x sort 1x4",)),
    ("loop i in 0..3 {\n  loop j in 0..2 {\n    load dram=32*i + 16*j, row=0\n    sort row=1, from=0\n"
     "    double row=2, from=1\n    choose row=2, from=2\n    store dram=1024 + 32*i + 16*j, row=2\n  }\n}\n",
     ("6 x conditional 4", "6 x while 4", "6 x sort 1x4", "sum over 4")),
    # what does not depend on the loop is computed once
    (LOAD + "loop i in 0..4 {\n  convolve row=8, from=1, kernel=2\n  look row=9, from=i, table=4\n"
     "  store dram=1024 + 32*i, row=8\n  store dram=1040 + 32*i, row=9\n}\n",
     ("convolution 1x1x4", "4 x dynamic_slice 1x4")),
    (LOAD + "loop i in 0..8 {\n  real to=i, from=i\n  sum to=i, from=i\n  whole row=i, from=i\n}\n" + STORE,
     ("8 x reduce scalar",)),
])
def test_whole_tensors_are_raised(body: str, operations: tuple[str, ...]) -> None:
    oracle = agree(program(body))
    assert oracle.raised and sorted(oracle.report.results[0].operations) == sorted(operations)
    assert all(not b.places for b in oracle.report.buffers)


def test_what_a_loop_carries_is_all_that_stays() -> None:
    merged = "loop i in 0..8 {\n  merge row=8, from=i\n}\n"
    report = agree(program(LOAD + merged + "sort row=9, from=8\n" + STORE)).report
    assert not report.raised and [p.raised for p in report.parts] == [True, False, True]
    assert report.results[0].operations == ("loops at 2", "sort 1x4")
    reason = report.results[0].reason
    assert [str(s) for s in report.strategies] == [
        f"as it stands: {reason}", f"with recurrences: {reason}", "in part: succeeds"]
    (sort,) = (f for f in report.fallbacks if f.where == "sort 1x4 of sort")
    assert str(sort) == ("sort 1x4 of sort: whole tensors, because sort has no index notation; "
                         "elements computed, used or not: 4")
    assert "carries" in report.results[0].reason and "loops at 2" in str(report)
    stays = report.parts[1]
    assert (stays.place, stays.numbers, stays.instructions) == ("2", (2, 2), {"merge": 8})
    assert stays.boxes == ("rows[0+8, 0+4]", "rows[8+1, 0+4]")
    assert {b.buffer: b.places for b in report.buffers} == {"hbm": (), "rows": ("2",)}
    assert "2: loop i of 8 (instruction 2: merge x 8): stays, because" in report.explanation
    assert json.loads(json.dumps(report.to_dict()))["parts"][1]["reason"] == stays.reason


def test_loops_around_what_stays_are_raised() -> None:
    """A chain in each iteration of a loop, beginning with a cleared row: all iterations are computed at once."""
    body = LOAD + ("loop i in 0..6 {\n  clear row=9\n  loop k in 0..3 {\n    merge row=9, from=i + k\n  }\n"
                   "  store dram=1024 + 16*i, row=9\n}\n")
    report = agree(program(body)).report
    assert [(p.place, p.raised) for p in report.parts] == [("1", True), ("2.1", True), ("2.2", False), ("2.3", True)]
    assert "6 x loops at 2.2" in report.results[0].operations


def test_a_condition_on_loops_that_an_address_has_not() -> None:
    body = LOAD + ("loop i in 0..4 {\n  loop j in 0..2 {\n    choose row=10 + i - 2*j, from=3 + i\n"
                   "    sort row=7 + j, from=11\n  }\n}\n") + STORE
    agree(program(body))


def test_sums_of_floats_in_inner_loops_keep_their_order() -> None:
    """Each iteration of the inner loop adds to a row of its own, those of the outer one to the same rows."""
    body = LOAD + ("loop i in 0..8 {\n  real to=i, from=i\n}\nloop j in 0..4 {\n  loop c in 1..-1 step -1 {\n"
                   "    more to=6 + c, from=j + c\n  }\n}\nloop c in 0..2 {\n  more to=6 + c, from=2 - c\n"
                   "  whole row=8 + c, from=6 + c\n}\n")
    report = agree(program(body + STORE)).report
    assert report.raised and any(o.startswith("chain of 4") for o in report.results[0].operations)


def test_nothing_but_loops() -> None:
    """Every iteration needs the one before, HBM included."""
    report = agree(program("loop i in 0..8 {\n  load dram=1024 + 16*i, row=1\n  load dram=16*i, row=2\n"
                           "  merge row=1, from=2\n  store dram=1040 + 16*i, row=1\n}\n")).report
    assert not report.raised and [p.raised for p in report.parts] == [False]
    assert report.results[0].operations == () and "carr" in report.parts[0].reason
    assert [s.strategy for s in report.strategies] == ["as it stands", "with recurrences", "in part"]


def test_a_stream_beyond_the_limits_stays_loops() -> None:
    stream = program(LOAD + "loop i in 0..8 {\n  merge row=8, from=i\n}\n" + STORE)
    first = compile_stream(stream, WHOLE).report.strategies[0].reason
    for limits, why in ((Limits(attempts=0), f"after 0 attempts still {first}"),
                        (Limits(part_steps=0), "no further part is to blame: its reads fall into too many pieces")):
        report = compile_stream(stream, WHOLE, limits=limits).report
        assert not report.raised and report.results[0].reason == first
        reasons = {s.strategy: s.reason for s in report.strategies}
        assert (reasons["as it stands"], reasons["in part"]) == (first, why), report.explanation


def test_neighbours_that_stay_are_one_nest() -> None:
    merged = "loop i in 0..4 {\n  merge row=8, from=i\n}\nloop j in 0..4 {\n  merge row=9, from=8\n}\n"
    report = agree(program(LOAD + merged + STORE)).report
    assert report.results[0].operations == ("loops at 2",)
    assert [p.raised for p in report.parts] == [True, False, False, True]
    assert json.loads(json.dumps(report.to_dict()))["strategies"][-1] == {"strategy": "in part", "reason": ""}


@examples(4, 300, phases=UNSHRUNK)
@given(whole_streams(depth=3), st.integers(0, 9))
def test_random_streams(stream: Stream, seed: int) -> None:
    agree(stream, seed)
