"""UltraTrail: UMA target (:mod:`~uma_targets.ultratrail.target`) and whole temporal convolutional networks."""
