"""Accelerators described as ACADL architecture graphs, and the simulation of what their clock cycles do."""
