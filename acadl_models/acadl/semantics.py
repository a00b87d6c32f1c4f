"""The choices that the paper leaves open, as parameters of a graph; docs/timing_semantics.md has an example of each.

The defaults are this project's decisions; the other values are what other models of the same machines do.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

CHOICES: dict[str, tuple[str, ...]] = {
    "issue": ("out_of_order", "in_order"),
    "stage_latency": ("replaced", "added"),
    "arbitration": ("program_order", "edge_order"),
    "cache_miss_end": ("after_hit", "after_miss"),
}
"""The values of each parameter that is a word, the default first."""


@dataclass(frozen=True)
class Semantics:
    """How a graph's objects behave where section 6 of the paper can be read in several ways.

    * ``issue``: the fetch stage offers its whole issue buffer (``"out_of_order"``) or only the oldest (``"in_order"``).
    * ``fetches_in_flight``: how many fetches may overlap; at most one starts in a cycle.
    * ``stage_latency``: where a contained unit takes an instruction, the latency of its stage is ``"replaced"`` by the
      unit's or ``"added"`` before it.
    * ``arbitration``: among the senders of a stage, the one with the oldest instruction (``"program_order"``) or the
      one whose FORWARD edge was made first (``"edge_order"``) goes first.
    * ``cache_miss_end``: a request that misses ends a ``hit_latency`` after the miss (``"after_hit"``) or with it
      (``"after_miss"``).
    """

    issue: str = "out_of_order"
    fetches_in_flight: int = 1
    stage_latency: str = "replaced"
    arbitration: str = "program_order"
    cache_miss_end: str = "after_hit"

    def faults(self) -> list[str]:
        """What is wrong with the parameters, one message each."""
        found = []
        for name, valid in CHOICES.items():
            value = getattr(self, name)
            if value not in valid:
                found.append(f"semantics: {name} must be one of {', '.join(map(repr, valid))}, not {value!r}")
        count = self.fetches_in_flight
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            found.append(f"semantics: fetches_in_flight must be an integer of at least 1, not {count!r}")
        return found

    def changed(self) -> dict[str, str | int]:
        """The parameters that differ from their defaults."""
        return {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
