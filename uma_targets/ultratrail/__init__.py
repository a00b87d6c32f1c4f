"""UltraTrail: UMA target (:mod:`~archloom.uma_targets.ultratrail.target`) and whole temporal convolutional networks."""
