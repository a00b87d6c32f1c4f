"""Gemmini: UMA target (:mod:`~uma_targets.gemmini.target`) and mapping target."""
