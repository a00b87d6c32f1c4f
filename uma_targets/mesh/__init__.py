"""Mesh: UMA target (:mod:`~archloom.uma_targets.mesh.target`) of a generic mesh of cores."""
