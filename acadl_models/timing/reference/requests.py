"""Requests from their issue to their end (phases 1a and 1b; "Caches", "DRAM banks" and "Links")."""

from __future__ import annotations

from collections.abc import Iterator

from archloom.acadl_models.acadl import READ_DATA, WRITE_DATA, CacheInterface, DataStorage, Link
from archloom.acadl_models.timing.log import CARRIED, GRANTED, QUEUED, TRANSFER
from archloom.acadl_models.timing.machine import evaluate_latency
from archloom.acadl_models.timing.memories.cache import Cache, Wait
from archloom.acadl_models.timing.memories.serving import Pause
from archloom.acadl_models.timing.program import Request
from archloom.acadl_models.timing.reference.state import NEVER, Instance, Issued, Machine, Storage
from archloom.acadl_models.timing.reference.streaming import note_end


def end_requests(m: Machine) -> None:
    """Phase 1a: requests end; then others look on, by storages, in the order in which they got their slots."""
    due = [issued for storage in m.storages.values() for issued in storage.slots if issued.finish == m.now]
    for issued in due:
        if not issued.looks_on:
            _end(m, issued)
    for issued in due:
        if issued.looks_on:
            m.woken.append(issued)
        while m.woken:
            _go_on(m, m.woken.popleft())


def fill_slots(m: Machine, storage: Storage) -> None:
    """Phase 1a: freed slots take requests from the head of the FIFO."""
    while storage.fifo and storage.has_slot(storage.fifo[0]):
        issued = storage.fifo.popleft()
        _take_slot(storage, issued)
        _go_on(m, issued)


def issue(m: Machine, instance: Instance, requests: list[Request]) -> None:
    """Issue the reads or the writes of an instruction: each is granted a slot at once or queued."""
    first = 0 if requests is instance.reads else len(instance.reads)
    for number, request in enumerate(requests, first):
        storage = m.storages[request.storage]
        link = m.graph.link(storage.spec, instance.unit.spec, READ_DATA if request.is_read else WRITE_DATA)
        issued = Issued(request, instance, number, exclusive=link is not None and link.exclusive)
        issued.passage = _passage(m, storage, issued, link)
        instance.pending.append(issued)
        if _ask(storage, issued):
            _go_on(m, issued)
        else:
            _note(m, QUEUED, issued)
        storage.beats += request.beats
        moved = storage.read if request.is_read else storage.written
        moved.update(requests=1, words=request.words, bytes=request.bytes)


def _ask(storage: Storage, issued: Issued) -> bool:
    """Whether a request gets a slot at once; if not, it waits in the FIFO."""
    if storage.fifo or not storage.has_slot(issued):
        storage.fifo.append(issued)
        return False
    _take_slot(storage, issued)
    return True


def _take_slot(storage: Storage, issued: Issued) -> None:
    (storage.refills if storage.is_refill(issued) else storage.slots).append(issued)


def _go_on(m: Machine, issued: Issued) -> None:
    """A request with a slot takes steps until it has to wait, or has ended."""
    m.changed = True
    for pause in issued.passage:
        if isinstance(pause, int):
            issued.finish = pause
            if pause == m.now:  # a miss that ends without the latency of a hit
                _end(m, issued)
            return
        if _waits_for_others(m, issued, *pause):
            issued.finish = NEVER
            return


def _waits_for_others(m: Machine, issued: Issued, cache: Cache, wait: Wait) -> bool:
    """Take the step of a request at a cache that is no latency; whether others decide when it goes on."""
    if wait is Wait.REGISTER:
        m.waiting[cache.name].append(issued)
        return True
    spec = m.graph[cache.name]
    assert isinstance(spec, CacheInterface)
    behind = m.storages[m.graph.backing(spec).name]
    if wait is Wait.SLOT:
        return not _ask(behind, issued)
    if issued in behind.refills:
        behind.refills.remove(issued)
    m.woken.extend(m.waiting.pop(cache.name, ()))
    return False


def _end(m: Machine, issued: Issued) -> None:
    m.storages[issued.request.storage].slots.remove(issued)
    issued.owner.pending.remove(issued)
    m.changed = True


def _passage(m: Machine, storage: Storage, issued: Issued, link: Link | None) -> Iterator[Pause]:
    """What a request waits for from its grant on: for its lines, if any, and for its end."""
    request = issued.request
    _note(m, GRANTED, issued)
    ready = first = yield from m.memories.ready(
        storage.spec, request, lambda s, attribute: _storage_latency(m, s, attribute, issued), lambda: m.now
    )
    interleaved = m.memories.interleaved.get(request.storage)
    if storage.spec.shared_port and interleaved is None:
        first = max(first, storage.port_free)
        storage.port_free = first + request.beats
    finish = first + request.beats - 1 if interleaved is None else interleaved.move(request.runs, ready)
    if link is not None:
        start, arrival = m.memories.channels[link.name].send(request.bytes, request.is_read, ready)
        m.tally.link(link.name, request.is_read, start, request.bytes, link.bandwidth, start - ready)
        finish = max(finish, arrival)
        m.note(CARRIED, link.name, issued.owner.number, size=request.bytes, is_read=request.is_read, begin=start,
               bandwidth=link.bandwidth, waited=start - ready)
    _note(m, TRANSFER, issued, finish)
    # a miss that ends without the latency of a hit has moved its words before its end was known
    alone = m.semantics.cache_miss_end == "after_miss" and request.storage in m.memories.caches
    m.tally.transfer(request.storage, request.is_read, finish, request.beats, request.bytes, alone)
    issued.looks_on = False
    note_end(m, issued, finish, link)
    yield finish


def _note(m: Machine, step: str, issued: Issued, finish: int = -1) -> None:
    """A request passes a step now."""
    r = issued.request
    m.note(step, r.storage, issued.owner.number, finish, request=issued.number, size=r.bytes, beats=r.beats,
           is_read=r.is_read)


def _storage_latency(m: Machine, storage: DataStorage, attribute: str, issued: Issued) -> int:
    expression = storage.latencies()[attribute]
    values = {**issued.owner.environment, "words": issued.request.words, "bytes": issued.request.bytes}
    return evaluate_latency(m.graph, f"{storage}: {attribute}", expression, values, 1, issued.owner.mnemonic)
