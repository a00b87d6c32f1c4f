"""What parts are made of (*added*): from that their energies and areas follow (:mod:`archloom.acadl_models.energy`).

An object's own ``joules_per_...``, ``leakage_watts`` and ``area_mm2`` go before what follows from its component.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from archloom.oracle.taidl.types import element_type

DEVICES = ("hp", "lop", "lstp")
"""Transistors as ITRS names them: of high performance, of low operating power, of low standby power."""

LIBRARIES = ("tables", "hwcomponents")
"""Where energies and areas of memories and integer arithmetic come from."""

NODES_NM = (5.0, 180.0)
"""The finest and the coarsest node of the tables."""


@dataclass(frozen=True)
class Technology:
    """The process of a chip: its node, its supply (None: the node's nominal one), its transistors, and the standard of
    the memory beside it (a row of ``energy/data/dram.csv``; None: unknown).

    ``gated``: the clocks of flip-flops stand still while nothing is written to them; else they cost in every cycle.
    ``library``: ``"tables"`` or ``"hwcomponents"``: CACTI and Aladdin's units by that package, if it is installed.
    """

    node_nm: float
    volts: float | None = None
    devices: str = "hp"
    dram: str | None = None
    gated: bool = True
    library: str = "tables"

    def faults(self) -> list[str]:
        """What is wrong with it, one message each."""
        low, high = NODES_NM
        faults = [] if _between(self.node_nm, low, high) else [
            f"node_nm must be a number from {low:g} to {high:g}, not {self.node_nm!r}"]
        if self.volts is not None and not _between(self.volts, 0.4, 2.0):
            faults.append(f"volts must be a number from 0.4 to 2, or None for the node's, not {self.volts!r}")
        if self.devices not in DEVICES:
            faults.append(f"devices must be one of {', '.join(DEVICES)}, not {self.devices!r}")
        if not isinstance(self.gated, bool):
            faults.append(f"gated must be true or false, not {self.gated!r}")
        if self.library not in LIBRARIES:
            faults.append(f"library must be one of {', '.join(LIBRARIES)}, not {self.library!r}")
        return faults


@dataclass(frozen=True)
class Component:
    """Virtual: what an object is made of."""

    counts: ClassVar[tuple[str, ...]] = ()

    def faults(self) -> list[str]:
        """What is wrong with its parameters, one message each."""
        return [f"{name} must be an integer of at least 1, not {value!r}" for name in self.counts
                if (value := getattr(self, name)) is not None and not (type(value) is int and value > 0)]


@dataclass(frozen=True)
class Memory(Component):
    """An SRAM or a large register file of ``size_bytes`` in ``banks``, ``width_bits`` of which are read or written at a
    time over one of ``ports``. None: as the object's own attributes say."""

    counts: ClassVar[tuple[str, ...]] = ("size_bytes", "width_bits", "ports", "banks")

    size_bytes: int | None = None
    width_bits: int | None = None
    ports: int = 1
    banks: int = 1


@dataclass(frozen=True)
class OffChip(Component):
    """A memory beside the chip, of a standard of the tables. It has no part in the chip's area, and its background
    power is in the energy of its bits."""

    standard: str


@dataclass(frozen=True)
class Wire(Component):
    """Wires of ``length_mm``; their area is not counted: they lie above the gates."""

    length_mm: float

    def faults(self) -> list[str]:
        return [] if _between(self.length_mm, 0.0, 1e3) else [
            f"length_mm must be a number from 0 to 1000, not {self.length_mm!r}"]


@dataclass(frozen=True)
class Logic(Component):
    """Arithmetic: so many units of each kind, as ``{"multiply i8": 256, "add i32": 256}``, for the area and leakage;
    ``register_bits``: bits of flip-flops that are written with every product, once for each of its multiplications;
    ``held_bits``: further ones beside each multiplier, whose values stay.

    What is computed, and so the energy, is what the instructions say.
    """

    units: Mapping[str, int] = field(default_factory=dict)
    register_bits: int = 0
    held_bits: int = 0

    def faults(self) -> list[str]:
        """What is wrong with it, one message each."""
        return [f"units must be named as 'multiply i8' or 'add i32', not {name!r}" for name in self.units
                if not _is_arithmetic(str(name))]


@dataclass(frozen=True)
class Included(Component):
    """A part whose energy, leakage and area are counted with those of another, ``where``."""

    where: str


@dataclass(frozen=True)
class Overrides:
    """A user's own figures: by patterns of objects' names, and joules by operation; ``technology`` None: the graph's
    (:mod:`archloom.acadl_models.energy.overrides`)."""

    technology: Technology | None = None
    objects: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    operations: Mapping[str, float] = field(default_factory=dict)


def _is_arithmetic(name: str) -> bool:
    """Whether a unit is one of which there are areas: an addition or a multiplication of an element type."""
    operation, _, dtype = name.partition(" ")
    try:
        element_type(dtype)
    except ValueError:
        return False
    return operation in ("add", "multiply")


def _between(value: object, low: float, high: float) -> bool:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and low <= value <= high and math.isfinite(value)  # type: ignore[operator, arg-type]
