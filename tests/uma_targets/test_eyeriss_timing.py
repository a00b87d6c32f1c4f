"""The graph of Eyeriss and the time that its streams take."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.acadl_models.acadl import DRAM, SRAM, FunctionalUnit
from archloom.acadl_models.eyeriss import TECHNOLOGY, eyeriss, mac_of
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.mapper.mapping import Mapping
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, conv2d, gemm
from archloom.oracle import taidl
from archloom.oracle.errors import GraphError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Stream
from archloom.uma_targets.eyeriss.plan import Machine
from archloom.uma_targets.eyeriss.problem import conv_shape
from archloom.uma_targets.eyeriss.target import EYERISS
from benchmarks.published.eyeriss_kernels import conv_stream, gemm_stream
from tests.support.acadl_models.simulators import agreed
from tests.support.examples import examples, randoms

SMALL = {"rows": 4, "cols": 3, "glb_kib": 4, "filter_glb_kib": 1, "lookahead": 64}


def timed(stream: Stream, options: dict[str, int]) -> TimingResult:
    """What both simulators agree on."""
    graph = eyeriss(**options)  # type: ignore[arg-type]
    isa = taidl.load("eyeriss", **graph.parameters)
    return agreed(graph, resolve(stream, isa))


def stream_of(m: int, n: int, k: int, options: dict[str, int]) -> Stream:
    graph = eyeriss(**options)  # type: ignore[arg-type]
    isa = taidl.load("eyeriss", **graph.parameters)
    return gemm_stream(m, n, k, Machine.of(graph), dict(isa.parameters))


@pytest.mark.slow
@settings(max_examples=4, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 20))
def test_simulators_agree_and_never_beat_the_array(m: int, n: int, k: int) -> None:
    assert timed(stream_of(m, n, k, SMALL), SMALL).cycles >= m * n * k / 12


@pytest.mark.slow
def test_convolution_on_both_simulators() -> None:
    graph = eyeriss(**SMALL)  # type: ignore[arg-type]
    isa = taidl.load("eyeriss", **graph.parameters)
    shape = conv_shape(2, 5, 6, 6, 6, 3, 3, 1, (1, 1, 1, 1))
    found = timed(conv_stream(shape, Machine.of(graph), dict(isa.parameters)), SMALL)
    assert found.cycles >= shape.macs / 12
    busy = sum(unit.busy_cycles for unit in found.units if unit.name.endswith(".mac"))
    # every multiply-accumulate takes a cycle, and so does every sum that is added to another
    assert busy > shape.macs


def test_one_primitive_takes_a_cycle_for_each_product() -> None:
    conv = Instr.make("conv", pe=5, slot=0, p=2, q=3, s=3, f=7, stride=1)
    graph = eyeriss(**SMALL)  # type: ignore[arg-type]
    isa = taidl.load("eyeriss", **graph.parameters)

    def cycles(count: int) -> int:
        stream = Stream("eyeriss", isa.parameters, (), (), 64, (conv,) * count)
        return timed(stream, SMALL).cycles

    assert cycles(3) - cycles(2) == 2 * 3 * 3 * 7


def test_a_row_on_the_ifmap_bus_takes_a_cycle_for_each_word() -> None:
    graph = eyeriss(**SMALL)  # type: ignore[arg-type]
    isa = taidl.load("eyeriss", **graph.parameters)

    def cycles(words: int) -> int:
        row = Instr.make("ifmap", glb=0, q=1, width=words, gq=words, gw=1, pe=2, slot=1, n0=1, n1=1, n2=2, s0=0, s1=0,
                         s2=2)
        return timed(Stream("eyeriss", isa.parameters, (), (), 64, (row,)), SMALL).cycles

    assert cycles(40) - cycles(20) == 20


def test_sums_come_from_the_pe_below_and_from_no_other() -> None:
    graph = eyeriss(**SMALL)  # type: ignore[arg-type]
    isa = taidl.load("eyeriss", **graph.parameters)

    def add(pe: int, source: int) -> Stream:
        body = (Instr.make("accumulate", pe=pe, source=source, slot=0, words=4),)
        return Stream("eyeriss", isa.parameters, (), (), 64, body)

    assert timed(add(4, 1), SMALL).cycles > 0
    with pytest.raises(GraphError, match="no unit processes 'accumulate'"):
        simulate(graph, resolve(add(1, 4), isa))


def test_energy_follows_from_that_of_a_multiply_accumulate() -> None:
    graph = eyeriss(mac_joules=2e-12, **SMALL)  # type: ignore[arg-type]
    pe, glb, dram = (graph.objects[name] for name in ("array.pe[0][0].mac", "glb", "dram"))
    assert isinstance(pe, FunctionalUnit) and isinstance(glb, SRAM) and isinstance(dram, DRAM)
    assert pe.joules_of("conv") == pytest.approx(10e-12)
    assert glb.joules_per_access == pytest.approx(12e-12)
    assert dram.joules_per_access == pytest.approx(200e-12)
    plain = eyeriss(**SMALL).objects["glb"]  # type: ignore[arg-type]
    assert isinstance(plain, SRAM) and plain.joules_per_access == pytest.approx(6 * mac_of(TECHNOLOGY))


def test_options_out_of_range_are_all_named() -> None:
    with pytest.raises(TargetError) as caught:
        eyeriss(rows=0, cols=1000, psum_bits=24, ifmap_bus_bits=24, mac_joules=-1)
    message = str(caught.value)
    for part in ("rows must be an integer from 1 to 128, not 0", "cols must be", "psum_bits must be 16 or 32, not 24",
                 "ifmap_bus_bits must be a multiple of 16, not 24", "mac_joules must be a number"):
        assert part in message


@examples(5, 200)
@given(randoms)
def test_fewer_filters_and_channels_in_the_last_pass_take_no_longer(r: Random) -> None:
    """Whatever is left over is one pass: the ifmaps go through the array once for all of it."""
    configuration = EYERISS.configure()
    p, down, across = r.randrange(2, 21), r.randrange(1, 4), r.randrange(1, 5)
    most = p * down * across
    tile = {"p": p, "q": 8, "r": 4, "down": down, "across": across, "segments": 1, "e": 3, "n": 1, "m": most, "f": 4}
    mapping = Mapping("gemm", "", (*tile.items(), ("buffers", 1)))
    taken = []
    for filters, depth in ((most - r.randrange(most // 2), 64 - r.randrange(24)), (most, 64)):
        work = gemm(24, filters, depth, epilogue=Epilogue(True, 0.5, False, "int8"))
        taken.append(simulate(configuration.graph, resolve(
            configuration.emit(work, mapping), configuration.isa)).cycles)
    assert taken[0] <= 1.01 * taken[1]


@pytest.mark.slow
def test_search_finds_a_mapping_for_products_and_convolutions() -> None:
    options = {"rows": 6, "cols": 7, "glb_kib": 16}
    epilogue = Epilogue(True, 0.01, True, "int8")
    for work in (
        gemm(33, 20, 50, epilogue=epilogue), conv2d(1, 9, 8, 6, 10, 3, 3, padding=(1, 1, 1, 1), epilogue=epilogue),
        conv2d(1, 8, 8, 6, 10, 1, 1, epilogue=epilogue),
    ):
        found = search(work, EYERISS, options)
        assert found.timing.exact and found.timing.cycles >= work.macs / 42


@examples(4, 120)
@given(randoms)
def test_estimates_know_what_dram_moves(r: Random) -> None:
    """Nothing takes less time than requests keep the port of DRAM busy, and no estimate of good mappings says so."""
    epilogue = r.choice((Epilogue(True, 0.01, True, "int8"), Epilogue(False, 0.01, False, "int8")))
    side, kernel, (c, o) = r.randint(4, 14), r.choice((1, 1, 3)), (r.randint(1, 48) for _ in "co")
    work = conv2d(1, side, side, c, o, kernel, kernel, padding=(kernel // 2,) * 4, epilogue=epilogue)
    configuration = EYERISS.configure()
    estimated, mapping_of = configuration.space(work).ranked()
    number = int(np.argsort(estimated, kind="stable")[r.randrange(min(40, len(estimated)))])
    found = simulate(configuration.graph, resolve(configuration.emit(work, mapping_of(number)), configuration.isa))
    busy = next(storage.busy_beats for storage in found.storages if storage.name == "dram")
    assert busy <= found.cycles and estimated[number] >= 0.9 * busy
