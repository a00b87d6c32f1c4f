"""``archloom estimate`` of a quantized ResNet-50 on Gemmini of several sizes, each in a fresh process and cache.

``large_layer_utilization`` is the smallest utilization among the layers of at least 50 million MACs.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import archloom, arguments, finish, resnet50_int8

DIMS = (8, 16, 32, 64)
LARGE_MACS = 50_000_000


def measure(model: str, dim: int, peak: int) -> dict[str, Any]:
    """One cold and one cached run at ``dim``."""
    with tempfile.TemporaryDirectory() as cache:
        env = {"ARCHLOOM_CACHE_DIR": cache}
        words = ("estimate", model, "-t", "gemmini", "-O", f"dim={dim}", "--json")
        cold = archloom(*words, env=env)
        cached = archloom(*words, env=env)
    if cold.status or cached.status:
        raise SystemExit(f"archloom estimate failed at dim {dim}")
    report = cold.last_json
    if report["layers"] != cached.last_json["layers"]:
        raise SystemExit(f"the cached estimate differs from the cold one at dim {dim}")
    timed = [layer for layer in report["layers"] if layer["where"] == "accelerator"]
    too_fast = [layer["name"] for layer in timed if layer["cycles"] * peak < layer["macs"]]
    large = [layer["utilization"] for layer in timed if layer["macs"] >= LARGE_MACS]
    return {
        "dim": dim, "cycles": report["accelerator_cycles"], "ms_at_clock": report["accelerator_seconds"] * 1e3,
        "utilization": report["utilization"], "large_layer_utilization": min(large), "large_layers": len(large),
        "large_layers_above_75": sum(u > 0.75 for u in large), "layers_below_physical_limit": too_fast,
        "cold_s": cold.seconds, "cached_s": cached.seconds, "peak_gib": cold.peak_gib,
    }


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", help="an ONNX file (default: a quantized ResNet-50 of random weights)")


def main() -> None:
    args = arguments(__doc__ or "", _more)
    model = args.model or str(resnet50_int8())
    rows = [measure(model, dim, dim * dim) for dim in DIMS]
    for row in rows:
        print(f"dim {row['dim']:3}: {row['cycles']:>12,} cycles, utilization {row['utilization']:.3f} "
              f"(large layers ≥ {row['large_layer_utilization']:.3f}), cold {row['cold_s']:.2f} s, "
              f"cached {row['cached_s']:.2f} s")
    cycles = [row["cycles"] for row in rows]
    at16 = next(row for row in rows if row["dim"] == 16)
    finish(args, {
        "cycles_fall_with_dim": all(a > b for a, b in itertools.pairwise(cycles)),
        "large_layer_utilization_16": at16["large_layer_utilization"],
        "layers_below_physical_limit": sum(len(row["layers_below_physical_limit"]) for row in rows),
        "worst_cold_s": max(row["cold_s"] for row in rows), "worst_cached_s": max(row["cached_s"] for row in rows),
        "rows": rows,
    })


if __name__ == "__main__":
    main()
