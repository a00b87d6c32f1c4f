"""Attention over many cores: the space of its plans, their costs, their streams."""
