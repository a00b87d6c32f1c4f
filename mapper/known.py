"""Simulations that are known of machines which differ in the sizes of memories alone.

What a stream does on a machine does not depend on how large a memory is, as long as it fits: rows that it never touches
take no request and no time. So a search on a machine with more room simulates nothing of what was simulated with less.
That holds for a memory that is the only bank of its only buffer, from row 0 on, without state and without a cache
before it, where nothing but the buffer's extent names the parameter that states its size; of any other memory, as of
several banks, whose borders move with their size, machines of one size alone are alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

from archloom.acadl_models.acadl import SRAM, ArchitectureGraph
from archloom.acadl_models.acadl.graph import HBM
from archloom.acadl_models.timing.result import TimingResult
from archloom.mapper import cache
from archloom.oracle.stream import Stream
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import Isa

MOST = 256
"""Streams of one workload that are kept: a search simulates some twenty."""

Run: TypeAlias = tuple[tuple[int, ...], int, int]
"""Rows of the free memories with which a stream was simulated, its cycles, and the instructions that were stepped
through."""


@dataclass(frozen=True)
class Kin:
    """All machines that are alike but for the rows of some memories: ``key`` has what they share, ``rows`` those of
    this one, in the order of the buffers' names."""

    key: str
    rows: tuple[int, ...]

    @staticmethod
    def of(graph: ArchitectureGraph, isa: Isa) -> "Kin | None":
        """None where no memory is free to be larger."""
        free = _free(graph, isa)
        if not free:
            return None
        facts, held = graph.facts(), {graph.buffers[name][0].storage: name for name in free}
        objects = [[kind, {**fields, "address_ranges": []} if fields["name"] in held else fields]
                   for kind, fields in facts["objects"]]
        shared = facts | {
            "objects": objects, "buffers": {**facts["buffers"], **dict.fromkeys(free)},
            "parameters": {name: value for name, value in facts["parameters"].items() if name not in free.values()}}
        text = isa.definition.source, *(text for _, text in isa.definition.included)
        others = sorted((name, value) for name, value in isa.parameters if name not in free.values())
        key = cache.key_of([cache.code_fingerprint("oracle", "acadl_models"), json.dumps(shared, sort_keys=True),
                            *text, repr(others)])
        return Kin(key, tuple(graph.buffers[name][0].stop or 0 for name in free))


def _free(graph: ArchitectureGraph, isa: Isa) -> dict[str, str]:
    """Buffers whose memories may be larger without anything else, sorted, each with the parameter of its rows."""
    users = [bank.storage for banks in graph.buffers.values() for bank in banks]
    stated = json.dumps(graph.facts()["objects"])
    found: dict[str, str] = {}
    for buffer in sorted(isa.definition.buffers, key=lambda each: each.name):
        banks = graph.buffers.get(buffer.name, ())
        if graph.caches or buffer.name == HBM or len(banks) != 1 or buffer.of is not None or not buffer.rows:
            continue
        place, rows = graph[banks[0].storage], buffer.rows[0]
        if (type(place) is SRAM and users.count(place.name) == 1 and banks[0].start == 0 and isinstance(rows, ast.Name)
                and _says_rows_alone(rows.name, buffer.name, isa) and not _names(rows.name, stated)):
            found[buffer.name] = rows.name
    return found


def _names(name: str, text: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", text))


def _says_rows_alone(parameter: str, buffer: str, isa: Isa) -> bool:
    """Whether a description names a parameter where it is stated and as the extent of one buffer, and nowhere else."""
    text = "\n".join([isa.definition.source, *(text for _, text in isa.definition.included)])
    text = re.sub(r"#.*", "", text)
    stated = re.search(rf"\bparam\s+{re.escape(parameter)}\b", text)
    extent = re.search(rf"\[\s*{re.escape(buffer)}\s*\]\s*\(\s*{re.escape(parameter)}\b", text)
    return bool(stated and extent) and _names(parameter, text) == 2


# what is kept ---------------------------------------------------------------------------------------------------------

RUNS: cache.Kept[dict[str, Run]] = cache.Kept()
"""Simulations by streams, of one workload on machines that are alike."""

_noting: ContextVar[bool] = ContextVar("noting", default=False)


@contextmanager
def noted() -> Iterator[None]:
    """What searches simulate in here is kept for other machines."""
    before = _noting.set(True)
    try:
        yield
    finally:
        _noting.reset(before)


def digest(stream: Stream) -> str:
    """Tells streams apart, whatever they are called, and without the ISA's parameters: those that matter are a part of
    what machines share."""
    return cache.key_of([repr((stream.arguments, stream.results, stream.hbm_bytes, stream.body))])


def note(kin: Kin, workload: str, simulated: "Mapping[Stream, TimingResult]") -> None:
    """Keep the simulations of a search, if they are asked for."""
    if not _noting.get():
        return
    key = _key(kin, workload)
    runs = dict(_kept(key))
    for stream, timing in simulated.items():
        name, run = digest(stream), (kin.rows, timing.cycles, timing.stepped_instructions)
        if name not in runs or _fit(kin.rows, runs[name][0]):
            runs[name] = run
    runs = dict(list(runs.items())[-MOST:])
    RUNS.remember(key, runs)
    cache.store_plan(key, runs)


def runs_of(kin: Kin, workload: str) -> dict[str, Run]:
    """What is known of a workload on machines with no more room, by this process and by others."""
    return {name: run for name, run in _kept(_key(kin, workload)).items() if _fit(run[0], kin.rows)}


def _key(kin: Kin, workload: str) -> str:
    return cache.key_of(["simulations", kin.key, workload])


def _kept(key: str) -> dict[str, Run]:
    """Of this process, and of others, which may have found more since."""
    return {**(RUNS.get(key, _read) or {}), **(cache.load_plan(key, _read) or {})}


def _read(body: Any) -> dict[str, Run]:
    return {str(name): (tuple(map(int, rows)), int(cycles), int(stepped))
            for name, (rows, cycles, stepped) in body.items()}


def _fit(rows: tuple[int, ...], others: tuple[int, ...]) -> bool:
    """Whether what has so many rows has no more than another machine."""
    return all(one <= other for one, other in zip(rows, others, strict=True))
