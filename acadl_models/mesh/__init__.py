"""Meshes of cores between two networks and memory: generic, and what Wormhole and the triple ring are made of."""

from __future__ import annotations

from archloom.acadl_models.mesh.graph import mesh

__all__ = ["mesh"]
