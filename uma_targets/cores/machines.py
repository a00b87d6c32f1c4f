"""The UMA targets ``mesh``, ``triple_ring`` and ``wormhole``: what differs among meshes of cores is their graph."""

from __future__ import annotations

from archloom.acadl_models.mesh import mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.uma_targets.cores.target import CoresKit, CoresTarget


class Mesh(CoresTarget):
    """Mesh: products on a generic mesh of cores."""

    kit = CoresKit("mesh", "a generic mesh of cores on two networks, float16 with float32 sums", mesh)


class TripleRing(CoresTarget):
    """Triple ring: products on rings of cores."""

    kit = CoresKit(
        "triple_ring",
        "the triple ring of the TL paper: columns of cores that share L1s on a ring, float16 with float32 sums",
        triple_ring)


class Wormhole(CoresTarget):
    """Wormhole: products on a mesh of Tensix cores."""

    kit = CoresKit(
        "wormhole", "Tenstorrent Wormhole: a mesh of Tensix cores on two networks, float16 with float32 sums",
        wormhole)
