"""Sums of products in a stated order, as machine code that XLA calls: arrays of JAX in, arrays of JAX out."""

from archloom.oracle.native.chains import Rounding, chain, portable, possible
from archloom.oracle.native.code import LANES
from archloom.oracle.native.library import register_for

__all__ = ["LANES", "Rounding", "chain", "portable", "possible", "register_for"]
