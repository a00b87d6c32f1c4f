"""Programs timed: what was executed becomes a stream of accesses, which the simulators of timing run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Literal, TypeAlias

from archloom.acadl_models.acadl import ArchitectureGraph, Instruction
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.programs.execution import STEPS, Machine, Run, Step
from archloom.acadl_models.programs.places import places, view
from archloom.acadl_models.timing.binding import MOST_INSTRUCTIONS
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.program import Program
from archloom.acadl_models.timing.reference import step_through
from archloom.acadl_models.timing.result import TimingResult
from archloom.oracle.affine import Affine
from archloom.oracle.errors import InputError, ProgramError
from archloom.oracle.nests import instructions
from archloom.oracle.resolved import (
    Buffer,
    Read,
    ResolvedInstr,
    ResolvedLoop,
    ResolvedNode,
    ResolvedStream,
    Statement,
    TensorType,
    Window,
    WindowDim,
    Write,
)
from archloom.oracle.rolling import roll
from archloom.oracle.stream import Instr, Loop, Node, Stream

Simulator: TypeAlias = Literal["engine", "reference"]
SIMULATORS = ("engine", "reference")

Touch: TypeAlias = tuple[bool, str, int, int]
"""Whether an access reads; its buffer; its first row, or -1 where that is an attribute; its rows."""

ELEMENTS = (64, 32, 16, 8, 4, 2)
"""Bits of the integers that words are made of."""


@dataclass(frozen=True)
class Simulated:
    """A run with its timing; ``simulator`` is the one that was taken, and ``why`` it was not the fast engine."""

    run: Run
    timing: TimingResult
    simulator: Simulator
    why: str = ""

    @property
    def cycles(self) -> int:
        return self.timing.cycles


def simulate(
    graph: ArchitectureGraph, program: Sequence[Instruction], *, registers: Mapping[str, Any] | None = None,
    data: Mapping[str, Mapping[int, Any]] | None = None, steps: int = STEPS, simulator: Simulator | None = None,
) -> Simulated:
    """Run ``program`` as :func:`~.execution.execute` does, and say how many cycles it takes on ``graph``.

    The fast engine takes programs without jumps, the step-by-step simulator (``"reference"``) all; without
    ``simulator`` the fastest that can. Raises ProgramError as ``execute``, and GraphError for a program that the graph
    cannot process, a bad latency, a deadlock, or an engine that was asked for and cannot run it.
    """
    if simulator not in (None, *SIMULATORS):
        raise InputError(f"simulator must be one of {', '.join(SIMULATORS)}, not {simulator!r}")
    machine = Machine(graph, program, registers or {}, data or {})
    bound = bind(view(graph), resolved(graph, machine.walk(steps)))
    why = bound.stepwise
    taken = simulator or ("reference" if why else "engine")
    timing = replace(_timed(bound, taken), loops=())  # the loops are those of roll, and nobody's
    return Simulated(machine.run(), timing, taken, why if taken == "reference" else "")


def _timed(program: Program, simulator: Simulator) -> TimingResult:
    if simulator == "reference":
        return step_through(program)
    # compiled code, which only those load who need it
    from archloom.acadl_models.timing.engine.lowering.program import lower
    from archloom.acadl_models.timing.engine.run import run

    return run(lower(program), skip=True)


# --- executed instructions as a stream ---------------------------------------------------------------------------
def resolved(graph: ArchitectureGraph, steps: Iterable[Step]) -> ResolvedStream:
    """The accesses of executed instructions; what repeats with constant distances of addresses is a loop."""
    forms: dict[tuple[str, tuple[Touch, ...]], str] = {}
    body = tuple(_node(step, forms) for step in steps)
    rolled = roll(Stream("acadl", (), (), (), 0, body)).body
    size = sum(1 for _ in instructions(rolled))
    if size > MOST_INSTRUCTIONS:
        text = f"{len(body)} executed instructions that form no loops: at most {MOST_INSTRUCTIONS} can be timed"
        raise ProgramError(graph.name, [text])
    buffers = _buffers(graph)
    built = _Resolving({name: form for form, name in forms.items()}, buffers)
    parameters = tuple(graph.parameters.items())
    return ResolvedStream(
        "program", "acadl", parameters, tuple(buffers.values()), (), (), 0, built.nodes(rolled, {}),
    )


def _node(step: Step, forms: dict[tuple[str, tuple[Touch, ...]], str]) -> Instr:
    """An executed instruction: a mnemonic for what it touches, and where its words begin as attributes."""
    each = step.loaded
    touches = [(True, r.file, r.number, 1) for r in each.reads] + [(False, r.file, r.number, 1) for r in each.writes]
    begins = []
    for is_read, words in ((True, step.reads), (False, step.writes)):
        for memory, begin, rows in _runs(words):
            touches.append((is_read, memory, -1, rows))
            begins.append(begin)
    name = forms.setdefault((each.instruction.operation, tuple(touches)), f"form{len(forms)}")
    return Instr(name, tuple([(f"at{k}", Affine(begin)) for k, begin in enumerate(begins)]))


def _runs(words: Iterable[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """The maximal runs of neighbouring words of one memory: its name, the first address, and how many."""
    ordered = sorted(set(words))
    first = 0
    for k in range(1, len(ordered) + 1):
        memory, begin = ordered[first]
        if k == len(ordered) or ordered[k] != (memory, begin + k - first):
            yield memory, begin, k - first
            first = k


@per_graph
def _buffers(graph: ArchitectureGraph) -> Mapping[str, Buffer]:
    """The buffer in each register file and memory of the graph: a row of integers for each register or word."""
    held = places(graph)
    found = {file.name: _buffer(file.name, len(file.registers), file.data_width) for file in held.files}
    for name, memory in held.memories.items():
        found[name] = _buffer(name, max(stop for _, stop in memory.address_ranges), memory.data_width)
    return found


def _buffer(name: str, rows: int, width: int) -> Buffer:
    """Words of an odd number of bits have no elements that make them up: the binder refuses those of memories."""
    bits = next((b for b in ELEMENTS if width % b == 0), None)
    return Buffer(name, (rows, width // bits if bits else width), f"i{bits or 8}")


@dataclass
class _Resolving:
    """Rolled nodes with their accesses; loop variables get names that no other loop has."""

    forms: Mapping[str, tuple[str, tuple[Touch, ...]]]
    buffers: Mapping[str, Buffer]

    def __post_init__(self) -> None:
        self.numbers = count()
        self.loops = count()

    def nodes(self, nodes: Iterable[Node], names: Mapping[str, Affine]) -> tuple[ResolvedNode, ...]:
        return tuple([self.node(node, names) for node in nodes])

    def node(self, node: Node, names: Mapping[str, Affine]) -> ResolvedNode:
        if isinstance(node, Instr):
            return self.instruction(node, names)
        assert isinstance(node, Loop)  # roll makes no other nodes, and its loops count from 0
        var = f"loop{next(self.loops)}"
        return ResolvedLoop(var, node.extent, self.nodes(node.body, {**names, node.var: Affine.variable(var)}))

    def instruction(self, node: Instr, names: Mapping[str, Affine]) -> ResolvedInstr:
        operation, touches = self.forms[node.mnemonic]
        begins = iter(node.attributes)
        statements = []
        for k, (is_read, buffer, row, rows) in enumerate(touches):
            begin = Affine(row) if row >= 0 else next(begins)[1].substitute(names)
            statements.append(self.statement(k, is_read, self.buffers[buffer], begin, rows))
        return ResolvedInstr(operation, (), (), tuple(statements), next(self.numbers))

    def statement(self, number: int, is_read: bool, buffer: Buffer, begin: Affine, rows: int) -> Statement:
        columns = buffer.shape[1]
        window = Window(buffer.name, (begin, Affine(0)), (WindowDim(0, rows, 1), WindowDim(1, columns, 1)))
        form = TensorType(window.shape, buffer.dtype)
        return Read(f"%{number}", window, form) if is_read else Write(f"%{number}", window, form)
