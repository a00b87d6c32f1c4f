"""Architecture graphs as drawings: DOT text, and SVG by Graphviz.

What is drawn is the folded graph (:mod:`.folding`): templates are frames, an array is one frame with its extent in its
name and, of two extents, its cells beside what is drawn of it; edges between arrays are one edge with their number. A
stage is a box with the units that it contains and the stages that only it feeds.
"""

from __future__ import annotations

import itertools
import operator
import re
import textwrap
from collections import Counter
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
from archloom.oracle.errors import counted

_READ, _WRITE, _BOTH = "#1f5fbf", "#c0392b", "#7a3fa0"
_FILLS: tuple[tuple[type[ACADLObject], str, str], ...] = (
    (PipelineStage, "Mrecord", "#fff6d6"), (FunctionalUnit, "box", "#ffffff"), (RegisterFile, "note", "#e8f4e8"),
    (CacheInterface, "box3d", "#dcecf7"), (DataStorage, "cylinder", "#dcecf7"), (Link, "ellipse", "#eeeeee"),
)
_FRAMES = ("#f7f7f7", "#eeeeee", "#e4e4e4")
_WIDTH = 34
"""Characters of a line in a box before it is cut."""

_MNEMONICS = 4
_FORWARDS = 2
"""Boxes that a stage feeds by drawn edges."""
_CELLS = 16
"""Cells of an array in a row or column that are all drawn."""
_SOURCE, _TARGET = operator.attrgetter("source"), operator.attrgetter("target")


def to_dot(graph: ArchitectureGraph) -> str:
    """The folded graph in Graphviz's language: forwarding is bold, reads are blue, writes red, both purple."""
    folded = fold(graph)
    head = (f"{graph.name}: {counted(len(graph.objects), 'object')}, {counted(len(graph.edges), 'edge')}, "
            f"{si_text(graph.clock_hz, 'Hz')}")
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
    """Nodes by the path of their box.

    A stage, its units and the stages that it alone feeds are the fields of one node. From a stage that feeds many
    (a fetch stage) no edges are drawn: what it feeds says so.
    """

    def __init__(self, folded: Folded) -> None:
        self.folded = folded
        self.boxes = {box.path: box for box in folded.all_boxes()}
        forwards = [edge for edge in folded.edges if edge.kind is EdgeKind.FORWARD]
        targets, sources = (Counter(map(end, forwards)) for end in (_SOURCE, _TARGET))
        self.many = {path for path, count in targets.items() if count > _FORWARDS}
        self.fed = {edge.target: edge.source for edge in forwards if edge.source in self.many}
        self.after = {edge.source: edge.target for edge in forwards if _around(edge.source) == _around(edge.target)
                      and targets[edge.source] == sources[edge.target] == 1}
        self.units: dict[str, list[str]] = {}
        for edge in folded.edges:
            if edge.kind is EdgeKind.CONTAINS and _around(edge.source) == _around(edge.target):
                self.units.setdefault(edge.source, []).append(edge.target)
        self.fields = {path: self._fields(path) for path in self.boxes if path not in self.after.values()}
        self.node = {path: root for root, fields in self.fields.items() for path in fields if path != root}
        self.place: dict[str, str] = {path: _quote(path) for path, box in self.boxes.items() if box.obj is not None}
        for root, fields in self.fields.items():
            if len(fields) > 1:
                self.place.update((path, f"{_quote(root)}:f{k}") for k, path in enumerate(fields))

    def _fields(self, path: str) -> list[str]:
        """What the node of a box has: the box, its units, and the same of the stage after it."""
        after = self.after.get(path)
        return [path, *self.units.get(path, ()), *(self._fields(after) if after else ())]

    def box(self, box: Box, indent: str, depth: int) -> Iterator[str]:
        """A frame around what lies in the box, or the node of its object."""
        if box.obj is not None and box.path not in self.node:
            yield indent + self._node(box, box.obj)
        if not box.children:
            return
        array = box.name.endswith("]") and box.count > 1
        extent = re.sub(r"\[(\d+(?:x\d+)*)\]$", lambda m: " [" + m.group(1).replace("x", " × ") + "]", box.name)
        yield f"{indent}subgraph {_quote('cluster_' + box.path)} {{"
        yield f"{indent}  label={_quote(extent if array else box.name)}; labeljust=l; fontsize=11;"
        fill, pen = _FRAMES[min(depth, 2)], 2.5 if array else 1
        yield f'{indent}  style="filled,rounded"; fillcolor="{fill}"; color="#888888"; penwidth={pen};'
        if array:
            beside = next(inner.path for inner in box.walk() if inner.obj is not None and inner.path not in self.node)
            yield from _lattice(box, beside, indent + "  ")
        for child in box.children:
            yield from self.box(child, indent + "  ", depth + 1)
        yield indent + "}"

    def _node(self, box: Box, obj: ACADLObject) -> str:
        shape, fill = next((s, f) for cls, s, f in _FILLS if isinstance(obj, cls))
        fields = [self._title(path) for path in self.fields[box.path]]
        label = "|".join(f"<f{k}> {_record(title)}" for k, title in enumerate(fields))
        if shape != "Mrecord":
            label = "\\n".join(map(_escape, fields[0]))
        return f'{_quote(box.path)} [shape={shape}, fillcolor="{fill}", label="{label}"];'

    def _title(self, path: str) -> list[str]:
        box = self.boxes[path]
        assert box.obj is not None
        return [*([f"from {self.fed[path]}"] if path in self.fed else []), *_lines(box.name, box.obj)]

    def edges(self) -> Iterator[str]:
        """All edges but those that a node's fields or its text show; a read and a write between two boxes are one.

        What runs over a link is drawn as an edge to it and an edge from it, once for all that share it.
        """
        drawn: dict[tuple[str, str, str | None], dict[EdgeKind, FoldedEdge]] = {}
        for edge in self.folded.edges:
            inside = edge.kind is EdgeKind.CONTAINS and self.node.get(edge.target) is not None
            if inside or (edge.kind is EdgeKind.FORWARD and (
                    edge.source in self.many or self.after.get(edge.source) == edge.target)):
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


