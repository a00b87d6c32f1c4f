"""Templates that several accelerators are made of: how instructions come in, and the queue before a unit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from archloom.acadl_models import acadl
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.oracle.accesses import bits_of
from archloom.oracle.resolved import Buffer

Place: TypeAlias = acadl.DataStorage | acadl.RegisterFile


def connect(
    units: acadl.FunctionalUnit | Sequence[acadl.FunctionalUnit], reads: Iterable[Place] = (),
    writes: Iterable[Place] = (), link: acadl.Link | None = None,
) -> None:
    """Edges from what a unit, or each of several, reads and to what it writes; those of memories run over ``link``."""
    reads, writes = tuple(reads), tuple(writes)
    for unit in units if isinstance(units, Sequence) else (units,):
        for place in reads:
            acadl.ACADLEdge(place, unit, acadl.READ_DATA, None if isinstance(place, acadl.RegisterFile) else link)
        for place in writes:
            acadl.ACADLEdge(unit, place, acadl.WRITE_DATA, None if isinstance(place, acadl.RegisterFile) else link)


def registers(
    name: str, data_width: int, count: int, each: str = "", component: acadl.Memory | None = None,
    physical: int | None = None, forwards_sums: bool = True,
) -> acadl.RegisterFile:
    """So many registers, each named ``each`` (or as the file) and its number; renamed to ``physical`` ones, if any."""
    return acadl.RegisterFile(
        name, data_width=data_width, registers={f"{each or name}{i}": 0 for i in range(count)},
        physical_registers=physical, component=component, forwards_sums=forwards_sums)


def held(buffer: Buffer) -> tuple[str, int, int]:
    """The name of a buffer of an ISA, the bits of a row and the number of rows: what :func:`registers` and
    :func:`row_memory` take first."""
    return buffer.name, *shared(buffer)


def shared(buffer: Buffer, parts: int = 1, words: int | None = None) -> tuple[int, int]:
    """A buffer of an ISA in so many equal parts: the bits of a word, by default a row, and the words of a part."""
    words = buffer.shape[0] // parts if words is None else words
    return bits_of(buffer) // (parts * words), words


def row_memory(
    name: str, data_width: int, rows: int, *, requests: int, ports: int, first: int = 0,
    component: acadl.Memory | None = None,
) -> acadl.SRAM:
    """A memory of ``rows`` from ``first`` on that moves a row a cycle for each of ``requests`` streams of rows."""
    return acadl.SRAM(
        name, data_width=data_width, max_concurrent_requests=requests, read_write_ports=ports,
        address_ranges=[(first, first + rows)], component=component,
    )


def cache_level(
    name: str, behind: acadl.DataStorage, kib: int, ways: int, line_bytes: int, *, port_bytes: int, hit_cycles: int,
    miss_cycles: int, requests: int, ports: int, miss_registers: int | None = None,
) -> acadl.SetAssociativeCache:
    """A level of caches of bytes before ``behind``; with ``miss_registers`` it is asked for line by line."""
    made = acadl.SetAssociativeCache(
        name, data_width=8, port_width=port_bytes, sets=(kib << 10) // (ways * line_bytes), ways=ways,
        cache_line_size=line_bytes, hit_latency=hit_cycles, miss_latency=miss_cycles, miss_registers=miss_registers,
        line_requests=miss_registers is not None, max_concurrent_requests=requests, read_write_ports=ports)
    acadl.ACADLEdge(made, behind, acadl.BACKED_BY)
    return made


def incomplete_sets(options: Mapping[str, object], lines: Mapping[str, int]) -> Iterator[str]:
    """Of caches, by the bytes of a line of each: the options that make no whole sets. What is no size is passed over,
    as :func:`~archloom.acadl_models.options.problems_of` names it."""
    for level, line in lines.items():
        kib, ways = options[f"{level}_kib"], options[f"{level}_ways"]
        if isinstance(kib, int) and isinstance(ways, int) and ways > 0 and (kib << 10) % (ways * line):
            yield f"{level}_kib ({kib}) must be whole sets of {level}_ways ({ways}) lines of {line} bytes"


def unfetched(options: Mapping[str, object]) -> Iterator[str]:
    """That the instructions that wait for issue are fewer than a fetch has, where both are sizes."""
    entries, width = options["issue_entries"], options["fetch_width"]
    if isinstance(entries, int) and isinstance(width, int) and entries < width:
        yield f"issue_entries ({entries}) must hold a fetch of fetch_width ({width}) instructions"


def macs(count: int, factor: str, total: str, register_bits: int = 0, held_bits: int = 0) -> acadl.Logic:
    """So many multipliers of ``factor`` with adders of ``total``, types of TAIDL; ``register_bits`` beside each are
    written with every product, ``held_bits`` are not."""
    return acadl.Logic({f"multiply {factor}": count, f"add {total}": count}, register_bits, held_bits)


class Fetch(acadl.Template):
    """Fetches ``width`` instructions at a time, in ``latency`` cycles, into an issue buffer of ``entries``.

    ``stands_for``: what hands out instructions in the machine, where no such buffer is built; it costs no energy here.
    ``reorder``: entries of the reorder buffer, how many are decoded and how many commit a cycle, where there is one.
    """

    def __init__(
        self, name: str, entries: int, width: int = 1, latency: int = 1, stands_for: str = "",
        reorder: tuple[int | None, int | None, int | None] = (None, None, None),
    ) -> None:
        component = acadl.Included(stands_for) if stands_for else None
        reordered, decoded, committed = reorder
        self.stage = acadl.InstructionFetchStage(
            "stage", issue_buffer_size=entries, reorder_entries=reordered, decode_width=decoded, commit_width=committed,
            component=component)
        self.unit = acadl.InstructionMemoryAccessUnit("unit", latency=0, component=component)
        self.memory = acadl.SRAM(
            "memory", data_width=128, port_width=width, read_latency=latency, address_ranges=[(0, 1 << 32)]
        )
        acadl.ACADLEdge(self.stage, self.unit, acadl.CONTAINS)
        acadl.ACADLEdge(self.memory, self.unit, acadl.READ_DATA)


def issue(fetch: Fetch, depth: int, **units: Sequence[acadl.FunctionalUnit]) -> None:
    """A queue of ``depth`` instructions before the ``units`` of each kind, by its name: each instruction goes to
    whichever of them is free."""
    for name, mine in units.items():
        if mine:
            waiting = acadl.PipelineStage(f"{name}.queue", latency=1, depth=depth)
            acadl.ACADLEdge(fetch.stage, waiting, acadl.FORWARD)
        for number, unit in enumerate(mine):
            stage = acadl.ExecuteStage(f"{name}.stage[{number}]", latency=1)
            acadl.ACADLEdge(waiting, stage, acadl.FORWARD)
            acadl.ACADLEdge(stage, unit, acadl.CONTAINS)


class QueuedUnit(acadl.Template):
    """A queue of ``depth`` instructions, and a stage with one access unit, ``unit``, which processes ``mnemonics``; the
    rest is as of :class:`~archloom.acadl_models.acadl.MemoryAccessUnit`. A unit that reaches registers alone is a
    ``FunctionalUnit``, behind :func:`issue`."""

    def __init__(
        self, name: str, fetch: Fetch, mnemonics: set[str], *, depth: int, latency: UnitLatency,
        interval: UnitLatency | None, in_flight: int, operations: UnitLatency = 1,
        joules_per_operation: float | dict[str, float] | None = None, resets: bool = False,
        component: acadl.Logic | None = None, first_latency: UnitLatency | None = None,
        extent: tuple[int, ...] = (),
    ) -> None:
        self.queue = acadl.PipelineStage("queue", latency=1, depth=depth)
        self.stage = acadl.ExecuteStage("stage", latency=1)
        self.unit = acadl.MemoryAccessUnit(
            "unit", to_process=mnemonics, latency=latency, interval=interval, in_flight=in_flight,
            operations=operations, joules_per_operation=joules_per_operation, resets=resets, component=component,
            first_latency=first_latency, extent=extent,
        )
        acadl.ACADLEdge(fetch.stage, self.queue, acadl.FORWARD)
        acadl.ACADLEdge(self.queue, self.stage, acadl.FORWARD)
        acadl.ACADLEdge(self.stage, self.unit, acadl.CONTAINS)
