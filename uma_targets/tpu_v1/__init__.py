"""TPU v1: UMA target (:mod:`~uma_targets.tpu_v1.target`) and emission."""
