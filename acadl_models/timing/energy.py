"""Energy of a run: the figures of the graph's objects times the counts of its simulation, exact, nothing is sampled.

Dynamic energy: of each word of a storage that a request or a cache reads or writes, each row of a DRAM that is opened,
each register, of what a unit's instructions compute, of each instruction of a stage and each that is fetched, of each
byte of a link. Leakage, and clocks that are not gated, over the makespan. Figures are those of
:mod:`archloom.acadl_models.energy`. An object that did something, and has no figure for it, makes the totals None:
``missing`` says whose figures are not known.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph, FunctionalUnit, InstructionMemoryAccessUnit, RegisterFile
from archloom.acadl_models.acadl.latency import LatencyError
from archloom.acadl_models.energy.figures import figures_of, stated_joules, technology_of, work_joules
from archloom.acadl_models.energy.overrides import ENERGIES
from archloom.acadl_models.energy.work import Work, work_of
from archloom.acadl_models.timing.nests import Nests
from archloom.acadl_models.timing.program import AccessPlan, Program, StaticInstruction, word_axes
from archloom.acadl_models.timing.result import EnergyUse, TimingResult
from archloom.oracle.accesses import Touching, element_bits
from archloom.oracle.errors import GraphError, InputError


@dataclass(frozen=True)
class Events:
    """What happened of one kind, and its joules (None: not known): ``read`` and ``write`` of words, registers or bytes;
    words that ``fill`` lines of a cache or that it has to ``write_back``; ``activation`` of rows; ``instruction`` of
    stages and fetch units; ``operation`` of units."""

    kind: str
    count: int
    joules: float | None


@dataclass(frozen=True)
class ObjectEnergy:
    """Joules of one object, None where a figure is missing."""

    name: str
    kinds: tuple[Events, ...]
    leakage_joules: float | None
    clock_joules: float = 0.0

    @property
    def events(self) -> int:
        """Of all kinds."""
        return sum(of.count for of in self.kinds)

    def count(self, kind: str) -> int:
        """Events of one kind."""
        return sum(of.count for of in self.kinds if of.kind == kind)

    @property
    def dynamic_joules(self) -> float | None:
        return _sum([of.joules for of in self.kinds])

    @property
    def joules(self) -> float | None:
        """All together."""
        return _sum([self.dynamic_joules, self.leakage_joules, self.clock_joules])


@dataclass(frozen=True)
class Energy:
    """Joules of a run by object, in the graph's order; ``missing``: figures without which the totals are None."""

    objects: tuple[ObjectEnergy, ...]
    missing: tuple[str, ...] = ()

    @property
    def dynamic_joules(self) -> float | None:
        return _sum([o.dynamic_joules for o in self.objects])

    @property
    def leakage_joules(self) -> float | None:
        return _sum([o.leakage_joules for o in self.objects])

    @property
    def clock_joules(self) -> float:
        """Of clocks that run while nothing is written."""
        return math.fsum(o.clock_joules for o in self.objects)

    @property
    def joules(self) -> float | None:
        """The whole run."""
        return _sum([self.dynamic_joules, self.leakage_joules, self.clock_joules])

    @property
    def known_joules(self) -> float:
        """What is known of the whole run, at least."""
        of_events = [of.joules for o in self.objects for of in o.kinds]
        idle = [joules for o in self.objects for joules in (o.leakage_joules, o.clock_joules)]
        return math.fsum(joules for joules in of_events + idle if joules is not None)

    def by_kind(self) -> dict[str, float]:
        """Joules that are known, by kind of event over all objects, and those of ``leakage`` and ``clock``."""
        found: dict[str, list[float]] = defaultdict(list)
        for o in self.objects:
            for of in o.kinds:
                found[of.kind].append(of.joules or 0.0)
            found["leakage"].append(o.leakage_joules or 0.0)
            found["clock"].append(o.clock_joules)
        sums = {kind: math.fsum(joules) for kind, joules in found.items()}
        return {kind: joules for kind, joules in sums.items() if joules}

    @property
    def use(self) -> EnergyUse:
        """What is kept of it: the totals, and the objects that spend anything."""
        spent = {o.name: o.joules for o in self.objects if o.joules}
        return EnergyUse(self.joules, self.dynamic_joules, self.leakage_joules, spent, self.missing, self.clock_joules,
                         self.by_kind())

    def of(self, name: str) -> ObjectEnergy:
        """The figures of the object ``name``; KeyError if it is none."""
        for found in self.objects:
            if found.name == name:
                return found
        raise KeyError(f"{name!r} is none of {', '.join(o.name for o in self.objects)}")


def _sum(parts: "list[float | None]") -> float | None:
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None


def has_energy(graph: ArchitectureGraph) -> bool:
    """Whether anything is known of the energy of a graph: its technology, or any figure of an object."""
    return technology_of(graph) is not None or bool(graph.overrides.objects) or any(
        getattr(place, figure, None) is not None for place in graph.objects.values()
        for figure in (*ENERGIES, "leakage_watts"))


