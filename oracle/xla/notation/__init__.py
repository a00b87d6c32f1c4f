"""Tensors in index notation: the expressions in which streams are raised, kept in normal form."""
