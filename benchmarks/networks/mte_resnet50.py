"""``archloom estimate resnet50 -t mte`` on each of MTE's architectures, float32, in whole processes: cold, and cached.

A cold one has an empty folder for its caches, the cached one behind it what that kept. Seconds are medians of the wall
time of processes, Python's start included; processor seconds stand beside, which a busy machine lengthens less.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.mte import ARCHITECTURES
from benchmarks.common import Child, archloom, arguments, finish, refuse


def run(network: str, architecture: str, folder: str) -> Child:
    """One estimate in a process of its own; ends the benchmark where it fails."""
    found = archloom("estimate", network, "-t", "mte", "-O", f"architecture={architecture}", "--json",
                     env={"ARCHLOOM_CACHE_DIR": folder})
    if found.status:
        refuse(f"archloom estimate {network} on {architecture} ended with status {found.status}")
    return found


def measured(network: str, architecture: str, rounds: int) -> dict[str, Any]:
    """Medians of ``rounds`` cold and cached ones; refuses estimates that differ."""
    seconds: dict[str, list[float]] = {key: [] for key in ("cold_s", "cold_cpu_s", "cached_s", "cached_cpu_s")}
    cycles = set()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for key in ("cold", "cached"):
                found = run(network, architecture, folder)
                seconds[f"{key}_s"].append(found.seconds)
                seconds[f"{key}_cpu_s"].append(found.cpu_seconds)
                cycles.add(found.last_json["accelerator_cycles"])
    if len(cycles) != 1:
        refuse(f"{architecture}: expected the same cycles each time, found {sorted(cycles)}")
    return {"cycles": cycles.pop(), **{key: statistics.median(values) for key, values in seconds.items()}}


def more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--network", default="resnet50", help="by name (default: resnet50)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default: 3)")
    parser.add_argument("--only", choices=list(ARCHITECTURES), help="one architecture (default: all)")


def main() -> None:
    args = arguments(__doc__ or "", more)
    rows = {}
    for name in [args.only] if args.only else ARCHITECTURES:
        rows[name] = row = measured(args.network, name, args.rounds)
        print(f"{name:12} cold {row['cold_s']:6.2f} s ({row['cold_cpu_s']:.2f} of processors), cached "
              f"{row['cached_s']:5.2f} s ({row['cached_cpu_s']:.2f})", flush=True)
    finish(args, {"architectures": rows, **{f"worst_{key}": max(row[key] for row in rows.values()) for key in (
        "cold_s", "cold_cpu_s", "cached_s", "cached_cpu_s")}})


if __name__ == "__main__":
    main()
