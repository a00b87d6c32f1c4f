"""Wormhole: UMA target (:mod:`~uma_targets.wormhole.target`) of a mesh of Tensix cores."""
