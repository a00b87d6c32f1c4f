"""How much of an objective a parameter explains by itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

LEAST_ROWS = 8
GROUPS = 8
"""Of the values of a parameter that has more of them."""


def importance(params: Sequence[Sequence[Any]], objectives: np.ndarray) -> list[list[float]]:
    """[parameters][objectives]: the part of the variance of an objective's ranks that lies between the values of a
    parameter, less what chance puts there (epsilon squared): 0 to 1. ``params``: the values of each by candidate;
    ``objectives`` [candidates, objectives]. Empty for few candidates."""
    if len(objectives) < LEAST_ROWS:
        return []
    ranks = [_ranks(column) for column in objectives.T]
    return [[_explained(_groups(values), each) for each in ranks] for values in params]


def _explained(groups: np.ndarray, ranks: np.ndarray) -> float:
    count, kinds, total = len(ranks), int(groups.max()) + 1, float(np.var(ranks))
    if kinds >= count or kinds < 2 or not total:
        return 0.0
    sizes = np.bincount(groups)
    means = np.bincount(groups, ranks) / sizes
    share = float((sizes * (means - ranks.mean()) ** 2).sum()) / (count * total)
    return min(1.0, max(0.0, 1 - (1 - share) * (count - 1) / (count - kinds)))


def _ranks(values: np.ndarray) -> np.ndarray:
    """Equal values have equal ranks: the mean of theirs."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return (ends - (counts - 1) / 2)[places]


def _groups(values: Sequence[Any]) -> np.ndarray:
    """Numbers from 0 on: equal values together, and many numbers with those near them."""
    _, places = np.unique([repr(v) for v in values], return_inverse=True)
    if places.max() < GROUPS or not all(isinstance(v, int | float) for v in values):
        return places
    edges = np.quantile(values, np.linspace(0, 1, GROUPS + 1)[1:-1])
    _, places = np.unique(np.searchsorted(edges, values, side="right"), return_inverse=True)
    return places
