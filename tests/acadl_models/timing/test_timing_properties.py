"""What must hold for every run of the reference simulator, checked from its log on random machines and streams."""

from __future__ import annotations

from itertools import combinations, pairwise
from random import Random

from hypothesis import given

from archloom.acadl_models.acadl import ArchitectureGraph, DataStorage, RegisterFile
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.program import StaticInstruction
from archloom.acadl_models.timing.result import TimingResult
from archloom.oracle.accesses import accesses, element_bits
from archloom.oracle.errors import GraphError
from archloom.oracle.resolved import Buffer, ResolvedStream, Window
from archloom.oracle.windows import linear, positions
from tests.support.acadl_models.engine_strategies import random_graph, random_stream
from tests.support.acadl_models.simulators import InstanceLog, simulate_logged
from tests.support.examples import examples, randoms

Run = tuple[ArchitectureGraph, ResolvedStream, TimingResult, list[InstanceLog]]
Instance = tuple[StaticInstruction, dict[str, int]]


def _run(r: Random) -> Run | None:
    graph = random_graph(r)
    stream = random_stream(r, graph, most=80)
    log: list[InstanceLog] = []
    try:
        result = simulate_logged(graph, stream, log)
    except GraphError:
        return None  # a deadlock or a latency below its least value: tested by hand elsewhere
    return graph, stream, result, sorted(log, key=lambda entry: entry.number)


def _elements(window: Window, buffer: Buffer, values: dict[str, int]) -> list[int]:
    """Row-major positions of the elements of a window."""
    first = linear(window.offsets, buffer.shape).evaluate(values)
    return [int(p) + first for p in positions(window.dims, buffer.shape, len(buffer.shape))]


def _touched(stream: ResolvedStream, instance: Instance) -> dict[tuple[str, int], set[str]]:
    """Elements that an instance touches, with the kinds of access."""
    static, values = instance
    found: dict[tuple[str, int], set[str]] = {}
    for access in accesses(static.node):
        buffer = stream.buffer(access.window.buffer)
        for element in _elements(access.window, buffer, values):
            found.setdefault((buffer.name, element), set()).add(access.kind)
    return found


def _private(graph: ArchitectureGraph, buffer: str) -> bool:
    place = graph[graph.buffers[buffer][0].storage]
    if not isinstance(place, RegisterFile):
        return False
    return len({u.name for u in (*graph.readers(place), *graph.writers(place))}) == 1


@examples(50, 1000)
@given(randoms)
def test_what_every_run_keeps(r: Random) -> None:
    run = _run(r)
    if run is None:
        return
    steps_follow_one_another_and_conflicts_are_kept(*run)
    units_keep_their_limits(*run)
    storages_move_what_the_stream_touches(*run)


def steps_follow_one_another_and_conflicts_are_kept(
    graph: ArchitectureGraph, stream: ResolvedStream, result: TimingResult, log: list[InstanceLog]
) -> None:
    instances = list(bind(graph, stream).instances())
    assert [entry.number for entry in log] == list(range(len(instances))) and len(log) == result.instructions
    assert [entry.fetched for entry in log] == sorted(entry.fetched for entry in log)
    for e in log:
        assert 0 < e.fetched <= e.received <= e.started <= e.processing <= e.written <= e.finished <= result.cycles
    touched = [_touched(stream, instance) for instance in instances]
    for i, j in combinations(range(len(log)), 2):
        for place in touched[i].keys() & touched[j].keys():
            kinds = touched[i][place] | touched[j][place]
            if kinds not in ({"read"}, {"accumulate"}) and not _private(graph, place[0]):
                assert log[j].started >= log[i].finished, (log[i], log[j], place)


def units_keep_their_limits(
    graph: ArchitectureGraph, _: ResolvedStream, result: TimingResult, log: list[InstanceLog]
) -> None:
    for unit in graph.functional_units:
        mine = sorted((e for e in log if e.unit == unit.name), key=lambda e: e.started)
        assert len(mine) == result.unit(unit.name).instructions
        assert [e.received for e in mine] == sorted(e.received for e in mine)
        for before, later in pairwise(mine):
            assert later.received >= (before.started + 1 if unit.interval is not None else before.finished)
        for e in mine:
            assert sum(o.started <= e.started < o.finished for o in mine) <= unit.in_flight
        timing = result.unit(unit.name)
        waits = sum(e.started - e.received for e in mine)
        assert timing.dependency_stall_cycles == waits
        assert timing.cycles == result.cycles


def storages_move_what_the_stream_touches(
    graph: ArchitectureGraph, stream: ResolvedStream, result: TimingResult, log: list[InstanceLog]
) -> None:
    """What units that reset write moves nothing."""
    moved = dict.fromkeys((s.name for s in result.storages), 0)
    for (static, values), entry in zip(bind(graph, stream).instances(), log, strict=True):
        resets = getattr(graph[entry.unit], "resets", False)
        for access in accesses(static.node):
            if resets and access.kind != "read":
                continue
            buffer = stream.buffer(access.window.buffer)
            for bank in graph.buffers[buffer.name]:
                place = graph[bank.storage]
                if isinstance(place, DataStorage):
                    per_word = place.data_width // element_bits(buffer.dtype)
                    words = {e // per_word for e in _elements(access.window, buffer, values)}
                    inside = [w for w in words if bank.start <= w < (bank.stop or 0)]
                    moved[place.name] += len(inside) * place.data_width // 8
    for storage in result.storages:
        if storage.name in {b.storage for banks in graph.buffers.values() for b in banks}:
            assert storage.bytes_read + storage.bytes_written == moved[storage.name]
            place = graph[storage.name]
            assert isinstance(place, DataStorage)
            words = 8 * (storage.bytes_read + storage.bytes_written) // place.data_width
            assert -(-words // place.port_width) <= storage.busy_beats <= words
            lanes = 1 if place.shared_port else place.max_concurrent_requests
            assert storage.busy_beats <= lanes * result.cycles
