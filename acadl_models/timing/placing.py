"""Where the requests of an access go: storages, caches before them, addresses; and what their latencies may name."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.acadl.latency import Expression
from archloom.acadl_models.timing.memories.channels import Interleaving
from archloom.acadl_models.timing.program import Place, word_axes
from archloom.acadl_models.timing.routing import request_latencies, routes, routing, unit_latencies
from archloom.oracle.accesses import element_bits
from archloom.oracle.resolved import Buffer

_NO_NAMES: frozenset[str] = frozenset()
_OF_REQUESTS = frozenset(("words", "bytes"))


@per_graph
def places(
    graph: acadl.ArchitectureGraph, buffer: Buffer, is_read: bool, units: tuple[str, ...],
    touched: tuple[acadl.Bank, ...] | None,
) -> Place | str:
    """Where requests for a buffer go that come from ``units``, or why they can go nowhere."""
    banks = graph.buffers.get(buffer.name)
    if not banks:
        placed = ", ".join(sorted(graph.buffers)) or "none"
        return f"buffer {buffer.name!r}, which lies in no storage of the graph (its buffers: {placed})"
    place = graph[banks[0].storage]
    if isinstance(place, acadl.RegisterFile):
        return _registers(graph, buffer, place, touched or banks, len(banks) > 1)
    assert isinstance(place, acadl.DataStorage)
    ordered = touched or banks
    resetting = {_is(graph, unit, "resets") for unit in units} if not is_read else {False}
    if len(resetting) > 1:
        return f"buffer {buffer.name!r}, which only some of {', '.join(units)} reset: where several may, all must"
    prefetching = {_is(graph, unit, "prefetches") for unit in units}
    if len(prefetching) > 1:
        return f"buffer {buffer.name!r}, which only some of {', '.join(units)} prefetch: where several may, all must"
    assert isinstance(place, acadl.BufferStorage)
    waits = place.write_after_read, place.forwards_sums
    if resetting == {True}:
        return Place(buffer.name, True, (), place.data_width, write_after_read=waits[0], forwards_sums=waits[1])
    served = _served(graph, buffer, is_read, units, ordered)
    if isinstance(served, str):
        return served
    widths = {s.data_width for s in served}
    if len(widths) != 1 or word_axes(buffer, served[0].data_width) is None:
        return _indivisible(buffer, {s.name: s.data_width for s in served})
    found = tuple(acadl.Bank(storage.name, bank.start, bank.stop) for bank, storage in zip(ordered, served))
    paths = tuple(tuple(place.name for place in graph.path(storage)) for storage in served)
    bases = tuple(_bases(graph).get((bank.storage, buffer.name), 0) for bank in ordered)
    for bank, base, storage in zip(ordered, bases, served):
        if isinstance(storage, acadl.DRAM) and storage.has_bank_state and not _held(storage, bank, base):
            where = f"words {bank.start + base} .. {(bank.stop or 0) + base - 1}"
            return f"buffer {buffer.name!r}, of which {where} lie in no bank of {storage}"
    ports = tuple(s.port_width for s in served)
    channels = tuple(
        Interleaving(s.channels, s.channel_words, s.port_width)
        if isinstance(s, acadl.DRAM) and s.is_interleaved else None for s in served
    )
    lines = tuple(_own_lines(s) for s in served)
    bursts = [_bursts(graph, storage, is_read, units) for storage in served]
    unlike = next((each for each in bursts if len(each) > 1), None)
    if unlike is not None:
        ways = " and ".join(f"{size} bytes (from {unit})" for size, unit in sorted(unlike.items()))
        return f"buffer {buffer.name!r}, which it would reach in bursts of {ways}: only one size is allowed"
    sizes = tuple(8 * next(iter(each), 0) // served[0].data_width or 1 for each in bursts)
    return Place(
        buffer.name, prefetching != {True}, found, served[0].data_width, ports, paths, bases, channels, lines, sizes,
        False, *waits)


def _bursts(
    graph: acadl.ArchitectureGraph, storage: acadl.DataStorage, is_read: bool, units: tuple[str, ...]
) -> dict[int, str]:
    """Bytes of the bursts in which units reach a storage, each with one of them; 0 where it moves any words."""
    kind = acadl.READ_DATA if is_read else acadl.WRITE_DATA
    found = [unit for name in units if isinstance(unit := graph[name], acadl.FunctionalUnit)]
    return {graph.burst_bytes(storage, unit, kind): unit.name for unit in found}


def _own_lines(storage: acadl.DataStorage) -> int:
    """Words of a line of a cache where each line has a request of its own; else 0."""
    asked = isinstance(storage, acadl.CacheInterface) and storage.line_requests
    return storage.cache_line_size * 8 // storage.data_width if asked else 0  # type: ignore[attr-defined]


def _is(graph: acadl.ArchitectureGraph, name: str, flag: str) -> bool:
    unit = graph[name]
    return isinstance(unit, acadl.MemoryAccessUnit) and getattr(unit, flag)


def _held(memory: acadl.DRAM, bank: acadl.Bank, base: int) -> bool:
    """Whether all words of a buffer in a DRAM lie in its banks."""
    first, end = bank.start + base, (bank.stop or 0) + base
    return end - first == sum(max(0, min(stop, end) - max(start, first)) for start, stop in memory.banks)


def _registers(
    graph: acadl.ArchitectureGraph, buffer: Buffer, first: acadl.RegisterFile, banks: tuple[acadl.Bank, ...],
    spread: bool,
) -> Place | str:
    """Registers take no requests. What one unit alone reaches is ordered by its pipeline, and not tracked, where that
    forwards sums."""
    if spread and word_axes(buffer, first.data_width) is None:
        return _indivisible(buffer, {first.name: first.data_width})
    if first.is_renamed:
        return _renamed(graph, buffer, first)
    files = [file for b in banks if isinstance(file := graph[b.storage], acadl.RegisterFile)]
    shared = any(len({u.name for u in (*graph.readers(file), *graph.writers(file))}) > 1 for file in files)
    return Place(buffer.name, shared or not first.forwards_sums, (), first.data_width,
                 write_after_read=first.write_after_read, forwards_sums=first.forwards_sums)


def _renamed(graph: acadl.ArchitectureGraph, buffer: Buffer, first: acadl.RegisterFile) -> Place | str:
    """Its elements, in their order, make up registers, of which there are as many as the files have."""
    if first.data_width % element_bits(buffer.dtype):
        return _indivisible(buffer, {first.name: first.data_width})
    bits = math.prod(buffer.shape) * element_bits(buffer.dtype)
    if bits > 8 * graph.bytes_of(buffer.name):
        held = ", ".join(dict.fromkeys(bank.storage for bank in graph.buffers[buffer.name]))
        return f"buffer {buffer.name!r}, of {-(-bits // first.data_width)} registers, more than {held} has"
    return Place(buffer.name, False, (), first.data_width, renamed=True, forwards_sums=first.forwards_sums)


def _served(
    graph: acadl.ArchitectureGraph, buffer: Buffer, is_read: bool, units: tuple[str, ...], banks: tuple[acadl.Bank, ...]
) -> tuple[acadl.DataStorage, ...] | str:
    """For each bank the storage to which the units are attached: the memory, or a cache before it."""
    tables = routing(graph)
    found = []
    for bank in banks:
        ways = tables.ways.get((bank.storage, is_read), {})
        over = {way: unit for unit in units for way in ways.get(unit, ())}
        if len(over) > 1:
            how = " and ".join(f"over {way} (from {unit})" for way, unit in sorted(over.items()))
            return f"buffer {buffer.name!r} in {bank.storage}, which it would reach {how}: only one way is allowed"
        storage = graph[next(iter(over), bank.storage)]
        assert isinstance(storage, acadl.DataStorage)
        found.append(storage)
    return tuple(found)


def _indivisible(buffer: Buffer, widths: Mapping[str, int]) -> str:
    words = ", ".join(f"{name}: {width} bits" for name, width in widths.items())
    shape = "x".join(map(str, buffer.shape))
    return f"buffer {buffer.name!r} ({shape} {buffer.dtype}), which does not divide into words of {words}"


def unknown_names(
    graph: acadl.ArchitectureGraph, mnemonic: str, takers: tuple[str, ...], storages: tuple[tuple[str, bool], ...],
    known: frozenset[str],
) -> Iterator[str]:
    """Latencies on the way of an instruction that name what neither it nor the ISA has."""
    for where, expression, also in latencies(graph, mnemonic, takers, storages):
        names = known | also
        if expression.names - names:
            yield (
                f"{where} {expression.text!r} names {', '.join(sorted(expression.names - names))}, unknown for "
                f"{mnemonic!r} (known: {', '.join(sorted(names))})"
            )


@per_graph
def latencies(
    graph: acadl.ArchitectureGraph, mnemonic: str, takers: tuple[str, ...], storages: tuple[tuple[str, bool], ...]
) -> tuple[tuple[str, Expression, frozenset[str]], ...]:
    """What an instruction meets on its way, with the names that it knows by itself; ``storages`` with is_read."""
    found: list[tuple[str, Expression, frozenset[str]]] = []
    for name in takers:
        for unit in graph.units(_stage(graph, name)):
            if mnemonic in unit.to_process:
                found += [(*each, _NO_NAMES) for each in unit_latencies(unit, mnemonic)]
    for name, is_read in storages:
        storage = graph[name]
        assert isinstance(storage, acadl.DataStorage)
        asked = request_latencies(graph, storage, is_read)
        found += [(where, expression, _OF_REQUESTS) for where, expression in asked]
    passed = routes(graph, takers) - set(takers if graph.semantics.stage_latency == "replaced" else ())
    for name in sorted(passed):
        stage = _stage(graph, name)
        if not isinstance(stage, acadl.InstructionFetchStage):
            found.append((f"{stage}: latency", stage.latencies()["latency"], _NO_NAMES))
    return tuple(found)


def _stage(graph: acadl.ArchitectureGraph, name: str) -> acadl.PipelineStage:
    stage = graph[name]
    assert isinstance(stage, acadl.PipelineStage)
    return stage


@per_graph
def _bases(graph: acadl.ArchitectureGraph) -> dict[tuple[str, str], int]:
    """By memory and buffer: what is added to a row of the buffer for its word address in the memory.

    A buffer that has the memory to itself keeps its row numbers, those of the memory's ``address_ranges``; of several
    buffers each lies behind the ones before it in the order of the ``buffers`` table.
    """
    ends: dict[str, int] = {}
    bases: dict[tuple[str, str], int] = {}
    for buffer, banks in graph.buffers.items():
        for memory in dict.fromkeys(b.storage for b in banks if b.stop is not None):
            mine = [(b.start, b.stop or 0) for b in banks if b.storage == memory]
            first, last = min(start for start, _ in mine), max(stop for _, stop in mine)
            base = ends[memory] - first if memory in ends else 0
            bases[memory, buffer] = base
            ends[memory] = last + base
    return bases
