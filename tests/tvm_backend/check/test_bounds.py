"""Products and convolutions of random extents are answered or refused within time and memory, on every target."""

from __future__ import annotations

from random import Random, SystemRandom

import pytest

from archloom.tvm_backend.targets.registry import BUILT_IN
from benchmarks.networks.bounds import TASKS, Task, measured


def large_product(r: Random, most: int) -> str:
    """Odd extents from half of ``most`` on: they fit nowhere, and take longest."""
    m, n, k = (r.randrange(most // 2 | 1, most, 2) for _ in range(3))
    return f"gemm(m={m},n={n},k={k})"


@pytest.mark.slow
@pytest.mark.parametrize("target", sorted(BUILT_IN))
@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_random_extents_keep_their_bounds(task: Task, target: str) -> None:
    """A case of each kind, by the seconds that processors work for it."""
    seed = SystemRandom().randrange(1 << 31)
    r = Random(seed)
    for draw in (*task.draws, large_product):
        row = measured(task, target, draw(r, task.most))
        assert row.within(task, row.cpu_seconds), f"seed {seed}: {row}"
