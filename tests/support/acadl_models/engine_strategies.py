"""Random architecture graphs and random resolved streams for them, from any source of random choices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from random import Random
from typing import Any, TypeAlias, Union

from archloom.acadl_models.acadl import (
    CONTAINS,
    FORWARD,
    READ_DATA,
    SRAM,
    WRITE_DATA,
    ACADLEdge,
    ArchitectureGraph,
    DataStorage,
    ExecuteStage,
    FunctionalUnit,
    InstructionFetchStage,
    InstructionMemoryAccessUnit,
    MemoryAccessUnit,
    PipelineStage,
    RegisterFile,
    Semantics,
    architecture,
    create_ag,
    generate,
)
from archloom.acadl_models.acadl.semantics import CHOICES
from archloom.acadl_models.acadl.units import UnitLatency
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import (
    Buffer,
    Read,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedNode,
    ResolvedStream,
    TensorType,
    Window,
    WindowDim,
    Write,
)
from tests.support.acadl_models.hazards import random_hazards

SEMANTICS = tuple(sorted(vars(Semantics())))
"""The parameters of a graph's semantics."""

MNEMONICS = ("alpha", "beta", "gamma", "delta")
ROWS = 24
"""Rows of each buffer: few, so that accesses meet."""

COLUMNS = 4
LATENCIES: tuple[int | str, ...] = (
    1, 1, 2, 3, 7, "1 + a % 3", "rows", "select(a, 2, 1)", "max(rows, 2) - 1", "1 + (a > 3)",
    "select(a >= 0 || rows > 2, dim, a)", "1 + !a + (a > 1 && rows < 3)", "cdiv(a + 1, 2)",
)  # fmt: skip
STORAGE_LATENCIES: tuple[int | str, ...] = (1, 1, 2, 5, "words", "1 + bytes // 8", "1 + a % 2")


Storage: TypeAlias = Union[DataStorage, RegisterFile]
Connect: TypeAlias = Callable[[Storage, FunctionalUnit], None]
"""Makes the edges between a storage and a unit."""

StorageMaker: TypeAlias = Callable[[Random], tuple[Sequence[Storage], dict[str, object], Connect]]
"""Makes the storages to which units are attached, the table of buffers, and the edges."""


Latency: TypeAlias = Callable[[Random], Union[int, str]]


def random_semantics(r: Random, names: Collection[str]) -> Semantics:
    """A choice for each of the parameters in ``names``; the others keep their defaults."""
    words: dict[str, Any] = {name: r.choice(valid) for name, valid in CHOICES.items() if name in names}
    if "fetches_in_flight" in names:
        words["fetches_in_flight"] = r.choice((1, 1, 2, 3, 5))
    return Semantics(**words)


def random_graph(
    r: Random, *, semantics: Collection[str] = (), spread: bool = False, storages_of: StorageMaker | None = None,
    latency_of: Latency | None = None, streaming: bool = True,
) -> ArchitectureGraph:
    """Fetch stage, trees of pipeline stages that end in execute stages with units, storages with and without banks.

    ``semantics`` names the parameters that get random values; with any, hazards are random, too. With ``spread``,
    registers lie in several files, and units reach some of the files and banks; one unit for each mnemonic reaches
    all. ``storages_of`` makes other storages and the edges to them, ``latency_of`` other latencies of units; with
    ``streaming`` some units stream.
    """
    latency_of = latency_of or often_used_latency

    @generate
    def random_architecture() -> None:
        fetch = _fetch(r)
        storages, buffers, connect = storages_of(r) if storages_of else (*_storages(r, spread), connect_both_ways)
        senders: list[PipelineStage] = [fetch]
        ends: list[PipelineStage] = []
        for k in range(r.randint(0, 3)):
            stage = PipelineStage(f"queue{k}", latency=r.choice((1, 1, 2, "1 + a % 2")), depth=r.randint(1, 3))
            ACADLEdge(r.choice(senders), stage, FORWARD)
            senders.append(stage)
        count = r.randint(1, 3)
        used: set[str] = set()
        resets = r.random() < 0.1  # units that share an instruction must write alike
        for k in range(count):
            stage = ExecuteStage(f"execute{k}", latency=r.choice((1, 2)))
            sender = senders[-1 - k] if k < len(senders) else r.choice(senders)
            ACADLEdge(sender, stage, FORWARD)
            if ends and r.random() < 0.3:
                ACADLEdge(r.choice(ends), stage, FORWARD)
            if r.random() < 0.3 and sender is not fetch:
                ACADLEdge(fetch, stage, FORWARD)
            ends.append(stage)
            for u in range(r.randint(1, 2)):
                mine = set(r.sample(MNEMONICS, r.randint(1, 3)))
                if k == count - 1 and u == 0:
                    mine |= set(MNEMONICS) - used
                _unit(r, f"unit{k}{u}", mine, stage, storages, spread and not mine - used, connect, latency_of,
                      resets, streaming)
                used |= mine
        for stage in senders[1:]:
            if not any(s is not None for s in _after(stage)):
                ACADLEdge(stage, r.choice(ends), FORWARD)
        chosen = random_semantics(r, semantics) if semantics else None
        architecture(clock_hz=1e9, parameters={"dim": 4}, buffers=buffers, semantics=chosen)

    def _after(stage: PipelineStage) -> list[PipelineStage]:
        from archloom.acadl_models.acadl import building

        builder = building.active()
        assert builder is not None
        return [e.target for e in builder.edges if e.source is stage and e.kind is FORWARD]  # type: ignore[misc]

    random_architecture()
    return random_hazards(r, create_ag()) if semantics else create_ag()


