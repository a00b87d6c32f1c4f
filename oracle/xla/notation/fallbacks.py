"""What was done in another way than wanted: right all the same, and recorded with the reason and the cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class How(StrEnum):
    """What was done instead."""

    WHOLE_TENSORS = "whole tensors"
    """An operator was not raised to index notation."""

    WHOLE_ARRAYS = "whole arrays"
    """A value of an instruction in loops was not raised to index notation."""

    IN_TURN = "one after the other"
    """Iterations are computed by ``lax.map``, not at once by ``vmap``."""

    GATHER = "gather"
    """Elements are looked up, where slices and reshapes do not reach them."""

    MASK = "mask"
    """A tensor is padded by comparing indices, not by edges."""

    BFLOAT16 = "product in bfloat16"
    """Signed bytes are multiplied as bfloat16."""


COSTS = {
    How.WHOLE_TENSORS: "{} elements are computed, whatever is used of them",
    How.WHOLE_ARRAYS: "{} values are computed operator by operator",
    How.IN_TURN: "{} iterations run one after the other",
    How.GATHER: "{} elements are looked up one by one",
    How.MASK: "{} elements are chosen by comparing their indices",
    How.BFLOAT16: "{} products, of which none is rounded",
}
"""What each costs, by a number that is recorded with it."""


@dataclass(frozen=True)
class Fallback:
    """``how`` something was done, where, why, and what it costs."""

    how: How
    where: str
    why: str
    cost: str

    def __str__(self) -> str:
        return f"{self.where}: {self.how}, because {self.why}; {self.cost}"


@dataclass
class Record:
    """What is made of a stream, for reports: the heavy operations, and what is done in another way than wanted."""

    operations: list[str] = field(default_factory=list)
    sizes: dict[tuple[How, str, str], int] = field(default_factory=dict)
    """The number in the cost of each fallback, which is one for all of equal reasons at a place."""

    def add(self, how: How, where: str, why: str, size: int) -> None:
        """Record a fallback."""
        key = how, where, why
        self.sizes[key] = self.sizes.get(key, 0) + size

    @property
    def fallbacks(self) -> tuple[Fallback, ...]:
        """In the order in which they were met first."""
        return tuple(Fallback(*key, COSTS[key[0]].format(size)) for key, size in self.sizes.items())
