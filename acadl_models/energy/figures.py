"""The figures of a graph's objects: what a user says before what the graph states, and that before the tables.

What is counted of an object: words of a storage that are read and written, rows of a DRAM that are activated, registers
of a register file, bytes of a link, instructions of a stage and of a fetch unit. Units cost what their instructions
compute (:func:`operation_joules`). A figure that nobody states and no table has is None; an instruction memory is part
of what an instruction costs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.components import Component, Included, Logic, Memory, OffChip, Technology, Wire
from archloom.acadl_models.acadl.graph import ArchitectureGraph, per_graph
from archloom.acadl_models.acadl.stages import InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import (
    DRAM,
    DataStorage,
    Link,
    MemoryInterface,
    RegisterFile,
    SetAssociativeCache,
)
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit, MemoryAccessUnit
from archloom.acadl_models.energy import arithmetic, memories, scaling, tables, wires
from archloom.acadl_models.energy.overrides import ENERGIES, FIGURES
from archloom.acadl_models.energy.work import Work
from archloom.oracle.errors import InputError, suggest
from archloom.oracle.taidl.types import element_type

_TAG_BYTES = 4
"""Of a line of a cache."""


@dataclass(frozen=True)
class Figures:
    """Joules of what is counted of an object, by kind of event (None or none for units: by instruction), its leakage,
    its area, and what its clocks cost in each cycle because they are not gated."""

    joules: Mapping[str, float | None] = field(default_factory=dict)
    leakage_watts: float | None = None
    area_mm2: float | None = None
    clock_joules: float = 0.0

    def of(self, kind: str) -> float | None:
        """Joules of an event; what fills a line of a cache writes it, what writes one back reads it."""
        return self.joules.get({"fill": "write", "write_back": "read"}.get(kind, kind))


def _accesses(read: float, write: float | None = None, activation: float | None = 0.0) -> Mapping[str, float | None]:
    """Joules by kind; a write costs as much as a read if nothing is said."""
    return {"read": read, "write": read if write is None else write, "activation": activation}


_KINDS = dict.fromkeys(kind for kinds in ENERGIES.values() for kind in kinds)
_NOTHING = Figures(dict.fromkeys(_KINDS, 0.0), 0.0, 0.0)


def technology_of(graph: ArchitectureGraph) -> Technology | None:
    """The process of a graph, as the user or else the graph has it."""
    return graph.overrides.technology or graph.technology


@per_graph
def figures_of(graph: ArchitectureGraph) -> Mapping[str, Figures]:
    """The figures of every object, by name; InputError for overrides of objects that are not there."""
    for pattern in graph.overrides.objects:
        _check_pattern(graph, pattern)
    fetching = {graph.instruction_memory(stage)[1].name: stage for stage in graph.fetch_stages}
    widths = [memory.data_width for memory in (graph[name] for name in fetching) if isinstance(memory, DataStorage)]
    technology, bits = technology_of(graph), max(widths, default=0)
    return {name: _stated(graph, place, _NOTHING if name in fetching else _derived(place, technology, bits))
            for name, place in graph.objects.items()}


def _check_pattern(graph: ArchitectureGraph, pattern: str) -> None:
    matched = [place for name, place in graph.objects.items() if fnmatchcase(name, pattern)]
    if not matched:
        alike = sorted({re.sub(r"\[\d+\]", "[*]", name) for name in graph.objects})
        raise InputError(f"energies: {pattern!r} is no object of {graph.name!r}{suggest(pattern, alike)}")
    for figure in graph.overrides.objects[pattern]:
        if not any(hasattr(place, figure) for place in matched):
            known = [name for name in FIGURES if hasattr(matched[0], name)]
            raise InputError(f"energies: {figure} is no figure of {matched[0]}, which has {', '.join(known)}")


def _stated(graph: ArchitectureGraph, place: ACADLObject, derived: Figures) -> Figures:
    """What is said of an object, and else what is derived; words whose energy is said have their rows' in it."""
    given = _given(graph, place)
    if "read" in given or "write" in given:
        given.setdefault("activation", 0.0)
    joules = {**derived.joules, **{kind: given[kind] for kind in _KINDS if kind in given}}
    return Figures(joules, given.get("leakage_watts", derived.leakage_watts), given.get("area_mm2", derived.area_mm2),
                   derived.clock_joules)


def _given(graph: ArchitectureGraph, place: ACADLObject) -> dict[str, float]:
    """The figures of an object that its attributes and the user give, energies by kind of event; tables by mnemonic are
    no single figure."""
    found = _by_kind({name: getattr(place, name, None) for name in FIGURES})
    for pattern, table in graph.overrides.objects.items():
        if fnmatchcase(place.name, pattern):
            found |= _by_kind({name: value for name, value in table.items() if hasattr(place, name)})
    return found


