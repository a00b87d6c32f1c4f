"""Shapes of accesses: sums of progressions along an axis, and what they cost on a port.

Everything here depends on the shape alone, not on where an access lies, and is cached.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from archloom.acadl_models.timing.engine.layout import MAX_DIMS
from archloom.oracle.errors import StreamError
from archloom.oracle.resolved import WindowDim


@dataclass(frozen=True)
class Pattern:
    """The values ``sum(stride * index)`` along one axis, from 0 to ``span``.

    ``dims`` are pairs (stride > 0, extent > 1) by ascending stride; ``dense``: every value up to ``span`` occurs.
    ``origin`` is the smallest value of the window's own (possibly negative) strides.
    """

    dims: tuple[tuple[int, int], ...]
    span: int
    dense: bool
    origin: int

    def flat(self) -> list[int]:
        """As the tables hold it (``PatternSpec``)."""
        return [self.span, int(self.dense), len(self.dims), *(v for d in self.dims for v in d)]


@lru_cache(maxsize=512)
def patterns(dims: tuple[WindowDim, ...], axes: int) -> tuple[Pattern, ...]:
    """The pattern of a window along each axis of its buffer."""
    return tuple(pattern(tuple((d.stride, d.extent) for d in dims if d.axis == axis)) for axis in range(axes))


@lru_cache(maxsize=512)
def pattern(progressions: tuple[tuple[int, int], ...]) -> Pattern:
    """The pattern of progressions (stride, extent) of any sign and order; without any, that of a single value."""
    origin = sum(s * (n - 1) for s, n in progressions if s < 0)
    dims = tuple(sorted((abs(s), n) for s, n in progressions if s and n > 1))
    if len(dims) > MAX_DIMS // 2:
        found = f"a window walks {len(dims)} dimensions along one axis"
        raise StreamError(f"{found}; the timing engine takes at most {MAX_DIMS // 2}")
    reach = 0
    for stride, extent in dims:
        if stride > reach + 1:
            reach = -1
            break
        reach += stride * (extent - 1)
    return Pattern(dims, sum(s * (n - 1) for s, n in dims), reach >= 0, origin)


@lru_cache(maxsize=512)
def runs(pattern: Pattern) -> tuple[tuple[int, int], ...]:
    """Maximal runs (first value, number of values) of the pattern's values."""
    dense, rest = 0, list(pattern.dims)
    while rest and rest[0][0] <= dense + 1:
        stride, extent = rest.pop(0)
        dense += stride * (extent - 1)
    starts = np.zeros(1, np.int64)
    for stride, extent in rest:
        starts = np.unique(np.add.outer(starts, stride * np.arange(extent, dtype=np.int64)))
    opens = np.ones(len(starts), bool)  # starts ascend and all pieces are as long, so only neighbours can touch
    opens[1:] = starts[1:] > starts[:-1] + dense + 1
    firsts = starts[opens]
    lasts = starts[np.append(opens[1:], True)] + dense
    return tuple(zip(firsts.tolist(), (lasts - firsts + 1).tolist()))


def beats(runs: Iterable[tuple[int, int]], port_width: int) -> int:
    """Transactions of at most ``port_width`` words for all runs."""
    return sum(-(-n // port_width) for _, n in runs)


@lru_cache(maxsize=512)
def pieces(pattern: Pattern, line: int) -> int:
    """Lines of so many words that all runs touch at most, wherever they lie."""
    return sum((n + line - 2) // line + 1 for _, n in runs(pattern))
