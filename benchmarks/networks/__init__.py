"""Whole networks: estimates, checks, inference, accuracy."""
