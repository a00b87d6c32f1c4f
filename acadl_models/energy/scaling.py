"""From one process to another, by the equations of Stillmaker and Baas (Integration 58, 2017).

Switching energy is ``a V^2 + b V + c``, with coefficients for each node; between two nodes its logarithm, and that of
the area and of the nominal supply, is linear in that of the node.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from archloom.acadl_models.acadl.components import Technology
from archloom.acadl_models.energy import tables
from archloom.oracle.errors import InputError

LOWEST = 0.6
"""Of the nominal supply: the equations do not reach down to the threshold."""


def volts_of(technology: Technology) -> float:
    """The supply that is stated, or the nominal one of the node; InputError for one that is out of the equations'
    reach."""
    nominal = _between(technology.node_nm, lambda row: float(row["nominal_volts"]))
    if technology.volts is not None and technology.volts < LOWEST * nominal:
        raise InputError(
            f"{technology.volts:g} V at {technology.node_nm:g} nm: the scaling of energies holds from "
            f"{LOWEST * nominal:.3g} V on, {LOWEST:g} of the nominal supply")
    return technology.volts or nominal


def energy(joules: float, source: Technology, target: Technology) -> float:
    """What takes so many joules in ``source``, in ``target``; both with the transistors of ``target``."""
    return joules * _switching(target, target.devices) / _switching(source, target.devices)


def rate(name: str, target: Technology) -> float:
    """Joules of a row of ``rates.csv``, in ``target``."""
    found = tables.rate(name)
    return energy(found.value, found.process, target)


def area(size: float, source: Technology, target: Technology) -> float:
    """What takes such an area in ``source``, in ``target``."""
    relative = [_between(t.node_nm, lambda row: float(row["area"])) for t in (target, source)]
    return size * relative[0] / relative[1]


@lru_cache(maxsize=1024)
def _switching(technology: Technology, devices: str) -> float:
    kind, volts = "hp" if devices == "hp" else "lp", volts_of(technology)

    def at(row: Mapping[str, str]) -> float:
        a, b, c = (float(row[f"{kind}_{name}"]) for name in "abc")
        return a * volts**2 + b * volts + c

    return _between(technology.node_nm, at)


def _between(node_nm: float, value: Callable[[Mapping[str, str]], float]) -> float:
    """The value of the row of a node, or between those of the two around it."""
    rows = sorted(tables.rows("nodes"), key=lambda row: float(row["node_nm"]))
    nodes = [float(row["node_nm"]) for row in rows]
    above = next(i for i, node in enumerate(nodes) if node >= node_nm)
    if nodes[above] == node_nm:
        return value(rows[above])
    low, high = rows[above - 1], rows[above]
    part = math.log(node_nm / nodes[above - 1]) / math.log(nodes[above] / nodes[above - 1])
    return value(low) ** (1 - part) * value(high) ** part
