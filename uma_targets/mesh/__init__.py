"""Mesh: UMA target (:mod:`~uma_targets.mesh.target`) of a generic mesh of cores."""
