"""Energy of an access, leakage and area of memories and register files.

Energies of a read and of a write, and the area, are power laws in the size, the bits of an access, the ports and the
node, energy also with the square of the supply: ``exp(k) size^a width^b ports^c node^d volts^2``, fitted by least
squares of logarithms to what CACTI gives from 22 to 90 nm (``data/memories.csv``). So a larger, wider or more ported
memory never costs less. Energy of finer nodes scales from 22 nm as :mod:`.scaling` says. CACTI takes a cell for 146
squares of the node; areas go with cells that are published (``data/cells.csv``), which shrink more slowly. Accesses
wider than the points are several memories side by side. Leakage of a bit is CACTI's by transistors at the nearest of
its nodes. A few registers are flip-flops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.energy import hwcomponents, scaling, tables

FINEST_NM, COARSEST_NM = 22.0, 90.0
"""Nodes that CACTI knows."""

WIDEST = 512
"""Bits of an access of one memory."""

FLIP_FLOPS = 16
"""Register files of so many registers or fewer are flip-flops."""

SQUARES = 146
"""Of the feature size, in a cell of CACTI's."""


@dataclass(frozen=True)
class Cost:
    """Joules of a read and of a write of all its bits, watts, and square millimetres."""

    read: float
    write: float
    watts: float
    area_mm2: float

    @property
    def joules(self) -> float:
        """Of an access: the mean of a read and a write."""
        return (self.read + self.write) / 2

    def times(self, count: int) -> "Cost":
        """So many of them side by side."""
        return Cost(count * self.read, count * self.write, count * self.watts, count * self.area_mm2)


@lru_cache(maxsize=1024)
def memory(size_bytes: float, width_bits: int, ports: int, technology: Technology) -> Cost:
    """Of a memory of ``size_bytes`` that reads or writes ``width_bits`` at a time over one of ``ports``."""
    if technology.library == hwcomponents.NAME:
        return _by_hwcomponents(size_bytes, width_bits, ports, technology)
    if width_bits > WIDEST:
        parts = -(-width_bits // WIDEST)
        return memory(size_bytes / parts, WIDEST, ports, technology).times(parts)
    node = min(max(technology.node_nm, FINEST_NM), COARSEST_NM)
    read, write, area = (_law(name)(size_bytes, width_bits, ports, node) for name in ("read", "write", "area_mm2"))
    known = technology if node == technology.node_nm else Technology(node, devices=technology.devices)
    volts, scaled = scaling.volts_of(known) ** 2, scaling.energy(1.0, known, technology)
    return Cost(read * volts * scaled, write * volts * scaled, leakage_of_bit(technology) * 8 * size_bytes,
                area * _cell(technology.node_nm) / (SQUARES * node**2 * 1e-6))


def _by_hwcomponents(size_bytes: float, width_bits: int, ports: int, technology: Technology) -> Cost:
    (finest, coarsest), devices = hwcomponents.CACTI
    known = Technology(min(max(technology.node_nm, finest), coarsest), devices=devices)
    read, write, watts, area = hwcomponents.memory(size_bytes, width_bits, ports, known.node_nm)
    scaled = scaling.energy(1.0, known, technology)
    return Cost(read * scaled, write * scaled, watts * leakage_of_bit(technology) / leakage_of_bit(known),
                scaling.area(area, known, technology))


@lru_cache(maxsize=1024)
def registers(count: int, width_bits: int, technology: Technology) -> Cost:
    """Of a file of ``count`` registers, one of which is read or written at a time."""
    bits, bit_area = count * width_bits, tables.rate("register_bit_area")
    joules = width_bits * scaling.rate("register_bit", technology)
    area = bits * scaling.area(bit_area.value, bit_area.process, technology)
    if count <= FLIP_FLOPS:
        return Cost(joules, width_bits * flip_flop(technology), logic_leakage(area, technology), area)
    found = memory(bits / 8, width_bits, 2, technology)
    return Cost(max(joules, found.read), max(joules, found.write), found.watts, found.area_mm2)


def flip_flop(technology: Technology) -> float:
    """Joules of a bit that is written; where clocks run in every cycle (:func:`clock`), without its part of them."""
    return scaling.rate("register_bit", technology) - clock(1, technology)


def clock(bits: int, technology: Technology) -> float:
    """Joules of a cycle of the clocks of so many flip-flops where they are not gated."""
    return 0.0 if technology.gated else bits * scaling.rate("register_clock", technology)


def logic_leakage(area_mm2: float, technology: Technology) -> float:
    """Watts of gates on such an area: those of a published library, scaled like a memory's bit by transistors."""
    rate = tables.rate("logic_leakage")
    same = scaling.area(area_mm2, technology, rate.process)
    return rate.value * same * leakage_of_bit(technology) / leakage_of_bit(rate.process)


@lru_cache(maxsize=1024)
def leakage_of_bit(technology: Technology) -> float:
    """Watts of a bit of memory: CACTI's of its largest one with these transistors, at the nearest node."""
    known = [row for row in tables.rows("memories")
             if row["source"] == "cacti7" and row["devices"] == technology.devices]
    node = min((float(row["node_nm"]) for row in known), key=lambda n: abs(np.log(n / technology.node_nm)))
    largest = max((row for row in known if float(row["node_nm"]) == node), key=lambda row: int(row["size_bytes"]))
    return 1e-3 * float(largest["leakage_milliwatts"]) / (8 * int(largest["size_bytes"]))


def _cell(node_nm: float) -> float:
    """Square micrometres of a bit's cell: of published ones and between them; coarser ones are alike but for scale."""
    table = [(float(row["node_nm"]), float(row["square_micrometres"])) for row in tables.rows("cells")]
    coarsest, size = max(table)
    if node_nm > coarsest:
        return size * (node_nm / coarsest) ** 2
    nodes, sizes = zip(*sorted(table))
    return float(np.exp(np.interp(np.log(node_nm), np.log(nodes), np.log(sizes))))


def points(use: str) -> list[Mapping[str, str]]:
    """The rows of ``memories.csv`` to ``"fit"``, those to ``"check"`` the fit, or the ``"published"`` ones."""
    return [row for row in tables.rows("memories") if row["use"] == use]


def measured(row: Mapping[str, str], name: str) -> float:
    """A figure of a row: joules of a ``read`` or a ``write``, or ``area_mm2``."""
    return float(row[name]) if name == "area_mm2" else 1e-12 * float(row[f"{name}_picojoules"])


@cache
def _law(name: str) -> Callable[[float, float, float, float], float]:
    """The power law of an area, or of a read's or write's joules at one volt."""
    known = points("fit")
    terms = np.array([[float(row[term]) for term in ("size_bytes", "width_bits", "ports", "node_nm")] for row in known])
    volts = np.ones(len(known)) if name == "area_mm2" else np.array([float(row["volts"]) for row in known])
    figures = np.array([measured(row, name) for row in known]) / volts**2
    factors = np.column_stack([np.ones(len(terms)), np.log(terms)])
    first, *exponents = map(float, np.linalg.lstsq(factors, np.log(figures), rcond=None)[0])
    scale = float(np.exp(first))
    a, b, c, d = exponents
    return lambda size, width, ports, node: scale * size**a * width**b * ports**c * node**d
