"""Events and joules of a program's run, instance by instance: the plain second way to count them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, DataStorage, FunctionalUnit
from archloom.acadl_models.timing.program import AccessPlan, Program


def one_by_one(program: Program, units: Mapping[int, str]) -> tuple[Counter[str], Counter[str]]:
    """Events of each unit, storage, register file and link, and joules of each unit; ``units``: who took which
    instance, by their numbers in program order."""
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
    return events, joules


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
