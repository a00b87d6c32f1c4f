"""OMA, the One MAC Accelerator: UMA target (:mod:`~archloom.uma_targets.oma.target`) and emission."""
