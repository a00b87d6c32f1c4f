"""The UMA target ``wormhole``: products of float networks on a mesh of Tensix cores, in float16 with float32 sums."""

from __future__ import annotations

from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.options import GraphOptions
from archloom.uma_targets.cores import CoresKit, CoresTarget

GRAPH = GraphOptions(wormhole)

WORMHOLE = CoresKit(
    name="wormhole",
    description="Tenstorrent Wormhole: a mesh of Tensix cores on two networks, float16 with float32 sums",
    options=GRAPH.options(),
    graph=GRAPH.graph,
)


class Wormhole(CoresTarget):
    """Wormhole: products on a mesh of Tensix cores."""

    kit = WORMHOLE
