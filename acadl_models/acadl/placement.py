"""Where the tensor buffers of an ISA lie: the ``buffers`` table of ``architecture()`` in canonical form."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.graph import Bank
from archloom.acadl_models.acadl.storages import MemoryInterface, RegisterFile


def place_buffers(
    places: Mapping[str, Any], objects: Sequence[ACADLObject]
) -> tuple[dict[str, tuple[Bank, ...]], list[str]]:
    """The banks of each buffer by ascending rows, and the faults of the table."""
    known = {id(o) for o in objects}
    table: dict[str, tuple[Bank, ...]] = {}
    faults: list[str] = []
    for buffer, place in places.items():
        items = list(place) if isinstance(place, (list, tuple)) else [place]
        if items and all(isinstance(i, RegisterFile) and id(i) in known for i in items):
            table[buffer], wrong = _registers(buffer, items)
        else:
            table[buffer], wrong = _memories(buffer, items, known)
        faults += wrong
    return table, faults


def _registers(buffer: str, files: Sequence[RegisterFile]) -> tuple[tuple[Bank, ...], list[str]]:
    """One file holds all rows; of several, each holds as many of the next rows as it has registers."""
    if len(files) == 1:
        return (Bank(files[0].name, 0, None),), []
    if any(f.faults() for f in files):
        return (), []
    faults = []
    if len({id(f) for f in files}) < len(files):
        faults.append(f"buffer {buffer!r}: a register file appears twice among {', '.join(f.name for f in files)}")
    widths = {f.data_width: f for f in files}
    if len(widths) > 1:
        found = ", ".join(f"{f.name}: {width} bits" for width, f in widths.items())
        faults.append(f"buffer {buffer!r}: its register files differ in data_width ({found})")
    ends = list(itertools.accumulate(len(f.registers) for f in files))
    return tuple(Bank(f.name, end - len(f.registers), end) for f, end in zip(files, ends)), faults


def _memories(buffer: str, items: Iterable[Any], known: set[int]) -> tuple[tuple[Bank, ...], list[str]]:
    banks: list[Bank] = []
    faults: list[str] = []
    for item in items:
        obj, *rows = item if isinstance(item, tuple) and item else (item,)
        if isinstance(obj, RegisterFile) and id(obj) in known:
            faults.append(f"buffer {buffer!r}: the register file {obj.name} cannot hold rows beside other banks")
        elif not isinstance(obj, MemoryInterface) or id(obj) not in known:
            what = "a RegisterFile, SRAM or DRAM of the graph"
            faults.append(f"buffer {buffer!r} must lie in {what}, not in {obj!s}")
        elif rows and not (len(rows) == 2 and all(isinstance(r, int) for r in rows) and 0 <= rows[0] < rows[1]):
            what = "(start, stop) with 0 <= start < stop"
            faults.append(f"buffer {buffer!r}: rows in {obj.name} must be {what}, not {rows}")
        elif rows:
            banks.append(Bank(obj.name, rows[0], rows[1]))
        elif not obj.faults():
            banks += [Bank(obj.name, start, stop) for start, stop in obj.address_ranges]
    banks.sort(key=lambda b: b.start)
    return tuple(banks), faults + _order_faults(buffer, banks)


def _order_faults(buffer: str, banks: Sequence[Bank]) -> list[str]:
    faults = []
    for a, b in itertools.pairwise(banks):
        if a.stop != b.start:
            what = "overlap" if (a.stop or 0) > b.start else "leave a gap"
            faults.append(
                f"buffer {buffer!r}: rows {a.start}..{a.stop} in {a.storage} "
                f"and {b.start}..{b.stop} in {b.storage} {what}"
            )
    if banks and banks[0].start != 0:
        faults.append(f"buffer {buffer!r}: its first row in {banks[0].storage} is {banks[0].start}, expected 0")
    return faults
