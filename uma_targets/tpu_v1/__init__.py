"""TPU v1: UMA target (:mod:`~archloom.uma_targets.tpu_v1.target`) and emission."""
