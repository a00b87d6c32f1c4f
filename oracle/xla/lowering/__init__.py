"""Expressions in, JAX functions out."""
