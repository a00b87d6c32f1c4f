"""The energy of candidates for sweeps, vectorized: what their instructions cost, times how often they come."""

from __future__ import annotations

import numpy as np

from archloom.mapper.spatial.elementwise import FUNCTIONS, Elementwise
from archloom.mapper.spatial.machine import SIDE, Machine
from archloom.mapper.spatial.rates import Joules, Rates
from archloom.mapper.spatial.reduction import Columns as ColumnReduction
from archloom.mapper.spatial.reduction import Rows
from archloom.mapper.spatial.space import Columns
from archloom.mapper.spatial.sweep import Sweep, SweepSpace
from archloom.oracle.errors import MappingError


def sweep_joules(work: Sweep, machine: Machine, rates: Rates, found: SweepSpace) -> Joules:
    """Estimated joules of every candidate."""
    if isinstance(work, Elementwise):
        total = _elementwise(work, rates, found.columns)
    elif isinstance(work, Rows):
        total = _rows(work, machine, rates, found.columns)
    elif isinstance(work, ColumnReduction):
        total = _columns(work, rates, found.columns)
    else:
        raise MappingError(f"{work}: the energy of such a sweep is not known")
    return np.asarray(rates.launched(machine) + total, np.float64)


def _elementwise(work: Elementwise, rates: Rates, c: Columns) -> np.ndarray:
    m, n = work.tiles
    of_tile = rates.loaded + rates.one("unpack", count=1) + rates.stored
    of_row = 0.0
    for op in work.worked:
        if op.operand == "tensor":
            of_tile += rates.loaded + rates.one(f"{op.kind}_tiles", count=1)
        elif op.operand == "row":
            one, two = (rates.one(f"{op.kind}_row", m=m, n=1) for m in (1, 2))
            of_tile += two - one
            of_row += rates.one("load_row", cols=1) + 2 * one - two
        else:
            of_tile += rates.one(FUNCTIONS.get(op.kind, op.kind), count=1)
    return np.asarray(m * n * of_tile + -(-m // c["bm"]) * n * of_row)


def _rows(work: Rows, machine: Machine, rates: Rates, c: Columns) -> np.ndarray:
    m, n = work.tiles
    chunks, at_end = -(-n // c["bn"]), 0.0

    def tiles(*names: str) -> float:
        return sum(rates.one(name, count=1) for name in names)

    def one_row(*names: str) -> tuple[float, float]:
        """Of a tile, and of a chunk whatever its tiles."""
        pairs = [[rates.one(name, m=1, n=k, valid=SIDE * k) for k in (1, 2)] for name in names]
        return sum(two - one for one, two in pairs), sum(2 * one - two for one, two in pairs)

    def stats(*names: str) -> float:
        return sum(rates.one(name, m=1) for name in names)

    if work.kind == "softmax":
        scaled = ("linear",) * (work.scale != 1)
        of_tile = tiles("unpack", *scaled, "unpack", *scaled, "exponential", "pack", "unpack") + rates.stored
        more, of_chunk = one_row("row_maximum", "row_subtract", "row_sum", "row_multiply")
        at_end = stats("row_begin", "row_begin", "row_reciprocal")
    elif work.kind == "layer_norm":
        of_tile = tiles("unpack", "unpack", "square", "unpack") + rates.stored
        more, of_chunk = one_row(
            "row_sum", "row_subtract", "row_sum", "row_subtract", "row_multiply", "multiply_row", "add_row")
        at_end = stats("row_begin", "row_begin", "row_linear", "row_linear", "row_root")
    elif work.kind == "rms_norm":
        of_tile = tiles("unpack", "square", "unpack") + rates.stored
        more, of_chunk = one_row("row_sum", "row_multiply", "multiply_row")
        at_end = stats("row_begin", "row_linear", "row_root")
    else:
        of_tile = tiles("unpack")
        more, of_chunk = one_row("row_maximum" if work.kind == "max" else "row_sum")
        mean = ("row_linear",) * (work.kind == "mean")
        at_end = stats("row_begin", *mean, "row_spread") + rates.stored
    weights = machine.cores * n * len(work.weights) * rates.one("load_row", cols=1)
    return np.asarray(m * (n * (rates.loaded + of_tile + more) + chunks * of_chunk + at_end) + weights)


def _columns(work: ColumnReduction, rates: Rates, c: Columns) -> np.ndarray:
    m, n = work.tiles
    name = "column_maximum" if work.kind == "max" else "column_sum"
    one, two = (rates.one(name, m=k, n=1, valid=SIDE * k) for k in (1, 2))
    of_tile, of_block = rates.loaded + two - one, 2 * one - two
    at_end = rates.stored + (work.kind != "sum") * rates.one("linear", count=1)
    others = c["rm"] * c["cm"] - 1
    return np.asarray(m * n * of_tile + -(-m // c["bm"]) * n * of_block + n * (at_end + others * rates.added))
