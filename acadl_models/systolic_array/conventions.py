"""How a systolic array's cycles are charged and counted: the conventions of SCALE-Sim and of EQueue.

A *fold* is what the array takes at a time: the tile of the problem that stays in the PEs. Both simulators run the same
array; they differ in what they charge for a fold that does not fill it, and in where they start and stop counting. Each
difference is one attribute here, so that an architecture graph and its programs are built from facts and not from a
simulator's name. The consequences come out of the simulation (docs/systolic_array.md has the arithmetic).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Convention:
    """One way of charging and counting.

    * ``whole_array``: a fold is charged all rows and columns, also where it uses a part of them.
    * ``sums_overlap``: with output-stationary folds, the next one enters behind the last; the array runs empty once, at
      the end. Otherwise it runs empty after each fold.
    * ``hops``: cycles that a vector spends on the way from memory to the array and from the array to memory, together,
      and for which the next fold waits.
    * ``last_index``: the count is the number of the last cycle, the first being 0, and not the number of cycles.
    """

    name: str
    whole_array: bool
    sums_overlap: bool
    hops: int
    last_index: bool


SCALE_SIM = Convention("scalesim", whole_array=True, sums_overlap=False, hops=0, last_index=True)
"""SCALE-Sim's stall-free compute cycles: whole folds, one after the other, counted from zero."""

EQUEUE = Convention("equeue", whole_array=False, sums_overlap=True, hops=2, last_index=False)
"""EQueue's generator: the real extent of a fold, one hop from SRAM and one to it, output-stationary folds in a row."""

CONVENTIONS = {c.name: c for c in (SCALE_SIM, EQUEUE)}
"""By name, as options take them."""
