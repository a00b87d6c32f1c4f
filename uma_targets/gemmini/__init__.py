"""Gemmini: UMA target (:mod:`~archloom.uma_targets.gemmini.target`) and mapping target."""
