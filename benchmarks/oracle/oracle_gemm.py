"""The XLA oracle of int8 GEMMs as Gemmini streams against one native ``dot_general`` of the same size.

Native is ``jit(dot_general)`` int8 × int8 → int32; the oracle computes the same and the stream's saturation to int8.
Runs are interleaved; ``ratio`` is that of the medians. ``prepare_s`` is resolving and raising, ``compile_s`` all from
the stream to the executable (XLA included). Results are compared with NumPy's before anything is timed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish, interleaved

SIZES = ((512, 512, 512), (1024, 1024, 1024), (784, 1024, 256), (12544, 64, 256))
"""Rows of A and C, columns of B and C, reduction (the kernels' names give them in this order, too)."""


def stream(m: int, n: int, k: int, dim: int) -> tuple[Any, Any]:
    """A weight-stationary, double-buffered stream and its ISA."""
    from archloom.mapper.mapping import Mapping
    from archloom.mapper.workload import Epilogue, gemm
    from archloom.oracle.taidl import load
    from archloom.uma_targets.gemmini.emit import GemminiEmitter

    isa = load("gemmini", dim=dim)
    work = gemm(m, n, k, epilogue=Epilogue(bias=False, scale=1.0, relu=False, out_dtype="int8"), name=f"{m}x{n}x{k}")
    mapping = Mapping(
        "gemm", "ws", (("m", 8 * dim), ("n", 4 * dim), ("k", 4 * dim)), ("m", "n"),
        (("A", "stream"), ("B", "stream")), (("A", 2), ("B", 2), ("C", 2)))
    return GemminiEmitter(isa.parameters).emit(work, mapping), isa


def measure(m: int, n: int, k: int, dim: int, rounds: int, seed: int) -> dict[str, Any]:
    """One row of the result."""
    import jax
    from jax import lax

    from archloom.oracle.xla import compile_stream

    made, isa = stream(m, n, k, dim)
    start = time.perf_counter()
    oracle = compile_stream(made, isa)
    prepared = time.perf_counter()
    run = oracle.compile()
    compiled = time.perf_counter()

    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (m, k), dtype=np.int8)
    b = random.integers(-128, 128, (k, n), dtype=np.int8)
    given = [jax.device_put(a.reshape(oracle.arguments[0].shape)), jax.device_put(b)]
    want = np.clip(a.astype(np.int64) @ b.astype(np.int64), -128, 127).reshape(oracle.results[0].shape)
    if not np.array_equal(np.asarray(run(*given)[0]), want):
        raise SystemExit(f"the oracle of {m}x{n}x{k} is wrong")

    def native(x: Any, y: Any) -> Any:
        return lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type=np.int32)

    plain = (jax.device_put(a), jax.device_put(b))
    native_run = jax.jit(native).lower(*plain).compile()
    mine, theirs = interleaved(
        [lambda: jax.block_until_ready(run(*given)), lambda: jax.block_until_ready(native_run(*plain))], rounds)
    return {"m": m, "n": n, "k": k, "oracle_ms": mine * 1e3, "native_ms": theirs * 1e3, "ratio": mine / theirs,
            "prepare_s": prepared - start, "compile_s": compiled - start, "instructions": made.count(),
            "operations": list(oracle.report.results[0].operations)}


def main() -> None:
    def more(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--dim", type=int, default=16, help="rows and columns of the array (default 16)")
        parser.add_argument("--rounds", type=int, default=51, help="runs of each (default 51)")

    args = arguments(__doc__ or "", more, seeded=True)
    import jax

    # what the first compilation of a process costs is not the stream's
    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    rows = [measure(*size, args.dim, args.rounds, args.seed) for size in SIZES]
    for row in rows:
        print(f"{row['m']:6}x{row['n']}x{row['k']}: oracle {row['oracle_ms']:.3f} ms, "
              f"native {row['native_ms']:.3f} ms, ratio {row['ratio']:.2f}, compiled in {row['compile_s']:.2f} s")
    finish(args, {"rows": rows, "first_ratio": rows[0]["ratio"], "worst_other_ratio": max(r["ratio"] for r in rows[1:]),
                  "mean_ratio": statistics.geometric_mean([r["ratio"] for r in rows]),
                  "worst_compile_s": max(r["compile_s"] for r in rows)})


if __name__ == "__main__":
    main()
