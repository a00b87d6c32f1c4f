"""The AI Engine's FIR filter equals NumPy on the interpreter and the XLA oracle, and takes the cycles of the paper."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import Link
from archloom.acadl_models.ai_engine import ai_engine, chain_places, core_path
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.engine.window import log_window
from archloom.acadl_models.timing.reference import log_reference, simulate_reference
from archloom.acadl_models.timing.tracks import DEPENDENCY, tracks
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.xla import compile_stream
from benchmarks.published.fir import Fir, fir
from benchmarks.published.fir_study import CASES, measure, operations
from tests.support.examples import examples

FULL = 1 << 15


def parameters(cores: int, samples: int = 32) -> dict[str, int]:
    return ai_engine(columns=cores, samples=samples).parameters


def chain(f: Fir, x: np.ndarray, c: np.ndarray) -> np.ndarray:
    """What the cores make of (re, im) pairs: 32-bit sums that wrap, narrowed where they go over a stream or out."""
    sums = np.zeros((f.outputs, 2), np.int64)
    for k in range(f.taps):
        re, im = x[k:k + f.outputs].astype(np.int64).T
        c_re, c_im = (int(v) for v in c[k])
        sums += np.stack([re * c_re - im * c_im, re * c_im + im * c_re], 1)
        sums = (sums + (1 << 31)) % (1 << 32) - (1 << 31)
        if (k + 1) % f.taps_per_core == 0 and k + 1 < f.taps and not f.cascade:
            sums = np.clip(sums >> f.shift, -FULL, FULL - 1) << f.shift
    return np.clip(sums >> f.shift, -FULL, FULL - 1).astype(np.int16)


def values(f: Fir, limit: int, coefficient_limit: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.integers(-limit, limit, (f.input_samples, 2))
    c = rng.integers(-coefficient_limit, coefficient_limit, (f.taps, 2))
    return x.astype(np.int16), c.astype(np.int16)


@st.composite
def filters(draw: st.DrawFn) -> Fir:
    cores, pairs = draw(st.integers(1, 4)), draw(st.integers(1, 7))
    cascade = draw(st.booleans())
    return Fir(2 * pairs * cores, draw(st.integers(1, 40)), cores, draw(st.integers(0, 15)), cascade,
               ahead=draw(st.integers(0, 2)))


@pytest.mark.slow
@given(filters(), st.integers(0, 1 << 30))
@examples(16, 200)
def test_random_filters_of_all_values_equal_numpy(f, seed):
    p = parameters(f.cores)
    x, c = values(f, FULL, FULL, seed)
    got = interpreter.run(fir(f, p), taidl.load("ai_engine", **p), {"x": x, "c": c})["y"]
    assert np.array_equal(got, chain(f, x, c))


@pytest.mark.first_case
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_study_computes_the_complex_convolution(case):
    f, stream = case.filter, case.stream()
    x, c = values(f, 100, 5)
    got = interpreter.run(stream, taidl.load("ai_engine", **dict(stream.parameters)), {"x": x, "c": c})["y"]
    xc, cc = (v[:, 0].astype(float) + 1j * v[:, 1] for v in (x, c))
    want = np.convolve(xc, cc[::-1], "valid")[:f.outputs]
    assert np.array_equal(got[:, 0], want.real) and np.array_equal(got[:, 1], want.imag)


@pytest.mark.slow
@pytest.mark.parametrize("f", [Fir(8, 9, 2, shift=3), Fir(4, 6, 2, cascade=True)], ids=["streams", "cascade"])
def test_the_oracle_equals_the_interpreter(f):
    p = parameters(f.cores)
    isa, stream = taidl.load("ai_engine", **p), fir(f, p)
    x, c = values(f, FULL, FULL)
    want = interpreter.run(stream, isa, {"x": x, "c": c})["y"]
    assert np.array_equal(np.asarray(compile_stream(stream, isa)(x, c)[0]), want)


# --- timing ---------------------------------------------------------------------------------------------------------


@pytest.mark.first_case
@pytest.mark.parametrize(("case", "cycles", "warm_up"), [
    (CASES[0], 2048, 0), (CASES[1], 143, 15), (CASES[2], 588, 79), (CASES[3], 538, 26),
], ids=lambda v: getattr(v, "name", None))
def test_cycles_of_the_paper(case, cycles, warm_up):
    found = measure(case)
    assert (found.cycles, found.warm_up) == (cycles, warm_up)
    graph, stream = case.graph(), case.stream()
    resolved = resolve(stream, taidl.load("ai_engine", **graph.parameters))
    assert simulate(graph, resolved).cycles == found.makespan


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_reference_simulator_agrees_on_the_whole_signal(case):
    assert measure(case) == measure(case, log_reference)


@pytest.mark.slow
@given(filters(), st.sampled_from([0, 8, 32, 64, 128]), st.sampled_from([1, 3]), st.integers(1, 3))
@examples(5, 120)
def test_engine_equals_reference(f, stream_bits, memory_latency, fifo):
    graph = ai_engine(columns=f.cores, stream_bits=stream_bits, memory_latency=memory_latency, fifo=fifo)
    p = graph.parameters
    resolved = resolve(fir(f, p), taidl.load("ai_engine", **p))
    assert simulate(graph, resolved) == simulate_reference(graph, resolved)


def test_limited_streams_stall_the_cores_in_three_cycles_of_four():
    """Figure 13: once it has begun, each of the 16 cores computes in one cycle of four."""
    case = replace(CASES[2], filter=replace(CASES[2].filter, outputs=64))
    for core, done in enumerate(operations(case).cores):
        assert [op.start for op in done] == [4 + 5 * core + 4 * g for g in range(16)]
        assert all(op.end == op.start + 1 for op in done)
        assert {op.mnemonic for op in done} == {"mac4_stream" if core else "mul4"}


@pytest.mark.slow
def test_the_trace_shows_what_the_cores_wait_for():
    """In a window of the steady state, the last core's track holds three cycles of a stalled instruction to one of
    work."""
    case = replace(CASES[2], filter=replace(CASES[2].filter, outputs=160))
    graph, stream = case.graph(), case.stream()
    begin = 120
    log = log_window(graph, resolve(stream, taidl.load("ai_engine", **graph.parameters)), begin, 40)
    steps = [part for piece in tracks(log).slices["core[0][15].vector"] for part in (piece, *piece.parts)]
    stalled = {cycle for s in steps if s.stall == DEPENDENCY for cycle in range(s.begin, s.end)}
    assert sum(begin <= cycle < begin + 40 for cycle in stalled) == 30


def test_four_cores_do_not_stall_once_warm():
    """Figure 14: four operations for each of the groups that come every four cycles."""
    case = replace(CASES[3], filter=replace(CASES[3].filter, outputs=64))
    assert [op.start for op in operations(case).cores[3]] == list(range(26, 26 + 64))


@pytest.mark.slow
def test_wider_streams_take_less_time_down_to_what_the_cores_need():
    cycles = []
    for bits in (16, 32, 64, 128):
        graph_case = replace(CASES[2], stream_bits=bits, filter=replace(CASES[2].filter, outputs=128))
        cycles.append(measure(graph_case).cycles)
    assert cycles == sorted(cycles, reverse=True) and len(set(cycles)) == 4


# --- structure and refusals -------------------------------------------------------------------------------------------


def test_streams_are_links_and_the_chain_winds_through_the_grid():
    graph = ai_engine(rows=2, columns=3, stream_bits=64)
    links = [o for o in graph.objects.values() if isinstance(o, Link)]
    assert len(links) == 6 * 3 + 5 and {link.bandwidth for link in links} == {8}
    assert chain_places(2, 3) == [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]
    assert core_path(graph, 3) == "core[1][2]"
    assert not [o for o in ai_engine(stream_bits=0).objects.values() if isinstance(o, Link)]


@pytest.mark.parametrize(("f", "message"), [
    (Fir(6, 8, 2), "6 coefficients are no multiple of 2 on each of 2 cores"),
    (Fir(8, 0, 2), "outputs and cores must be at least 1"),
    (Fir(12, 8, 3), "3 cores are wanted and 2 there"),
    (Fir(72, 8, 1), "a core holds 32 coefficients, not 72; .* ring of samples must be .* at least 72, not 32"),
    (Fir(8, 8, 1, read_after=3), "the read must stand after 0 to 2 operations, not 3"),
    (Fir(32, 8, 1, read_after=1), "the read must stand after 2 to 14 operations, not 1"),
    (Fir(8, 8, 1, shift=16), "shift must be 0 to 15, not 16"),
])
def test_filters_that_do_not_fit_are_refused(f, message):
    with pytest.raises(MappingError, match=message):
        fir(f, parameters(2))


def test_options_out_of_range_are_listed_at_once():
    with pytest.raises(TargetError, match="columns must be .* samples must be .*not True"):
        ai_engine(columns=0, samples=True)
    with pytest.raises(TargetError, match=r"at most 512, not 16 \* 64; stream_bits must be a multiple of 8"):
        ai_engine(rows=16, columns=64, stream_bits=12)
