"""Wormhole as the TL paper describes it: Tensix cores on a mesh, as an architecture graph of any number of rows."""

from __future__ import annotations

from archloom.acadl_models.mesh import isa_parameters
from archloom.acadl_models.wormhole.graph import wormhole

__all__ = ["isa_parameters", "wormhole"]
