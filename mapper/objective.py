"""What a search minimizes: time, energy, their product, or a function of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from archloom.oracle.errors import MappingError

Objective: TypeAlias = Callable[[Any, Any], Any]
"""Of seconds and joules, the less the better. Candidates are ranked with arrays of both, trials with numbers; where the
graph states no energies, joules are None."""

OBJECTIVES: dict[str, Objective] = {
    "time": lambda seconds, joules: seconds, "energy": lambda seconds, joules: joules,
    "edp": lambda seconds, joules: seconds * joules}
"""``edp``: the product of energy and delay."""


def objective_of(given: "str | Objective") -> Objective:
    """The function that a name stands for, or the one that is given; MappingError for another name."""
    if callable(given):
        return given
    if given not in OBJECTIVES:
        raise MappingError(f"objective {given!r} is none of {', '.join(OBJECTIVES)}, and no function")
    return OBJECTIVES[given]


def is_time(objective: Objective) -> bool:
    """Whether energies need not be found out."""
    return objective is OBJECTIVES["time"]
