"""Estimates for network search on Gemmini: one network cold and warm, and many random networks on all cores.

Cold is a fresh process with an empty cache, imports included; warm is the same call again in that process. The many are
drawn from ``models.nas_space`` (ImageNet size, float, estimated as if quantized); building them is part of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from typing import Any

from common import arguments, child, finish, resnet50_int8

SINGLE = """
import json, sys, time
start, cpu = time.perf_counter(), time.process_time()
import archloom
report = archloom.estimate(sys.argv[1])
cold, cold_cpu = time.perf_counter() - start, time.process_time() - cpu
warm = []
for _ in range(9):
    start = time.perf_counter()
    again = archloom.estimate(sys.argv[1])
    warm.append(time.perf_counter() - start)
assert again == report
print(json.dumps({"cold_s": cold, "cold_cpu_s": cold_cpu, "warm_ms": 1e3 * sorted(warm)[4], "cycles": report.cycles}))
"""


def single(model: str) -> dict[str, Any]:
    """Cold and warm estimate of one network in a process of its own."""
    with tempfile.TemporaryDirectory() as cache:
        run = child([sys.executable, "-c", SINGLE, model],
                    {"ARCHLOOM_CACHE_DIR": cache, "PYTHONPATH": os.getcwd()})
    if run.status:
        raise SystemExit(f"the estimate of {model} failed")
    result: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return result


def many(count: int, workers: int | None, seed: int = 0) -> dict[str, Any]:
    """``count`` random networks, from an empty cache."""
    import numpy as np

    import archloom
    from models import nas_space

    rng = np.random.default_rng(seed)
    drawn = [nas_space.draw(rng) for _ in range(count)]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ARCHLOOM_CACHE_DIR"] = cache
        start = time.perf_counter()
        reports = archloom.estimate_many(map(nas_space.onnx_model, drawn), as_int8=True, workers=workers)
        seconds = time.perf_counter() - start
        plans = sum(1 for name in os.listdir(os.path.join(cache, "plans")) if name.endswith(".json"))
    cycles = [report.cycles for report in reports if not isinstance(report, archloom.ArchloomError)]
    return {"networks": count, "seconds": seconds, "ms_per_network": 1e3 * seconds / count, "distinct_kernels": plans,
            "least_cycles": min(cycles), "most_cycles": max(cycles), "cores": len(os.sched_getaffinity(0))}


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=1000, help="random networks (default 1000)")
    parser.add_argument("--workers", type=int, help="processes (default: one for each core)")


def main() -> None:
    args = arguments(__doc__ or "", _more)
    resnet = single(str(resnet50_int8()))
    print(f"ResNet-50: cold {resnet['cold_s']:.2f} s ({resnet['cold_cpu_s']:.2f} s of processor time), "
          f"warm {resnet['warm_ms']:.1f} ms")
    search = many(args.count, args.workers)
    print(f"{search['networks']} networks in {search['seconds']:.1f} s on {search['cores']} cores, "
          f"{search['distinct_kernels']} distinct kernels")
    finish(args, {"resnet50": resnet, "search": search})


if __name__ == "__main__":
    main()
