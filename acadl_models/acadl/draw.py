"""Architecture graphs as drawings: DOT text, and SVG where Graphviz is installed."""

from __future__ import annotations

import shutil
import subprocess

from acadl_models.acadl.edges import EdgeKind
from acadl_models.acadl.graph import ArchitectureGraph
from acadl_models.acadl.objects import ACADLObject, DataStorage, FunctionalUnit, PipelineStage, RegisterFile
from oracle.errors import InputError

_SHAPES: tuple[tuple[type[ACADLObject], str], ...] = (
    (PipelineStage, "box"), (FunctionalUnit, "component"), (RegisterFile, "note"), (DataStorage, "cylinder"),
)
_STYLES = {
    EdgeKind.FORWARD: "style=bold",
    EdgeKind.READ_DATA: "color=blue",
    EdgeKind.WRITE_DATA: "color=red",
    EdgeKind.BACKED_BY: "style=dashed",
}


def to_dot(graph: ArchitectureGraph) -> str:
    """The graph in Graphviz's language: stages are clusters around their units, data edges are blue and red."""
    lines = [f"digraph {_quote(graph.name)} {{", "  rankdir=LR;", '  node [fontname="sans-serif"];']
    contained = {u.name for s in graph.stages for u in graph.units(s)}
    for number, stage in enumerate(graph.stages):
        lines.append(f"  subgraph cluster_{number} {{")
        lines += [f"    {_node(o)}" for o in (stage, *graph.units(stage))]
        lines.append("  }")
    others = (o for o in graph.objects.values() if not isinstance(o, PipelineStage) and o.name not in contained)
    lines += [f"  {_node(o)}" for o in others]
    for edge in graph.edges:
        if edge.kind is not EdgeKind.CONTAINS:
            lines.append(f"  {_quote(edge.source.name)} -> {_quote(edge.target.name)} [{_STYLES[edge.kind]}];")
    return "\n".join([*lines, "}", ""])


def to_svg(graph: ArchitectureGraph, timeout_s: float = 60.0) -> str:
    """The drawing as SVG; InputError where Graphviz's ``dot`` is not installed or fails."""
    dot = shutil.which("dot")
    if dot is None:
        raise InputError("drawing needs Graphviz's program 'dot', which is not installed; to_dot() gives its input")
    try:
        done = subprocess.run(
            [dot, "-Tsvg"], input=to_dot(graph), capture_output=True, text=True, timeout=timeout_s, check=True
        )
    except (subprocess.SubprocessError, OSError) as error:
        raise InputError(f"drawing graph {graph.name!r} with {dot} failed: {error}") from None
    return done.stdout


def _node(obj: ACADLObject) -> str:
    shape = next((s for cls, s in _SHAPES if isinstance(obj, cls)), "ellipse")
    return f"{_quote(obj.name)} [shape={shape}, label={_quote(f'{obj.name}|{type(obj).__name__}')}];"


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("|", "\\n") + '"'
