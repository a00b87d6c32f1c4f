"""The UMA target ``mesh``: products of float networks on a generic mesh of cores."""

from __future__ import annotations

from archloom.acadl_models.mesh import mesh
from archloom.mapper.options import GraphOptions
from archloom.uma_targets.cores import CoresKit, CoresTarget

GRAPH = GraphOptions(mesh)

MESH = CoresKit(
    name="mesh",
    description="a generic mesh of cores on two networks, float16 with float32 sums",
    options=GRAPH.options(),
    graph=GRAPH.graph,
)


class Mesh(CoresTarget):
    """Mesh: products on a generic mesh of cores."""

    kit = MESH
