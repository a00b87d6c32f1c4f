"""QKV: UMA target (:mod:`~archloom.uma_targets.qkv.target`) and emission of products; attention is in examples."""
