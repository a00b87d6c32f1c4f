"""Architecture graphs as drawings: DOT text, and SVG by Graphviz.

What is drawn is the folded graph (:mod:`.folding`): templates are frames, an array is one frame with its extent in its
name, and edges between arrays are one edge with their number. A stage is a box with the units that it contains.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.edges import EdgeKind
from archloom.acadl_models.acadl.figures import figures, si_text, size_text
from archloom.acadl_models.acadl.folding import Box, Folded, FoldedEdge, fold
from archloom.acadl_models.acadl.graph import ArchitectureGraph
from archloom.acadl_models.acadl.graphviz import render_svg
from archloom.acadl_models.acadl.stages import PipelineStage
from archloom.acadl_models.acadl.storages import CacheInterface, DataStorage, Link, MemoryInterface, RegisterFile
from archloom.acadl_models.acadl.units import FunctionalUnit

_READ, _WRITE, _BOTH = "#1f5fbf", "#c0392b", "#7a3fa0"
_FILLS: tuple[tuple[type[ACADLObject], str, str], ...] = (
    (PipelineStage, "Mrecord", "#fff6d6"), (FunctionalUnit, "box", "#ffffff"), (RegisterFile, "note", "#e8f4e8"),
    (CacheInterface, "box3d", "#dcecf7"), (DataStorage, "cylinder", "#dcecf7"), (Link, "ellipse", "#eeeeee"),
)
_FRAMES = ("#f7f7f7", "#eeeeee", "#e4e4e4")
_WIDTH = 34
"""Characters of a line in a box before it is cut."""

_MNEMONICS = 4


def to_dot(graph: ArchitectureGraph) -> str:
    """The folded graph in Graphviz's language: forwarding is bold, reads are blue, writes red, both purple."""
    folded = fold(graph)
    head = f"{graph.name}: {len(graph.objects)} objects, {len(graph.edges)} edges, {si_text(graph.clock_hz, 'Hz')}"
    facts = [", ".join(f"{k}={v}" for k, v in graph.parameters.items())] if graph.parameters else []
    legend = "bold: forwards   blue: reads   red: writes   purple: reads and writes   dashed: backed by"
    lines = [
        f"digraph {_quote(graph.name)} {{", "  rankdir=LR; ranksep=0.7; nodesep=0.25; newrank=true;",
        f'  label={_quote(chr(10).join([head, *facts, legend]))}; labelloc=t; fontname="Helvetica"; fontsize=13;',
        '  node [fontname="Helvetica", fontsize=10, style=filled, color="#555555", margin="0.16,0.06"];',
        '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7];',
    ]
    drawing = _Drawing(folded)
    for box in folded.boxes:
        lines += drawing.box(box, "  ", 0)
    lines += drawing.edges()
    return "\n".join([*lines, "}", ""])


def to_svg(graph: ArchitectureGraph, timeout_s: float = 60.0) -> str:
    """The drawing as SVG; InputError where there is no Graphviz, or where it fails (:mod:`.graphviz`)."""
    return render_svg(graph.name, to_dot(graph), timeout_s)


