"""Energy of an access, leakage and area of memories and register files.

Both are power laws in the size, the bits of an access, the ports and the node, energy also with the square of the
supply: ``exp(k) size^a width^b ports^c node^d volts^2``, fitted by least squares of logarithms to what CACTI gives from
22 to 90 nm (``data/memories.csv``). So a larger, wider or more ported memory never costs less. Finer nodes scale from
22 nm as :mod:`.scaling` says. Accesses wider than the points are several memories side by side. Leakage of a bit is
CACTI's by transistors at the nearest of its nodes. A few registers are flip-flops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.energy import scaling, tables

FINEST_NM, COARSEST_NM = 22.0, 90.0
"""Nodes that CACTI knows."""

WIDEST = 512
"""Bits of an access of one memory."""

FLIP_FLOPS = 16
"""Register files of so many registers or fewer are flip-flops."""


@dataclass(frozen=True)
class Cost:
    """Joules of an access of all its bits, watts, and square millimetres."""

    joules: float
    watts: float
    area_mm2: float

    def times(self, count: int) -> "Cost":
        """So many of them side by side."""
        return Cost(count * self.joules, count * self.watts, count * self.area_mm2)


@cache
def memory(size_bytes: float, width_bits: int, ports: int, technology: Technology) -> Cost:
    """Of a memory of ``size_bytes`` that reads or writes ``width_bits`` at a time over one of ``ports``."""
    if width_bits > WIDEST:
        parts = -(-width_bits // WIDEST)
        return memory(size_bytes / parts, WIDEST, ports, technology).times(parts)
    node = min(max(technology.node_nm, FINEST_NM), COARSEST_NM)
    joules, area = (_law(name)(size_bytes, width_bits, ports, node) for name in ("joules", "area_mm2"))
    known = technology if node == technology.node_nm else Technology(node, devices=technology.devices)
    at_volts = joules * scaling.volts_of(known) ** 2
    return Cost(scaling.energy(at_volts, known, technology), leakage_of_bit(technology) * 8 * size_bytes,
                scaling.area(area, known, technology))


@cache
def registers(count: int, width_bits: int, technology: Technology) -> Cost:
    """Of a file of ``count`` registers, one of which is read or written at a time."""
    bits = count * width_bits
    bit, bit_area = tables.rate("register_bit"), tables.rate("register_bit_area")
    joules = width_bits * scaling.energy(bit.value, bit.process, technology)
    area = bits * scaling.area(bit_area.value, bit_area.process, technology)
    if count <= FLIP_FLOPS:
        return Cost(joules, logic_leakage(area, technology), area)
    found = memory(bits / 8, width_bits, 2, technology)
    return Cost(max(joules, found.joules), found.watts, found.area_mm2)


def logic_leakage(area_mm2: float, technology: Technology) -> float:
    """Watts of gates on such an area: those of a published library, scaled like a memory's bit by transistors."""
    rate = tables.rate("logic_leakage")
    same = scaling.area(area_mm2, technology, rate.process)
    return rate.value * same * leakage_of_bit(technology) / leakage_of_bit(rate.process)


@cache
def leakage_of_bit(technology: Technology) -> float:
    """Watts of a bit of memory: CACTI's of its largest one with these transistors, at the nearest node."""
    known = [row for row in tables.rows("memories")
             if row["source"] == "cacti7" and row["devices"] == technology.devices]
    node = min((float(row["node_nm"]) for row in known), key=lambda n: abs(np.log(n / technology.node_nm)))
    largest = max((row for row in known if float(row["node_nm"]) == node), key=lambda row: int(row["size_bytes"]))
    return 1e-3 * float(largest["leakage_milliwatts"]) / (8 * int(largest["size_bytes"]))


def points(use: str) -> list[Mapping[str, str]]:
    """The rows of ``memories.csv`` to ``"fit"``, those to ``"check"`` the fit, or the ``"published"`` ones."""
    return [row for row in tables.rows("memories") if row["use"] == use]


def measured(row: Mapping[str, str], name: str) -> float:
    """A figure of a row: ``joules`` (the mean of a read and a write) or ``area_mm2``."""
    if name == "joules":
        return 0.5e-12 * (float(row["read_picojoules"]) + float(row["write_picojoules"]))
    return float(row[name])


@cache
def _law(name: str) -> Callable[[float, float, float, float], float]:
    """The power law of an area, or of joules at one volt."""
    known = points("fit")
    terms = np.array([[float(row[term]) for term in ("size_bytes", "width_bits", "ports", "node_nm")] for row in known])
    volts = np.array([float(row["volts"]) for row in known]) if name == "joules" else np.ones(len(known))
    figures = np.array([measured(row, name) for row in known]) / volts**2
    factors = np.column_stack([np.ones(len(terms)), np.log(terms)])
    first, *exponents = map(float, np.linalg.lstsq(factors, np.log(figures), rcond=None)[0])
    scale = float(np.exp(first))
    a, b, c, d = exponents
    return lambda size, width, ports, node: scale * size**a * width**b * ports**c * node**d
