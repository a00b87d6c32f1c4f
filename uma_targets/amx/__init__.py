"""Intel AMX with AVX-512: UMA target (:mod:`~archloom.uma_targets.amx.target`) and emission."""
