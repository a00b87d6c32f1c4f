"""How many groups of a convolution are one product: neighbours, whose kernels lie on the diagonal of its matrix.

A depthwise convolution of 32 channels and 3 x 3 elements is 32 products with matrices of 9 x 1, or four with 72 x 8:
eight times as many multiplications, all but an eighth of them by zero, but on a wide array in an eighth of the time.
Which takes the fewest cycles is estimated, nothing is simulated.
"""

from __future__ import annotations

import math
from functools import lru_cache

from archloom.mapper.accelerator import Configuration
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.ir.match import QuantizedOp

MOST = 64
"""Groups that become one at most, as kernels grow with them. A free choice: an array of 256 x 256 has room for 28 of
3 x 3."""

HOPELESS = 1.5
"""Where so many groups take so many times the fewest cycles, more of them are not looked at. A free choice."""


class Together:
    """Says of a grouped convolution how many of its groups are one on a configuration: a divisor of them, 1 for those
    whose weights have several scales."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self.best = lru_cache(maxsize=256)(self._best)

    def __call__(self, op: QuantizedOp) -> int:
        kernel, groups = op.operands[1], int(op.attrs["groups"])
        if groups == 1 or kernel.scale.size > 1 or kernel.zero_point.any():
            return 1
        return self.best(op.shape[0], groups, math.prod(op.shape[2:]), op.shape[1] // groups,
                         math.prod(kernel.shape[1:]))

    def _best(self, images: int, groups: int, places: int, outputs: int, depth: int) -> int:
        """Of products [places, depth] x [depth, outputs], one for each group."""
        def cycles(count: int) -> float:
            work = gemm(places, count * outputs, count * depth, batch=images * groups // count, shared_b=False,
                        epilogue=Epilogue(False, 1.0, False, "int8"))
            try:
                return self.configuration.space(work).first()[1]
            except MappingError:
                return math.inf

        best, fewest = 1, cycles(1)
        for count in (count for count in range(2, min(groups, MOST) + 1) if groups % count == 0):
            found = cycles(count)
            if found < fewest:
                best, fewest = count, found
            elif found > HOPELESS * fewest:
                break
        return best
