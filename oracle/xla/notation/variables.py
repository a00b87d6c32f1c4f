"""The variables of expressions that are no loops of the stream (see :mod:`archloom.oracle.variables`)."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

from archloom.oracle.variables import Variable

OLD_CONTENTS = "%old"
"""The argument that stands for what a window holds before a write; no tensor of a stream can have this name."""

HELD = "%held"
"""How the names of arguments begin that stand for what buffers hold when an iteration of a loop begins."""

BIT_PATTERNS = "%bits"
"""The argument that holds a stream's bit patterns; no tensor of a stream can have this name."""

_numbers = count()


class TensorAxis(Variable):
    """Axis ``number`` of a tensor of an instruction, over its ``extent``; equal axes of all tensors are one variable.
    """

    extent: int

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(number: int, extent: int) -> str:
        made = TensorAxis(f"&{number}:{extent}")
        made.extent = extent
        return made


class Bound(Variable):
    """Number ``number`` of the variables that a node binds; ``level`` counts the nodes within that bind such, too.

    So equal functions are equal expressions, however they came about.
    """

    level: int

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(level: int, number: int) -> str:
        made = Bound(f"%{level}_{number}")
        made.level = level
        return made


class GuardedAxis(Variable):
    """Stands for the axis of one constraint of a padded tensor while the tensor is computed; its number is told from
    those of the tensors around."""


class Fresh(Variable):
    """A variable that no expression contained before."""


def fresh() -> str:
    """The next of them."""
    return Fresh(f"~{next(_numbers)}")


class Strip(Variable):
    """The loop over the strips of a loop of the stream, in the copy of a body that its name tells from the others."""


def axis_range(name: str) -> tuple[int, int] | None:
    """The first and the last value of the axis of a tensor; None of other variables."""
    return (0, name.extent - 1) if isinstance(name, TensorAxis) else None
