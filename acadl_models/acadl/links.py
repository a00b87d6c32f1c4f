"""Links (*added*): connections of limited bandwidth between storages and the units that access them.

They are what EQueue calls connections (arXiv:2202.00739, section 3): an edge between a data storage and a unit may run
over a link, and several edges may share one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from archloom.acadl_models.acadl.base import ACADLObject, count

MODES = ("streaming", "window")


@dataclass(frozen=True, eq=False)
class Link(ACADLObject):
    """Carries ``bandwidth`` bytes in a cycle, each ``latency`` cycles long.

    ``"streaming"``: reads and writes have a channel each; ``"window"``: one channel for both, and a request holds the
    storage alone while it is under way. ``joules_per_byte``: energy of each byte that is carried.
    """

    virtual: ClassVar[bool] = False
    physical: ClassVar[tuple[str, ...]] = ("joules_per_byte", *ACADLObject.physical)

    bandwidth: int = 1
    mode: str = "streaming"
    latency: int = 0
    joules_per_byte: float | None = field(default=None, kw_only=True)

    @property
    def exclusive(self) -> bool:
        """Whether a request over the link has its storage to itself."""
        return self.mode == "window"

    def faults(self) -> list[str]:
        faults = super().faults() + count(self, "bandwidth") + count(self, "latency", 0)
        if self.mode not in MODES:
            faults.append(f"mode must be one of {', '.join(map(repr, MODES))}, not {self.mode!r}")
        return faults
