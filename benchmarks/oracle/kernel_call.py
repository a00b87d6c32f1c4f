"""Microseconds that a call of a tiny kernel takes: what is around the work, for each kind of arrays.

The kernel is one tile on Gemmini with a 4 x 4 array. TAIDL's own oracles take 28 µs for their smallest kernels, where
an executable is called with JAX arrays (``benchmarks/oracle/oracle.py`` compares whole kernels). Beside each way of
calling stands ``jax.jit`` of the same function with the same arrays, called directly: JAX's own part.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

import archloom
from benchmarks.common import arguments, finish, interleaved

ROUNDS, CALLS = 15, 400


def kernel() -> Any:
    """``Y = X`` for one 4 x 4 tile."""
    gemmini = archloom.isa("gemmini", dim=4)
    tile = {"shape": (4, 4), "dtype": "int8"}

    @gemmini.kernel(arg={"start": 16, **tile}, res={"start": 32, **tile})
    def copy() -> None:
        gemmini.api.config_ld(channel=0, stride=4, scale=gemmini.ONE, shrunk=0, block_stride=4)
        gemmini.api.config_st(4, 0, gemmini.ONE, *[0] * 9)
        gemmini.api.mvin(dram=16, local=0, cols=4, rows=4)
        gemmini.api.mvout(dram=32, local=0, cols=4, rows=4)

    return copy


def microseconds(runs: list[Callable[[], object]]) -> list[float]:
    """For each of the runs the median time for a call, over rounds of many calls in which all take turns."""
    def many(run: Callable[[], object]) -> Callable[[], None]:
        def calls() -> None:
            for _ in range(CALLS):
                run()
        return calls

    return [seconds / CALLS * 1e6 for seconds in interleaved([many(run) for run in runs], ROUNDS)]


def main() -> None:
    args = arguments(__doc__ or "")
    import jax.numpy as jnp
    import torch

    copy = kernel()
    x = np.arange(16, dtype=np.int8).reshape(4, 4)
    on_device, tensor = jnp.asarray(x), torch.from_numpy(x.copy())
    jitted = copy.program.outermost
    found = microseconds([
        lambda: copy.run(x), lambda: np.asarray(jitted(x)[0]),
        lambda: copy(on_device).block_until_ready(), lambda: jitted(on_device)[0].block_until_ready(),
        lambda: copy(tensor),
    ])
    names = ("numpy_us", "numpy_jax_alone_us", "jax_us", "jax_alone_us", "torch_us")
    finish(args, {name: round(us, 2) for name, us in zip(names, found)})


if __name__ == "__main__":
    main()