def _by_kind(table: Mapping[str, object]) -> dict[str, float]:
    """Attributes that hold numbers, those of energies under the kinds of events that they are for."""
    known = {name: value for name in FIGURES if isinstance(value := table.get(name), (int, float))}
    return {kind: value for name, value in known.items() for kind in ENERGIES.get(name, (name,))}


def stated_joules(graph: ArchitectureGraph, unit: FunctionalUnit, mnemonic: str) -> float | None:
    """What an operation of ``mnemonic`` costs by the user or the graph; None: it is what the instruction computes."""
    if isinstance(unit.joules_per_operation, Mapping) and not graph.overrides.objects:
        return unit.joules_of(mnemonic)
    return _given(graph, unit).get("operation", unit.joules_of(mnemonic))


def work_joules(graph: ArchitectureGraph, unit: FunctionalUnit, work: Work) -> tuple[float | None, list[str]]:
    """What an instruction costs that computes ``work``, and the operations that no figure is known of."""
    each = {what: operation_joules(graph, what[0], _as_built(unit, *what)) for what in work}
    missing = [" ".join(what) for what, joules in each.items() if joules is None]
    if missing:
        return None, missing
    total = sum(count * (each[what] or 0.0) for what, count in work.items())
    technology, component = technology_of(graph), unit.component
    if technology is not None and isinstance(component, Logic) and component.register_bits:
        products = sum(count for (operation, _), count in work.items() if operation == arithmetic.MULTIPLY)
        total += products * component.register_bits * memories.flip_flop(technology)
    return total, []


def _as_built(unit: FunctionalUnit, operation: str, dtype: str) -> str:
    """The type that a unit computes with: what it has arithmetic for, where a description holds numbers in wider ones,
    as where weights and sums of an array share registers."""
    if not isinstance(unit.component, Logic):
        return dtype
    is_float = element_type(dtype).kind == "float"
    built = [kind for name, kind in map(_named, unit.component.units)
             if name == operation and (element_type(kind).kind == "float") == is_float]
    widest = max(built, key=lambda kind: element_type(kind).bits, default=dtype)
    return min(dtype, widest, key=lambda kind: element_type(kind).bits)


def operation_joules(graph: ArchitectureGraph, operation: str, dtype: str) -> float | None:
    """Joules of a scalar operation on the process of a graph."""
    own = graph.overrides.operations.get(f"{operation} {dtype}")
    technology = technology_of(graph)
    if own is not None or technology is None:
        return own
    return arithmetic.joules(operation, dtype, technology)


@per_graph
def multiplication_joules(graph: ArchitectureGraph, dtype: str) -> float:
    """What each multiplication of numbers of a type costs at least, in whichever unit; 0 where that is not known, or
    said by somebody."""
    if graph.overrides.objects or any(unit.joules_per_operation is not None for unit in graph.functional_units):
        return 0.0
    built = {_as_built(unit, arithmetic.MULTIPLY, dtype) for unit in graph.functional_units}
    return min((operation_joules(graph, arithmetic.MULTIPLY, kind) or 0.0 for kind in built), default=0.0)


def area_of(graph: ArchitectureGraph) -> tuple[float | None, list[str]]:
    """The area of all objects in square millimetres, None where one is missing; and the objects that are."""
    return _total(graph, "area_mm2")


def leakage_of(graph: ArchitectureGraph) -> tuple[float | None, list[str]]:
    """The leakage of all objects in watts, likewise."""
    return _total(graph, "leakage_watts")


def _total(graph: ArchitectureGraph, figure: str) -> tuple[float | None, list[str]]:
    known = {name: getattr(found, figure) for name, found in figures_of(graph).items()}
    missing = [name for name, value in known.items() if value is None]
    return (None if missing else sum(known.values())), missing


# --- from the tables ----------------------------------------------------------------------------------------------
def _derived(place: ACADLObject, technology: Technology | None, instruction_bits: int) -> Figures:
    """What follows from an object's component and attributes."""
    component = place.component
    if isinstance(component, Included):
        return _NOTHING
    if technology is None:
        return Figures()
    if isinstance(component, OffChip) or (isinstance(place, DRAM) and component is None):
        return _off_chip(place, component, technology)
    if isinstance(place, DataStorage):
        return _storage(place, component, technology)
    if isinstance(place, RegisterFile):
        return _register_file(place, component, technology)
    if isinstance(place, Link):
        return _link(component, technology)
    if isinstance(place, InstructionMemoryAccessUnit):
        return Figures({"instruction": scaling.rate("instruction", technology)}, 0.0, 0.0)
    if isinstance(place, FunctionalUnit):
        return _unit(place, component, technology)
    return _stage(place, technology, instruction_bits)


