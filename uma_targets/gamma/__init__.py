"""Gamma, the fused-tensor accelerator of the ACADL paper: UMA target (:mod:`~uma_targets.gamma.target`), emission."""
