"""What was done in another way than wanted: right all the same, and recorded with the reason and the cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from archloom.oracle.fallbacks import Fallback


class How(StrEnum):
    """What was done instead, and what that costs by a number that is recorded with it."""

    cost: str

    def __new__(cls, text: str, cost: str) -> "How":
        made = str.__new__(cls, text)
        made._value_, made.cost = text, cost
        return made

    WHOLE_TENSORS = "whole tensors", "elements computed, used or not: {}"
    """An operator was not raised to index notation."""

    WHOLE_ARRAYS = "whole arrays", "values computed operator by operator: {}"
    """A value of an instruction in loops was not raised to index notation."""

    IN_TURN = "one after the other", "iterations run one after the other: {}"
    """Iterations are computed by ``lax.map``, not at once by ``vmap``."""

    GATHER = "gather", "elements looked up one by one: {}"
    """Elements are looked up, where slices and reshapes do not reach them."""

    MASK = "mask", "elements chosen by comparing indices: {}"
    """A tensor is padded by comparing indices, not by edges."""


@dataclass(frozen=True)
class OracleFallback(Fallback):
    """A fallback of a stream's computation: ``how`` it was done instead."""

    how: How

    def __str__(self) -> str:
        return f"{self.where}: {self.how}, because {self.why}; {self.cost}"


@dataclass
class Record:
    """What is made of a stream, for reports: the heavy operations, and what is done in another way than wanted."""

    operations: list[str] = field(default_factory=list)
    sizes: dict[tuple[How, str, str], int] = field(default_factory=dict)
    """The number in the cost of each fallback, which is one for all of equal reasons at a place."""

    def add(self, how: How, where: str, why: str, size: int) -> None:
        key = how, where, why
        self.sizes[key] = self.sizes.get(key, 0) + size

    @property
    def fallbacks(self) -> tuple[OracleFallback, ...]:
        """In the order in which they were met first."""
        return tuple(OracleFallback(where, why, how.cost.format(size), how)
                     for (how, where, why), size in self.sizes.items())
