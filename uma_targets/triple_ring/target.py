"""The UMA target ``triple_ring``: products of float networks on cores that small rings and a large one join."""

from __future__ import annotations

from archloom.acadl_models.triple_ring import triple_ring
from archloom.mapper.options import GraphOptions
from archloom.uma_targets.cores import CoresKit, CoresTarget

GRAPH = GraphOptions(triple_ring)

TRIPLE_RING = CoresKit(
    name="triple_ring",
    description="the triple ring of the TL paper: columns of cores that share L1s on a ring, float16 with float32 sums",
    options=GRAPH.options(),
    graph=GRAPH.graph,
)


class TripleRing(CoresTarget):
    """Triple ring: products on rings of cores."""

    kit = TRIPLE_RING
