"""Traces follow the format, and queries over them give the statistics of the run."""

from __future__ import annotations

import gzip
import json
import sqlite3
from random import Random
from typing import Any

import pytest
from hypothesis import given

from archloom.acadl_models.acadl import FORWARD, ACADLEdge, FunctionalUnit, PipelineStage, create_ag, generate
from archloom.acadl_models.timing import TimingResult, simulate
from archloom.acadl_models.timing.engine.window import log_window
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.acadl_models.timing.result import PortTiming
from archloom.acadl_models.timing.trace import trace_bytes
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError, InputError
from archloom.oracle.resolved import ResolvedLoop, ResolvedStream
from tests.support.acadl_models.chrome_trace import read
from tests.support.acadl_models.engine_strategies import random_graph, random_stream
from tests.support.acadl_models.perfetto_processor import trace_processor
from tests.support.acadl_models.timing_builders import after, front, instr, stream
from tests.support.examples import examples, randoms

WHOLE = 1 << 40


def one(tables: sqlite3.Connection, query: str, *values: Any) -> Any:
    (value,) = tables.execute(query, values).fetchone()
    return value


def port(tables: sqlite3.Connection, name: str, cycles: int) -> PortTiming:
    """The rate of a port over time, from its counter."""
    points = tables.execute("select ts, value from counter where name = ? order by ts", (name,)).fetchall()
    spans = [(b - a, v) for (a, v), b in zip(points, [ts for ts, _ in points[1:]] + [cycles])]
    peak = max((v for _, v in spans), default=0)
    busy = sum(n for n, v in spans if v)
    return PortTiming(sum(n * v for n, v in spans), busy, peak, sum(n for n, v in spans if v == peak) if peak else 0)


def check(tables: sqlite3.Connection, result: TimingResult) -> None:
    """The slices and counters of a whole run add up to its statistics."""
    total = "select coalesce(sum(dur), 0) from slice join thread using (tid) where thread.name like ? and slice.cat = ?"
    for unit in result.units:
        assert one(tables, total, f"{unit.name}%", "stall,dependency") == unit.dependency_stall_cycles
    for stage in result.stages:
        assert one(tables, total, f"{stage.name}%", "stall,structural") == stage.stall_cycles
    for storage in result.storages[1:]:
        assert port(tables, f"{storage.name}: read bytes per cycle", result.cycles) == storage.read
        assert port(tables, f"{storage.name}: write bytes per cycle", result.cycles) == storage.write
        requests = "select count(*) from slice join thread using (tid) where thread.name like ? and cat = 'request'"
        assert one(tables, requests, f"{storage.name}%") == storage.read_requests + storage.write_requests
        points = port(tables, f"{storage.name}: queued requests", result.cycles)
        assert points.bytes == storage.queue_cycles
    units = "select count(*) from slice join thread using (tid) where cat = 'instruction' and depth = 0 and %s"
    held = " or ".join(f"thread.name like '{u.name}%'" for u in result.units)
    assert one(tables, units % f"({held})") == result.instructions
    assert one(tables, "select max(ts + dur) from slice") == result.cycles


@examples(10, 500)
@given(randoms)
def test_queries_over_a_trace_give_the_statistics(r: Random) -> None:
    graph = random_graph(r)
    program = random_stream(r, graph, r.choice((20, 150)))
    try:
        result = simulate_reference(graph, program)
    except GraphError:
        return
    check(read(trace_bytes(log_window(graph, program, 0, WHOLE), compressed=False)), result)


def billions() -> tuple[Any, ResolvedStream]:
    """A pipeline and four billion instructions."""

    @generate
    def build() -> None:
        stage = PipelineStage("decode")
        ACADLEdge(front(width=2), stage, FORWARD)
        after(stage, FunctionalUnit("fu", to_process={"op"}, latency="3 + n % 2"))

    body = instr("op", attributes={"n": Affine.variable("j")})
    outer = ResolvedLoop("i", 2_000_000, (ResolvedLoop("j", 2_000, (body,)),))
    return create_ag(build()), stream(outer)


def test_a_window_deep_in_a_run_of_billions() -> None:
    graph, program = billions()
    cycles = simulate(graph, program).cycles
    assert cycles > 10**10
    begin = cycles - 1000
    tables = read(gzip.decompress(trace_bytes(log_window(graph, program, begin, WHOLE), compressed=True)))
    assert one(tables, "select min(ts) from slice") == begin
    assert one(tables, "select max(ts + dur) from slice") == cycles
    query = "select args from slice join thread using (tid) where thread.name = 'fu' and depth = 0 order by ts"
    *_, last = tables.execute(query).fetchall()
    assert json.loads(last[0]) == {
        "instruction": 4 * 10**9 - 1, "mnemonic": "op", "n": 1999, "loop i": 1_999_999, "loop j": 1999,
    }
    assert one(tables, "select count(*) from slice") < 2000


@pytest.mark.parametrize(("begin", "length", "message"), [
    (-1, 5, "a window of the run begins at cycle 0 or later, not at -1"),
    (0, 0, "a window of the run has at least 1 cycle, not 0"),
    (10**12, 5, "the window begins at cycle 1000000000000, but the last cycle of the run is"),
])
def test_windows_outside_of_the_run_are_refused(begin: int, length: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        log_window(*billions(), begin, length)


def test_a_window_begins_at_the_last_cycle_and_not_after_it() -> None:
    graph, program = billions()
    cycles = simulate(graph, program).cycles
    assert log_window(graph, program, cycles - 1, 10).end == cycles
    with pytest.raises(InputError, match=f"begins at cycle {cycles}, but the last cycle of the run is {cycles - 1}"):
        log_window(graph, program, cycles, 10)


def test_a_trace_is_the_same_each_time_and_says_what_it_shows() -> None:
    graph, program = billions()
    log = log_window(graph, program, 5_000, 300)
    data = trace_bytes(log, compressed=True)
    assert data == trace_bytes(log_window(graph, program, 5_000, 300), compressed=True)
    assert json.loads(gzip.decompress(data))["otherData"] == {
        "format": "archloom.trace/1", "graph": "build", "stream": "test", "window": {"from": 5000, "to": 5300},
        "clock_hz": graph.clock_hz, "time": "1 us = 1 clock cycle",
    }


def test_perfettos_trace_processor_reads_it() -> None:
    graph, program = billions()
    data = trace_bytes(log_window(graph, program, 7_000, 400), compressed=False)
    expected = read(data)
    with trace_processor(data) as processor:
        slices = {(row.ts, row.dur, row.name, row.category, row.depth) for row in processor.query(
            "select ts, dur, name, category, depth from slice")}
        counters = {(row.ts, row.value, row.name) for row in processor.query(
            "select c.ts, c.value, t.name from counter c join counter_track t on c.track_id = t.id")}
        tracks = {(row.name, row.n) for row in processor.query(
            "select thread.name, count(*) as n from slice join thread_track on slice.track_id = thread_track.id "
            "join thread using (utid) group by utid")}
        faults = [(row.name, row.value) for row in processor.query(
            "select name, value from stats where severity in ('error', 'data_loss') and value > 0")]
    assert not faults
    assert slices == set(expected.execute("select ts * 1000, dur * 1000, name, cat, depth from slice"))
    assert counters == set(expected.execute("select ts * 1000, value, name || ' value' from counter"))
    assert tracks == set(expected.execute(
        "select thread.name, count(*) from slice join thread using (tid) group by tid"))


def test_perfettos_trace_processor_refuses_what_is_no_trace() -> None:
    with pytest.raises(AssertionError), trace_processor(b"no trace at all"):
        pass
