"""Targets of many cores: meshes and rings of cores as targets of networks."""
