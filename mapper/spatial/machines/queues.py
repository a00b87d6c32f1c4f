"""Which queue of which core takes an instruction of a mesh: units take theirs in order, one after the other.

Read off the graph: each unit of a graph with semaphores has a word of ``progress``, whose number is that of its queue.
An instruction goes to the unit that processes it, reads what it reads and writes what it writes; a semaphore of two
queues is in a core whose counters the one writes and the other one reads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.mesh.semaphores import QUEUES as NAMES
from archloom.oracle.errors import MappingError

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.mapper.spatial.machines.machine import Machine

Numbers = NDArray[np.int64]

BUFFERS = ("l1", "acc", "stat")
"""What cores hold, in parts of equal size."""

QUEUES = MappingProxyType({name: number for number, name in enumerate(NAMES)})
"""The queues of a core, as ``wormhole.taidl`` numbers them: queue q of core c is ``c * len(QUEUES) + q``."""

_NOBODY, _SEVERAL = -1, -2


@dataclass(frozen=True)
class Unit:
    """What has a queue: its number, what it processes, the cores that it reads and writes, and those on whose
    semaphores it waits and which it signals."""

    queue: int
    mnemonics: frozenset[str]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    waits: tuple[int, ...]
    signals: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Queues:
    """The units of ``cores`` cores that have queues."""

    cores: int
    units: tuple[Unit, ...]
    _known: dict[str, Numbers] = field(default_factory=dict)

    @staticmethod
    def of(graph: "ArchitectureGraph") -> "Queues":
        """Those of a graph; none where it has no semaphores."""
        steps = {bank.storage: bank.start for bank in graph.buffers.get("progress", ())}
        held, counted = ({bank.storage: core for name in names for core, bank in enumerate(graph.buffers.get(name, ()))}
                         for names in (BUFFERS, ("semaphore",)))
        found = []
        for unit in graph.functional_units if steps else ():
            read, written = ([storage.name for storage in each(unit)] for each in (graph.reads, graph.writes))
            mine = [steps[name] for name in written if name in steps]
            if len(mine) == 1 and "wait" in unit.to_process:
                cores = (tuple(dict.fromkeys(core[name] for name in storages if name in core))
                         for core in (held, counted) for storages in (read, written))
                found.append(Unit(mine[0], frozenset(unit.to_process), *cores))
        return Queues(len(graph.buffers["l1"]), tuple(found))

    def cores_of(self, pairs: Numbers) -> Numbers:
        """In which core the semaphore is on which queue ``pairs[:, 1]`` waits for ``pairs[:, 0]``: its own if it can
        be, else that of the one that signals, else any. MappingError where there is none."""
        shape = (self.cores * len(QUEUES), self.cores)
        signals, waits = np.zeros(shape, np.bool_), np.zeros(shape, np.bool_)
        for unit in self.units:
            signals[unit.queue, list(unit.signals)] = waits[unit.queue, list(unit.waits)] = True
        shared = signals[pairs[:, 0]] & waits[pairs[:, 1]]
        if not shared.any(axis=1).all():
            sender, waiter = (divmod(int(queue), len(QUEUES)) for queue in pairs[int(np.argmin(shared.any(axis=1)))])
            raise MappingError(f"the {NAMES[waiter[1]]} queue of core {waiter[0]} waits for the {NAMES[sender[1]]} "
                               f"queue of core {sender[0]}: expected a core with semaphores for both, found none")
        rows, found = np.arange(len(pairs)), np.argmax(shared, axis=1)
        for queue in (0, 1):
            own = pairs[:, queue] // len(QUEUES)
            found = np.where(shared[rows, own], own, found)
        return found

    def queue_of(self, mnemonic: str, source: Numbers | None, target: Numbers | None) -> Numbers:
        """The queue of each instance of an instruction that reads what core ``source`` has and writes to core
        ``target`` (None: it has nothing to do with such a core). MappingError where there is no such unit, or several.
        """
        everywhere = np.array([self.cores])
        table = self._table(mnemonic)
        found: Numbers = table[everywhere if source is None else source, everywhere if target is None else target]
        if (found < 0).any():
            kind = "no unit" if int(found.min()) == _NOBODY else "several units"
            i = int(np.argmin(found))
            ways = [f"{verb} core {core.ravel()[i]}" for verb, core in (("reads", source), ("writes", target))
                    if core is not None]
            raise MappingError(f"{mnemonic} is in no queue of a core: {kind} of the graph with a queue processes it "
                               f"and {' and '.join(ways)}; expected one")
        return found

    def _table(self, mnemonic: str) -> Numbers:
        """The queue for each core that is read and each that is written; behind those, for none."""
        if mnemonic not in self._known:
            table = np.full((self.cores + 1, self.cores + 1), _NOBODY, np.int64)
            for unit in self.units:
                if mnemonic in unit.mnemonics:
                    place = np.ix_((*unit.reads, self.cores), (*unit.writes, self.cores))
                    table[place] = np.where(table[place] == _NOBODY, unit.queue, _SEVERAL)
            self._known[mnemonic] = table
        return self._known[mnemonic]


def pair_keys(first: Numbers, second: Numbers) -> Numbers:
    """A number for each pair of queues."""
    found: Numbers = first * (1 << 31) + second
    return found


def queue_name(number: int, machine: "Machine") -> str:
    """For messages."""
    return f"the {NAMES[number % len(NAMES)]} queue of {core_name(number // len(NAMES), machine)}"


def core_name(number: int, machine: "Machine") -> str:
    """As graphs name cores."""
    row, column = divmod(number, machine.columns)
    return f"core[{row}][{column}]"