def _fetch(r: Random) -> InstructionFetchStage:
    width = r.randint(1, 3)
    memory = SRAM("imem", data_width=32, port_width=width, read_latency=r.randint(1, 3), address_ranges=[(0, 1 << 20)])
    unit = InstructionMemoryAccessUnit("imau", latency=r.choice((0, 0, 1)))
    fetch = InstructionFetchStage("fetch", issue_buffer_size=width + r.randint(0, 6))
    ACADLEdge(fetch, unit, CONTAINS)
    ACADLEdge(memory, unit, READ_DATA)
    return fetch


def _storages(r: Random, spread: bool) -> tuple[list[SRAM | RegisterFile], dict[str, object]]:
    storages: list[SRAM | RegisterFile] = []
    buffers: dict[str, object] = {}
    for k in range(r.randint(1, 3)):
        banks = r.choice((1, 1, 2, 3))
        mine: list[SRAM] = []
        for b in range(banks):
            bounds = (ROWS * b // banks, ROWS * (b + 1) // banks)
            mine.append(
                SRAM(
                    f"sram{k}_{b}", data_width=8 * COLUMNS, max_concurrent_requests=r.choice((1, 1, 2, 4)),
                    read_write_ports=99, port_width=r.choice((1, 2, 4)), read_latency=r.choice(STORAGE_LATENCIES),
                    write_latency=r.choice(STORAGE_LATENCIES), shared_port=r.random() < 0.4, address_ranges=[bounds],
                )
            )
        storages += mine
        buffers[f"buffer{k}"] = mine
    count = r.choice((1, 2, 4)) if spread else 1
    files = [
        RegisterFile(f"file{k or ''}", data_width=8 * COLUMNS, registers={f"r{k}": 0 for k in range(ROWS // count)})
        for k in range(count)
    ]
    storages += files
    buffers["registers"] = files
    return storages, buffers


def often_used_latency(r: Random) -> int | str:
    return r.choice((0, *LATENCIES, *LATENCIES))


def random_latency(r: Random, depth: int = 3) -> str:
    """An expression of attributes and parameters of any form, with values from 1 to 9."""
    return f"1 + max({_expression(r, depth)}, 0) % 9"


def _expression(r: Random, depth: int) -> str:
    if depth == 0 or r.random() < 0.2:
        return r.choice(("a", "rows", "dim", str(r.randint(0, 4))))
    one, two = _expression(r, depth - 1), _expression(r, depth - 1)
    kind = r.choice(("operator", "operator", "if", "call", "not", "divide"))
    if kind == "operator":
        return f"({one} {r.choice(('+', '-', '*', '<', '<=', '==', '!=', '>', '>=', '&&', '||'))} {two})"
    if kind == "divide":
        return f"({one} {r.choice(('//', '%'))} {r.choice((1, 2, 3, 4, 'rows', 'a'))})"
    if kind == "if":
        return f"select({_expression(r, depth - 1)}, {one}, {two})"
    return f"!({one})" if kind == "not" else f"{r.choice(('min', 'max'))}({one}, {two})"


def _unit(
    r: Random, name: str, mnemonics: set[str], stage: ExecuteStage, storages: Sequence[Storage], partial: bool,
    connect: Connect, latency_of: Latency, resets: bool, streaming: bool,
) -> None:
    latency = latency_of(r)
    interval = r.choice((None, None, 1, 2, "1 + a % 3", 4))
    in_flight = r.randint(1, 4) if interval is not None else 1
    memory = name == "unit00" or r.random() < 0.85 or partial
    kind = MemoryAccessUnit if memory else FunctionalUnit
    more = {"resets": True} if memory and resets else {}
    if not memory and latency == 0:
        latency = 1
    unit = kind(name, to_process=mnemonics, latency=latency, interval=interval, in_flight=in_flight,
                first_latency=_first_latency(r, mnemonics) if streaming else None, **more)
    ACADLEdge(stage, unit, CONTAINS)
    for storage in storages:
        if partial and storage is not storages[0] and r.random() < 0.4:
            continue
        if memory or isinstance(storage, RegisterFile):
            connect(storage, unit)


def _first_latency(r: Random, mnemonics: set[str]) -> UnitLatency | None:
    """None for a unit that stores and forwards, or what it takes to the first result, of some mnemonics or of all."""
    if r.random() < 0.6:
        return None
    if r.random() < 0.5:
        return r.choice((0, 1, 2, 5, "a % 3", "rows"))
    some = r.sample(sorted(mnemonics), r.randint(1, len(mnemonics)))
    return {mnemonic: r.choice((0, 1, "a % 3")) for mnemonic in some}


def connect_both_ways(storage: Storage, unit: FunctionalUnit) -> None:
    """The unit reads and writes the storage."""
    ACADLEdge(storage, unit, READ_DATA)
    ACADLEdge(unit, storage, WRITE_DATA)


def random_stream(r: Random, graph: ArchitectureGraph, most: int = 300, rows: int = ROWS) -> ResolvedStream:
    """A nest of loops with at most ``most`` instances, whose windows lie inside of the graph's buffers of ``rows``."""
    maker = _StreamMaker(r, graph, rows)
    body: list[ResolvedNode] = []
    budget = most
    while budget > 0 and (not body or r.random() < 0.5):
        node, count = maker.node((), budget, 3)
        body.append(node)
        budget -= count
    buffers = tuple(Buffer(name, (rows, COLUMNS), "i8") for name in graph.buffers)
    return ResolvedStream("random", "none", (("dim", 4),), buffers, (), (), 0, tuple(body))


class _StreamMaker:
    def __init__(self, r: Random, graph: ArchitectureGraph, rows: int) -> None:
        self.r = r
        self.rows = rows
        self.buffers = list(graph.buffers)
        files = {file.name for file in graph.register_files if file.is_renamed}
        self.renamed = {name for name, banks in graph.buffers.items() if banks[0].storage in files}
        self.loops = 0
        self.counted: dict[str, Affine] = {}
        """What the variable of each loop stands for: not all count from 0 by ones."""
        self.instructions = 0

    def node(self, around: tuple[ResolvedLoop, ...], budget: int, depth: int) -> tuple[ResolvedNode, int]:
        r = self.r
        if depth == 0 or budget < 4 or r.random() < (0.1 if not around else 0.45):
            return self.instruction(around), 1
        extent = r.randint(1, min(budget // 2, r.choice((3, 8, 40))))
        start, step = r.choice(((0, 1), (0, 1), (2, 3), (5, -1)))
        frame = ResolvedLoop(f"v{self.loops}", extent, ())
        self.counted[frame.var] = Affine.variable(frame.var) * step + start
        self.loops += 1
        body: list[ResolvedNode] = []
        inside = 0
        while inside * extent < budget and (not body or r.random() < 0.7):
            node, count = self.node((*around, frame), budget // extent - inside, depth - 1)
            body.append(node)
            inside += count
        return ResolvedLoop(frame.var, extent, tuple(body)), inside * extent

    def instruction(self, around: tuple[ResolvedLoop, ...]) -> ResolvedInstr:
        r = self.r
        statements: list[Read | Write] = []
        for k in range(r.choice((0, 1, 1, 2, 2, 3))):
            window = self.window(around)
            type_ = TensorType(window.shape, "i8")
            if r.random() < 0.5:
                statements.append(Read(f"x{k}", window, type_))
            else:
                statements.append(Write("y", window, type_, r.choice(("write", "write", "accumulate"))))
        self.instructions += 1
        attributes = (("a", self.offset(around, 8)), ("rows", Affine(r.randint(1, 4))))
        return ResolvedInstr(r.choice(MNEMONICS), attributes, (), tuple(statements), self.instructions)

    def window(self, around: tuple[ResolvedLoop, ...]) -> Window:
        r = self.r
        rows, stride = r.choice(((1, 1), (2, 1), (4, 1), (2, 3), (3, 2), (2, -2)))
        dims = [WindowDim(0, rows, stride)]
        reach = (rows - 1) * abs(stride)
        if r.random() < 0.25:
            dims.insert(0, WindowDim(0, 2, 5))
            reach += 5
        columns, across = r.choice(((4, 1), (4, 1), (2, 2), (2, 1), (1, 1)))
        dims.append(WindowDim(1, columns, across))
        low = (rows - 1) * max(0, -stride)
        row = self.offset(around, self.rows - reach) + low
        column = self.offset(around, COLUMNS - (columns - 1) * across) if r.random() < 0.3 else Affine(0)
        buffer = r.choice(self.buffers)
        if buffer in self.renamed:  # loops do not decide where in a register a window begins
            column = Affine(column.range({x.var: x.bounds for x in around})[0])
        return Window(buffer, (row, column), tuple(dims))

    def offset(self, around: tuple[ResolvedLoop, ...], size: int) -> Affine:
        """An expression with values in ``0 .. size - 1``."""
        r = self.r
        if not around or r.random() < 0.35:
            return Affine(r.randrange(size))
        total = Affine(r.randrange(size))
        for loop in r.sample(around, r.randint(1, len(around))):
            term = self.counted[loop.var]
            kind = r.randrange(4)
            term = term % r.randint(2, 4) if kind == 0 else term // r.randint(2, 3) if kind == 1 else term
            total = total + term * r.choice((1, 1, 2, 4, -1))
        low, high = total.range({x.var: x.bounds for x in around})
        return total if low >= 0 and high < size else total % size
