"""The UMA target ``mesh``: products of float networks on a generic mesh of cores."""

from __future__ import annotations

from archloom.acadl_models.mesh import RANGES, mesh
from archloom.mapper.options import GraphOptions, Option
from archloom.uma_targets.cores import CoresKit, CoresTarget, mesh_options

GRAPH = GraphOptions(mesh, RANGES)

MESH = CoresKit(
    name="mesh",
    description="a generic mesh of cores on two networks, float16 with float32 sums",
    options=(
        *mesh_options(GRAPH, {"x": "columns of cores", "y": "rows of cores"}),
        Option("torus", bool, GRAPH.default("torus"), "whether rows and columns are rings"),
    ),
    graph=lambda options: mesh(**GRAPH.arguments(options)),
)


class Mesh(CoresTarget):
    """Mesh: products on a generic mesh of cores."""

    kit = MESH