def total_joules(found: Energy | EnergyUse, graph: ArchitectureGraph) -> float:
    """The joules of a run for those who compare by them; InputError that lists the figures that are missing."""
    joules = found.joules
    if joules is None:
        raise InputError(f"graph {graph.name!r}: its energy is not known without {listed(found.missing)}: state a "
                         "technology and components, or these figures")
    return joules


def listed(missing: "tuple[str, ...] | list[str]") -> str:
    """The first of some missing figures, and how many more there are."""
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return ", ".join(missing[:_SHOWN]) + more


_SHOWN = 4


def energy(program: Program, timing: TimingResult) -> Energy:
    """The energy of ``program``, whose simulation gave ``timing``.

    GraphError where it is not determined: operations without a legal value, or an instruction that costs differently in
    the units that may take it.
    """
    return _Accountant(program, timing).energy()


_WAYS = ("read", "write")


class _Accountant:
    def __init__(self, program: Program, timing: TimingResult) -> None:
        self.program, self.timing = program, timing
        self.graph = program.graph
        self.figures = figures_of(program.graph)
        self.nests = Nests(program)
        self.unknown: dict[str, None] = {}
        """Operations of units without a figure."""
        self.computed: dict[object, Work] = {}
        """What an instance computes, by what instructions are alike in, or else the identity of their statements."""
        self.costs: dict[tuple[object, str], tuple[int, float | None, list[str]]] = {}
        """Operations of an instance, joules and what has no figure, by the same and the unit."""

    def energy(self) -> Energy:
        counts, units = self._counts(), self._units()
        found, missing = [], list[str]()
        for name, place in self.graph.objects.items():
            figures = self.figures[name]
            if isinstance(place, FunctionalUnit) and not isinstance(place, InstructionMemoryAccessUnit):
                kinds = [Events("operation", *units[name])] if name in units else []
            else:
                kinds = [self._of_kind(name, kind, count) for kind, count in counts[name].items() if count]
                missing += [f"joules of {name}"] if any(of.joules is None for of in kinds) else []
            leakage = None if figures.leakage_watts is None else figures.leakage_watts * self.timing.seconds
            missing += [f"leakage of {name}"] if leakage is None else []
            found.append(ObjectEnergy(name, tuple(kinds), leakage, figures.clock_joules * self.timing.cycles))
        return Energy(tuple(found), (*self.unknown, *missing))

    def _of_kind(self, name: str, kind: str, count: int) -> Events:
        each = self.figures[name].of(kind)
        return Events(kind, count, None if each is None else count * each)

    def _counts(self) -> "defaultdict[str, Counter[str]]":
        """Events by object and kind, but for units."""
        timing, found = self.timing, defaultdict[str, Counter[str]](Counter)
        for storage in timing.storages:
            found[storage.name].update(read=storage.words_read, write=storage.words_written)
        for link in timing.links:
            found[link.name].update(read=link.read.bytes, write=link.write.bytes)
        for stage in timing.stages:
            found[stage.name]["instruction"] = stage.instructions
        for dram in timing.drams:
            found[dram.name]["activation"] = dram.row_misses + dram.row_conflicts
        self._count_lines(found)
        fetcher, _ = self.graph.instruction_memory(self.program.fetch)
        found[fetcher.name]["instruction"] = timing.instructions
        files = {name for name, place in self.graph.objects.items()
                 if isinstance(place, RegisterFile) and any(self.figures[name].of(kind) != 0 for kind in _WAYS)}
        for static in self.program.instructions if files else ():
            for plan in static.plans:
                self._count_registers(static, plan, files, found)
        return found

    def _count_lines(self, found: "defaultdict[str, Counter[str]]") -> None:
        """Words that caches move: lines from behind into them and back, and what is written through."""
        for cache, moved in zip(self.graph.caches, self.timing.caches):
            word = cache.data_width // 8
            filled, back = moved.bytes_from_backing // word, moved.write_backs * cache.cache_line_size // word
            found[self.graph.backing(cache).name].update(read=filled, write=moved.bytes_to_backing // word)
            found[cache.name].update(fill=filled, write_back=back)

    # --- register files ----------------------------------------------------------------------------------------
    def _count_registers(
        self, static: StaticInstruction, plan: AccessPlan, files: "set[str]", found: "defaultdict[str, Counter[str]]"
    ) -> None:
        """Registers that an access touches, by register file, of ``files`` alone."""
        banks, way = self.graph.buffers[plan.buffer.name], _WAYS[not plan.is_read]
        if files.isdisjoint(bank.storage for bank in banks):
            return
        if len(banks) == 1:
            found[banks[0].storage][way] += self._registers_of(plan) * self.nests.count(static)
            return
        starts = np.array([bank.start for bank in banks])
        order = np.argsort(starts)
        (offsets,), counts = self.nests.values(static, plan.word_offset)
        where = np.searchsorted(starts[order], np.add.outer(offsets, plan.words), side="right") - 1
        touched = np.zeros(len(banks), object)  # may be beyond 63 bits
        np.add.at(touched, where, counts.astype(object)[:, None])
        for k, count in enumerate(touched.tolist()):
            found[banks[int(order[k])].storage][way] += count

    @staticmethod
    def _registers_of(plan: AccessPlan) -> int:
        if word_axes(plan.buffer, plan.place.data_width) is not None:
            return len(plan.words)
        return -(-len(plan.elements) * element_bits(plan.buffer.dtype) // plan.place.data_width)

    # --- units -------------------------------------------------------------------------------------------------
    def _units(self) -> "dict[str, tuple[int, float | None]]":
        """Operations and joules of each unit. Which of several units took an instruction is not counted: they share
        what such instructions cost by how many they took."""
        found: dict[str, list[tuple[float, float | None]]] = {u.name: [] for u in self.timing.units}
        left = {u.name: u.instructions for u in self.timing.units}
        pools: list[tuple[set[str], list[tuple[int, float | None]]]] = []
        for static in self.program.instructions:
            units = {unit.name: unit for unit in static.takers.values()}
            instances = self.nests.count(static)
            if not instances:
                continue
            cost = self._cost_of_any(static, tuple(units.values()), instances)
            if len(units) == 1:
                (name,) = units
                left[name] -= instances
                found[name].append(cost)
            else:
                _pool(pools, set(units), cost)
        for names, costs in pools:
            operations, joules = sum(count for count, _ in costs), _sum([cost for _, cost in costs])
            taken = sum(left[name] for name in names)
            for name in names:
                share = left[name] / taken if taken else 0.0
                found[name].append((operations * share, None if joules is None else joules * share))
        return {name: (round(sum(count for count, _ in parts)), _sum([joules for _, joules in parts]))
                for name, parts in found.items()}

    def _cost_of_any(
        self, static: StaticInstruction, units: "tuple[FunctionalUnit, ...]", instances: int
    ) -> "tuple[int, float | None]":
        """What all instances of an instruction cost in whichever of ``units``; GraphError where that matters."""
        costs = {self._cost(static, unit, instances) for unit in units}
        if len(costs) > 1:
            raise GraphError(self.graph.name, [
                f"{units[0]}: its energy is not determined: it shares {static.mnemonic} with "
                f"{', '.join(unit.name for unit in units[1:])}, where that costs differently"
            ])
        return costs.pop()

    def _cost(self, static: StaticInstruction, unit: FunctionalUnit, instances: int) -> "tuple[int, float | None]":
        """Operations and joules of all instances of an instruction in a unit: those that are stated, or else what the
        instruction computes."""
        each = stated_joules(self.graph, unit, static.mnemonic)
        if each is not None:
            total = self._operations(static, unit)
            return total, total * each
        operations, joules, missing = self._of_work(static, unit)
        self.unknown.update({f"joules of {what} in {unit.name}": None for what in missing})
        return operations * instances, None if joules is None else joules * instances

    def _of_work(self, static: StaticInstruction, unit: FunctionalUnit) -> "tuple[int, float | None, list[str]]":
        """Operations and joules of an instance by what it computes, and the operations without a figure."""
        statements = static.node.statements
        alike = statements.alike if isinstance(statements, Touching) else None
        what = id(statements) if alike is None else alike
        found = self.costs.get((what, unit.name))
        if found is None:
            work = self.computed.get(what)
            if work is None:
                work = self.computed[what] = work_of(static.node)
            found = self.costs[what, unit.name] = sum(work.values()), *work_joules(self.graph, unit, work)
        return found

    def _operations(self, static: StaticInstruction, unit: FunctionalUnit) -> int:
        """Operations of all instances of an instruction in a unit."""
        mnemonic = static.mnemonic
        expression = unit.operations_of(mnemonic)
        try:
            return self.nests.total(static, expression)
        except KeyError as error:
            fault = f"names {error.args[0]}, unknown for {mnemonic!r}"
        except LatencyError as error:
            fault = f"{error} for {mnemonic!r}; it must be at least 0"
        raise GraphError(self.graph.name, [f"{unit}: operations {expression.text!r} {fault}"])


def _pool(
    pools: "list[tuple[set[str], list[tuple[int, float | None]]]]", names: "set[str]", cost: "tuple[int, float | None]"
) -> None:
    """Add a cost to the pool of these units; pools that have a unit in common become one."""
    costs = [cost]
    for pool in [pool for pool in pools if not pool[0].isdisjoint(names)]:
        pools.remove(pool)
        names, costs = names | pool[0], pool[1] + costs
    pools.append((names, costs))
