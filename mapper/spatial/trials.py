"""Plans that a search has simulated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from acadl_models.timing.result import TimingResult

P = TypeVar("P")


@dataclass(frozen=True)
class Trial(Generic[P]):
    """A plan that was simulated, and what the cost model had expected."""

    plan: P
    estimated_cycles: float
    timing: "TimingResult"

    @property
    def cycles(self) -> int:
        return self.timing.cycles


def fastest(trials: Sequence[Trial[P]]) -> Trial[P]:
    """The fastest; the first of equals."""
    return min(trials, key=lambda t: t.cycles)
