"""Programs run one instruction after the other: what they compute, whatever the timing."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph, Instruction
from archloom.acadl_models.acadl.instruction import payload
from archloom.acadl_models.acadl.latency import LatencyError
from archloom.acadl_models.programs.contents import contents, fits, too_wide
from archloom.acadl_models.programs.loading import Loaded, Word, load
from archloom.acadl_models.programs.places import places
from archloom.oracle.errors import ProgramError

STEPS = 1_000_000
"""Instructions that a run may execute if nothing else is asked for."""


@dataclass(frozen=True)
class Run:
    """What a run has left: registers by file and name, words by memory and address, and how many steps it took.

    Words that nothing was stored in do not appear in ``data``: they are 0.
    """

    registers: Mapping[str, Mapping[str, Any]]
    data: Mapping[str, Mapping[int, Any]]
    steps: int


@dataclass(frozen=True)
class Step:
    """An executed instruction with the addresses that it read and wrote, each with its memory."""

    loaded: Loaded
    reads: tuple[tuple[str, int], ...]
    writes: tuple[tuple[str, int], ...]


def execute(
    graph: ArchitectureGraph, program: Sequence[Instruction], *, registers: Mapping[str, Any] | None = None,
    data: Mapping[str, Mapping[int, Any]] | None = None, steps: int = STEPS,
) -> Run:
    """Run ``program`` from what the graph's registers and memories hold.

    ``registers`` (by name) and ``data`` (by memory and address) take the place of that. At most ``steps`` instructions
    are executed. Raises ProgramError for a program that does not fit the graph, and for what goes wrong while it runs.
    """
    machine = Machine(graph, program, registers or {}, data or {})
    for _ in machine.walk(steps):
        pass
    return machine.run()


class Machine:
    """Registers and memories of a graph while a program runs."""

    def __init__(
        self, graph: ArchitectureGraph, program: Sequence[Instruction], registers: Mapping[str, Any],
        data: Mapping[str, Mapping[int, Any]],
    ) -> None:
        self.graph = graph
        self.program = load(graph, program)
        self.held = places(graph)
        held = contents(graph, registers, data)
        self.registers, self.data = held.registers, held.data
        self.steps = 0
        self.at = self.held.first

    def run(self) -> Run:
        return Run(self.registers, self.data, self.steps)

    def walk(self, most: int) -> Iterator[Step]:
        """Execute instructions until the program counter is at the end of the program; each after it was executed."""
        counter = self.held.counter
        if counter is not None:
            self.at = self._target(self.registers[counter.file][counter.name], "the program starts")
        end = self.held.first + len(self.program)
        while self.at != end:
            each = self.program[self.at - self.held.first]
            if self.steps >= most:
                text = f"the program has not ended after {most} steps (the next is {each}); steps= allows more"
                raise ProgramError(self.graph.name, [text])
            yield self._execute(each)
            self.steps += 1
        self._point()

    def _execute(self, each: Loaded) -> Step:
        self._point()
        read = [self.registers[r.file][r.name] for r in each.reads]
        step = Step(each, *(self._addresses(each, words, read) for words in (each.read_words, each.write_words)))
        self._check_once(step)
        read += [self.data[memory].get(address, 0) for memory, address in step.reads]
        results = self._results(each, read)
        for register, value in zip(each.writes, results):
            self._check(each, str(register), value, register.width)
            self.registers[register.file][register.name] = value
        for (memory, address), value in zip(step.writes, results[len(each.writes):]):
            self._check(each, f"{memory}[{address}]", value, self.held.memories[memory].data_width)
            self.data[memory][address] = value
        self.at = self._next(each)
        return step

    def _point(self) -> None:
        """The program counter points to the instruction that is executed, or to the end."""
        if self.held.counter is not None:
            self.registers[self.held.counter.file][self.held.counter.name] = self.at

    def _next(self, each: Loaded) -> int:
        counter = self.held.counter
        if counter is None or counter not in each.writes:
            return self.at + 1
        return self._target(self.registers[counter.file][counter.name], f"{each} goes on")

    def _addresses(self, each: Loaded, words: Sequence[Word], read: Sequence[Any]) -> tuple[tuple[str, int], ...]:
        found = []
        for word in words:
            try:
                values = {name: operator.index(read[word.names[name]]) for name in word.address.names}
                address = word.address.evaluate(values)
                found.append((self.held.holding(address, word.memory).name, address))
            except (TypeError, LatencyError, KeyError) as error:
                raise self._fault(each, f"address {word.address.text!r}: {error.args[0]}") from None
        return tuple(found)

    def _results(self, each: Loaded, read: Sequence[Any]) -> tuple[Any, ...]:
        """What the function returns, as many values as there are places to write."""
        count = len(each.writes) + len(each.write_words)
        try:
            found = each.instruction.execute(*read)
        except Exception as error:
            raise self._fault(each, f"its function raised {type(error).__name__}: {error}") from error
        results = (found,) if count == 1 else () if found is None else found
        if not isinstance(results, (tuple, list)) or len(results) != count:
            raise self._fault(each, f"its function must return {_values(count)}, not {found!r}")
        return tuple(map(payload, results))

    def _check_once(self, step: Step) -> None:
        for memory, address in step.writes:
            if step.writes.count((memory, address)) > 1:
                raise self._fault(step.loaded, f"it writes {memory}[{address}] twice")

    def _check(self, each: Loaded, place: str, value: Any, width: int) -> None:
        if not fits(value, width):
            raise self._fault(each, too_wide(place, value, width))

    def _target(self, value: Any, what: str) -> int:
        """Where a program counter points: to an instruction, or behind the last one, which ends the program."""
        first, end = self.held.first, self.held.first + len(self.program)
        if not isinstance(value, Integral) or not first <= int(value) <= end:
            text = f"{what} at {value!r}, which is not in the program ({first} .. {end}, where it ends)"
            raise ProgramError(self.graph.name, [text])
        return int(value)

    def _fault(self, each: Loaded, text: str) -> ProgramError:
        return ProgramError(self.graph.name, [f"{each} in step {self.steps}: {text}"])


def _values(count: int) -> str:
    return "nothing, as it writes nothing" if not count else f"a tuple of {count} values" if count > 1 else "a value"
