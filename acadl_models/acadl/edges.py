"""Edges of architecture graphs: which are allowed, and dangling edges as the ports of templates (section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from archloom.acadl_models.acadl import building
from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.stages import ExecuteStage, InstructionFetchStage, PipelineStage
from archloom.acadl_models.acadl.storages import CacheInterface, DataStorage, Link, RegisterFile
from archloom.acadl_models.acadl.units import FunctionalUnit, InstructionMemoryAccessUnit, MemoryAccessUnit


class EdgeKind(Enum):
    """What an edge means; the value says between which objects it may run."""

    CONTAINS = (
        "from an ExecuteStage to a FunctionalUnit "
        "(from an InstructionFetchStage to its InstructionMemoryAccessUnit)"
    )
    FORWARD = "from a PipelineStage to another PipelineStage that is no InstructionFetchStage"
    READ_DATA = "from a RegisterFile to a FunctionalUnit, or from a DataStorage to a MemoryAccessUnit"
    WRITE_DATA = "from a FunctionalUnit to a RegisterFile, or from a MemoryAccessUnit to a DataStorage"
    BACKED_BY = "from a CacheInterface to the DataStorage behind it"

    __hash__ = object.__hash__  # Enum's own is written in Python, and kinds are keys of large tables


CONTAINS, FORWARD, READ_DATA, WRITE_DATA, BACKED_BY = EdgeKind


def allowed(source: object, target: object, kind: EdgeKind) -> bool:
    """Whether the class diagram (section 3) has such an edge."""
    if kind is CONTAINS:
        if isinstance(source, InstructionFetchStage) or isinstance(target, InstructionMemoryAccessUnit):
            return isinstance(source, InstructionFetchStage) and isinstance(target, InstructionMemoryAccessUnit)
        return isinstance(source, ExecuteStage) and isinstance(target, FunctionalUnit)
    if kind is FORWARD:
        stages = isinstance(source, PipelineStage) and isinstance(target, PipelineStage)
        return stages and not isinstance(target, InstructionFetchStage)
    if kind is BACKED_BY:
        return isinstance(source, CacheInterface) and isinstance(target, DataStorage) and source is not target
    storage, unit = (source, target) if kind is READ_DATA else (target, source)
    if kind is WRITE_DATA and isinstance(unit, InstructionMemoryAccessUnit) and isinstance(storage, DataStorage):
        return False
    if isinstance(storage, DataStorage):
        return isinstance(unit, MemoryAccessUnit)
    return isinstance(storage, RegisterFile) and isinstance(unit, FunctionalUnit)


def edge_fault(source: object, target: object, kind: object) -> str | None:
    """Why the edge is forbidden, or None."""
    if not isinstance(kind, EdgeKind):
        valid = ", ".join(k.name for k in EdgeKind)
        return f"edge {_show(source)} -> {_show(target)}: the kind must be one of {valid}, not {kind!r}"
    if allowed(source, target, kind):
        return None
    where = f"{kind.name} edge {_show(source)} -> {_show(target)}"
    for end, value in (("source", source), ("target", target)):
        if not isinstance(value, ACADLObject):
            return f"{where}: the {end} must be an ACADL object, not {value!r}"
    turned = "; turn it round" if kind is not CONTAINS and allowed(target, source, kind) else ""
    return f"forbidden {where}: {kind.name} edges run {kind.value}{turned}"


def _show(value: object) -> str:
    return str(value) if isinstance(value, ACADLObject) else repr(value)


def link_fault(source: object, target: object, kind: EdgeKind, link: object) -> str | None:
    """Why the edge, in itself allowed, cannot run over ``link``, or None."""
    if link is None:
        return None
    where = f"{kind.name} edge {_show(source)} -> {_show(target)}"
    if not isinstance(link, Link):
        return f"{where}: link must be a Link, not {link!r}"
    storage, unit = (source, target) if kind is READ_DATA else (target, source)
    if kind not in (READ_DATA, WRITE_DATA) or not isinstance(storage, DataStorage):
        return f"{where}: only READ_DATA and WRITE_DATA edges of data storages run over a link, not over {link}"
    if isinstance(unit, InstructionMemoryAccessUnit):
        return f"{where}: a fetch takes its latencies only; it does not run over {link}"
    return None


class ACADLEdge:
    """An edge of ``kind`` from ``source`` to ``target``; joins the graph under construction if it is allowed.

    ``link`` (*added*): the link over which the requests of a READ_DATA or WRITE_DATA edge of a data storage run.
    """

    __slots__ = ("fault", "kind", "link", "source", "target")

    def __init__(self, source: ACADLObject, target: ACADLObject, kind: EdgeKind, link: Link | None = None) -> None:
        self.source = source
        self.target = target
        self.kind = kind
        self.link = link
        self.fault = edge_fault(source, target, kind) or link_fault(source, target, kind, link)
        if self.fault is not None:
            building.fault(self.fault)
        elif (builder := building.active()) is not None:
            builder.edges.append(self)

    def __repr__(self) -> str:
        return f"ACADLEdge({self.source}, {self.target}, {self.kind})"


@dataclass(frozen=True, eq=False)
class ACADLDanglingEdge:
    """An edge of which one end is open: a port of a template. Creates nothing until it is connected.

    *Added*: ``link``, over which the edge will run, and ``required``: to leave it open is a fault.
    """

    kind: EdgeKind
    source: ACADLObject | None = None
    target: ACADLObject | None = None
    link: Link | None = None
    required: bool = False

    def __post_init__(self) -> None:
        ends = [e for e in (self.source, self.target) if e is not None]
        if not isinstance(self.kind, EdgeKind):
            valid = ", ".join(k.name for k in EdgeKind)
            building.fault(f"dangling edge: the kind must be one of {valid}, not {self.kind!r}")
        elif len(ends) != 1 or not isinstance(ends[0], ACADLObject):
            building.fault(
                f"dangling {self.kind.name} edge: expected one ACADL object as source or target, "
                f"found source {_show(self.source)} and target {_show(self.target)}"
            )
        elif self.required and (builder := building.active()) is not None:
            builder.open_ports[id(self)] = self

    def __str__(self) -> str:
        ends = f"{_show(self.source) if self.source else '?'} -> {_show(self.target) if self.target else '?'}"
        return f"dangling {getattr(self.kind, 'name', self.kind)} edge {ends}"


def connect_dangling_edge(first: Any, second: Any) -> ACADLEdge | None:
    """Join two dangling edges of one kind, or a dangling edge and an object, to an edge.

    A pair that cannot be joined, or that makes an edge which the class diagram forbids, is a fault of the graph (and
    None is returned); outside of ``@generate`` it raises GraphError.
    """
    ports = [e for e in (first, second) if isinstance(e, ACADLDanglingEdge)]
    objects = [e for e in (first, second) if isinstance(e, ACADLObject)]
    if not ports or len(ports) + len(objects) != 2:
        building.fault(
            "connect_dangling_edge takes two dangling edges, or one and an ACADL object, "
            f"not {_label(first)} and {_label(second)}"
        )
        return None
    kinds = {p.kind for p in ports}
    sources = [p.source for p in ports if p.source is not None]
    targets = [p.target for p in ports if p.target is not None]
    if len(kinds) != 1:
        building.fault(f"cannot connect {first} with {second}: their kinds differ")
        return None
    if objects:
        (sources if not sources else targets).append(objects[0])
    if len(sources) != 1 or len(targets) != 1:
        end = "sources" if len(sources) > 1 else "targets"
        building.fault(f"cannot connect {_label(first)} with {_label(second)}: both are {end}")
        return None
    links = [p.link for p in ports if p.link is not None]
    if len({id(link) for link in links}) > 1:
        building.fault(f"cannot connect {_label(first)} with {_label(second)}: they name different links")
        return None
    if (builder := building.active()) is not None:
        for port in ports:
            builder.open_ports.pop(id(port), None)
    edge = ACADLEdge(sources[0], targets[0], ports[0].kind, link=links[0] if links else None)
    return edge if edge.fault is None else None


def _label(value: object) -> str:
    return str(value) if isinstance(value, (ACADLObject, ACADLDanglingEdge)) else repr(value)
