"""Graphs as trees of templates in which arrays are folded: ``pe[0][0] .. pe[31][31]`` become one box ``pe[32x32]``.

The tree comes from the paths of the objects. Siblings whose names differ in their indices alone fold together if
everything in them is alike: classes, figures, and what lies in them. What is drawn and printed is this tree: its size
follows the description and not the sizes of the arrays.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from archloom.acadl_models.acadl.base import ACADLObject
from archloom.acadl_models.acadl.edges import EdgeKind
from archloom.acadl_models.acadl.figures import figures
from archloom.acadl_models.acadl.graph import ArchitectureGraph


@dataclass(frozen=True, eq=False)
class Box:
    """``count`` objects or templates that are alike; ``obj`` is the first object, None for templates.

    ``name`` carries the extent of an array, and ``path`` is the name after those of the boxes around it.
    """

    name: str
    path: str
    count: int
    obj: ACADLObject | None
    children: tuple["Box", ...]

    def walk(self) -> Iterator["Box"]:
        """The box and all boxes in it."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class FoldedEdge:
    """``count`` edges of one kind between objects of two boxes, given by their paths; ``link``: over which they run."""

    kind: EdgeKind
    source: str
    target: str
    link: str | None
    count: int


@dataclass(frozen=True, eq=False)
class Folded:
    """A folded graph; ``home`` has the path of the box of every object."""

    graph: ArchitectureGraph
    boxes: tuple[Box, ...]
    edges: tuple[FoldedEdge, ...]
    home: Mapping[str, str]

    def all_boxes(self) -> Iterator[Box]:
        for box in self.boxes:
            yield from box.walk()


@dataclass(eq=False)
class _Node:
    """A template or an object; ``kind`` numbers what is alike."""

    obj: ACADLObject | None = None
    children: dict[str, "_Node"] = field(default_factory=dict)
    kind: int = -1


def fold(graph: ArchitectureGraph) -> Folded:
    """The tree of the graph's templates with arrays folded, and its edges between the boxes."""
    root = _Node()
    for name, obj in graph.objects.items():
        node = root
        for part in name.split("."):
            node = node.children.setdefault(part, _Node())
        node.obj = obj
    _number(root, {})
    home: dict[str, str] = {}
    boxes = _boxes([root], "", home)
    counts = Counter(
        (e.kind, home[e.source.name], home[e.target.name], home[e.link.name] if e.link else None) for e in graph.edges
    )
    return Folded(graph, boxes, tuple(FoldedEdge(*key, count) for key, count in counts.items()), home)


def _number(node: _Node, known: dict[object, int]) -> None:
    """Give nodes that are alike, with everything in them, the same number."""
    for child in node.children.values():
        _number(child, known)
    inside = tuple((name, child.kind) for name, child in node.children.items())
    own = None if node.obj is None else (type(node.obj).__name__, str(figures(node.obj)))
    node.kind = known.setdefault((own, inside), len(known))


def _boxes(nodes: Sequence[_Node], path: str, home: dict[str, str]) -> tuple[Box, ...]:
    """The boxes of what lies in ``nodes``, which are alike."""
    found = []
    groups = _groups(nodes[0].children)
    bases = Counter(_base(names[0]) for names in groups)
    for names in groups:
        members = [node.children[name] for node in nodes for name in names]
        label = _label(names, bases[_base(names[0])] == 1)
        where = f"{path}.{label}" if path else label
        for member in members:
            if member.obj is not None:
                home[member.obj.name] = where
        found.append(Box(label, where, len(members), members[0].obj, _boxes(members, where, home)))
    return tuple(found)


def _groups(children: Mapping[str, _Node]) -> list[list[str]]:
    """Names of children that fold together, in order of the first of each group."""
    groups: dict[tuple[str, int, int], list[str]] = {}
    for name, node in children.items():
        base = _base(name)
        groups.setdefault((base, name.count("[", len(base)), node.kind), []).append(name)
    return list(groups.values())


def _base(name: str) -> str:
    """A name without its indices."""
    return re.sub(r"(\[\d+\])+$", "", name)


def _label(names: Sequence[str], alone: bool) -> str:
    """One name for all: ``pe[4x4]``; ``pe[1..3][0]`` for a part; ``pe[0..3][0..3] (5)`` for what is no rectangle.

    ``alone``: there are no others of this name.
    """
    if len(names) == 1:
        return names[0]
    base = _base(names[0])
    indices = [tuple(map(int, re.findall(r"\d+", name[len(base):]))) for name in names]
    axes = [sorted({index[axis] for index in indices}) for axis in range(len(indices[0]))]
    whole = all(axis == list(range(len(axis))) for axis in axes)
    full = math.prod(map(len, axes))
    if alone and whole and full == len(names):
        return f"{base}[{'x'.join(str(len(axis)) for axis in axes)}]"
    ranges = "".join(f"[{axis[0]}]" if len(axis) == 1 else f"[{axis[0]}..{axis[-1]}]" for axis in axes)
    exact = full == len(names) and all(axis[-1] - axis[0] + 1 == len(axis) for axis in axes)
    return f"{base}{ranges}" + ("" if exact else f" ({len(names)})")
