"""Every combination of the values of a space, one after the other."""

from __future__ import annotations

from archloom.tvm_backend.search.samplers import Told
from archloom.tvm_backend.search.trials import DecidedTrial, Trial, every

AHEAD = 4096
"""Trials that are looked at together: of these the most promising are simulated first."""


class Grid:
    """Trials do not depend on what becomes of others."""

    name = "grid"
    ahead: int | None = AHEAD
    learns = False

    def __init__(self) -> None:
        self._trials = every()
        self.is_done = False

    def ask(self) -> DecidedTrial | None:
        found = next(self._trials, None)
        self.is_done = found is None
        return found

    def tell(self, trial: Trial, found: Told | None) -> None:
        pass
