"""Functional units and memory access units (section 3): what processes instructions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias, Union

from archloom.acadl_models.acadl.base import ACADLObject, count, figure, flag, latency
from archloom.acadl_models.acadl.latency import Expression, Latency, parse

UnitLatency: TypeAlias = Union[Latency, Mapping[str, Latency]]
"""One latency for all mnemonics that a unit processes, or (added) one for each of them."""


@dataclass(frozen=True, eq=False)
class FunctionalUnit(ACADLObject):
    """Processes the instructions whose mnemonic is in ``to_process``, each for ``latency`` cycles.

    *Added*: ``interval``, cycles from one start to the next, and ``in_flight``, how many instructions it processes at
    the same time. Without ``interval`` the unit takes the next instruction when it has finished the last.

    *Added*: ``first_latency``, cycles from the first words that are read to the first result. A unit that has one
    streams: it reads, works and writes at a time, and ``latency`` is what all of its work takes if nothing holds it up.
    A table of them may leave mnemonics out: what these read is stored, and forwarded in whole, as without one.

    An instruction costs ``joules_per_operation`` (*added*) for each of its ``operations`` (*added*, by default 1).
    ``extent`` (*added*) says what array a unit stands for, as ``(256, 256)``: drawings and listings show it.
    ``latency``, ``interval``, ``first_latency``, ``operations`` and ``joules_per_operation`` may be mappings with an
    entry for each mnemonic (or for ``"*"``, all others).
    """

    virtual: ClassVar[bool] = False

    to_process: Set[str] = frozenset()
    latency: UnitLatency = 1
    interval: UnitLatency | None = None
    in_flight: int = 1
    first_latency: UnitLatency | None = field(default=None, kw_only=True)
    operations: UnitLatency = field(default=1, kw_only=True)
    joules_per_operation: float | Mapping[str, float] | None = field(default=None, kw_only=True)
    extent: tuple[int, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.to_process, (Set, Sequence)) and all(isinstance(m, str) for m in self.to_process):
            single = isinstance(self.to_process, str)  # a string is a sequence of strings, too
            self._set("to_process", self.to_process if single else frozenset(self.to_process))
        super().__post_init__()

    def latency_of(self, mnemonic: str) -> Expression:
        """The latency of ``mnemonic``."""
        return parse(_of(self.latency, mnemonic))

    def interval_of(self, mnemonic: str) -> Expression | None:
        """The interval after ``mnemonic``; None: until it is finished."""
        return None if self.interval is None else parse(_of(self.interval, mnemonic))

    def first_latency_of(self, mnemonic: str) -> Expression | None:
        """Cycles to the first result of ``mnemonic``; None where it is stored and forwarded."""
        first = self.first_latency
        if isinstance(first, Mapping) and not first.keys() & {mnemonic, "*"}:
            return None
        return None if first is None else parse(_of(first, mnemonic))

    def cycles_of(self, mnemonic: str) -> dict[str, Expression]:
        """What decides how long ``mnemonic`` takes, by attribute."""
        found = {"latency": self.latency_of(mnemonic), "interval": self.interval_of(mnemonic),
                 "first_latency": self.first_latency_of(mnemonic)}
        return {attribute: expression for attribute, expression in found.items() if expression is not None}

    def operations_of(self, mnemonic: str) -> Expression:
        """How many operations an instruction ``mnemonic`` counts for."""
        return parse(_of(self.operations, mnemonic))

    def joules_of(self, mnemonic: str) -> float | None:
        """The energy of one operation of ``mnemonic`` in joules; None where the graph does not state it."""
        joules = self.joules_per_operation
        if isinstance(joules, Mapping):
            return joules[mnemonic] if mnemonic in joules else joules.get("*")
        return joules

    def latencies(self) -> dict[str, Expression]:
        found: dict[str, Expression] = {}
        for attribute in ("latency", "interval", "first_latency"):
            value = getattr(self, attribute)
            if isinstance(value, Mapping):
                found |= {f"{attribute}[{key}]": parse(v) for key, v in value.items()}
            elif value is not None:
                found[attribute] = parse(value)
        return found

    def faults(self) -> list[str]:
        faults = super().faults() + count(self, "in_flight")
        if not isinstance(self.to_process, frozenset) or not all(isinstance(m, str) for m in self.to_process):
            return [*faults, f"to_process must be a set of mnemonics, not {self.to_process!r}"]
        if not self.to_process and not isinstance(self, InstructionMemoryAccessUnit):
            faults.append("to_process is empty: the unit would never work")
        faults += self._table_faults("latency", self.latency, 0)
        faults += self._table_faults("operations", self.operations, 0)
        if self.first_latency is not None:
            faults += self._table_faults("first_latency", self.first_latency, 0, complete=False)
        faults += self._energy_faults()
        if not isinstance(self.extent, tuple) or not all(type(n) is int and n > 0 for n in self.extent):
            faults.append(f"extent must be a tuple of integers of at least 1, not {self.extent!r}")
        if self.interval is not None:
            faults += self._table_faults("interval", self.interval, 1)
        elif self.in_flight != 1:
            faults.append(f"in_flight is {self.in_flight!r} but there is no interval: state the interval, too")
        return faults

    def _table_faults(self, attribute: str, value: object, least: int, *, complete: bool = True) -> list[str]:
        if not isinstance(value, Mapping):
            return latency(attribute, value, least)
        faults = [f for key, v in value.items() for f in latency(f"{attribute}[{key}]", v, least)]
        missing = sorted(self.to_process - set(value)) if complete and "*" not in value else []
        if missing:
            faults.append(f"{attribute} has no entry for {', '.join(missing)} (nor for '*')")
        return faults + self._unknown(attribute, value)

    def _energy_faults(self) -> list[str]:
        """A table of energies may leave mnemonics out: they cost nothing that the graph states."""
        joules = self.joules_per_operation
        if joules is None:
            return []
        if not isinstance(joules, Mapping):
            return figure("joules_per_operation", joules)
        faults = [f for key, v in joules.items() for f in figure(f"joules_per_operation[{key}]", v)]
        return faults + self._unknown("joules_per_operation", joules)

    def _unknown(self, attribute: str, table: Mapping[str, object]) -> list[str]:
        unknown = sorted(str(k) for k in table if k != "*" and k not in self.to_process)
        return [f"{attribute} names {', '.join(unknown)}, not in to_process"] if unknown else []


def _of(value: UnitLatency, mnemonic: str) -> Latency:
    if not isinstance(value, Mapping):
        return value
    return value[mnemonic] if mnemonic in value else value["*"]


@dataclass(frozen=True, eq=False)
class MemoryAccessUnit(FunctionalUnit):
    """A functional unit that also reads and writes data storages.

    *Added*: what a unit that ``resets`` writes is set by lines to the storages themselves. It is ordered as all writes
    are, but asks no port for anything: it moves no words, and costs neither time nor energy beside the unit's own.

    *Added*: nobody waits for what a unit that ``prefetches`` reads, and it waits for nobody: an instruction has read
    when its requests have slots, and what they bring is on its way when it is finished.
    """

    resets: bool = field(default=False, kw_only=True)
    prefetches: bool = field(default=False, kw_only=True)

    def faults(self) -> list[str]:
        faults = super().faults() + flag(self, "resets") + flag(self, "prefetches")
        if self.prefetches is True and self.first_latency is not None:
            faults.append("prefetches has no meaning with first_latency: there is no result")
        return faults


@dataclass(frozen=True, eq=False)
class InstructionMemoryAccessUnit(MemoryAccessUnit):
    """Fetches instructions from an instruction memory, for the fetch stage that contains it."""

    latency: UnitLatency = 0

    def faults(self) -> list[str]:
        if isinstance(self.latency, Mapping):
            return [*ACADLObject.faults(self), "latency must be one for all fetches, not a table by mnemonic"]
        return super().faults()
