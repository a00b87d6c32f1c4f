"""A stream bound to a graph: which unit takes each instruction, and what its accesses ask of the storages.

This is the static part of the timing (docs/timing_semantics.md, "What an instruction touches"); both simulators start
from it, so that they refuse the same inputs with the same words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias, Union

import numpy as np
from numpy.typing import NDArray

from acadl_models.acadl import (
    DRAM,
    ArchitectureGraph,
    Bank,
    CacheInterface,
    DataStorage,
    FunctionalUnit,
    InstructionFetchStage,
    MemoryInterface,
    PipelineStage,
    RegisterFile,
)
from acadl_models.acadl.latency import Expression, LatencyError
from oracle.accesses import ITEM_BYTES, accesses
from oracle.affine import Affine
from oracle.errors import GraphError, StreamError
from oracle.resolved import Access, Buffer, ResolvedInstr, ResolvedLoop, ResolvedNode, ResolvedStream


def element_bits(dtype: str) -> int:
    """Bits that an element takes in a buffer (a truth value takes a byte)."""
    return 8 * ITEM_BYTES[dtype]


def word_axes(buffer: Buffer, data_width: int) -> int | None:
    """How many leading axes of the buffer number its words: the axes after them make up one word of ``data_width``.

    None if no such split exists: a word is then no whole number of elements along the last axes.
    """
    bits = element_bits(buffer.dtype)
    for axes in range(len(buffer.shape), -1, -1):
        if bits == data_width:
            return axes
        if axes:
            bits *= buffer.shape[axes - 1]
    return None


@dataclass(frozen=True)
class Request:
    """What one access of one instance asks of one storage."""

    storage: str
    is_read: bool
    words: int
    beats: int
    bytes: int


@dataclass(frozen=True, eq=False)
class AccessPlan:
    """An access of a static instruction; ``banks`` is empty in a register file, which takes no requests."""

    access: Access
    buffer: Buffer
    tracked: bool
    banks: tuple[Bank, ...]
    data_width: int
    port_widths: tuple[int, ...]

    @property
    def is_read(self) -> bool:
        return self.access.kind == "read"

    @cached_property
    def element_offset(self) -> Affine:
        """Row-major number of the window's first element in the buffer."""
        return _linear(self.access.window.offsets, self.buffer.shape)

    @cached_property
    def elements(self) -> NDArray[np.int64]:
        """Distinct row-major numbers of the window's elements relative to the first, ascending."""
        return _offsets(self.access, self.buffer.shape, len(self.buffer.shape))

    @cached_property
    def word_offset(self) -> Affine:
        """Address of the window's first word."""
        axes = word_axes(self.buffer, self.data_width)
        assert axes is not None
        return _linear(self.access.window.offsets[:axes], self.buffer.shape[:axes])

    @cached_property
    def words(self) -> NDArray[np.int64]:
        """Distinct word addresses relative to the first, ascending."""
        axes = word_axes(self.buffer, self.data_width)
        assert axes is not None
        return _offsets(self.access, self.buffer.shape[:axes], axes)

    def requests(self, values: Mapping[str, int]) -> list[Request]:
        """The requests of the instance at these loop values, by ascending rows."""
        if not self.banks:
            return []
        words = self.words + self.word_offset.evaluate(values)
        found = []
        for bank, port_width in zip(self.banks, self.port_widths):
            inside = words[(words >= bank.start) & (words < (bank.stop or 0))]
            if len(inside):
                beats = _beats(inside, port_width)
                size = -(-len(inside) * self.data_width // 8)
                found.append(Request(bank.storage, self.is_read, len(inside), beats, size))
        return found


def _linear(indices: tuple[Affine, ...], shape: tuple[int, ...]) -> Affine:
    total, scale = Affine(0), 1
    for index, extent in zip(reversed(indices), reversed(shape)):
        total = total + index * scale
        scale *= extent
    return total


def _offsets(access: Access, shape: tuple[int, ...], axes: int) -> NDArray[np.int64]:
    scales = [int(np.prod(shape[axis + 1:], dtype=np.int64)) for axis in range(axes)]
    total = np.zeros((), dtype=np.int64)
    for dim in access.window.dims:
        if dim.axis < axes:
            steps = np.arange(dim.extent, dtype=np.int64) * dim.stride * scales[dim.axis]
            total = np.unique(np.add.outer(total, steps))
    return np.atleast_1d(total)


def _beats(words: NDArray[np.int64], port_width: int) -> int:
    """Maximal runs of consecutive words take whole beats each."""
    breaks = np.flatnonzero(np.diff(words) != 1) + 1
    edges = np.concatenate(([0], breaks, [len(words)]))
    return int(np.sum(-(-np.diff(edges) // port_width)))


@dataclass(frozen=True, eq=False)
class StaticInstruction:
    """An instruction of the resolved stream; ``takers`` has the unit that takes it in each stage that contains one.

    ``routed`` names the stages into which it may be forwarded.
    """

    index: int
    node: ResolvedInstr
    plans: tuple[AccessPlan, ...]
    takers: Mapping[str, FunctionalUnit]
    routed: frozenset[str]

    @property
    def makes_requests(self) -> bool:
        return any(plan.banks for plan in self.plans)

    def environment(self, parameters: Mapping[str, int], values: Mapping[str, int]) -> dict[str, int]:
        """What a latency may name: attributes before registers before the ISA's parameters."""
        found = dict(parameters)
        found.update((name, e.evaluate(values)) for name, e in self.node.registers)
        found.update((name, e.evaluate(values)) for name, e in self.node.attributes)
        return found


@dataclass(frozen=True)
class StaticLoop:
    """A loop over static instructions; ``source`` is the number of the stream's loop in the order of its text."""

    var: str
    values: range
    body: tuple["StaticNode", ...]
    source: int = -1


StaticNode: TypeAlias = Union[StaticInstruction, StaticLoop]


@dataclass(frozen=True, eq=False)
class Program:
    """A stream bound to a graph."""

    graph: ArchitectureGraph
    stream: ResolvedStream
    fetch: InstructionFetchStage
    body: tuple[StaticNode, ...]
    instructions: tuple[StaticInstruction, ...]
    forwarding_order: tuple[PipelineStage, ...]

    @property
    def count(self) -> int:
        """Instruction instances of a run."""
        return _count(self.body)

    @property
    def parameters(self) -> dict[str, int]:
        return dict(self.stream.parameters)

    def instances(self) -> Iterator[tuple[StaticInstruction, dict[str, int]]]:
        """Every instance in program order with its loop values; for the reference simulator."""
        return _instances(self.body, {})


def _count(body: tuple[StaticNode, ...]) -> int:
    return sum(len(n.values) * _count(n.body) if isinstance(n, StaticLoop) else 1 for n in body)


def _instances(
    body: tuple[StaticNode, ...], values: dict[str, int]
) -> Iterator[tuple[StaticInstruction, dict[str, int]]]:
    for node in body:
        if isinstance(node, StaticInstruction):
            yield node, values
        else:
            for value in node.values:
                yield from _instances(node.body, {**values, node.var: value})


def bind(graph: ArchitectureGraph, stream: ResolvedStream) -> Program:
    """Bind ``stream`` to ``graph``; GraphError lists all reasons why it cannot be timed on it."""
    binder = _Binder(graph, stream)
    faults = list(untimed(graph))
    if not faults:
        body = binder.nodes(stream.body)
        faults = list(dict.fromkeys(binder.faults))
    if faults:
        raise GraphError(graph.name, faults)
    _check_capacity(graph, stream)
    return Program(graph, stream, graph.fetch_stages[0], body, tuple(binder.instructions), forwarding_order(graph))


def untimed(graph: ArchitectureGraph) -> Iterator[str]:
    """Why a valid graph cannot be simulated: features that are declared but have no timing here."""
    for storage in graph.storages:
        if isinstance(storage, CacheInterface):
            yield f"{storage}: the timing of caches is not simulated; connect the units to the storage behind it"
        if isinstance(storage, DRAM):
            used = [t for t in ("t_RCD", "t_RP", "t_RAS") if getattr(storage, t)]
            if used:
                yield (
                    f"{storage}: {', '.join(f'{t}={getattr(storage, t)}' for t in used)} asks for the timing of DRAM "
                    "banks, which is not simulated; set them to 0 and state read_latency and write_latency"
                )
    for link in graph.links:
        yield f"{link}: the timing of links is not simulated"
    for name, value in graph.semantics.changed().items():
        yield f"semantics: {name}={value!r} is not simulated"
    if len(graph.fetch_stages) != 1:
        names = ", ".join(s.name for s in graph.fetch_stages)
        yield f"a simulation runs one stream: expected one InstructionFetchStage, found {names}"
        return
    _, memory = graph.instruction_memory(graph.fetch_stages[0])
    users = [u for u in (*graph.readers(memory), *graph.writers(memory)) if u in graph.functional_units]
    if users:
        yield f"{memory}: fetches that compete with data accesses ({users[0]}) are not simulated; split the memory"


def forwarding_order(graph: ArchitectureGraph) -> tuple[PipelineStage, ...]:
    """Receivers before senders: always the earliest-created stage all of whose successors are placed."""
    placed: dict[str, PipelineStage] = {}
    left = list(graph.stages)
    while left:
        stage = next(s for s in left if all(after.name in placed for after in graph.successors(s)))
        placed[stage.name] = stage
        left.remove(stage)
    return tuple(placed.values())


def missing_edges(graph: ArchitectureGraph, unit: FunctionalUnit, used: Mapping[str, set[str]]) -> list[str]:
    """Edges that ``unit`` lacks to touch buffers; ``used`` maps a buffer to kinds of access."""
    reads = {s.name for s in graph.reads(unit)}
    writes = {s.name for s in graph.writes(unit)}
    missing = []
    for buffer, kinds in used.items():
        for bank in graph.buffers.get(buffer, ()):
            if "read" in kinds and bank.storage not in reads:
                missing.append(f"READ_DATA {bank.storage} -> {unit.name} (buffer {buffer!r})")
            if kinds - {"read"} and bank.storage not in writes:
                missing.append(f"WRITE_DATA {unit.name} -> {bank.storage} (buffer {buffer!r})")
    return missing


def _check_capacity(graph: ArchitectureGraph, stream: ResolvedStream) -> None:
    banks = graph.buffers.get("hbm", ())
    if banks and stream.hbm_bytes > graph.bytes_of("hbm"):
        raise StreamError(
            f"stream {stream.name!r} needs {stream.hbm_bytes} bytes of HBM, but {banks[0].storage} of graph "
            f"{graph.name!r} holds {graph.bytes_of('hbm')}"
        )


class _Binder:
    """Walks the stream once and notes every fault."""

    def __init__(self, graph: ArchitectureGraph, stream: ResolvedStream) -> None:
        self.graph = graph
        self.buffers = {b.name: b for b in stream.buffers}
        self.buffers.setdefault("hbm", Buffer("hbm", (stream.hbm_bytes,), "i8"))
        self.parameters = frozenset(name for name, _ in stream.parameters)
        self.faults: list[str] = []
        self.instructions: list[StaticInstruction] = []

    def nodes(self, body: tuple[ResolvedNode, ...]) -> tuple[StaticNode, ...]:
        return tuple(self._loop(n) if isinstance(n, ResolvedLoop) else self._instruction(n) for n in body)

    def _loop(self, loop: ResolvedLoop) -> StaticLoop:
        return StaticLoop(loop.var, range(loop.start, loop.stop, loop.step), self.nodes(loop.body))

    def _instruction(self, node: ResolvedInstr) -> StaticInstruction:
        found = accesses(node)
        plans = tuple(plan for access in found if (plan := self._plan(node, access)) is not None)
        used: dict[str, set[str]] = {}
        for access in found:
            used.setdefault(access.window.buffer, set()).add(access.kind)
        key = tuple((buffer, tuple(sorted(kinds))) for buffer, kinds in sorted(used.items()))
        takers, why = _takers(self.graph, node.mnemonic, key)
        if why:
            self.faults.append(f"no unit processes {node.mnemonic!r}: {why}")
        stages = tuple(takers)
        names = frozenset(name for name, _ in (*node.attributes, *node.registers)) | self.parameters
        storages = tuple(sorted({(bank.storage, plan.is_read) for plan in plans for bank in plan.banks}))
        self.faults += _unknown_names(self.graph, node.mnemonic, stages, storages, names)
        static = StaticInstruction(len(self.instructions), node, plans, takers, _routes(self.graph, stages))
        self.instructions.append(static)
        return static

    def _plan(self, node: ResolvedInstr, access: Access) -> AccessPlan | None:
        place = _place(self.graph, self.buffers[access.window.buffer])
        if isinstance(place, str):
            self.faults.append(f"{node.mnemonic} {access.kind}s {place}")
            return None
        return AccessPlan(access, self.buffers[access.window.buffer], *place)


@lru_cache(maxsize=256)
def _place(
    graph: ArchitectureGraph, buffer: Buffer
) -> tuple[bool, tuple[Bank, ...], int, tuple[int, ...]] | str:
    """The part of an :class:`AccessPlan` that the buffer decides, or why it has no place."""
    banks = graph.buffers.get(buffer.name)
    if not banks:
        placed = ", ".join(sorted(graph.buffers)) or "none"
        return f"buffer {buffer.name!r}, which lies in no storage of the graph (its buffers: {placed})"
    place = graph[banks[0].storage]
    if isinstance(place, RegisterFile):
        users = {u.name for u in (*graph.readers(place), *graph.writers(place))}
        return len(users) > 1, (), place.data_width, ()
    ordered = tuple(sorted(banks, key=lambda b: b.start))
    storages = [s for b in ordered if isinstance(s := graph[b.storage], DataStorage)]
    widths = {s.data_width for s in storages}
    if len(widths) != 1 or word_axes(buffer, storages[0].data_width) is None:
        words = ", ".join(f"{s.name}: {s.data_width} bits" for s in storages)
        shape = "x".join(map(str, buffer.shape))
        return f"buffer {buffer.name!r} ({shape} {buffer.dtype}), which does not divide into words of {words}"
    return True, ordered, storages[0].data_width, tuple(s.port_width for s in storages)


Used: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]
"""The buffers that an instruction touches, each with its kinds of access."""


@lru_cache(maxsize=1024)
def _takers(graph: ArchitectureGraph, mnemonic: str, used: Used) -> tuple[Mapping[str, FunctionalUnit], str]:
    """The first unit of each stage that processes the mnemonic and reaches all that is touched; if none, why."""
    takers: dict[str, FunctionalUnit] = {}
    refused: list[str] = []
    touched = {buffer: set(kinds) for buffer, kinds in used}
    for stage in graph.stages:
        for unit in graph.units(stage):
            if mnemonic in unit.to_process and stage.name not in takers:
                missing = missing_edges(graph, unit, touched)
                if missing:
                    refused.append(f"{unit} has no edge {', '.join(missing)}")
                else:
                    takers[stage.name] = unit
    why = "" if takers else "; ".join(refused) or "it is in the to_process of none"
    return takers, why


@lru_cache(maxsize=1024)
def _routes(graph: ArchitectureGraph, stages: tuple[str, ...]) -> frozenset[str]:
    """The stages from which one of ``stages`` can be reached, themselves included."""
    routed: set[str] = set()
    work: list[PipelineStage] = [s for s in graph.stages if s.name in stages]
    while work:
        stage = work.pop()
        if stage.name not in routed:
            routed.add(stage.name)
            work += graph.predecessors(stage)
    return frozenset(routed)


@lru_cache(maxsize=4096)
def _unknown_names(
    graph: ArchitectureGraph, mnemonic: str, takers: tuple[str, ...], storages: tuple[tuple[str, bool], ...],
    known: frozenset[str],
) -> tuple[str, ...]:
    """Latencies on the way of an instruction that name what neither it nor the ISA has; ``storages`` with is_read."""
    expressions: list[tuple[str, Expression, frozenset[str]]] = []
    for name in takers:
        for unit in graph.units(_stage(graph, name)):
            if mnemonic in unit.to_process:
                expressions.append((f"{unit}: latency", unit.latency_of(mnemonic), known))
                interval = unit.interval_of(mnemonic)
                if interval is not None:
                    expressions.append((f"{unit}: interval", interval, known))
    for name, is_read in storages:
        storage = graph[name]
        attribute = "read_latency" if is_read else "write_latency"
        if isinstance(storage, MemoryInterface):
            whole = storage.latencies()[attribute]
            expressions.append((f"{storage}: {attribute}", whole, known | {"words", "bytes"}))
    for name in sorted(_routes(graph, takers) - set(takers)):
        stage = _stage(graph, name)
        if not isinstance(stage, InstructionFetchStage):
            expressions.append((f"{stage}: latency", stage.latencies()["latency"], known))
    return tuple(
        f"{where} {expression.text!r} names {', '.join(sorted(expression.names - names))}, unknown for {mnemonic!r} "
        f"(known: {', '.join(sorted(names))})"
        for where, expression, names in expressions
        if expression.names - names
    )


def _stage(graph: ArchitectureGraph, name: str) -> PipelineStage:
    stage = graph[name]
    assert isinstance(stage, PipelineStage)
    return stage


def fetch_cycles(program: Program) -> int:
    """Cycles from the start to the end of a fetch; GraphError for an unknown name or a value below its least."""
    fetcher, memory = program.graph.instruction_memory(program.fetch)
    assert isinstance(memory, MemoryInterface)
    words = memory.port_width
    values = {**program.parameters, "words": words, "bytes": -(-words * memory.data_width // 8)}
    cycles = 0
    for where, expression, least in (
        (f"{memory}: read_latency", memory.latencies()["read_latency"], 1),
        (f"{fetcher}: latency", fetcher.latency_of("*"), 0),
    ):
        unknown = sorted(expression.names - set(values))
        if unknown:
            known = ", ".join(sorted(values))
            fault = f"{where} {expression.text!r} names {', '.join(unknown)}, unknown for a fetch (known: {known})"
            raise GraphError(program.graph.name, [fault])
        cycles += evaluate_latency(program.graph, where, expression, values, least, "fetch")
    return cycles


def evaluate_latency(
    graph: ArchitectureGraph, where: str, expression: Expression, values: Mapping[str, int], least: int, mnemonic: str
) -> int:
    """The value of a latency; GraphError naming object, instruction and value if it is below ``least``."""
    try:
        cycles = expression.evaluate(values)
    except LatencyError as error:
        raise GraphError(graph.name, [latency_fault(where, expression, mnemonic, str(error), least)]) from None
    if cycles < least:
        raise GraphError(graph.name, [latency_fault(where, expression, mnemonic, f"is {cycles}", least)])
    return cycles


def latency_fault(where: str, expression: Expression, mnemonic: str, found: str, least: int) -> str:
    """The message about a latency that has no legal value for an instruction."""
    return f"{where} {expression.text!r} {found} for {mnemonic!r}; it must be at least {least}"
