"""Estimates for network search on Gemmini: two networks cold and warm, and many random networks on all cores.

Cold is a fresh process with an empty cache, imports included; warm is the same call again in that process. The many are
drawn from ``examples.nas_space`` (ImageNet size, float, estimated as if quantized); building them is part of the
time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import ROOT, arguments, child, finish, network_int8, resnet50_int8

COLD_S, WARM_MS, SEARCH_S = 3.0, 50.0, 60.0
"""Targets: for one network, and for 1,000 networks on two cores."""

SINGLE = """
import json, sys, time
import resource
def cpu():
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)
start, spent = time.perf_counter(), cpu()
import archloom
report = archloom.estimate(sys.argv[1])
cold, cold_cpu = time.perf_counter() - start, cpu() - spent
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
                    {"ARCHLOOM_CACHE_DIR": cache, "PYTHONPATH": str(ROOT / "src")})
    if run.status:
        raise SystemExit(f"the estimate of {model} failed")
    result: dict[str, Any] = json.loads(run.stdout.strip().splitlines()[-1])
    return result


def many(count: int, workers: int | None, seed: int) -> dict[str, Any]:
    """``count`` random networks, from an empty cache."""
    import numpy as np

    import archloom
    from archloom.mapper import disk
    from archloom.mapper.cache import PLANS
    from examples import nas_space

    rng = np.random.default_rng(seed)
    drawn = [nas_space.draw(rng) for _ in range(count)]
    with tempfile.TemporaryDirectory() as cache:
        os.environ["ARCHLOOM_CACHE_DIR"] = cache
        start, spent = time.perf_counter(), cpu_seconds()
        reports = archloom.estimate_many(map(nas_space.onnx_model, drawn), as_int8=True, workers=workers)
        seconds, cpu = time.perf_counter() - start, cpu_seconds() - spent
        plans = next(kind.results for kind in disk.kinds() if kind.name == PLANS)
    for report in reports:
        if isinstance(report, archloom.ArchloomError):
            raise report
    cycles = [report.cycles for report in reports]
    return {"networks": count, "seconds": seconds, "cpu_s": cpu, "ms_per_network": 1e3 * seconds / count,
            "s_per_1000": 1e3 * seconds / count,
            "distinct_kernels": plans, "least_cycles": min(cycles), "most_cycles": max(cycles),
            "cores": len(os.sched_getaffinity(0))}


def cpu_seconds() -> float:
    """Processor time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(u.ru_utime + u.ru_stime for u in used)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=1000, help="random networks (default 1000)")
    parser.add_argument("--workers", type=int, help="processes (default: one for each core)")


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    rows = {}
    for name, path in (("resnet50", resnet50_int8()), ("bert_base", network_int8("bert_base"))):
        rows[name] = row = single(str(path))
        print(f"{name}: cold {row['cold_s']:.2f} s (target {COLD_S:g}), {row['cold_cpu_s']:.2f} s of processor time; "
              f"warm {row['warm_ms']:.1f} ms (target {WARM_MS:g})", flush=True)
    search = many(args.count, args.workers, args.seed)
    due = SEARCH_S * search["networks"] / 1000
    print(f"{search['networks']} networks in {search['seconds']:.1f} s on {search['cores']} cores (target {due:.0f} s "
          f"on 2), {search['cpu_s']:.1f} s of processor time, {search['distinct_kernels']} distinct kernels")
    finish(args, {**rows, "search": search})


if __name__ == "__main__":
    main()
