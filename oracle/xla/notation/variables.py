"""The variables of expressions that are no loops of the stream: their names are made here, and read nowhere.

Forms (:class:`archloom.oracle.affine.Affine`) have strings for variables. What a string stands for is looked up here
where it matters; a name that is not known here is a loop's, or a fresh one, and stands for nothing but itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import count

OLD_CONTENTS = "%old"
"""The argument that stands for what a window holds before a write; no tensor of a stream can have this name."""

BIT_PATTERNS = "%bits"
"""The argument that holds a stream's bit patterns; no tensor of a stream can have this name."""


class Kind(Enum):
    """What a variable is, and how its name is written."""

    AXIS = "&{number}:{extent}"
    """Axis ``number`` of a tensor of an instruction; equal axes of all tensors are one variable."""

    BOUND = "%{level}_{number}"
    """Bound by a sum, an extreme, a chain or a ``Let``; ``level`` counts the nodes within that bind such, too."""

    GUARDED = "#{number}"
    """The axis on which the constraint ``number`` of a padded tensor lies while the tensor is computed."""


@dataclass(frozen=True)
class Variable:
    """A variable with what its kind has of ``number``, ``level``, and ``extent`` (values from 0 on)."""

    kind: Kind
    number: int
    level: int = 0
    extent: int = 0

    @property
    def name(self) -> str:
        return self.kind.value.format(number=self.number, level=self.level, extent=self.extent)


_by_name: dict[str, Variable] = {}
_numbers = count()


def _named(make: Callable[..., Variable]) -> Callable[..., str]:
    """The name of the variable that ``make`` makes, which is known from then on."""

    @cache
    def name(*fields: int) -> str:
        variable = make(*fields)
        _by_name[variable.name] = variable
        return variable.name

    return name


@_named
def tensor_axis(number: int, extent: int) -> Variable:
    return Variable(Kind.AXIS, number, extent=extent)


@_named
def bound_variable(level: int, number: int) -> Variable:
    return Variable(Kind.BOUND, number, level=level)


@_named
def guarded_axis(number: int) -> Variable:
    return Variable(Kind.GUARDED, number)


def fresh() -> str:
    """A variable that no expression contains yet."""
    return f"~{next(_numbers)}"


def strip_of(loop: str, copy: str) -> str:
    """The loop over the strips of ``loop`` in a copy of its body."""
    return f"{loop}{copy}'"


def strip_copy(copy: str, iteration: int) -> str:
    """What tells the variables of an iteration of a strip apart; ``copy`` tells those of what is around it."""
    return f"{copy}'{iteration}"


def axis_range(name: str) -> tuple[int, int] | None:
    """The first and the last value of the axis of a tensor; None of other variables."""
    variable = _by_name.get(name)
    return (0, variable.extent - 1) if variable is not None and variable.kind is Kind.AXIS else None


def level_of(name: str) -> int:
    """The level of a canonical bound variable; -1 of other variables."""
    variable = _by_name.get(name)
    return variable.level if variable is not None and variable.kind is Kind.BOUND else -1
