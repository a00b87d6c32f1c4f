"""Variables that are no loop's: what they stand for is their class, not a letter in their name.

The variables of an :class:`~archloom.oracle.affine.Affine` are strings. Those of a stream's loops are plain ones. A
variable that a pass brings in is one of the classes here: it compares, sorts and prints as its text, which no
identifier equals, and carries what it stands for as fields.
"""

from __future__ import annotations

from functools import lru_cache

from archloom.oracle.affine import Affine


class Variable(str):
    """A variable that some pass of the oracle brought in.

    Expressions are remembered by what they equal, across streams: the text of a variable determines all its fields.
    """

    def expression(self) -> Affine:
        return Affine.variable(self)


class Input(Variable):
    """The value of the attribute or register ``name`` in an execution that is kept for many values of it."""

    name: str

    @staticmethod
    @lru_cache(maxsize=4096)
    def of(name: str) -> "Input":
        made = Input(f"${name}")
        made.name = name
        return made


class Unknown(Variable):
    """A value of the register ``key`` that has no closed form (yet) in the loop of ``owner``, "" where in none.

    ``number`` counts them in the order in which they arise.
    """

    key: str
    owner: str
    number: int

    def __new__(cls, key: str, owner: str, number: int) -> "Unknown":
        # a space sorts before digits: unknowns of a key stand in the order of the texts of their numbers
        made = super().__new__(cls, f"@{key}#{number} {owner}".rstrip())
        made.key, made.owner, made.number = key, owner, number
        return made


def is_known(value: Affine) -> bool:
    """Whether no unknown register value is in ``value``."""
    for atom, _ in value.terms:
        if not isinstance(atom, str):
            return not unknowns(value)
        if isinstance(atom, Unknown):
            return False
    return True


def unknowns(value: Affine) -> list[Unknown]:
    """The unknown register values that ``value`` depends on, in the order of their names."""
    return sorted(v for v in value.variables() if isinstance(v, Unknown))
