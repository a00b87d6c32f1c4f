"""OMA: how tile sizes and the order of execution change the cache misses of a matrix product, and its cycles.

Every order of the three loops over tiles, for tiles of several sizes, simulated with the default cache (1 KiB, LRU).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.timing import simulate
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle.resolve import resolve
from archloom.uma_targets.oma import ORDERS, Oma
from benchmarks.common import arguments, finish

TILES = (1, 8, 16, 64)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--size", type=int, default=64, help="m = n = k of the product (default 64)")


def measure(size: int) -> list[dict[str, Any]]:
    """A row for each order and tile size: misses of the data cache, hit rate, cycles."""
    workload = gemm(size, size, size, epilogue=Epilogue(True, 0.01, True, "int8"))
    graph, isa, emitter = Oma.kit.accelerator.graph(), Oma.kit.accelerator.isa(), Oma.kit.accelerator.emitter()
    rows = []
    for tile in [t for t in TILES if t <= size]:
        for order in ORDERS:
            mapping = Mapping("gemm", "", tuple((d, tile if d != "k" or tile > 1 else size) for d in "mnk"), order)
            timing = simulate(graph, resolve(emitter.emit(workload, mapping), isa))
            cache = timing.cache("dcache0")
            rows.append({
                "tile": tile, "order": "".join(order), "misses": cache.misses, "hit_rate": cache.hit_rate,
                "cycles": timing.cycles, "instructions": timing.instructions,
            })
    return rows


def main() -> None:
    args = arguments(__doc__.splitlines()[0], _more)
    rows = measure(args.size)
    for row in rows:
        print(f"tile {row['tile']:3}  order {row['order']}  misses {row['misses']:8,}  hits {row['hit_rate']:7.2%}  "
              f"cycles {row['cycles']:11,}")
    counts = [row["misses"] for row in rows]
    best, worst = min(rows, key=lambda r: r["cycles"]), max(rows, key=lambda r: r["cycles"])
    finish(args, {
        "least_misses": min(counts), "most_misses": max(counts), "misses_ratio": max(counts) / min(counts),
        "cycles_ratio": worst["cycles"] / best["cycles"], "best": f"tile {best['tile']} order {best['order']}",
        "worst": f"tile {worst['tile']} order {worst['order']}", "rows": rows,
    })


if __name__ == "__main__":
    main()
