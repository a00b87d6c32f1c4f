"""How many passes over tiles the vector unit takes for each of its instructions.

A pass is one operation on every number of a tile. Where the paper gives no figure, an elementary function (a power, a
tanh, a root, a reciprocal) counts as one operation, as do a multiplication with an addition, and a comparison.
"""

from __future__ import annotations

from archloom.acadl_models.acadl.latency import parse

UNARY: dict[str, int] = {
    "relu": 1, "negate": 1, "absolute": 1, "square": 1, "exponential": 1, "hyperbolic": 1, "root": 1, "reciprocal": 1,
    # a power, a sum, a reciprocal; that times the number
    "sigmoid": 3, "silu": 4,
    # x squared, x + 0.044715 x^3, its tanh, 0.5 + 0.5 of it, that times the number
    "gelu": 6,
    "linear": 1,
}
"""Passes over ``count`` tiles of sums, in place."""

BINARY: dict[str, int] = {"add": 1, "subtract": 1, "multiply": 1, "divide": 2, "maximum": 1, "minimum": 1}
"""Passes of an operation on sums and as many tiles of L1 (``*_tiles``), one row of tiles (``*_row``)."""

SOFTMAX: dict[str, int] = {
    "begin": 1, "rescale": 1, "finish": 2,
    # largest score, power of the difference, sum of the weights
    "soften": 3,
    "mask": 1,
}
"""Passes over ``m x d`` tiles of values (the first three), and over ``m x n`` tiles of scores."""

TABLE: dict[str, str] = {
    **{name: f"{SOFTMAX[name]} * m * d" for name in ("begin", "rescale", "finish")},
    **{name: f"{SOFTMAX[name]} * m * n" for name in ("soften", "mask")},
    "unpack": "count", "pack": "count",
    **{name: f"{passes} * count" for name, passes in UNARY.items()},
    **{f"{name}_tiles": f"{passes} * count" for name, passes in BINARY.items()},
    **{f"{name}_row": f"{passes} * m * n" for name, passes in BINARY.items()},
    "row_sum": "m * n", "row_maximum": "m * n", "row_subtract": "m * n", "row_multiply": "m * n",
    "column_sum": "m * n", "column_maximum": "m * n",
    # statistics are 32 numbers to a tile's 1024: a pass over a tile is the least that an instruction takes
    "row_begin": "1", "row_linear": "1", "row_root": "2", "row_reciprocal": "1", "row_spread": "m",
    # partial results of a softmax: both statistics as columns of a tile; values scaled and added, and the statistics
    "row_pair": "m", "merge": "2 * m * d + m",
}
"""For each instruction its passes, an expression over its attributes."""


def work(cycles: int) -> dict[str, str]:
    """Cycles of each instruction, for ``cycles`` of a pass over a tile."""
    return {name: f"({passes}) * {cycles}" for name, passes in TABLE.items()}


def passes(name: str, **attributes: int) -> int:
    """Passes of one instruction with these attributes, as far as they depend on any."""
    return parse(TABLE[name]).evaluate(attributes)
