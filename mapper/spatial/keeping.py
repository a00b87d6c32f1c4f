"""Plans that were searched before: in the process, and on disk beside the plans of single-core targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from archloom.mapper import cache

_PACKAGES = ("mapper", "acadl_models", "oracle")


class Written(Protocol):
    """A plan that can be written."""

    def to_json(self) -> str: ...


P = TypeVar("P", bound=Written)


@dataclass(frozen=True)
class Planned(Generic[P]):
    """The plan that a search has chosen, its simulated and its estimated cycles, how many candidates there were, and
    its joules where those were asked for."""

    plan: P
    cycles: int
    estimated_cycles: float
    considered: int
    joules: float | None = None


_KEPT: cache.Kept[Any] = cache.Kept()


def kept(of: Sequence[str], read: Callable[[str], P], find: Callable[[], Planned[P]]) -> Planned[P]:
    """What ``find`` finds, called only once for the texts ``of``; ``read`` reads what the plan has written."""
    key = cache.key_of(["spatial", cache.code_fingerprint(*_PACKAGES), *of])
    return _KEPT.once(key, lambda fields: _planned(fields, read), _written, find)


def forget() -> None:
    """Drop what this process remembers; plans on disk stay."""
    _KEPT.forget()


def _planned(fields: Any, read: Callable[[str], P]) -> Planned[P]:
    return Planned(
        read(fields["plan"]), int(fields["cycles"]), float(fields["estimated"]), int(fields["considered"]),
        None if fields["joules"] is None else float(fields["joules"]))


def _written(found: Planned[Any]) -> dict[str, Any]:
    return {
        "plan": found.plan.to_json(), "cycles": found.cycles, "estimated": found.estimated_cycles,
        "considered": found.considered, "joules": found.joules,
    }