def _off_chip(place: ACADLObject, component: Component | None, technology: Technology) -> Figures:
    standard = component.standard if isinstance(component, OffChip) else technology.dram
    if standard is None or not isinstance(place, DataStorage):
        return Figures({}, 0.0, 0.0)
    known = tables.dram()
    if standard not in known:
        raise InputError(f"{place}: unknown standard of memory {standard!r}{suggest(standard, list(known))}")
    bit, activation = known[standard]
    return Figures(_accesses(place.data_width * stored_share(place) * bit, activation=activation), 0.0, 0.0)


def _storage(place: DataStorage, component: Component | None, technology: Technology) -> Figures:
    what = component if isinstance(component, Memory) else Memory()
    size = what.size_bytes or (place.size_bytes if isinstance(place, MemoryInterface) else 0)
    if isinstance(place, SetAssociativeCache):
        size = what.size_bytes or _with_tags(place)
    width, share = what.width_bits or place.data_width * place.port_width, stored_share(place)
    bank = memories.memory(share * size / what.banks, width, what.ports, technology)
    return _of_words(bank, share * place.data_width / width, bank.times(what.banks))


def stored_share(place: ACADLObject) -> float:
    """How much of a word a storage holds."""
    return place.stored_share if isinstance(place, MemoryInterface) else 1.0


def _of_words(access: memories.Cost, part: float, whole: memories.Cost) -> Figures:
    """Of words that are such a part of an access, in memories that leak and measure so much."""
    return Figures(_accesses(part * access.read, part * access.write), whole.watts, whole.area_mm2)


def _with_tags(cache: SetAssociativeCache) -> int:
    return cache.size_bytes + cache.size_bytes // cache.cache_line_size * _TAG_BYTES


def _register_file(place: RegisterFile, component: Component | None, technology: Technology) -> Figures:
    count, width = place.physical_registers or len(place.registers), place.data_width
    if isinstance(component, Memory):
        size, ports = component.size_bytes or count * width // 8, component.ports
        cost = memories.memory(size, component.width_bits or width, ports, technology)
        return _of_words(cost, width / (component.width_bits or width), cost)
    cost = memories.registers(count, width, technology)
    return Figures(_accesses(cost.read, cost.write), cost.watts, cost.area_mm2,
                   memories.clock(count * width, technology) if count <= memories.FLIP_FLOPS else 0.0)


def _link(component: Component | None, technology: Technology) -> Figures:
    if not isinstance(component, Wire):
        return Figures({}, 0.0, 0.0)
    return Figures(_accesses(8 * wires.bit_joules(component.length_mm, technology)), 0.0, 0.0)


def _unit(place: FunctionalUnit, component: Component | None, technology: Technology) -> Figures:
    """A unit that accesses memories alone has no arithmetic but what it states."""
    if not isinstance(component, Logic):
        return Figures({}, 0.0, 0.0) if isinstance(place, MemoryAccessUnit) else Figures()
    bits = component.register_bits + component.held_bits
    area = _logic_area(tuple(component.units.items()), bits, technology)
    return Figures({}, None if area is None else memories.logic_leakage(area, technology), area,
                   memories.clock(bits * _multipliers(component.units), technology))


def _multipliers(units: Mapping[str, int]) -> int:
    return sum(count for name, count in units.items() if name.startswith(arithmetic.MULTIPLY))


@lru_cache(maxsize=1024)
def _logic_area(units: tuple[tuple[str, int], ...], register_bits: int, technology: Technology) -> float | None:
    areas = [(count, arithmetic.area_mm2(*_named(name), technology)) for name, count in units]
    if any(each is None for _, each in areas):
        return None
    bit = tables.rate("register_bit_area")
    registers = _multipliers(dict(units)) * register_bits * scaling.area(bit.value, bit.process, technology)
    return sum(count * (each or 0.0) for count, each in areas) + registers


def _named(name: str) -> tuple[str, str]:
    operation, _, dtype = name.partition(" ")
    return operation, dtype


def _stage(place: ACADLObject, technology: Technology, instruction_bits: int) -> Figures:
    """Registers in which instructions wait; each is written and read once."""
    assert isinstance(place, PipelineStage)
    depth = place.issue_buffer_size if isinstance(place, InstructionFetchStage) else place.depth
    cost = memories.registers(depth, instruction_bits, technology)
    return Figures({"instruction": cost.read + cost.write}, cost.watts, cost.area_mm2,
                   memories.clock(depth * instruction_bits, technology))
