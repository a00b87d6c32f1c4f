"""Renamed registers: which of them an access names, and in which file each lies (docs/timing_semantics.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.oracle.affine import Affine
from archloom.oracle.resolved import WindowDim
from archloom.oracle.windows import positions


@dataclass(frozen=True)
class Named:
    """Registers that an access names: the numbers ``first + others[k]``, ascending; ``whole``: nothing of what was in
    each before is needed."""

    first: Affine
    others: tuple[int, ...]
    whole: tuple[bool, ...]


def named(
    offset: Affine, dims: tuple[WindowDim, ...], shape: tuple[int, ...], per: int, *, adds: bool
) -> Named | None:
    """The registers, of ``per`` elements each, of a window of a buffer; ``offset``: of its first element, row-major.

    ``adds``: it accumulates, and so needs what was there.
    None where the place in a register depends on loops.
    """
    if any(coefficient % per for _, coefficient in offset.terms):
        return None
    numbers, full = _touched(dims, shape, per, offset.constant % per)
    first = Affine(offset.constant // per, tuple([(atom, coefficient // per) for atom, coefficient in offset.terms]))
    return Named(first, numbers, (False,) * len(full) if adds else full)


@lru_cache(maxsize=4096)
def _touched(
    dims: tuple[WindowDim, ...], shape: tuple[int, ...], per: int, begin: int
) -> tuple[tuple[int, ...], tuple[bool, ...]]:
    """The registers of a window that begins at an element of the first, ascending, and whether it has all of each."""
    numbers, counts = np.unique((positions(dims, shape, len(shape)) + begin) // per, return_counts=True)
    return tuple(numbers.tolist()), tuple((counts == per).tolist())


def files_of(graph: ArchitectureGraph, buffer: str, numbers: Sequence[int]) -> list[str]:
    """The register file in which each of the registers of a buffer lies."""
    banks = graph.buffers[buffer]
    return [next(b.storage for b in banks if b.stop is None or b.start <= n < b.stop) for n in numbers]
