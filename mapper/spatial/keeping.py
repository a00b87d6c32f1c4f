"""Plans of products that were searched before: in the process, and on disk beside the plans of single-core targets."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from mapper import cache
from mapper.spatial.plan import Plan, TileGemm
from mapper.spatial.search import TOP_K, search
from mapper.spatial.space import EVERYTHING, Rules
from oracle.errors import MappingError

if TYPE_CHECKING:
    from acadl_models.acadl import ArchitectureGraph

FORMAT = 1
_PACKAGES = ("mapper", "acadl_models", "oracle")
_KEPT = 4096


class Written(Protocol):
    """A plan that can be written."""

    def to_json(self) -> str: ...


P = TypeVar("P", bound=Written)


@dataclass(frozen=True)
class Planned(Generic[P]):
    """The plan that a search has chosen, its simulated and its estimated cycles, and how many candidates there were."""

    plan: P
    cycles: int
    estimated_cycles: float
    considered: int


_kept: dict[str, Planned[Any]] = {}


def planned(
    gemm: TileGemm, graph: "ArchitectureGraph", *, rules: Rules = EVERYTHING, top_k: int = TOP_K
) -> Planned[Plan]:
    """What :func:`mapper.spatial.search.search` finds, searched only once for a graph and a product."""
    def find() -> Planned[Plan]:
        outcome = search(gemm, graph, rules=rules, top_k=top_k)
        best = outcome.best
        return Planned(best.plan, best.cycles, best.estimated_cycles, outcome.considered)

    return kept([graph.fingerprint, repr(gemm), rules.text, str(top_k)], Plan.from_json, find)


def kept(of: Sequence[str], read: Callable[[str], P], find: Callable[[], Planned[P]]) -> Planned[P]:
    """What ``find`` finds, called only once for the texts ``of``; ``read`` reads what the plan has written."""
    key = cache.key_of(["spatial", cache.code_fingerprint(*_PACKAGES), *of])
    found: Planned[P] | None = _kept.get(key) or _load(key, read)
    if found is None:
        found = find()
        _store(key, found)
    if len(_kept) >= _KEPT:
        _kept.pop(next(iter(_kept)))
    _kept[key] = found
    return found


def forget() -> None:
    """Drop what this process remembers; plans on disk stay."""
    _kept.clear()


def _load(key: str, read: Callable[[str], P]) -> Planned[P] | None:
    root = cache.directory()
    if root is None:
        return None
    try:
        fields: Any = json.loads((root / f"{key}.json").read_text())
        if fields["format"] != FORMAT or fields["key"] != key:
            return None
        cycles, estimated, considered = fields["cycles"], fields["estimated"], fields["considered"]
        return Planned(read(fields["plan"]), int(cycles), float(estimated), int(considered))
    except (OSError, ValueError, KeyError, TypeError, MappingError):
        return None


def _store(key: str, found: Planned[Any]) -> None:
    """Write the plan; a cache that cannot be written is no reason to fail."""
    root = cache.directory()
    if root is None:
        return
    text = json.dumps({
        "format": FORMAT, "key": key, "plan": found.plan.to_json(), "cycles": found.cycles,
        "estimated": found.estimated_cycles, "considered": found.considered,
    })
    with contextlib.suppress(OSError):
        root.mkdir(parents=True, exist_ok=True)
        cache.replace(root / f"{key}.json", text)
