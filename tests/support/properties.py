"""Properties that hold for every target, by name: the tests try each few times, ``benchmarks/properties.py`` often."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random

from archloom.oracle import taidl
from archloom.tvm_backend.targets import registry
from tests.support.mapper import energies
from tests.support.oracle import any_stream
from tests.support.uma_targets import small_targets


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
    "streams": Property(
        "a legal stream gives the same bits on the interpreter, the raised oracle and the oracle of loops",
        taidl.available(), any_stream.check_streams),
    "simulators": Property(
        "the step-by-step simulator, the engine and the engine without skipping find the same of a legal stream",
        registry.names(), small_targets.check_simulators),
}
