"""Simulations that are known of machines which differ in the sizes of memories and in the width of a bus alone.

What a stream does on a machine does not depend on how large a memory is, as long as it fits: rows that it never touches
take no request and no time. So a search on a machine with more room simulates nothing of what was simulated with less.
That holds for a memory that is the only bank of its only buffer, from row 0 on, without state and without a cache
before it, where nothing but the buffer's extent names the parameter that states its size.

Borders of several banks move with their size. Where a target says which stretches of rows the stream of a mapping
touches (:attr:`archloom.mapper.accelerator.Accelerator.touched`), machines are alike for it on which each row of each
stretch lies in the same bank, whatever banks are called: then instructions meet in the same elements as before, and
each bank is asked for the same requests in the same order, of as many rows. So it does not matter where the stretches
begin, nor how large the banks are (:func:`spread`).

Nor does it matter how many bytes a memory moves in a cycle to a stream of which each contiguous piece of memory takes
as many cycles: pieces of 16 bytes take one by 16 bytes a cycle, or 64. That holds for a memory without state, bursts,
channels and links, of which nothing is asked but the pieces of a stream's instructions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from archloom.acadl_models.acadl import DRAM, SRAM, ArchitectureGraph
from archloom.acadl_models.acadl.graph import HBM
from archloom.mapper import cache
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.oracle.stream import Stream
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import Isa
from archloom.oracle.windows import contiguous

if TYPE_CHECKING:
    from archloom.acadl_models.timing.program import Program

MOST = 256
"""Streams of one workload that are kept: a search simulates some twenty."""

Stretches: TypeAlias = Mapping[str, tuple[tuple[int, int], ...]]
"""Of buffers the rows that a stream touches, from the first to the one behind the last of each stretch. They do not
overlap."""


@dataclass(frozen=True)
class Touched:
    """The stream of a ``mapping`` touches these ``rows``. The mapping has no more places than are used: tiles take
    places in turn, and more places than there are tiles are like rows that a memory has too many."""

    mapping: TileMapping
    rows: Stretches


@dataclass(frozen=True)
class Run:
    """A simulation of a stream: ``rows`` of the free memories, and ``ports``, words that memories of tensors move in a
    cycle, with which it was simulated; lengths of the ``pieces`` of those memories, in words; its cycles, the
    instructions that were stepped through, those that are written in the stream, and those of its program."""

    rows: tuple[int, ...]
    ports: tuple[int, ...]
    pieces: tuple[int, ...]
    cycles: int
    stepped: int
    written: int
    bound: int

    @staticmethod
    def read(body: Any) -> "Run":
        rows, ports, pieces = (tuple(map(int, part)) for part in body[:3])
        cycles, stepped, written, bound = map(int, body[3:])
        return Run(rows, ports, pieces, cycles, stepped, written, bound)


@dataclass(frozen=True)
class Kin:
    """All machines that are alike but for the rows of some memories, and the widths of ports: ``key`` has what they
    share, ``rows`` those of this one, in the order of the buffers' names, unless streams are told apart by how they
    are spread over banks; ``ports``: what memories of tensors move in a cycle, in their order."""

    key: str
    rows: tuple[int, ...]
    ports: tuple[int, ...] = ()

    @staticmethod
    def of(graph: ArchitectureGraph, isa: Isa, emission: str = "") -> "Kin | None":
        """None where nothing is free to differ. ``emission``, where it is known which rows streams touch: what changes
        with the code that writes the stream of a mapping, as streams are told apart by their mappings then."""
        spread = bool(emission)
        free, ports = _free(graph, isa, spread=spread), _ports(graph)
        if not free and not ports:
            return None
        facts = graph.facts()
        held = {bank.storage for name in free for bank in graph.buffers[name]}
        objects = [[kind, {**fields, **({"address_ranges": []} if fields["name"] in held else {}),
                           **({"port_width": 0} if fields["name"] in ports else {})}]
                   for kind, fields in facts["objects"]]
        buffers = {name: [storage for storage, *_ in banks] if name in free else banks
                   for name, banks in facts["buffers"].items()}
        shared = facts | {
            "objects": objects, "buffers": buffers,
            "parameters": {name: value for name, value in facts["parameters"].items() if name not in free.values()}}
        text = isa.definition.source, *(text for _, text in isa.definition.included)
        others = sorted((name, value) for name, value in isa.parameters if name not in free.values())
        key = cache.key_of([cache.code_fingerprint("oracle", "acadl_models"), json.dumps(shared, sort_keys=True),
                            *text, repr(others), emission])
        rows = () if spread else tuple(graph.buffers[name][-1].stop or 0 for name in free)
        return Kin(key, rows, tuple(memory.port_width for memory in graph.tensor_memories if memory.name in ports))


def _free(graph: ArchitectureGraph, isa: Isa, *, spread: bool) -> dict[str, str]:
    """Buffers whose memories may be larger without anything else, sorted, each with the parameter of its rows."""
    users = [bank.storage for banks in graph.buffers.values() for bank in banks]
    facts = {fields["name"]: fields for _, fields in graph.facts()["objects"]}
    stated = json.dumps(list(facts.values()))
    found: dict[str, str] = {}
    for buffer in sorted(isa.definition.buffers, key=lambda each: each.name):
        banks = graph.buffers.get(buffer.name, ())
        if graph.caches or buffer.name == HBM or not banks or buffer.of is not None or not buffer.rows:
            continue
        kinds = [(type(graph[bank.storage]), {**facts[bank.storage], "name": "", "address_ranges": []})
                 for bank in banks]
        alike = kinds[0][0] is SRAM and kinds.count(kinds[0]) == len(kinds) and (spread or len(kinds) == 1)
        alone = all(users.count(bank.storage) == 1 for bank in banks)
        rows = buffer.rows[0]
        if (alike and alone and banks[0].start == 0 and isinstance(rows, ast.Name)
                and _says_rows_alone(rows.name, buffer.name, isa) and not _names(rows.name, stated)):
            found[buffer.name] = rows.name
    return found


def _ports(graph: ArchitectureGraph) -> tuple[str, ...]:
    """The memory of tensors, where the pieces that are asked for alone say how long they take."""
    linked = {place for edge in graph.edges if edge.link is not None for place in (edge.source.name, edge.target.name)}
    memories = graph.tensor_memories
    if graph.caches or len(memories) != 1 or memories[0].name in linked or memories[0].burst_bytes:
        return ()
    has_state = isinstance(memories[0], DRAM) and (memories[0].has_bank_state or memories[0].is_interleaved)
    return () if has_state or type(memories[0]) not in (DRAM, SRAM) else (memories[0].name,)


def _names(name: str, text: str) -> int:
    return len(re.findall(rf"\b{re.escape(name)}\b", text))


def _says_rows_alone(parameter: str, buffer: str, isa: Isa) -> bool:
    """Whether a description names a parameter where it is stated and as the extent of one buffer, and nowhere else."""
    text = "\n".join([isa.definition.source, *(text for _, text in isa.definition.included)])
    text = re.sub(r"#.*", "", text)
    stated = re.search(rf"\bparam\s+{re.escape(parameter)}\b", text)
    extent = re.search(rf"\[\s*{re.escape(buffer)}\s*\]\s*\(\s*{re.escape(parameter)}\b", text)
    return bool(stated and extent) and _names(parameter, text) == 2


# what tells streams apart ---------------------------------------------------------------------------------------------


def digest(stream: Stream) -> str:
    """Tells streams apart, whatever they are called, and without the ISA's parameters: those that matter are a part of
    what machines share."""
    return cache.key_of([repr((stream.arguments, stream.results, stream.hbm_bytes, stream.body))])


def spread(touched: Touched, graph: ArchitectureGraph) -> str:
    """Tells the streams of a workload apart by their mappings and by how the rows that they touch lie in banks.

    Of each stretch the lengths of its parts in one bank, each with the number of the bank among those that are met. By
    hand: rows 0 to 6 of banks of 4 rows are (4, 0), (2, 1), and rows 14 to 16, in the last of four banks, (2, 2). With
    banks of 8 rows they are (6, 0) and, at 30 to 32, (2, 1): not the same, as one stretch lies in one bank now.
    """
    numbers: dict[str, int] = {}
    found = [(buffer, [[(rows, numbers.setdefault(bank, len(numbers))) for rows, bank in _parts(graph, buffer, stretch)]
                       for stretch in stretches]) for buffer, stretches in sorted(touched.rows.items())]
    return cache.key_of([repr(touched.mapping), repr(found)])


def _parts(graph: ArchitectureGraph, buffer: str, stretch: tuple[int, int]) -> Iterator[tuple[int, str]]:
    """Rows of a stretch in each bank, by ascending rows."""
    for bank in graph.buffers[buffer]:
        rows = min(stretch[1], bank.stop or 0) - max(stretch[0], bank.start)
        if rows > 0:
            yield rows, bank.storage


def pieces(program: "Program") -> tuple[int, ...]:
    """How many words contiguous pieces of memories of tensors have that instructions of a program move, ascending."""
    plans = {(plan.buffer.name, plan.access.window.dims): plan
             for static in program.instructions for plan in static.plans if plan.buffer.name == HBM}
    return tuple(sorted({size for plan in plans.values() for _, size in contiguous(plan.words)}))


# what is kept ---------------------------------------------------------------------------------------------------------

RUNS: cache.Kept[dict[str, list[Run]]] = cache.Kept()
"""Simulations by what tells streams apart, of one workload on machines that are alike."""

_noting: ContextVar[bool] = ContextVar("noting", default=False)


@contextmanager
def noted() -> Iterator[None]:
    """What searches simulate in here is kept for other machines."""
    before = _noting.set(True)
    try:
        yield
    finally:
        _noting.reset(before)


def is_noting() -> bool:
    """Whether simulations are kept."""
    return _noting.get()


def note(kin: Kin, workload: str, simulated: Mapping[str, Run]) -> None:
    """Keep the simulations of a search: one for those that tell as much."""
    key = _key(kin, workload)
    runs = dict(_kept(key))
    for name, run in simulated.items():
        others = [other for other in runs.pop(name, []) if not _tells(run, other.rows, other.ports)]
        runs[name] = [*others, run]
    while sum(map(len, runs.values())) > MOST:
        del runs[next(iter(runs))]
    RUNS.remember(key, runs)
    cache.store_plan(key, {name: [astuple(run) for run in found] for name, found in runs.items()})


def runs_of(kin: Kin, workload: str) -> dict[str, Run]:
    """What is known of a workload on machines that are alike, by this process and by others."""
    found = {name: next((run for run in runs if _tells(run, kin.rows, kin.ports)), None)
             for name, runs in _kept(_key(kin, workload)).items()}
    return {name: run for name, run in found.items() if run is not None}


def _key(kin: Kin, workload: str) -> str:
    return cache.key_of(["simulations", kin.key, workload])


def _kept(key: str) -> dict[str, list[Run]]:
    """Of this process, and of others, which may have found more since."""
    return {**(RUNS.get(key, _read) or {}), **(cache.load_plan(key, _read) or {})}


def _read(body: Any) -> dict[str, list[Run]]:
    return {str(name): [Run.read(run) for run in runs] for name, runs in body.items()}


def _tells(run: Run, rows: tuple[int, ...], ports: tuple[int, ...]) -> bool:
    """Whether a stream takes as long on a machine of so many rows and such ports."""
    fits = all(one <= other for one, other in zip(run.rows, rows, strict=True))
    return fits and all(_beats(run.pieces, one) == _beats(run.pieces, other)
                        for one, other in zip(run.ports, ports, strict=True))


def _beats(pieces: Iterable[int], port: int) -> list[int]:
    return [-(-piece // port) for piece in pieces]
