"""Which queue of which core takes an instruction of a mesh: units take theirs in order, one after the other.

Read off the graph: each unit of a graph with semaphores has a word of ``progress``, whose number is that of its queue.
An instruction goes to the unit that processes it, reads what it reads and writes what it writes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from acadl_models.mesh.semaphores import QUEUES as NAMES
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph
    from mapper.spatial.machine import Machine

Numbers = NDArray[np.int64]

BUFFERS = ("l1", "acc", "stat")
"""What cores hold, in parts of equal size."""

QUEUES = MappingProxyType({name: number for number, name in enumerate(NAMES)})
"""The queues of a core, as ``wormhole.taidl`` numbers them: queue q of core c is ``c * len(QUEUES) + q``."""

_NOBODY, _SEVERAL = -1, -2


@dataclass(frozen=True)
class Unit:
    """What has a queue: its number, what it processes, and the cores that it reads and writes."""

    queue: int
    mnemonics: frozenset[str]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


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
        core_of = {bank.storage: core for name in BUFFERS for core, bank in enumerate(graph.buffers.get(name, ()))}

        def cores(storages: list[str]) -> tuple[int, ...]:
            return tuple(dict.fromkeys(core_of[name] for name in storages if name in core_of))

        found = []
        for unit in graph.functional_units if steps else ():
            written = [storage.name for storage in graph.writes(unit)]
            mine = [steps[name] for name in written if name in steps]
            if len(mine) == 1 and "wait" in unit.to_process:
                found.append(Unit(mine[0], frozenset(unit.to_process), cores([s.name for s in graph.reads(unit)]),
                                  cores(written)))
        return Queues(len(graph.buffers["l1"]), tuple(found))

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


def queue_name(number: int, machine: "Machine") -> str:
    """For messages."""
    return f"the {NAMES[number % len(NAMES)]} queue of {core_name(number // len(NAMES), machine)}"


def core_name(number: int, machine: "Machine") -> str:
    """As graphs name cores."""
    row, column = divmod(number, machine.columns)
    return f"core[{row}][{column}]"