class _Drawing:
    """Nodes by the path of their box; a unit that is drawn inside its stage is a port of the stage's node."""

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self.boxes = {box.path: box for box in folded.all_boxes()}
        self.inside: dict[str, list[str]] = {}
        self.place: dict[str, str] = {path: _quote(path) for path, box in self.boxes.items() if box.obj is not None}
        for edge in folded.edges:
            if edge.kind is EdgeKind.CONTAINS and _around(edge.source) == _around(edge.target):
                units = self.inside.setdefault(edge.source, [])
                self.place[edge.target] = f"{_quote(edge.source)}:u{len(units)}"
                units.append(edge.target)
        for stage in self.inside:
            self.place[stage] = f"{_quote(stage)}:s"

    def box(self, box: Box, indent: str, depth: int) -> Iterator[str]:
        """A frame around what lies in the box, or the node of its object."""
        if box.obj is not None and ":u" not in self.place[box.path]:
            yield indent + self._node(box, box.obj)
        if not box.children:
            return
        array = box.name.endswith("]") and box.count > 1
        extent = re.sub(r"\[(\d+(?:x\d+)*)\]$", lambda m: " [" + m.group(1).replace("x", " × ") + "]", box.name)
        yield f"{indent}subgraph {_quote('cluster_' + box.path)} {{"
        yield f"{indent}  label={_quote(extent if array else box.name)}; labeljust=l; fontsize=11;"
        fill, pen = _FRAMES[min(depth, 2)], 2.5 if array else 1
        yield f'{indent}  style="filled,rounded"; fillcolor="{fill}"; color="#888888"; penwidth={pen};'
        for child in box.children:
            yield from self.box(child, indent + "  ", depth + 1)
        yield indent + "}"

    def _node(self, box: Box, obj: ACADLObject) -> str:
        shape, fill = next((s, f) for cls, s, f in _FILLS if isinstance(obj, cls))
        title = _lines(box.name, obj)
        if box.path in self.inside:
            cells = [f"<s> {_record(title)}"]
            for k, path in enumerate(self.inside[box.path]):
                unit = self.boxes[path]
                assert unit.obj is not None
                cells.append(f"<u{k}> {_record(_lines(unit.name, unit.obj))}")
            label = "{" + "|".join(cells) + "}"
        else:
            label = _record(title) if shape == "Mrecord" else "\\n".join(map(_escape, title))
        return f'{_quote(box.path)} [shape={shape}, fillcolor="{fill}", label="{label}"];'

    def edges(self) -> Iterator[str]:
        """All edges but those that containment in a box shows; a read and a write between two boxes are one.

        What runs over a link is drawn as an edge to it and an edge from it, once for all that share it.
        """
        drawn: dict[tuple[str, str, str | None], dict[EdgeKind, FoldedEdge]] = {}
        for edge in self.folded.edges:
            if edge.kind is EdgeKind.CONTAINS and ":u" in self.place[edge.target]:
                continue
            ends = (edge.target, edge.source) if edge.kind is EdgeKind.WRITE_DATA else (edge.source, edge.target)
            data = edge.kind in (EdgeKind.READ_DATA, EdgeKind.WRITE_DATA)
            drawn.setdefault((*ends, edge.link if data else edge.kind.name), {})[edge.kind] = edge
        lines: dict[str, None] = {}
        for kinds in drawn.values():
            first = kinds.get(EdgeKind.READ_DATA) or next(iter(kinds.values()))
            style = f'color="{_BOTH}", dir=both' if len(kinds) == 2 else _STYLES[first.kind]
            counts = sorted({e.count for e in kinds.values()})
            label = f", label={_quote('×' + ' / '.join(map(str, counts)))}" if counts != [1] else ""
            stops = [self.place[first.source], *([self.place[first.link]] if first.link else []),
                     self.place[first.target]]
            lines.update((f"  {a} -> {b} [{style}{label}];", None) for a, b in itertools.pairwise(stops))
        yield from lines


_STYLES = {
    EdgeKind.FORWARD: "style=bold", EdgeKind.READ_DATA: f'color="{_READ}"', EdgeKind.WRITE_DATA: f'color="{_WRITE}"',
    EdgeKind.BACKED_BY: "style=dashed", EdgeKind.CONTAINS: "arrowtail=diamond, dir=back",
}


def _around(path: str) -> str:
    """The path of the box around a path."""
    return path.rpartition(".")[0]


def _lines(name: str, obj: ACADLObject) -> list[str]:
    """What a box says: name, class, and the figures that fit."""
    shown = figures(obj)
    found = [name, type(obj).__name__]
    if isinstance(obj, FunctionalUnit) and obj.extent:
        found.append(" × ".join(map(str, obj.extent)))
    mnemonics = shown.get("to_process", [])
    if mnemonics:
        more = [f"+ {len(mnemonics) - _MNEMONICS} more"] if len(mnemonics) > _MNEMONICS else []
        found.append(", ".join([*mnemonics[:_MNEMONICS], *more]))
    if isinstance(obj, Link):
        found[1] = f"{obj.mode} Link"
    if isinstance(obj, MemoryInterface):
        found.append(f"{size_text(obj.size_bytes)}, {shown['data_width']} bits a word")
    elif isinstance(obj, RegisterFile):
        found.append(f"{len(obj.registers)} × {obj.data_width} bits")
    for label, attributes in (("latency", ("latency",)), ("latencies", ("read_latency", "write_latency")),
                              ("hit/miss", ("hit_latency", "miss_latency")), ("interval", ("interval",)),
                              ("depth", ("depth",)), ("issue buffer", ("issue_buffer_size",)),
                              ("bytes/cycle", ("bandwidth",)), ("channels", ("channels",))):
        values = [shown[a] for a in attributes if a in shown]
        if values and not (isinstance(obj, Link) and values == [0]):
            found.append(f"{label} {' / '.join('by mnemonic' if isinstance(v, dict) else str(v) for v in values)}")
    return [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in found]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _record(lines: list[str]) -> str:
    """Lines in a field of a record, in which braces, bars and angles have a meaning."""
    return "\\n".join(re.sub(r"([{}|<> ])", r"\\\1", _escape(line)) for line in lines)


def _quote(text: str) -> str:
    return '"' + _escape(text).replace("\n", "\\n") + '"'
