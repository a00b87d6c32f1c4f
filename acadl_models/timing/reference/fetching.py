"""Phase 4, the start of a fetch, and phase 1d, its end."""

from __future__ import annotations

from archloom.acadl_models.timing.log import FETCH, FETCHED
from archloom.acadl_models.timing.reference.reordering import name_registers
from archloom.acadl_models.timing.reference.state import Instance, Machine


def fetch(m: Machine) -> None:
    """Phase 4: a fetch starts if the issue buffer has room for all of it."""
    f = m.fetcher
    count = min(f.memory.port_width, m.total - f.requested)
    reserved = sum(under_way for _, under_way in f.under_way)
    room = f.stage.issue_buffer_size - len(f.buffer) - reserved
    if len(f.under_way) < m.semantics.fetches_in_flight and 0 < count <= room:
        f.under_way.append((m.now + f.cycles, count))
        m.note(FETCH, f.stage.name, -1, m.now + f.cycles, instructions=count)
        f.requested += count
        f.fetches += 1
        m.changed = True


def arrive(m: Machine) -> None:
    """Phase 1d: a fetch that ends now appends its instructions to the issue buffer."""
    under_way = m.fetcher.under_way
    if under_way and under_way[0][0] == m.now:
        for _ in range(under_way.popleft()[1]):
            _append_next(m)
        m.changed = True


def _append_next(m: Machine) -> None:
    f = m.fetcher
    assert f.upcoming is not None
    static, values = f.upcoming
    f.upcoming = next(f.left, None)
    environment = static.environment(m.program.parameters, values)
    instance = Instance(f.fetched, static, values, environment)
    for plan in static.plans:
        (instance.reads if plan.is_read else instance.writes).extend(plan.requests(values))
    name_registers(instance)
    m.note(FETCHED, f.stage.name, f.fetched)
    f.fetched += 1
    f.buffer.append(instance)
    m.alive.append(instance)
