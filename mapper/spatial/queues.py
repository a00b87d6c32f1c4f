"""Which queue of which core takes an instruction of a mesh: units take theirs in order, one after the other."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from acadl_models.mesh.semaphores import QUEUES as NAMES
from acadl_models.mesh.vector import TABLE
from mapper.spatial.machine import Machine
from oracle.errors import MappingError

Numbers = NDArray[np.int64]

QUEUES = MappingProxyType({name: number for number, name in enumerate(NAMES)})
"""The queues of a core, as ``wormhole.taidl`` numbers them: queue q of core c is ``c * len(QUEUES) + q``."""

UNITS = MappingProxyType({
    "reader": ("load", "load_windows", "load_row"),
    "matrix": ("matmul", "matmul_transposed", "weigh", "score", "clear"),
    "adder": ("reduce", "take"),
    "writer": ("store",),
    "row": ("multicast_row", "windows_row", "share_row", "gather_row"),
    "column": ("multicast_column", "windows_column", "share_column", "gather_column"),
    "down": ("multicast_down", "windows_down"),
    "across": ("multicast_across", "windows_across"),
    "vector": tuple(TABLE),
})
"""What the unit of each queue takes; what forwards takes ``forward`` alone."""

_OF = {mnemonic: name for name, mnemonics in UNITS.items() for mnemonic in mnemonics}


def queue_of(mnemonic: str, source: Numbers, target: Numbers, machine: Machine) -> Numbers:
    """The queue of each instance of an instruction that reads what core ``source`` has and writes to core ``target``
    (equal where it has only one of both). MappingError for one that no queue takes."""
    columns = machine.columns
    if mnemonic == "forward":
        south = (target - source) % machine.cores % columns == 0 if columns > 1 else np.ones_like(source, np.bool_)
        return source * len(QUEUES) + np.where(south, QUEUES["south"], QUEUES["east"])
    if mnemonic not in _OF:
        raise MappingError(f"{mnemonic} is in no queue of a core: programs with semaphores have none of it")
    name = _OF[mnemonic]
    core = {"row": target // columns * columns, "column": target % columns, "down": target * 0, "across": target * 0}
    return core.get(name, target) * len(QUEUES) + QUEUES[name]


def queue_name(number: int, machine: Machine) -> str:
    """For messages."""
    return f"the {NAMES[number % len(NAMES)]} queue of {core_name(number // len(NAMES), machine)}"


def core_name(number: int, machine: Machine) -> str:
    """As graphs name cores."""
    row, column = divmod(number, machine.columns)
    return f"core[{row}][{column}]"
