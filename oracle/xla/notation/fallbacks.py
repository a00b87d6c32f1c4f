"""What was done in another way than wanted: right all the same, and recorded with the reason and the cost."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class How(StrEnum):
    """What was done instead."""

    WHOLE_TENSORS = "whole tensors"
    """An operator was not raised to index notation: it computes all of its result, whatever of it is used."""

    WHOLE_ARRAYS = "whole arrays"
    """An instruction in loops was not raised to index notation: its operators run one by one."""

    IN_TURN = "one after the other"
    """Iterations are computed by ``lax.map``, not at once by ``vmap``."""

    GATHER = "gather"
    """Elements are looked up one by one, where slices and reshapes do not reach them."""

    MASK = "mask"
    """A tensor is padded by comparing the index of each element."""

    BFLOAT16 = "product in bfloat16"
    """Signed bytes are multiplied as bfloat16."""

    CALLED = "called through JAX"
    """A compiled program cannot be stored, and is called as any function of JAX."""


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
    """What a lowering made, for reports."""

    operations: list[str] = field(default_factory=list)
    """The heavy operations."""

    fallbacks: dict[Fallback, None] = field(default_factory=dict)
    """Each once, in the order in which they were met."""

    def add(self, how: How, where: str, why: str, cost: str) -> None:
        """Record a fallback."""
        self.fallbacks[Fallback(how, where, why, cost)] = None
