"""Intel AMX with AVX-512: UMA target (:mod:`~uma_targets.amx.target`) and emission."""
