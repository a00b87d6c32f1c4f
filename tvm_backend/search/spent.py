"""What a search has done, and what its time went into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

WORTH_TELLING_SECONDS = 1.0
"""Below that nobody minds what a sampler takes."""
Part: TypeAlias = Literal["sampler", "bounds", "measuring", "study"]


@dataclass
class Spent:
    """Proposals of which the store had the candidate, and the candidates that this run did; ``seconds``: for which it
    was at the sampler and the space that asks it for values, waited for bounds and for measurements, and wrote to a
    study, if there is one. ``one_by_one``: the sampler was asked for a trial at a time."""

    one_by_one: bool = False
    known: int = 0
    measured: int = 0
    bounded: int = 0
    failed: int = 0
    seconds: dict[Part, float] = field(default_factory=lambda: {"sampler": 0.0, "bounds": 0.0, "measuring": 0.0})

    @property
    def done(self) -> int:
        """Candidates of this run."""
        return self.measured + self.bounded + self.failed

    @contextmanager
    def at(self, part: Part) -> Iterator[None]:
        start = time.monotonic()
        try:
            yield
        finally:
            self.seconds[part] = self.seconds.get(part, 0.0) + time.monotonic() - start

    @property
    def waits_for_sampler(self) -> bool:
        """Whether more time went into a sampler that is asked one by one than into candidates, and so much that one
        that is not would be faster."""
        return self.one_by_one and self.seconds["sampler"] > max(
            WORTH_TELLING_SECONDS, self.seconds["bounds"] + self.seconds["measuring"])
