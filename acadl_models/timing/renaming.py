"""Renamed registers: which of them an access names, and in which file each lies (docs/timing_semantics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.oracle.affine import Affine


@dataclass(frozen=True)
class Named:
    """Registers that an access names: the numbers ``first + others[k]``, ascending; ``whole``: nothing of what was in
    each before is needed."""

    first: Affine
    others: tuple[int, ...]
    whole: tuple[bool, ...]


def named(offset: Affine, elements: NDArray[np.int64], per: int, *, adds: bool) -> Named | None:
    """The registers, of ``per`` elements each, of a window at an offset, int64 [distinct elements]; all row-major.

    ``adds``: it accumulates, and so needs what was there.
    None where the place in a register depends on loops.
    """
    if any(coefficient % per for _, coefficient in offset.terms):
        return None
    numbers, counts = np.unique((elements + offset.constant % per) // per, return_counts=True)
    first = Affine(offset.constant // per, tuple([(atom, coefficient // per) for atom, coefficient in offset.terms]))
    return Named(first, tuple(numbers.tolist()), tuple(((counts == per) & (not adds)).tolist()))


def files_of(graph: ArchitectureGraph, buffer: str, numbers: Sequence[int]) -> list[str]:
    """The register file in which each of the registers of a buffer lies."""
    banks = graph.buffers[buffer]
    return [next(b.storage for b in banks if b.stop is None or b.start <= n < b.stop) for n in numbers]
