"""The graph of Plasticine and the time that its streams take."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.acadl_models.plasticine import plasticine
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.oracle import taidl
from archloom.oracle.errors import GraphError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Stream
from archloom.oracle.taidl.isa import Isa
from archloom.uma_targets.plasticine.plan import Machine, tiling_of
from tests.support.acadl_models.simulators import agreed
from tests.support.uma_targets.plasticine_streams import gemm_stream

SMALL = {"rows": 2, "cols": 4, "lanes": 4, "pmu_kib": 1, "dram_bytes_per_cycle": 16, "dram_latency_cycles": 10,
         "lookahead": 32}


def isa_of(**options: int) -> Isa:
    return taidl.load("plasticine", **plasticine(**options).parameters)  # type: ignore[arg-type]


def timed(stream: Stream) -> TimingResult:
    """What both simulators agree on."""
    return agreed(plasticine(**SMALL), resolve(stream, isa_of(**SMALL)))  # type: ignore[arg-type]


def pattern(*body: Instr) -> Stream:
    return Stream("plasticine", isa_of(**SMALL).parameters, (), (), 64, body)


def test_the_default_is_the_published_array() -> None:
    graph = plasticine()
    assert graph.parameters == {"units": 64, "lanes": 16, "vectors": 4096}
    assert graph.bytes_of("pmu") == 16 << 20


@pytest.mark.slow
@settings(max_examples=5, deadline=None)
@given(st.integers(1, 17), st.integers(1, 17), st.integers(1, 24))
def test_simulators_agree_and_never_beat_the_lanes(m: int, n: int, k: int) -> None:
    parameters = dict(isa_of(**SMALL).parameters)
    stream = gemm_stream(m, n, k, parameters, tiling_of(m, n, (2, 1, min(k, 4)), Machine.of(parameters)))
    assert timed(stream).cycles >= m * n * k / 16


def test_a_fold_takes_a_cycle_for_each_vector() -> None:
    def cycles(k: int) -> int:
        return timed(pattern(Instr.make("fold_product", a=0, b=8, c=2, k=k, n=2, bs=2, onto=0))).cycles

    # k more words are two more vectors each, and every fourth is another vector of scalars
    assert cycles(8) - cycles(4) == 2 * 4 + 1


def test_neighbours_fold_at_the_same_time_and_one_unit_in_turn() -> None:
    def cycles(*pmus: int) -> int:
        return timed(pattern(*(
            Instr.make("fold_product", a=16 * p, b=16 * p + 4, c=16 * p + i, k=4, n=2, bs=2, onto=0)
            for i, p in enumerate(pmus)))).cycles

    vectors = dict(isa_of(**SMALL).parameters)["vectors"]
    apart, alone = cycles(0, vectors // 16), cycles(0)
    assert apart <= alone + 2
    assert cycles(0, 0) >= alone + 8


def test_a_unit_writes_the_memory_that_it_is_paired_with() -> None:
    """PCU [0][0] reads the PMU below its pair's, too, but no PCU joins PMUs that lie far apart."""
    vectors = dict(isa_of(**SMALL).parameters)["vectors"]

    def copy(source: int, target: int) -> Stream:
        return pattern(Instr.make("relu", a=source * vectors, c=target * vectors, count=1))

    assert timed(copy(0, 0)).cycles > 0
    assert timed(copy(2, 0)).cycles > 0
    with pytest.raises(GraphError, match="no unit processes 'relu'"):
        simulate(plasticine(**SMALL), resolve(copy(3, 0), isa_of(**SMALL)))  # type: ignore[arg-type]


def test_folding_lanes_takes_turns_where_stages_are_few() -> None:
    fold = Instr.make("fold_lanes", op=0, a=0, c=40, count=8)

    def cycles(stages: int) -> int:
        options = {**SMALL, "stages": stages}
        isa = isa_of(**options)
        stream = Stream("plasticine", isa.parameters, (), (), 64, (fold, fold))
        return simulate(plasticine(**options), resolve(stream, isa)).cycles  # type: ignore[arg-type]

    # four lanes: a tree of two additions and what gathers its results, in one turn of three stages or two of two
    assert cycles(2) > cycles(3)


def test_options_out_of_range_are_all_named() -> None:
    with pytest.raises(TargetError) as caught:
        plasticine(rows=0, cols=5, lanes=64, pmu_kib=1, stages=1)
    message = str(caught.value)
    for part in ("rows must be an integer from 1 to 64, not 0", "cols must be even, not 5", "stages must be",
                 "at least 16 are needed"):
        assert part in message
