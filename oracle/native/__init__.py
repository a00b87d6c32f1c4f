"""Products and sums as machine code that XLA calls: arrays of JAX in, arrays of JAX out."""

from archloom.oracle.native.chain_code import LANES
from archloom.oracle.native.chains import Rounding, chain, possible
from archloom.oracle.native.fused import ALONE, fused, fuses
from archloom.oracle.native.library import features, register_for, tiles
from archloom.oracle.native.operations import CODES, operation
from archloom.oracle.native.products import multiplies, product
from archloom.oracle.native.program import Program
from archloom.oracle.native.tracing import portable

__all__ = ["ALONE", "CODES", "LANES", "Program", "Rounding", "chain", "features", "fused", "fuses", "multiplies",
           "operation", "portable", "possible", "product", "register_for", "tiles"]
