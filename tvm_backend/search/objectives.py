"""What a search looks for: objectives and constraints over the figures of candidates, and bounds of both."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.search.figures import ACCURACY, FIGURES

Figures: TypeAlias = Mapping[str, "float | None"]
Interval: TypeAlias = tuple[float, float]
ANY: Interval = (-math.inf, math.inf)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_CONSTRAINT = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_.]*)\s*(<=|>=)\s*(\S+)\s*")


class Missing(InputError):
    """A figure that is asked for is not known of a candidate."""


@dataclass(frozen=True)
class Objective:
    """What is to be small, or large if ``maximize``: a figure by its name, or a function ``of`` a report, which is
    added up over several networks."""

    name: str
    maximize: bool = False
    of: Callable[[Report], float] | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise InputError(f"objective {self.name!r}: expected a name of letters, digits, '_' and '.'")

    @property
    def sign(self) -> int:
        """By what a value is multiplied so that less is better."""
        return -1 if self.maximize else 1

    def __str__(self) -> str:
        return f"{'max' if self.maximize else 'min'}:{self.name}"


@dataclass(frozen=True)
class Constraint:
    """A figure that is to be at most, or at least (``sign`` -1), a ``limit``."""

    name: str
    limit: float
    sign: int = 1

    def __str__(self) -> str:
        return f"{self.name}{'<=' if self.sign > 0 else '>='}{self.limit:g}"


@dataclass(frozen=True)
class Aims:
    """All objectives and constraints of a search. Values are such that less is better, violations above 0 are bad."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()

    def values(self, figures: Figures) -> tuple[float, ...]:
        """Missing for figures that are not known, InputError for those that are no finite numbers."""
        return tuple(o.sign * _known(o.name, figures) for o in self.objectives)

    def violations(self, figures: Figures) -> tuple[float, ...]:
        return tuple(c.sign * (_known(c.name, figures) - c.limit) for c in self.constraints)

    def least_values(self, bounds: Mapping[str, Interval]) -> tuple[float, ...]:
        """What values are not below."""
        return tuple(_low(bounds.get(o.name, ANY), o.sign) for o in self.objectives)

    def least_violations(self, bounds: Mapping[str, Interval]) -> tuple[float, ...]:
        return tuple(_low(bounds.get(c.name, ANY), c.sign) - c.sign * c.limit for c in self.constraints)

    def require_known(self, figures: Figures, others: Collection[str]) -> None:
        """Missing for a figure of reports that these do not say, unless it is among ``others``."""
        for name in sorted(self.names):
            if name in FIGURES and name not in others and figures.get(name) is None:
                raise _unknown(name, figures)

    @property
    def names(self) -> frozenset[str]:
        """Figures that are asked for."""
        return frozenset([*(o.name for o in self.objectives), *(c.name for c in self.constraints)])

    @property
    def functions(self) -> dict[str, Callable[[Report], float]]:
        return {o.name: o.of for o in self.objectives if o.of is not None}

    def to_json(self) -> dict[str, Any]:
        return {"objectives": list(map(str, self.objectives)), "constraints": list(map(str, self.constraints))}


def _known(name: str, figures: Figures) -> float:
    value = figures.get(name)
    if value is None:
        raise _unknown(name, figures)
    if not math.isfinite(value):
        raise InputError(f"{name}: expected a finite number, found {value}")
    return float(value)


def _unknown(name: str, figures: Figures) -> Missing:
    if name in FIGURES:
        return Missing(f"{name}: not known: {FIGURES[name].missing}")
    if name == ACCURACY:
        return Missing(f"{name}: not known: give it as a figure of the candidates, or inputs and labels to the search")
    return Missing(f"{name}: neither a figure of reports nor one that the candidate was given"
                   f"{suggest(name, sorted({*FIGURES, *figures, ACCURACY}))}")


def _low(interval: Interval, sign: int) -> float:
    return interval[0] if sign > 0 else -interval[1]


# as users write them --------------------------------------------------------------------------------------------------


def aims(objectives: Any, constraints: Any = ()) -> Aims:
    """Of what a user gives: one or several objectives (names, functions of a report, :class:`Objective`), and
    constraints such as ``"area_mm2<=2"``."""
    found = tuple(map(objective, _several(objectives)))
    names = [o.name for o in found]
    if not found:
        raise InputError("objectives: expected at least one, found none")
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise InputError(f"objective {twice[0]!r} is named twice")
    return Aims(found, tuple(map(constraint, _several(constraints))))


def _several(given: Any) -> Iterable[Any]:
    if isinstance(given, str):
        return [part for part in given.split(",") if part.strip()]
    return given if isinstance(given, Sequence) else [given]


def objective(given: Any) -> Objective:
    """``"seconds"``, ``"max:score"``, a function of a report, or an objective; better is less, unless said or known."""
    if isinstance(given, Objective):
        return given
    if callable(given):
        return Objective(getattr(given, "__name__", "objective").strip("<>"), False, given)
    if not isinstance(given, str):
        raise InputError(f"objective {given!r}: expected a name, a function of a report or an Objective")
    way, _, name = given.strip().rpartition(":")
    if way not in ("", "min", "max"):
        raise InputError(f"objective {given!r}: expected NAME, min:NAME or max:NAME")
    more = name == ACCURACY or (name in FIGURES and FIGURES[name].better == "more")
    return Objective(name, way == "max" if way else more)


def constraint(given: Any) -> Constraint:
    """``"area_mm2<=2"`` or ``"accuracy>=0.97"``."""
    if isinstance(given, Constraint):
        return given
    match = _CONSTRAINT.fullmatch(given) if isinstance(given, str) else None
    try:
        if match is not None and math.isfinite(limit := float(match[3])):
            return Constraint(match[1], limit, 1 if match[2] == "<=" else -1)
    except ValueError:
        pass
    raise InputError(f"constraint {given!r}: expected NAME<=NUMBER or NAME>=NUMBER, such as area_mm2<=2")
