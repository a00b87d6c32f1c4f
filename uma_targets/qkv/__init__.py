"""QKV: UMA target (:mod:`~uma_targets.qkv.target`) and emission of products; attention is in examples."""
