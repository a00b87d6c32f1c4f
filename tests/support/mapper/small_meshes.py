"""Meshes of few and small cores, on which plans of workloads are tried out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import PartedPlan
from archloom.mapper.spatial.products.parts import Contraction, check_parts, parted_space

MESHES = ((1, 1), (1, 2), (2, 2), (2, 3), (4, 2), (4, 4))

QUICK = {
    "launch_cycles": 10, "product_cycles": 3, "block_cycles": 10, "vector_cycles": 1, "dram_latency_cycles": 20,
    "dram_bytes_per_cycle": 2048, "noc_bytes_per_cycle": 256,
}
"""Times that are short for the step-by-step simulator."""


@cache
def mesh(
    rows: int, columns: int, sums: int = 8, tiles: int = 40, semaphores: int = 0, stats: int = 16
) -> ArchitectureGraph:
    """Few and small cores, so that everything is cut into pieces: so many ``tiles`` are in L1 beside sums."""
    return wormhole(
        rows=rows, columns=columns, sums=sums, stats=stats, l1_bytes=2048 * (2 * sums + tiles + 1),
        semaphores=semaphores, **QUICK)  # type: ignore[arg-type]


def some_plan(data: st.DataObject, work: Contraction, machine: Machine) -> PartedPlan:
    found = parted_space(work, machine)
    assume(len(found))
    plan = found.plan(data.draw(st.integers(0, len(found) - 1)))
    check_parts(work, plan, machine)
    return plan


def operands(shapes: Mapping[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Whole numbers, of which f16 and f32 lose nothing."""
    random = np.random.default_rng(seed)
    return {name: random.integers(-2, 3, shape).astype(np.float16) for name, shape in shapes.items()}
