"""A bound stream in, the flat integer table that the jitted functions read out."""
