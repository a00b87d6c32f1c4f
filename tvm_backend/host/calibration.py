"""Measures this machine once for :mod:`tvm_backend.host.profile`, by XLA, which runs the host's heavy operators.

Each number is the best of many runs, so that other work on the machine disturbs little.
"""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from archloom.tvm_backend.host.profile import FLOAT_BYTES, HostProfile

ELEMENTS = 1 << 20
"""Of the arrays of element-wise operators: 4 MiB each, as large as activations are; far larger ones would measure how
fast the system hands out fresh pages."""
PRODUCT = 1024
"""Rows, columns and depth of the product that is measured."""
RUNS = 41


def calibrate(name: str, *, elements: int = ELEMENTS, runs: int = RUNS) -> HostProfile:
    """Measure all classes of operators; takes some seconds."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal(elements, np.float32)).reshape(-1, 256)
    places = jnp.asarray(rng.integers(0, x.shape[0], x.shape[0]))
    square = jnp.asarray(rng.standard_normal((PRODUCT, PRODUCT), np.float32))

    def best(function: Callable[..., Any], *arguments: Any) -> float:
        compiled = jax.jit(function)
        return _least(lambda: compiled(*arguments).block_until_ready(), runs)

    overhead = best(lambda a: a + 1, jnp.zeros(8, np.float32))
    copied = best(lambda a: a * np.float32(2), x)
    spent = {
        "move": best(lambda a: a.T + np.float32(0), x),
        "arithmetic": best(lambda a, b: jnp.clip(jnp.round((a + b) * np.float32(0.5)), -128, 127), x, x),
        "transcendental": best(lambda a: jax.lax.erf(a), x),
        "reduction": best(lambda a: a - a.mean(-1, keepdims=True), x),
        "gather": best(lambda a, i: a[i], x, places),
    }
    rates = {kind: elements / max(seconds - overhead, 1e-9) for kind, seconds in spent.items()}
    rates["product"] = PRODUCT**3 / max(best(jnp.matmul, square, square) - overhead, 1e-9)
    return HostProfile(name, machine(), len(os.sched_getaffinity(0)), f"XLA of JAX {jax.__version__}",
                       2 * FLOAT_BYTES * elements / max(copied - overhead, 1e-9), overhead, rates)


def _least(work: Callable[[], Any], runs: int) -> float:
    """Seconds of the fastest of some runs after a first one."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def machine() -> str:
    """The processor's own name, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