def _lattice(box: Box, beside: str, indent: str) -> Iterator[str]:
    """An array of two extents as cells, the middle of long ones left out, in a column with a node of one of them."""
    extent = re.search(r"\[(\d+)x(\d+)\]$", box.name)
    if extent is None:
        return
    rows, columns = ([str(k)] * k if k <= _CELLS else ["", "", "…", ""] for k in map(int, extent.groups()))
    label = "|".join("{" + "|".join("…" if "…" in (row, column) else "" for column in columns) + "}" for row in rows)
    yield (f'{indent}{_quote(box.path + " cells")} [shape=record, label="{label}", fontsize=5, width=0.1, height=0.1, '
           'margin="0.04,0.02", fillcolor="#ffffff", color="#999999"];')
    yield f'{indent}{{ rank=same; {_quote(box.path + " cells")}; {_quote(beside)}; }}'


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
    numbers = []
    for label, attributes in (("latency", ("latency",)), ("latencies", ("read_latency", "write_latency")),
                              ("hit/miss", ("hit_latency", "miss_latency")), ("interval", ("interval",)),
                              ("first", ("first_latency",)),
                              ("depth", ("depth",)), ("issue buffer", ("issue_buffer_size",)),
                              ("bytes/cycle", ("bandwidth",)), ("channels", ("channels",))):
        values = [shown[a] for a in attributes if a in shown]
        if values and not (isinstance(obj, Link) and values == [0]):
            numbers.append(f"{label} {' / '.join('by mnemonic' if isinstance(v, dict) else str(v) for v in values)}")
    found += textwrap.wrap(", ".join(numbers), _WIDTH)
    return [line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…" for line in found]


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _record(lines: list[str]) -> str:
    """Lines in a field of a record, in which braces, bars and angles have a meaning."""
    return "\\n".join(re.sub(r"([{}|<> ])", r"\\\1", _escape(line)) for line in lines)


def _quote(text: str) -> str:
    return '"' + _escape(text).replace("\n", "\\n") + '"'
