"""Objects and edges as the checker sees them, before there is a graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from acadl_models.acadl.edges import ACADLDanglingEdge, ACADLEdge, EdgeKind
from acadl_models.acadl.objects import ACADLObject, InstructionFetchStage, PipelineStage


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

    def stages(self) -> list[PipelineStage]:
        return [o for o in self.objects if isinstance(o, PipelineStage)]

    def fetch_stages(self) -> list[InstructionFetchStage]:
        return [o for o in self.objects if isinstance(o, InstructionFetchStage)]


def listed(objects: Iterable[ACADLObject]) -> str:
    """Objects by name and class, or ``nothing``."""
    return ", ".join(str(o) for o in objects) or "nothing"
