"""What of a matrix each core makes."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from archloom.oracle.late_jax import jnp


def shared(rows: int, fewest: int, make: Callable[[int, int], Any]) -> Any:
    """[..., rows, n] of ``make(low, high)``, the rows of that range: as many calls as there are cores for which
    ``fewest`` rows are left."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    shares = min(cores, rows // fewest)
    if shares < 2:
        return make(0, rows)
    bounds = [rows * i // shares for i in range(shares + 1)]
    return jnp.concatenate([make(low, high) for low, high in pairwise(bounds)], -2)
