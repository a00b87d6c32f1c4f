"""Cycles without building anything that runs: a network in, a report out; many of them by many processes."""
