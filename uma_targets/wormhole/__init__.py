"""Wormhole: UMA target (:mod:`~archloom.uma_targets.wormhole.target`) of a mesh of Tensix cores."""
