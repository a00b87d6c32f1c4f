"""Plasticine: tiling of GEMMs over pattern units, emission and UMA target."""
