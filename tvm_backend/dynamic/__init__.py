"""Networks with open dimensions: what is open, which extents are taken, and a compiled network for each."""
