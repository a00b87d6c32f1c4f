"""Cycles of a stream on a mesh of cores: all cores are simulated, each with its own units, on the timing engine."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import Heard, Patience, TimingResult, simulate
from archloom.mapper.spatial.machines.machine import isa_of
from archloom.mapper.spatial.programs.touches import evaluated
from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import StreamError
from archloom.oracle.nests import ranges, walk
from archloom.oracle.resolve import resolve
from archloom.oracle.resolved import Read, ResolvedInstr, ResolvedStream, Window, Write
from archloom.oracle.stream import Stream


def simulated(
    stream: "Stream", graph: "ArchitectureGraph", heard: Heard | None = None, *, patience: Patience | None = None
) -> "TimingResult":
    """The timing of ``stream``, of which ``heard`` is told how far it is; GraphError for a stream that the graph cannot
    process or that deadlocks, StreamError for one in which a core holds more than its memories do. ``patience``: as
    in :func:`archloom.acadl_models.timing.simulate`."""
    resolved = resolve(stream, isa_of(graph))
    check_capacity(resolved, graph)
    return simulate(graph, resolved, heard=heard, patience=patience)


ENUMERATED = 1 << 22
"""Instances of an instruction whose addresses are looked at one by one; ranges decide nearly always before that."""


@dataclass(frozen=True)
class Parts:
    """A buffer that lies in several memories of ``size`` rows each, by their names."""

    buffer: str
    size: int
    names: tuple[str, ...]


def check_capacity(stream: ResolvedStream, graph: "ArchitectureGraph") -> None:
    """StreamError for the first instruction that reaches beyond a core's memory, naming both and the addresses.

    This looks at every address that an instruction of any core touches, not at the plan that the stream was made of. A
    block that is sent to several cores must lie within each of them alone.
    """
    divided = parts(graph)
    for instr, loops in walk(stream.body):
        bounds = ranges(loops)
        for statement in instr.statements:
            if isinstance(statement, (Read, Write)) and (part := divided.get(statement.window.buffer)) is not None:
                rows = stream.buffer(part.buffer).shape[0]
                fault = _fault(statement.window, part, rows, bounds)
                if fault is not None:
                    raise StreamError(f"{stream.name}: {_name(instr, fault[0])} {_verb(statement)} {fault[1]}")


def parts(graph: "ArchitectureGraph") -> dict[str, Parts]:
    """The buffers of a graph that are divided into equal parts, such as those of cores."""
    found = {}
    for buffer, banks in graph.buffers.items():
        sizes = {(bank.stop or 0) - bank.start for bank in banks}
        if len(banks) > 1 and len(sizes) == 1 and min(sizes) > 0:
            found[buffer] = Parts(buffer, sizes.pop(), tuple(bank.storage for bank in banks))
    return found


def _fault(window: Window, part: Parts, rows: int, bounds: Bounds) -> tuple[dict[str, int], str] | None:
    """The loop values and the description of a block that is not within one part.

    An address is that of a part, a multiple of the size of parts, and a place in it: what is left. Nothing else tells
    a place beyond the end of a part from one in the next part.
    """
    low, high, copies = _extent(window, part.size)
    if low == 0 and high == rows - 1:
        return None  # all of it, as only what clears the cores has it
    offset = window.offsets[0]
    place = Affine(offset.constant % part.size, tuple(t for t in offset.terms if t[1] % part.size))
    first, last = offset.range(bounds)
    least, most = place.range(bounds)
    if least + low >= 0 and most + high < part.size and first + low >= 0 and last + high + copies < rows:
        return None
    values = _values(offset, bounds)
    shape = next(iter(values.values())).shape if values else (1,)
    starts, places = (evaluated(form, values, shape).ravel() for form in (offset, place))
    bad = (places + low < 0) | (places + high >= part.size) | (starts + low < 0) | (starts + high + copies >= rows)
    if not bad.any():
        return None
    i = int(np.argmax(bad))
    start, at = int(starts[i]), int(places[i])
    number = (start - at) // part.size
    name = part.names[number] if number < len(part.names) else f"the last of {len(part.names)} memories"
    return {n: int(v.ravel()[i]) for n, v in values.items()}, (
        f"{part.buffer} {start + low} to {start + high}" + (" and copies" if copies else "")
        + f": places {at + low} to {at + high} of {name}, which has {part.size}"
    )


def _extent(window: Window, size: int) -> tuple[int, int, int]:
    """From where to where a block reaches around its offset, and how far away its last copy in another part lies."""
    low = high = copies = 0
    for dim in window.dims:
        if dim.axis:
            continue
        reach = dim.stride * (dim.extent - 1)
        if dim.stride % size == 0:
            copies += reach
        else:
            low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high, copies


def _values(offset: Affine, bounds: Bounds) -> dict[str, NDArray[np.int64]]:
    """All values of the variables of an address, each along an axis of its own."""
    names = sorted(offset.variables())
    count = math.prod(bounds[name][1] - bounds[name][0] + 1 for name in names)
    if count > ENUMERATED:
        raise StreamError(f"the address {offset} has {count} values; expected at most {ENUMERATED} where its range "
                          "does not tell whether it stays within a core")
    grids = np.meshgrid(*(np.arange(bounds[n][0], bounds[n][1] + 1) for n in names), indexing="ij")
    return dict(zip(names, grids, strict=True))


def _name(instr: ResolvedInstr, values: dict[str, int]) -> str:
    where = ", ".join(f"{name}={value}" for name, value in values.items())
    return f"instruction {instr.source + 1} {instr.mnemonic}" + (f" ({where})" if where else "")


def _verb(statement: Read | Write) -> str:
    return "reads" if isinstance(statement, Read) else "writes"
