"""Properties that hold for every target, by name: the tests try each few times, ``benchmarks/properties.py`` often."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random

from tests.support.mapper import energies


@dataclass(frozen=True)
class Property:
    """``holds`` draws a case for one of ``targets`` and raises AssertionError where the property is violated; False:
    what was drawn is no case."""

    statement: str
    targets: Collection[str]
    holds: Callable[[str, Random], bool]


PROPERTIES = {
    "energy": Property(
        "joules are the sum of what was moved and computed; a core without work costs its leakage, room nothing",
        energies.MACHINES, energies.check_joules),
}
