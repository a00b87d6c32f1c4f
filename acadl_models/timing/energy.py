"""Energy of a run from the figures of the graph and the counts of its simulation, exact: nothing is sampled.

Dynamic energy: ``joules_per_access`` for each word of a storage, whether a request moves it or a cache, and each
register, ``joules_per_operation`` for each operation of a unit and each instruction of a stage, ``joules_per_byte`` of
a link. Leakage: ``leakage_watts`` over the makespan. An object without a figure contributes nothing, and is not listed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import ArchitectureGraph, FunctionalUnit, InstructionMemoryAccessUnit, RegisterFile
from archloom.acadl_models.acadl.latency import Expression, LatencyError
from archloom.acadl_models.timing.program import (
    AccessPlan,
    Program,
    StaticInstruction,
    StaticLoop,
    StaticNode,
    word_axes,
)
from archloom.acadl_models.timing.result import TimingResult
from archloom.oracle.accesses import element_bits
from archloom.oracle.affine import Affine
from archloom.oracle.errors import GraphError

Array = NDArray[np.int64]


@dataclass(frozen=True)
class ObjectEnergy:
    """Joules of one object; ``events``: words, operations, instructions or bytes, whatever its figure is for."""

    name: str
    events: int
    dynamic_joules: float
    leakage_joules: float

    @property
    def joules(self) -> float:
        """Both together."""
        return self.dynamic_joules + self.leakage_joules


@dataclass(frozen=True)
class Energy:
    """Joules of a run by object, for the objects with figures in the graph's order."""

    objects: tuple[ObjectEnergy, ...]

    @property
    def dynamic_joules(self) -> float:
        return sum(o.dynamic_joules for o in self.objects)

    @property
    def leakage_joules(self) -> float:
        return sum(o.leakage_joules for o in self.objects)

    @property
    def joules(self) -> float:
        """The whole run."""
        return self.dynamic_joules + self.leakage_joules

    def of(self, name: str) -> ObjectEnergy:
        """The figures of the object ``name``; KeyError if it has none."""
        for found in self.objects:
            if found.name == name:
                return found
        raise KeyError(f"{name!r} is none of {', '.join(o.name for o in self.objects)}")


_FIGURES = ("joules_per_access", "joules_per_operation", "joules_per_byte", "leakage_watts")


def has_energy(graph: ArchitectureGraph) -> bool:
    """Whether any object of the graph has a figure of energy."""
    return any(getattr(o, figure, None) is not None for o in graph.objects.values() for figure in _FIGURES)


def energy(program: Program, timing: TimingResult) -> Energy:
    """The energy of ``program``, whose simulation gave ``timing``.

    GraphError where it is not determined: operations without a legal value, or several units that share instructions
    which cost differently.
    """
    return _Accountant(program, timing).energy()


