"""Jitted: the phases of a cycle, and what they keep of stages, units, storages and memories."""
