"""Which candidates are drawn: all of the front, and so many others that their cloud looks as it is."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

MOST_POINTS, MOST_LINES = 2500, 700
CELLS = 48
"""Rows and columns of the grid over two objectives of which each cell keeps one."""


def points(values: np.ndarray, front: Sequence[int], most: int = MOST_POINTS) -> list[int]:
    """Rows of ``values`` [candidates, objectives] (NaN: not known), in their order: the front, and of the others one
    for each cell over each pair of objectives, as far as ``most`` allows."""
    known = np.flatnonzero(np.isfinite(values).all(axis=1))
    if len(known) <= most:
        return [int(row) for row in known]
    kept = dict.fromkeys(front)
    ranks = _ranked(values[known])
    pairs = list(itertools.combinations(range(values.shape[1]), 2)) or [(0, 0)]
    cells = np.concatenate([_first_of_cells(ranks, a, b) for a, b in pairs])
    kept.update(dict.fromkeys(int(known[row]) for row in spread(np.unique(cells), most - len(kept))))
    return sorted(kept)


def lines(drawn: Sequence[int], front: Sequence[int], most: int = MOST_LINES) -> list[int]:
    """Of the points the front, at most half, and others."""
    on_front = set(front)
    first = spread(np.array(front, int), most // 2)
    others = np.array([row for row in drawn if row not in on_front], int)
    return sorted(int(row) for row in (*first, *spread(others, most - len(first))))


def spread(rows: np.ndarray, most: int) -> np.ndarray:
    """At most so many of the rows, evenly."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, max(most, 0)).astype(int)]


def _ranked(values: np.ndarray) -> np.ndarray:
    """Cells of each objective, by logarithms where that is how it is drawn."""
    found = np.empty(values.shape, int)
    for k, column in enumerate(values.T):
        scaled = np.log(column) if column.min() > 0 else column
        span = np.ptp(scaled)
        found[:, k] = 0 if not span else ((scaled - scaled.min()) / span * (CELLS - 1)).astype(int)
    return found


def _first_of_cells(cells: np.ndarray, a: int, b: int) -> np.ndarray:
    """Of each cell over two objectives the first row."""
    _, first = np.unique(cells[:, a] * CELLS + cells[:, b], return_index=True)
    return first
