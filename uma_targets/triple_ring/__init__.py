"""Triple ring: UMA target (:mod:`~archloom.uma_targets.triple_ring.target`) of the TL paper's listing 9."""
