"""Where programs find registers by name and words by address, and the graph as their timing sees it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from archloom.acadl_models.acadl import ArchitectureGraph, Bank, CacheInterface, MemoryInterface, RegisterFile
from archloom.acadl_models.acadl.graph import per_graph
from archloom.oracle.errors import ProgramError, suggest


@dataclass(frozen=True)
class Register:
    """A register of ``width`` bits, the ``number``-th of its file."""

    file: str
    name: str
    number: int
    width: int

    def __str__(self) -> str:
        return f"{self.file}.{self.name}"


class Places:
    """Registers and memories of a graph; ``counter`` is the program counter, if there is one.

    The program lies in the instruction memory from ``first`` on, an instruction in a word, at most to ``end``.
    """

    def __init__(self, graph: ArchitectureGraph) -> None:
        if len(graph.fetch_stages) != 1:
            found = ", ".join(s.name for s in graph.fetch_stages)
            raise ProgramError(graph.name, [f"a program is fetched by one InstructionFetchStage, found {found}"])
        stage = graph.fetch_stages[0]
        _, program = graph.instruction_memory(stage)
        ranges = program.address_ranges if isinstance(program, MemoryInterface) else ()
        self.first, self.end = min(ranges, default=(0, 0))
        self.files = [o for o in graph.objects.values() if isinstance(o, RegisterFile)]
        stored = [s for s in graph.storages if s is not program]
        self.memories = {s.name: s for s in stored if isinstance(s, MemoryInterface)}
        self.caches = [s for s in stored if isinstance(s, CacheInterface)]
        self.named: dict[str, list[Register]] = {}
        for file in self.files:
            for number, name in enumerate(file.registers):
                register = Register(file.name, name, number, file.data_width)
                for spelling in dict.fromkeys((name, str(register))):
                    self.named.setdefault(spelling, []).append(register)
        counter = graph.program_counter(stage)
        self.counter = None if counter is None else self.named[f"{counter[0].name}.{counter[1]}"][0]

    def register(self, name: object) -> Register:
        """The register of a name; KeyError with what is wrong if there is not exactly one."""
        found = self.named.get(name, []) if isinstance(name, str) else []
        if len(found) > 1:
            files = ", ".join(map(str, found[:4]))
            raise KeyError(f"register {name!r} is one of {len(found)} files: name it with its file ({files}, ...)")
        if not found:
            raise KeyError(f"no register {name!r}{suggest(str(name), list(self.named)[:64])}")
        return found[0]

    def memory(self, name: object) -> MemoryInterface:
        """The memory of a name; KeyError if there is none."""
        if not isinstance(name, str) or name not in self.memories:
            raise KeyError(f"no memory {name!r}{suggest(str(name), list(self.memories))}")
        return self.memories[name]

    def holding(self, address: int, memory: str | None) -> MemoryInterface:
        """The memory (``memory``, if given) that holds the word of an address; KeyError if none or several do."""
        asked = self.memories.values() if memory is None else [self.memories[memory]]
        found = [m for m in asked if any(start <= address < stop for start, stop in m.address_ranges)]
        if len(found) > 1:
            several = " and ".join(m.name for m in found)
            raise KeyError(f"address {address} lies in {several}: write (memory, address)")
        if not found:
            raise KeyError(f"address {address} lies in no memory ({_extents(asked)})")
        return found[0]


def _extents(memories: Iterable[MemoryInterface]) -> str:
    return "; ".join(f"{m.name}: {_ranges(m)}" for m in memories) or "there is none"


def _ranges(memory: MemoryInterface) -> str:
    return ", ".join(f"{start}..{stop - 1}" for start, stop in memory.address_ranges)


@per_graph
def places(graph: ArchitectureGraph) -> Places:
    """The places of ``graph``."""
    return Places(graph)


@per_graph
def view(graph: ArchitectureGraph) -> ArchitectureGraph:
    """The graph with a buffer of its own name in each register file and each memory: a row is a register or a word."""
    held = places(graph)
    files = {file.name: (Bank(file.name, 0, None),) for file in held.files}
    memories = {
        name: tuple(Bank(name, start, stop) for start, stop in sorted(memory.address_ranges))
        for name, memory in held.memories.items()
    }
    return replace(graph, buffers={**files, **memories})
