"""Energy of wires by their length."""

from __future__ import annotations

from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.energy import scaling, tables


def bit_joules(length_mm: float, technology: Technology) -> float:
    """Of a bit over so many millimetres: the capacitance of a length is that of any node, its charge goes with the
    square of the supply."""
    rate = tables.rate("wire_bit_mm")
    return length_mm * rate.value * (scaling.volts_of(technology) / scaling.volts_of(rate.process)) ** 2
