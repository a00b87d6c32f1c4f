"""Rewrites of an imported network: a module in, an equal module out, in the forms that patterns of targets know."""
