"""The triple ring of the TL paper's listing 9: 32 x 2 cores, two small rings and a large one, two memories."""

from __future__ import annotations

from archloom.acadl_models.mesh import isa_parameters
from archloom.acadl_models.triple_ring.graph import triple_ring

__all__ = ["isa_parameters", "triple_ring"]
