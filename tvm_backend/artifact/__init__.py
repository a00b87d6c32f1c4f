"""Compiled networks on disk: a compiled network in, a checksummed set of files out, and back."""
