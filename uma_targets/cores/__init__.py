"""Targets of many cores: what the meshes of :mod:`archloom.acadl_models.mesh` have in common as targets of networks."""

from __future__ import annotations

from archloom.uma_targets.cores.target import CoresKit, CoresTarget

__all__ = ["CoresKit", "CoresTarget"]
