"""Products on a mesh, many of them on parts of it, and convolutions as such: costs and emission."""
