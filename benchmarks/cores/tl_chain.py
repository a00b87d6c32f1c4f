"""Two products with an activation between them (a feed-forward part) on Wormhole: one program, or one after the other.

As one program the block in the middle stays in the cores: its parts go over the network to the cores that work on the
same rows. One after the other it is stored and loaded again, and the cores are started twice; each product has the plan
that is found for it alone, with the activation as its epilogue.

* ``speedup``: geometric mean over the shapes; ``without_launch``: the same without the launches of the cores, of which
  one program has one and two products have two;
* ``peak``: the share of the matrix units' peak that one program reaches;
* rank correlation (Spearman) of the cost model with the simulation, over candidates drawn from the whole range of
  estimates up to eight times the best; the same for ``OTHER_SHAPES`` on meshes and triple rings (``least_on_others``).

Numerics: the oracle, all cores at once, against a float32 reference whose middle block is rounded to fp16.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.cores.tl_common import geometric_mean, on_others, ranked, sampled

SHAPES = {
    "BERT-base, 128 rows": (128, 768, 3072, 768, "gelu"), "BERT-base, 512 rows": (512, 768, 3072, 768, "gelu"),
    "BERT-base, 2048 rows": (2048, 768, 3072, 768, "gelu"), "ViT-S, 1576 rows": (1576, 384, 1536, 384, "gelu"),
    "MobileViT, 2048 rows": (2048, 144, 288, 144, "silu"), "GPT-2 medium, 1024 rows": (1024, 1024, 4096, 1024, "gelu"),
    "OPT-1.3B, 2048 rows": (2048, 2048, 8192, 2048, "relu"),
}
"""Rows, k, hidden and n, and the activation."""

OTHER_SHAPES: dict[str, tuple[Any, ...]] = {
    "256 x 128 x 512 x 128, gelu": (256, 128, 512, 128, "gelu"),
    "1024 x 96 x 384 x 96, silu": (1024, 96, 384, 96, "silu"),
    "96 x 256 x 1024 x 256, relu, biases": (96, 256, 1024, 256, "relu", (True, True)),
}
"""Chains that are ranked on other machines."""

CHECKED = ((2, 2, (150, 96, 300, 70, "gelu")), (2, 3, (64, 40, 500, 100, "relu")), (1, 4, (256, 128, 512, 128, "silu")))

def main() -> None:
    args = arguments(__doc__ or "", sampled, seeded=True)
    from archloom.mapper.spatial.chain.space import Chain

    rows = list(_rows(args))
    others = on_others({name: Chain(*shape) for name, shape in OTHER_SHAPES.items()}, args.seed, args.samples)
    correlations = [r["correlation"] for r in rows]
    result: dict[str, Any] = {
        "speedup": geometric_mean(r["apart"] / r["cycles"] for r in rows),
        "least_speedup": min(r["apart"] / r["cycles"] for r in rows),
        "without_launch": geometric_mean(r["without_launch"] for r in rows),
        "least_without_launch": min(r["without_launch"] for r in rows),
        "peak": geometric_mean(r["peak"] for r in rows), "least_peak": min(r["peak"] for r in rows),
        "least_correlation": min(correlations), "mean_correlation": float(np.mean(correlations)),
        "least_on_others": min(others.values()), "mean_on_others": float(np.mean(list(others.values()))),
        "others": others, "max_error": max(_error(*case, args.seed) for case in CHECKED), "rows": rows,
    }
    finish(args, result)


def _rows(args: argparse.Namespace) -> Any:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.chain.space import Chain
    from archloom.mapper.spatial.epilogue import Epilogue
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.products.batched import Product
    from archloom.mapper.spatial.workloads import search_workload

    graph = wormhole()
    machine = Machine.of(graph)
    print(f"{'':24}{'cycles':>9}{'apart':>7}{'-launch':>8}{'peak':>6}{'rank':>6}  plan")
    for name, (m, k, hidden, n, activation) in SHAPES.items():
        chain = Chain(m, k, hidden, n, activation)
        best = search_workload(chain, graph).best
        parts = (Product(1, m, hidden, k, epilogue=Epilogue(activation=activation)), Product(1, m, n, hidden))
        apart = sum(search_workload(part, graph).best.cycles for part in parts)
        row = {
            "name": name, "cycles": best.cycles, "apart": apart,
            "without_launch": (apart - 2 * machine.launch_cycles) / (best.cycles - machine.launch_cycles),
            "peak": chain.products / 32**3 * machine.product_cycles / machine.cores / best.cycles,
            "correlation": ranked(chain, graph, args.seed, args.samples)[0], "plan": str(best.plan),
        }
        print(f"{name:24}{best.cycles:9}{apart / best.cycles:7.2f}{row['without_launch']:8.2f}"
              f"{row['peak']:6.2f}{row['correlation']:6.3f}  {best.plan}", flush=True)
        yield row


def _error(rows: int, columns: int, shape: tuple[Any, ...], seed: int) -> float:
    """Largest difference of the oracle's result from the reference, results being about as large as one."""
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.arrays import from_tiles, to_tiles
    from archloom.mapper.spatial.chain.space import Chain
    from archloom.mapper.spatial.machines.machine import Machine, isa_of
    from archloom.mapper.spatial.workloads import emitted, search_workload
    from archloom.oracle.xla import compile_stream

    graph, chain = wormhole(rows=rows, columns=columns), Chain(*shape)
    plan, random = search_workload(chain, graph, top_k=1).best.plan, np.random.default_rng(seed)
    sizes = ((chain.m, chain.k), (chain.k, chain.hidden), (chain.hidden, chain.n))
    a, first, second = (
        (random.standard_normal(size) / (math.sqrt(size[0]) if i else 1)).astype(np.float16)
        for i, size in enumerate(sizes))
    run = compile_stream(emitted(chain, plan, Machine.of(graph)), isa_of(graph))
    tiles = np.asarray(run(*(to_tiles(x[None])[0] for x in (a, first, second)))[0])
    result = from_tiles(tiles[None], (chain.m, chain.n))[0].astype(np.float32)
    x = a.astype(np.float32) @ first.astype(np.float32)
    middle = {
        "relu": lambda: np.maximum(x, 0), "silu": lambda: x / (1 + np.exp(-x)),
        "gelu": lambda: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    }[chain.activation or ""]().astype(np.float16).astype(np.float32)
    error = float(np.abs(result - middle @ second.astype(np.float32)).max())
    print(f"oracle, {chain}, {rows} x {columns} cores, {plan}: error {error:.1e}", flush=True)
    return error


if __name__ == "__main__":
    main()
