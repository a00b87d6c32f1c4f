"""Graphs with a reorder buffer and renamed registers, made of others."""

from __future__ import annotations

import dataclasses
from random import Random

from archloom.acadl_models.acadl import ACADLEdge, ACADLObject, ArchitectureGraph


def exchanged(graph: ArchitectureGraph, *objects: ACADLObject) -> ArchitectureGraph:
    """The graph with these objects in place of those with their names."""
    known = {**graph.objects, **{each.name: each for each in objects}}
    edges = tuple(ACADLEdge(known[e.source.name], known[e.target.name], e.kind, e.link) for e in graph.edges)
    return dataclasses.replace(graph, objects=known, edges=edges)


def reordered(
    graph: ArchitectureGraph, entries: int, decode: int | None = None, commit: int | None = None
) -> ArchitectureGraph:
    """The graph with a reorder buffer."""
    (fetch,) = graph.fetch_stages
    return exchanged(
        graph, dataclasses.replace(fetch, reorder_entries=entries, decode_width=decode, commit_width=commit))


def renamed(graph: ArchitectureGraph, more: int) -> ArchitectureGraph:
    """The graph with so many more physical registers than registers in each file."""
    return exchanged(graph, *[
        dataclasses.replace(f, physical_registers=len(f.registers) + more, write_after_read="finished")
        for f in graph.register_files])


def random_reordering(r: Random, graph: ArchitectureGraph) -> ArchitectureGraph:
    """The graph with some reorder buffer and, mostly, renamed registers."""
    widths = (None, None, 1, 2, 3)
    graph = reordered(graph, r.choice((1, 2, 4, 8, 30)), r.choice(widths), r.choice(widths))
    return renamed(graph, r.choice((4, 8, 8, 12, 24, 60))) if r.random() < 0.8 else graph
