"""Tensors in index notation: the expressions in which streams are raised, kept in normal form."""

from archloom.oracle.xla.notation import build, sums

__all__ = ["build", "sums"]  # what substitutes needs all constructors, whichever module asks for it
