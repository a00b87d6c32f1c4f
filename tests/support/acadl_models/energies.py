"""Events and joules of a program's run, instance by instance: the plain second way to count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from unittest.mock import patch

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, DataStorage, FunctionalUnit
from archloom.acadl_models.timing.memories.cache import Cache
from archloom.acadl_models.timing.program import AccessPlan, Program


def one_by_one(program: Program, units: Mapping[int, str]) -> tuple[Counter[str], Counter[str]]:
    """Events of each unit, storage, register file and link (``NAME``, and ``NAME read`` or ``NAME write``), and joules
    of each unit; ``units``: who took which instance, by their numbers in program order."""
    graph = program.graph
    events: Counter[str] = Counter()
    joules: Counter[str] = Counter()
    for number, (static, values) in enumerate(program.instances()):
        unit = graph[units[number]]
        assert isinstance(unit, FunctionalUnit)
        count = unit.operations_of(static.node.mnemonic).evaluate(static.environment(program.parameters, values))
        events[unit.name] += count
        joules[unit.name] += count * (unit.joules_of(static.node.mnemonic) or 0)  # type: ignore[assignment]
        for plan in static.plans:
            for name, amount in _moved(program, plan, unit, values):
                events[name] += amount
                events[f"{name} {'read' if plan.is_read else 'write'}"] += amount
    return events, joules


@contextmanager
def moved_lines() -> Iterator[Counter[str]]:
    """Bytes that caches of the step-by-step simulator fill and write back (``NAME fill``), and that they read and write
    behind them (``behind NAME read``), as they do it."""
    found: Counter[str] = Counter()
    bring, put, pass_on = Cache._bring, Cache._put, Cache._pass_on
    gives_way: list[Cache] = []

    def bringing(cache: Cache, line: int) -> None:
        found.update({f"{cache.name} fill": cache.line_bytes, f"behind {cache.name} read": cache.line_bytes})
        bring(cache, line)

    def putting(cache: Cache, line: int) -> None:
        gives_way.append(cache)
        put(cache, line)
        gives_way.pop()

    def passing(cache: Cache, start: int, stop: int) -> None:
        found[f"behind {cache.name} write"] += stop - start
        found[f"{cache.name} write_back"] += (stop - start) * (gives_way[-1:] == [cache])
        pass_on(cache, start, stop)

    with patch.multiple(Cache, _bring=bringing, _put=putting, _pass_on=passing):
        yield found


def _moved(
    program: Program, plan: AccessPlan, unit: FunctionalUnit, values: Mapping[str, int]
) -> Iterable[tuple[str, int]]:
    """Words of storages and registers, and bytes of links, of one access of an instance that ``unit`` has taken."""
    graph = program.graph
    for request in plan.requests(values):
        yield request.storage, request.words
        storage = graph[request.storage]
        assert isinstance(storage, DataStorage)
        link = graph.link(storage, unit, READ_DATA if request.is_read else WRITE_DATA)
        if link is not None:
            yield link.name, request.bytes
    banks = graph.buffers[plan.buffer.name]
    if plan.place.banks or isinstance(graph[banks[0].storage], DataStorage):
        return
    for bank in banks:
        rows = plan.words + plan.word_offset.evaluate(values)
        yield bank.storage, len(rows) if bank.stop is None else int(((rows >= bank.start) & (rows < bank.stop)).sum())
