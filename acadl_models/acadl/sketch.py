"""Objects and edges as the checker sees them, before there is a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.edges import ACADLDanglingEdge, ACADLEdge, EdgeKind

O = TypeVar("O", bound=ACADLObject)


class Sketch:
    """Objects and edges by identity: names may still clash."""

    def __init__(
        self, objects: Sequence[ACADLObject], edges: Sequence[ACADLEdge], unconnected: Sequence[ACADLDanglingEdge] = ()
    ) -> None:
        self.objects = objects
        self.edges = edges
        self.unconnected = unconnected
        self._out: dict[tuple[EdgeKind, int], list[ACADLObject]] = {}
        self._in: dict[tuple[EdgeKind, int], list[ACADLObject]] = {}
        for edge in edges:
            self._out.setdefault((edge.kind, id(edge.source)), []).append(edge.target)
            self._in.setdefault((edge.kind, id(edge.target)), []).append(edge.source)

    def targets(self, kind: EdgeKind, source: ACADLObject) -> list[ACADLObject]:
        return self._out.get((kind, id(source)), [])

    def sources(self, kind: EdgeKind, target: ACADLObject) -> list[ACADLObject]:
        return self._in.get((kind, id(target)), [])

    def of(self, *kinds: type[O]) -> list[O]:
        """The objects of some classes."""
        return [o for o in self.objects if isinstance(o, kinds)]

    @cached_property
    def known(self) -> set[int]:
        """The identities of the graph's objects."""
        return {id(o) for o in self.objects}

    @cached_property
    def faults(self) -> dict[int, list[str]]:
        """The faults of objects in themselves, by identity; sound objects are left out."""
        return {id(o): faults for o in self.objects if (faults := o.faults())}

    def sound(self, obj: ACADLObject) -> bool:
        """Whether the attributes of an object, also of one from elsewhere, can be relied on."""
        return id(obj) not in self.faults and (id(obj) in self.known or not obj.faults())


_SHOWN = 8


def listed(objects: Iterable[ACADLObject]) -> str:
    """Objects by name and class, those after the first few counted; or ``nothing``."""
    names = [str(o) for o in objects]
    more = [f"{len(names) - _SHOWN} more"] if len(names) > _SHOWN else []
    return ", ".join([*names[:_SHOWN], *more]) or "nothing"