class _Accountant:
    def __init__(self, program: Program, timing: TimingResult) -> None:
        self.program, self.timing = program, timing
        self.graph = program.graph
        self.nests = Nests(program)

    def energy(self) -> Energy:
        events = self._counts()
        units = self._units()
        found = []
        for name, place in self.graph.objects.items():
            if all(getattr(place, figure, None) is None for figure in _FIGURES):
                continue
            leakage = (place.leakage_watts or 0.0) * self.timing.seconds
            if isinstance(place, FunctionalUnit) and not isinstance(place, InstructionMemoryAccessUnit):
                count, joules = units.get(name, (0, 0.0))
            else:
                count = events[name]
                joules = count * self._each(name)
            found.append(ObjectEnergy(name, count, joules, leakage))
        return Energy(tuple(found))

    def _each(self, name: str) -> float:
        """Joules of one event of an object that is no unit."""
        place = self.graph.objects[name]
        if isinstance(place, InstructionMemoryAccessUnit):
            return place.joules_of("fetch") or 0.0
        figures = (getattr(place, figure, None) for figure in _FIGURES[:3])
        return next((float(joules) for joules in figures if joules is not None), 0.0)

    def _counts(self) -> Counter[str]:
        """Words of storages, registers of register files, bytes of links, instructions of stages and fetch units."""
        timing = self.timing
        found: Counter[str] = Counter({s.name: s.words_read + s.words_written for s in timing.storages})
        found.update({link.name: link.read.bytes + link.write.bytes for link in timing.links})
        found.update({stage.name: stage.instructions for stage in timing.stages})
        self._count_lines(found)
        fetcher, _ = self.graph.instruction_memory(self.program.fetch)
        found[fetcher.name] = timing.instructions
        if any(isinstance(o, RegisterFile) and o.joules_per_access is not None for o in self.graph.objects.values()):
            for static in self.program.instructions:
                for plan in static.plans:
                    self._count_registers(static, plan, found)
        return found

    def _count_lines(self, found: Counter[str]) -> None:
        """Words that caches move: lines from behind into them and back, and what is written through."""
        for cache, moved in zip(self.graph.caches, self.timing.caches):
            word = cache.data_width // 8
            written_back = moved.write_backs * cache.cache_line_size
            found[self.graph.backing(cache).name] += (moved.bytes_from_backing + moved.bytes_to_backing) // word
            found[cache.name] += (moved.bytes_from_backing + written_back) // word

    # --- register files ----------------------------------------------------------------------------------------
    def _count_registers(self, static: StaticInstruction, plan: AccessPlan, found: Counter[str]) -> None:
        """Registers that an access touches, by register file."""
        banks = self.graph.buffers[plan.buffer.name]
        if not isinstance(self.graph[banks[0].storage], RegisterFile):
            return
        if len(banks) == 1:
            found[banks[0].storage] += self._registers_of(plan) * self.nests.count(static)
            return
        starts = np.array([bank.start for bank in banks])
        order = np.argsort(starts)
        for values, times in self.nests.spread(static, plan.word_offset):
            rows = np.add.outer(np.atleast_1d(plan.word_offset.evaluate(values)), plan.words)
            where = np.searchsorted(starts[order], rows, side="right") - 1
            for k, count in enumerate(np.bincount(where.reshape(-1), minlength=len(banks)).tolist()):
                found[banks[int(order[k])].storage] += times * count

    @staticmethod
    def _registers_of(plan: AccessPlan) -> int:
        if word_axes(plan.buffer, plan.place.data_width) is not None:
            return len(plan.words)
        return -(-len(plan.elements) * element_bits(plan.buffer.dtype) // plan.place.data_width)

    # --- units -------------------------------------------------------------------------------------------------
    def _units(self) -> dict[str, tuple[int, float]]:
        """Operations and joules of each unit."""
        counts: Counter[str] = Counter()
        joules: Counter[str] = Counter()
        left = {u.name: u.instructions for u in self.timing.units}
        shared: dict[str, dict[tuple[int, float], str]] = {}
        for static in self.program.instructions:
            units = {u.name: u for u in static.takers.values()}
            instances = self.nests.count(static)
            if not instances:
                continue
            for name, unit in units.items():
                each = unit.joules_of(static.node.mnemonic)
                total = self._operations(static, unit) if each is not None else 0
                if len(units) == 1:
                    left[name] -= instances
                    counts[name] += total
                    joules[name] += total * (each or 0.0)  # type: ignore[assignment]
                else:
                    operations, uneven = divmod(total, instances)
                    kind = (-1, float(static.index)) if uneven else (operations, operations * (each or 0.0))
                    shared.setdefault(name, {})[kind] = static.node.mnemonic
        for name, kinds in shared.items():
            if not left[name]:
                continue
            if len(kinds) > 1 or next(iter(kinds))[0] < 0:
                raise GraphError(self.graph.name, [
                    f"{self.graph[name]}: its energy is not determined: it shares {', '.join(sorted(kinds.values()))} "
                    "with other units, and they cost differently"
                ])
            operations, each = next(iter(kinds))
            counts[name] += operations * left[name]
            joules[name] += each * left[name]  # type: ignore[assignment]
        return {name: (counts[name], float(joules[name])) for name in counts | joules}

    def _operations(self, static: StaticInstruction, unit: FunctionalUnit) -> int:
        """Operations of all instances of an instruction in a unit."""
        mnemonic = static.node.mnemonic
        expression = unit.operations_of(mnemonic)
        try:
            return self.nests.total(static, expression)
        except KeyError as error:
            fault = f"names {error.args[0]}, unknown for {mnemonic!r}"
        except LatencyError as error:
            fault = f"{error} for {mnemonic!r}; it must be at least 0"
        raise GraphError(self.graph.name, [f"{unit}: operations {expression.text!r} {fault}"])


# --- sums over all instances of an instruction, exact and without walking them ------------------------------------
CHUNK = 1 << 20
"""Values that are held at a time."""


class Nests:
    """The loops around each static instruction of a program.

    Only those whose variables a value depends on are spread out, as NumPy arrays; the others multiply.
    """

    def __init__(self, program: Program) -> None:
        self.parameters = program.parameters
        self.loops: dict[int, tuple[StaticLoop, ...]] = {}
        self._walk(program.body, ())

    def _walk(self, body: tuple[StaticNode, ...], around: tuple[StaticLoop, ...]) -> None:
        for node in body:
            if isinstance(node, StaticInstruction):
                self.loops[node.index] = around
            else:
                self._walk(node.body, (*around, node))

    def count(self, static: StaticInstruction) -> int:
        """How many instances an instruction has."""
        return math.prod(len(loop.values) for loop in self.loops[static.index])

    def total(self, static: StaticInstruction, expression: Expression) -> int:
        """The sum of an expression over attributes, registers and parameters, over all instances.

        LatencyError for a value that does not exist or is below 0.
        """
        names: dict[str, Affine] = {k: Affine(v) for k, v in self.parameters.items()}
        names.update(static.node.registers)
        names.update(static.node.attributes)
        used = {name: names[name] for name in expression.names}
        total = 0
        for values, times in self.spread(static, *used.values()):
            known = {k: np.asarray(a.evaluate(values), np.int64) for k, a in used.items()}
            found = expression.evaluate_columns(known)
            if np.any(found < 0):
                raise LatencyError(f"is {int(np.min(found))}")
            size = max((len(v) for v in values.values()), default=1)
            total += times * int(np.sum(np.broadcast_to(found, size)))
        return total

    def spread(self, static: StaticInstruction, *expressions: Affine) -> Iterator[tuple[dict[str, Array], int]]:
        """The combinations of the loop variables that the expressions depend on, and how often each occurs."""
        variables = frozenset[str]().union(*(e.variables() for e in expressions))
        loops = self.loops[static.index]
        inner = [loop for loop in loops if loop.var in variables]
        times = math.prod(len(loop.values) for loop in loops if loop.var not in variables)
        size = math.prod(len(loop.values) for loop in inner)
        for first in range(0, size, CHUNK):
            rest = np.arange(first, min(first + CHUNK, size), dtype=np.int64)
            values: dict[str, Array] = {}
            for loop in reversed(inner):
                rest, iteration = np.divmod(rest, len(loop.values))
                values[loop.var] = loop.values.start + loop.values.step * iteration
            yield values, times
