"""OMA, the One MAC Accelerator: UMA target (:mod:`~uma_targets.oma.target`) and emission."""
