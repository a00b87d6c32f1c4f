"""What registers and memories hold when a program starts: by the graph, and by the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.acadl.instruction import payload
from archloom.acadl_models.programs.places import Places, places
from archloom.oracle.errors import ProgramError


@dataclass(frozen=True)
class Contents:
    """Values of registers by file and name, and of words by memory and address; words that are missing are 0."""

    registers: dict[str, dict[str, Any]]
    data: dict[str, dict[int, Any]]


def fits(value: Any, width: int) -> bool:
    """Whether an integer, signed or not, has at most ``width`` bits; values of other kinds are taken as they are."""
    return not isinstance(value, Integral) or -(1 << (width - 1)) <= int(value) < 1 << width


def contents(
    graph: ArchitectureGraph, registers: Mapping[str, Any], data: Mapping[str, Mapping[int, Any]]
) -> Contents:
    """What the graph states, with the given values in its place; ProgramError lists all that cannot be held."""
    held = places(graph)
    found = Contents(
        {f.name: {n: payload(v) for n, v in f.registers.items()} for f in held.files},
        {name: {a: payload(v) for a, v in m.data.items()} for name, m in held.memories.items()},
    )
    faults = [f"{c}: a cache has the words of the memory behind it; state them there" for c in held.caches if c.data]
    faults += [*_set_registers(held, found, registers), *_set_words(held, found, data), *_unfit(held, found)]
    if faults:
        raise ProgramError(graph.name, faults)
    return found


def _set_registers(held: Places, found: Contents, registers: Mapping[str, Any]) -> Iterator[str]:
    for name, value in registers.items():
        try:
            register = held.register(name)
        except KeyError as error:
            yield str(error.args[0])
        else:
            found.registers[register.file][register.name] = payload(value)


def _set_words(held: Places, found: Contents, data: Mapping[str, Mapping[int, Any]]) -> Iterator[str]:
    for memory, words in data.items():
        try:
            name = held.memory(memory).name
        except KeyError as error:
            yield str(error.args[0])
        else:
            found.data[name].update({address: payload(value) for address, value in words.items()})


def _unfit(held: Places, found: Contents) -> Iterator[str]:
    for file in held.files:
        for name, value in found.registers[file.name].items():
            if not fits(value, file.data_width):
                yield too_wide(f"{file.name}.{name}", value, file.data_width)
    for memory in held.memories.values():
        for address, value in found.data[memory.name].items():
            if not isinstance(address, Integral) or not any(a <= address < b for a, b in memory.address_ranges):
                yield f"{memory} holds no word {address!r}"
            elif not fits(value, memory.data_width):
                yield too_wide(f"{memory.name}[{address}]", value, memory.data_width)


def too_wide(place: str, value: Any, width: int) -> str:
    """The message about an integer that a place cannot hold."""
    return f"{value} does not fit into the {width} bits of {place}"
