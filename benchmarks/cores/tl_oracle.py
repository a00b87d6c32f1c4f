"""The oracle of products over 64 cores beside one product of JAX: all cores run at once, whatever the plan.

For each pattern in which operands reach the cores, and for the plans that the search chooses, the stream of a product
on Wormhole 8 x 8 is compiled to JAX and timed beside the same product written in JAX: f16 operands, sums of f32,
rounded to f16 (by whichever of XLA's two ways is faster: its own product of f16 operands, or one of operands that are
widened before). A row tells to which operations a stream is raised and whether loops over cores are left.

``exact_ratio`` is that of the default, which adds in the order of the machine, bit for bit as the interpreter.
``ratio`` is that of ``compile_stream(..., reassociate=True)``, which adds in the order that XLA likes, as JAX does.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish, interleaved
from benchmarks.cores.tl_common import geometric_mean

PATTERNS = {
    "rows and columns": ((4, 4, 8), (8, 1, 1), (1, 8, 1), ("row", "stream"), ("column", "stream")),
    "alone": ((4, 4, 8), (8, 1, 1), (1, 8, 1), ("none", "stream"), ("none", "stream")),
    "wave": ((4, 4, 8), (8, 1, 1), (1, 8, 1), ("wave", "stream"), ("wave", "stream")),
    "down": ((1, 4, 8), (8, 1, 1), (8, 1, 1), ("none", "stream"), ("down", "stream")),
    "kept": ((2, 2, 8), (8, 1, 1), (1, 8, 1), ("row", "keep"), ("column", "stream")),
    "split": ((4, 8, 4), (8, 1, 1), (1, 4, 2), ("row", "stream"), ("column", "stream")),
}
SEARCHED = ((1024, 1024, 1024), (2048, 2048, 2048), (2048, 1024, 4096), (4096, 4096, 256))


def main() -> None:
    args = arguments(__doc__ or "", _options, seeded=True)
    import jax

    jax.block_until_ready(jax.jit(lambda x: x + 1)(1.0))
    rows = [_measured(args, *job) for job in _jobs()[:args.first]]
    finish(args, {
        "rows": rows, "raised": sum(r["raised"] for r in rows) / len(rows),
        "worst_ratio": max(r["ratio"] for r in rows), "ratio": geometric_mean(r["ratio"] for r in rows),
        "exact_ratio": geometric_mean(r["exact_ratio"] for r in rows),
        "worst_exact_ratio": max(r["exact_ratio"] for r in rows),
        "worst_prepare_s": max(r["prepare_s"] for r in rows),
    })


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=15, help="runs of each (default 15)")
    parser.add_argument("--first", type=int, help="so many of the products alone (default: all)")


def _jobs() -> list[tuple[str, Any, Any, Any]]:
    """Names, products, plans and the graph."""
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.plan import Plan, TileGemm
    from archloom.mapper.spatial.workloads import search

    graph = wormhole()
    found = []
    for name, (block, rows, columns, a, b) in PATTERNS.items():
        plan = Plan(block, rows, columns, "rows", "mn", a, b)  # type: ignore[arg-type]
        found.append((name, TileGemm.of(1024, 1024, 1024), plan, graph))
    for shape in SEARCHED:
        gemm = TileGemm.of(*shape)
        found.append(("searched", gemm, search(gemm, graph, refine=False).best.plan, graph))
    return found


def _measured(args: argparse.Namespace, name: str, gemm: Any, plan: Any, graph: Any) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    from archloom.mapper.spatial.machines.machine import Machine, isa_of
    from archloom.mapper.spatial.workloads import emitted
    from archloom.oracle.xla.oracle import compile_stream

    stream = emitted(gemm, plan, Machine.of(graph))
    start = time.process_time()
    oracle = compile_stream(stream, isa_of(graph), reassociate=True)
    prepared = time.process_time() - start
    run = oracle.compile()
    exact = compile_stream(stream, isa_of(graph)).compile()
    random = np.random.default_rng(args.seed)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in (
        (gemm.m * 32, gemm.k * 32), (gemm.k * 32, gemm.n * 32)))
    tiled = [jnp.asarray(x.reshape(x.shape[0] // 32, 32, x.shape[1] // 32, 32).transpose(0, 2, 1, 3)) for x in (a, b)]
    plain = [jnp.asarray(x) for x in (a, b)]

    def mixed(x: Any, y: Any) -> Any:
        return jnp.matmul(x, y, preferred_element_type=jnp.float32).astype(jnp.float16)

    def widened(x: Any, y: Any) -> Any:
        return jnp.matmul(x.astype(jnp.float32), y.astype(jnp.float32)).astype(jnp.float16)

    natives = [jax.jit(f).lower(*plain).compile() for f in (mixed, widened)]
    result = np.asarray(run(*tiled)[0]).transpose(0, 2, 1, 3).reshape(a.shape[0], b.shape[1])
    error = float(np.abs(result.astype(np.float32) - np.asarray(natives[1](*plain)).astype(np.float32)).max())
    mine, ordered, *theirs = interleaved(
        [lambda: jax.block_until_ready(run(*tiled)), lambda: jax.block_until_ready(exact(*tiled)),
         *(lambda f=f: jax.block_until_ready(f(*plain)) for f in natives)], args.rounds)  # type: ignore[misc]
    operations = list(oracle.report.results[0].operations)
    row = {"name": name, "gemm": [gemm.m, gemm.n, gemm.k], "plan": str(plan), "instructions": stream.count(),
           "raised": oracle.raised, "operations": operations, "prepare_s": prepared, "oracle_ms": mine * 1e3,
           "native_ms": min(theirs) * 1e3, "ratio": mine / min(theirs), "exact_ratio": ordered / min(theirs),
           "largest_difference": error}
    print(f"{name:17} {gemm.m * 32}x{gemm.n * 32}x{gemm.k * 32} {stream.count():6} instructions, "
          f"{'raised to' if oracle.raised else 'LOOPS beside'} {len([o for o in operations if 'dot' in o])} products: "
          f"{row['oracle_ms']:.1f} ms, JAX {row['native_ms']:.1f} ms, ratio {row['ratio']:.2f}, "
          f"{row['exact_ratio']:.2f} in the machine's order", flush=True)
    return row


if __name__ == "__main__":
    main()
