"""Programs are checked against a graph: registers and addresses by name become places, and all faults are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph, Instruction
from archloom.acadl_models.acadl.instruction import LISTS
from archloom.acadl_models.acadl.latency import Expression, LatencyError, parse
from archloom.acadl_models.programs.places import Places, Register, places
from archloom.acadl_models.timing.routing import routing
from archloom.oracle.errors import ProgramError, suggest


@dataclass(frozen=True)
class Word:
    """A word of ``memory`` (None: the one that holds the address); the expression knows registers by ``names``."""

    memory: str | None
    address: Expression
    names: Mapping[str, int]
    """For each name the number of the register among those that the instruction reads."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """An instruction of a program with the places that it reads and writes."""

    number: int
    instruction: Instruction
    reads: tuple[Register, ...]
    writes: tuple[Register, ...]
    read_words: tuple[Word, ...]
    write_words: tuple[Word, ...]

    def __str__(self) -> str:
        return f"instruction {self.number} {self.instruction.operation!r}"


def load(graph: ArchitectureGraph, program: Sequence[Instruction]) -> tuple[Loaded, ...]:
    """The program with its places; ProgramError lists everything in which it does not fit the graph."""
    held = places(graph)
    faults: list[str] = []
    if len(program) > held.end - held.first:
        faults.append(f"{len(program)} instructions, of which the instruction memory holds {held.end - held.first}")
    found = tuple(_Loading(graph, held, k, each, faults).loaded() for k, each in enumerate(program))
    if faults:
        raise ProgramError(graph.name, faults)
    return tuple(each for each in found if each is not None)


class _Loading:
    """One instruction; what is wrong with it is added to ``faults``."""

    def __init__(
        self, graph: ArchitectureGraph, held: Places, number: int, instruction: object, faults: list[str]
    ) -> None:
        self.processed = routing(graph).processing
        self.held = held
        self.number = number
        self.instruction = instruction
        self.faults = faults

    def loaded(self) -> Loaded | None:
        given = self.instruction
        if not isinstance(given, Instruction):
            self.faults.append(f"instruction {self.number} must be an Instruction, not {given!r}")
            return None
        before = len(self.faults)
        self._attributes(given)
        if len(self.faults) > before:
            return None
        reads = self._all(given.read_registers, self.held.register)
        writes = self._all(given.write_registers, self.held.register)
        names = _names(reads)
        words = [self._all(at, lambda a: self._word(a, names)) for at in (given.read_addresses, given.write_addresses)]
        if len(set(writes)) < len(writes):
            self._fault(f"it writes a register twice: {', '.join(map(str, writes))}")
        return Loaded(self.number, given, reads, writes, *words)

    def _attributes(self, given: Instruction) -> None:
        for name in LISTS:
            if not isinstance(getattr(given, name), tuple):
                self._fault(f"{name} must be a list, not {getattr(given, name)!r}")
        if given.operation not in self.processed:
            self._fault(f"no unit has it in its to_process{suggest(str(given.operation), list(self.processed))}")
        if given.function is None and (given.write_registers or given.write_addresses):
            self._fault("it writes, but has no function that says what")
        elif given.function is not None and not callable(given.function):
            self._fault(f"its function cannot be called: {given.function!r}")

    def _fault(self, text: str) -> None:
        operation = getattr(self.instruction, "operation", "?")
        self.faults.append(f"instruction {self.number} {operation!r}: {text}")

    def _all(self, items: Sequence[Any], find: Callable[[Any], Any]) -> tuple[Any, ...]:
        found = []
        for item in items:
            try:
                found.append(find(item))
            except KeyError as error:
                self._fault(str(error.args[0]))
        return tuple(found)

    def _word(self, address: Any, names: Mapping[str, int]) -> Word:
        memory, at = address if isinstance(address, tuple) and len(address) == 2 else (None, address)
        if memory is not None:
            self.held.memory(memory)
        try:
            expression = parse(at)
        except LatencyError as error:
            raise KeyError(f"address {at!r}: {error}") from None
        unknown = sorted(expression.names - names.keys())
        if unknown:
            known = ", ".join(names) or "none"
            raise KeyError(f"address {at!r} names {', '.join(unknown)}, no register that it reads ({known})")
        if expression.is_constant:
            self.held.holding(expression.evaluate({}), memory)
        return Word(memory, expression, names)


def _names(reads: Sequence[Register]) -> dict[str, int]:
    """What addresses may name: a register by its own name, where no other that is read has it."""
    return {r.name: k for k, r in enumerate(reads) if all(other == r for other in reads if other.name == r.name)}
