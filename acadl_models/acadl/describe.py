"""Architecture graphs as text and as JSON: the tree of templates with arrays folded, figures and relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from archloom.acadl_models.acadl.edges import EdgeKind
from archloom.acadl_models.acadl.figures import figures, si_text, size_text
from archloom.acadl_models.acadl.folding import Box, Folded, FoldedEdge, fold
from archloom.acadl_models.acadl.graph import ArchitectureGraph, Bank
from archloom.oracle.errors import counted

_RELATIONS: tuple[tuple[str, EdgeKind, bool], ...] = (
    ("contains", EdgeKind.CONTAINS, True), ("forwards to", EdgeKind.FORWARD, True),
    ("reads", EdgeKind.READ_DATA, False), ("writes", EdgeKind.WRITE_DATA, True),
    ("is backed by", EdgeKind.BACKED_BY, True),
)
"""Label, kind of edge, and whether the object that is described is its source."""


def describe(graph: ArchitectureGraph) -> str:
    """The graph as text: head, buffers, and the tree of its templates with the figures of every object."""
    folded = fold(graph)
    edges = _edges_by_box(folded)
    lines = [*_head(graph), *_buffers(folded), ""]
    for box in folded.boxes:
        lines += _box(box, "", edges)
    return "\n".join(lines)


def describe_json(graph: ArchitectureGraph) -> dict[str, Any]:
    """The same in JSON's types: ``tree`` has the folded boxes, ``relations`` the folded edges between their paths."""
    folded = fold(graph)
    return {
        "name": graph.name,
        "clock_hz": graph.clock_hz,
        "parameters": dict(graph.parameters),
        "dims": dict(graph.dims),
        "semantics": asdict(graph.semantics),
        "technology": None if graph.technology is None else asdict(graph.technology),
        "buffers": [
            {"name": name, "bytes": graph.bytes_of(name), "places": _places(folded, banks)}
            for name, banks in graph.buffers.items()
        ],
        "tree": [_box_json(box) for box in folded.boxes],
        "relations": [
            {"kind": e.kind.name, "source": e.source, "target": e.target, "count": e.count}
            | ({"link": e.link} if e.link else {})
            for e in folded.edges
        ],
    }


def _head(graph: ArchitectureGraph) -> Iterator[str]:
    kinds = Counter(type(obj).__name__ for obj in graph.objects.values())
    yield (f"{graph.name}: {counted(len(graph.objects), 'object')}, {counted(len(graph.edges), 'edge')}, clock "
           f"{si_text(graph.clock_hz, 'Hz')}")
    yield "  " + ", ".join(f"{count} {kind}" for kind, count in kinds.items())
    if graph.parameters:
        yield "parameters: " + ", ".join(f"{k}={v}" for k, v in graph.parameters.items())
    if graph.dims:
        yield "cores: " + " x ".join(f"{k}={v}" for k, v in graph.dims.items())
    if changed := graph.semantics.changed():
        yield "semantics: " + ", ".join(f"{k}={v}" for k, v in changed.items())
    area, watts = graph.total("area_mm2"), graph.total("leakage_watts")
    known = [] if area is None else [f"{area:.6g} mm²"]
    known += [] if watts is None else [f"{si_text(watts, 'W')} leakage"]
    if known:
        yield "physical: " + ", ".join(known)


def _buffers(folded: Folded) -> Iterator[str]:
    for name, banks in folded.graph.buffers.items():
        where = ", ".join(
            p["box"] + (f" rows {p['rows'][0]}..{p['rows'][1] - 1}" if "rows" in p else "")
            for p in _places(folded, banks)
        )
        yield f"buffer {name}: {size_text(folded.graph.bytes_of(name))} in {where}"


def _places(folded: Folded, banks: tuple[Bank, ...]) -> list[dict[str, Any]]:
    """The boxes that hold a buffer, each with the rows from the first to the last in it."""
    found: dict[str, dict[str, Any]] = {}
    for bank in banks:
        box = folded.home[bank.storage]
        place = found.setdefault(box, {"box": box})
        if bank.stop is not None:
            low, high = place.get("rows", (bank.start, bank.stop))
            place["rows"] = [min(low, bank.start), max(high, bank.stop)]
    return list(found.values())


def _edges_by_box(folded: Folded) -> dict[tuple[str, EdgeKind, bool], list[FoldedEdge]]:
    found: dict[tuple[str, EdgeKind, bool], list[FoldedEdge]] = {}
    for edge in folded.edges:
        found.setdefault((edge.source, edge.kind, True), []).append(edge)
        found.setdefault((edge.target, edge.kind, False), []).append(edge)
    return found


def _box(
    box: Box, indent: str, edges: Mapping[tuple[str, EdgeKind, bool], list[FoldedEdge]]
) -> Iterator[str]:
    if box.obj is None:
        yield f"{indent}{box.name}"
    else:
        shown = figures(box.obj)
        size = f" {size_text(shown.pop('bytes'))}" if "bytes" in shown else ""
        each = " each" if size and box.count > 1 else ""
        mnemonics = shown.pop("to_process", [])
        yield f"{indent}{box.name} ({type(box.obj).__name__}){size}{each}{_text(shown, indent)}"
        if mnemonics:
            yield f"{indent}    processes {', '.join(mnemonics)}"
        for label, kind, outgoing in _RELATIONS:
            if found := edges.get((box.path, kind, outgoing)):
                yield f"{indent}    {label} {', '.join(_end(e, outgoing) for e in found)}"
    for child in box.children:
        yield from _box(child, indent + "  ", edges)


def _end(edge: FoldedEdge, outgoing: bool) -> str:
    times = f" ×{edge.count}" if edge.count > 1 else ""
    return (edge.target if outgoing else edge.source) + times + (f" over {edge.link}" if edge.link else "")


def _text(shown: Mapping[str, Any], indent: str) -> str:
    entries = []
    for name, value in shown.items():
        if isinstance(value, Mapping):
            entries += [f"{name}[{key}] = {entry}" for key, entry in value.items()]
        else:
            entries.append(f"{name} = {value}")
    if any(len(e) > 40 for e in entries):
        return "".join(f"\n{indent}    {entry}" for entry in entries)
    return f"  [{', '.join(entries)}]" if entries else ""


def _box_json(box: Box) -> dict[str, Any]:
    own: dict[str, Any] = {"name": box.name, "path": box.path, "count": box.count}
    if box.obj is not None:
        own |= {"class": type(box.obj).__name__, "figures": figures(box.obj)}
    return own | ({"children": [_box_json(c) for c in box.children]} if box.children else {})
