"""Fallbacks as data: where a slower or rougher way was taken than the one meant, why, and what that costs.

Whoever takes another way than the one meant makes a :class:`Fallback` and returns it with the result; nothing is
printed on the way, and nothing is lost. Faults of archloom's own are no fallbacks: they stay errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Fallback:
    """Another way than the one meant.

    ``where``: what it was taken for (a layer, an instruction, a file). ``why``: what stood in the way. ``cost``: what
    that costs whoever asked, such as ``"compiled again at each start"``. ``dataclasses.asdict`` is its JSON object.
    """

    where: str
    why: str
    cost: str

    def __str__(self) -> str:
        return f"{self.where}: {self.why} ({self.cost})"


def titled(fallbacks: Iterable[Fallback]) -> str:
    """A line that says what follows, then one for each reason and cost, with the places where it was met; empty for
    none."""
    places: dict[tuple[str, str], list[str]] = {}
    for fallback in fallbacks:
        places.setdefault((fallback.why, fallback.cost), []).append(fallback.where)
    lines = [f"  {', '.join(dict.fromkeys(where))}: {why} ({cost})" for (why, cost), where in places.items()]
    return "\n".join(["done in another way than meant", *lines]) if lines else ""


def as_field(fallbacks: Sequence[Fallback]) -> dict[str, object]:
    """The field ``fallbacks`` of a JSON object, which has none where there are none."""
    return {"fallbacks": [asdict(fallback) for fallback in fallbacks]} if fallbacks else {}
