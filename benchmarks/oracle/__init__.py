"""How fast the oracles compute, and that recorded vectors are met."""
