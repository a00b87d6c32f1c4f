"""A vector core whose registers hold tiles of matrices (MTE)."""
