"""Searches: candidates a second, what bounds save, what samplers find, and what is left after kills.

``hardware``: a sweep of 1,000 Gemminis for ResNet-50, and ``networks``: 1,000 random networks of ``examples.nas_space``
on one Gemmini, by two processes from empty caches, sampler and store included; beside them ``estimate_many``, which has
neither bounds nor a store. ``scaling``: the networks by two Dask workers over one. ``fronts``: spaces of networks and
machines of which every point is simulated, beside the search that leaves out what bounds rule out. ``samplers``: the
hypervolume after 300 candidates of the first of those spaces over that of random search, ten seeds. ``faults``: the
main process is killed at random times until the search is done, and its result compared with one that was left alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import ROOT, arguments, finish

WORKERS = 2
MACHINES: Mapping[str, Sequence[int]] = {
    "dim": (4, 8, 16, 32, 64), "scratchpad_kib": (64, 96, 128, 256, 512), "accumulator_kib": (16, 32, 64, 128, 256),
    "dma_bus_bits": (64, 128), "max_in_flight": (4, 8, 16, 32)}
"""1,000 Gemminis."""
SPACES: Mapping[str, tuple[Mapping[str, Sequence[int]], str, Mapping[str, Sequence[int]], str]] = {
    "products": ({"m": (1, 16, 64, 256), "n": (64, 256, 1024), "k": (64, 256, 1024)}, "gemmini",
                 {"dim": (4, 8, 16, 32), "scratchpad_kib": (64, 128, 256, 512), "dma_bus_bits": (64, 128, 256, 512)},
                 "cycles,area_mm2,max:macs"),
    "convolutions": ({"h": (7, 14, 28), "c": (16, 64, 256), "o": (16, 64, 256), "k": (1, 3)}, "gemmini",
                     {"dim": (4, 8, 16, 32), "scratchpad_kib": (64, 128, 256), "accumulator_kib": (16, 32, 64, 128)},
                     "cycles,area_mm2,max:macs"),
    "arrays": ({"m": (1, 16, 64, 256), "n": (16, 64, 256), "k": (16, 64, 256)}, "systolic_array",
               {"rows": (4, 8, 16, 32), "columns": (4, 8, 16, 32), "left_kib": (16, 64, 256), "top_kib": (16, 64)},
               "cycles,area_mm2,max:macs"),
    "matrix units": ({"m": (1, 64, 256), "n": (64, 256, 1024), "k": (64, 256, 1024)}, "tpu_v1",
                     {"dim": (16, 32, 64, 128), "unified_buffer_kib": (256, 1024, 4096), "weight_bytes": (16, 46, 128),
                      "accumulator_kib": (64, 256)}, "cycles,area_mm2,max:macs"),
    "vectors": ({"m": (16, 64, 128), "n": (64, 128, 256), "k": (64, 128, 256)}, "qkv",
                  {"dim": (8, 16, 32), "operand_rows": (256, 512, 1024), "sum_rows": (256, 1024),
                   "bus_bytes": (16, 32, 64)}, "cycles,area_mm2,max:macs"),
}
"""Sizes of an operator, a target, its options and the objectives: 1,458 to 3,456 points each."""
SAMPLERS = ("tpe", "nsga2", "gp", "cmaes", "qmc", "pymoo")
TRIALS, SEEDS, KILLS = 300, 10, 50
LEAST, MOST = np.array([0.0, -4.0, -12.0]), np.array([9.0, 3.0, 0.0])
"""Corners of the box for hypervolumes: powers of ten of cycles, mm2 and products, of which more are better."""


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    found: dict[str, Any] = {}
    for name in args.tasks.split(","):
        with empty_cache():
            found |= TASKS[name](args)
        print(json.dumps(found), flush=True)
    finish(args, found)


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--tasks", default=",".join(TASKS), help=f"some of {', '.join(TASKS)} (default: all)")
    parser.add_argument("--count", type=int, default=1000, help="candidates of speeds (default 1,000)")
    parser.add_argument("--spaces", type=int, default=len(SPACES), help="the first so many (default: all)")


@contextmanager
def empty_cache() -> Iterator[None]:
    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        os.environ["ARCHLOOM_CACHE_DIR"] = folder
        yield


# speed ----------------------------------------------------------------------------------------------------------------


def hardware(args: argparse.Namespace) -> dict[str, Any]:
    """A sweep of machines, as many as are asked for, drawn from all."""
    import archloom

    every = [dict(zip(MACHINES, values)) for values in itertools.product(*MACHINES.values())]
    chosen = [every[i] for i in np.random.default_rng(args.seed).permutation(len(every))[:args.count]]

    def space(trial: Any) -> Any:
        return archloom.Candidate("resnet50", "gemmini", chosen[trial.suggest_int("number", 0, len(chosen) - 1)])

    seconds, result = timed(space, "cycles,area_mm2")
    few = chosen[:max(2, len(chosen) // 25)]
    with empty_cache():
        start = time.perf_counter()
        archloom.estimate_many("resnet50", "gemmini", few)
        each = (time.perf_counter() - start) / len(few)
    return {"hardware_per_second": len(chosen) / seconds, "hardware_measured": result.counts["measured"],
            "hardware_failed": result.counts["failed"], "hardware_over_estimate_many": each * len(chosen) / seconds}


def networks(args: argparse.Namespace) -> dict[str, Any]:
    """Random networks on one machine."""
    import archloom
    from examples import nas_space

    seconds, result = timed(partial(_network, args.seed, args.count), "cycles,max:macs")
    rng = np.random.default_rng(args.seed)
    few = [nas_space.draw(rng) for _ in range(max(2, args.count // 5))]
    with empty_cache():
        start = time.perf_counter()
        archloom.estimate_many(map(nas_space.onnx_model, few), "gemmini", as_int8=True)
        each = (time.perf_counter() - start) / len(few)
    return {"networks_per_second": args.count / seconds, "networks_measured": result.counts["measured"],
            "networks_failed": result.counts["failed"], "networks_over_estimate_many": each * args.count / seconds}


def scaling(args: argparse.Namespace) -> dict[str, Any]:
    """The networks by one and by two workers of a Dask cluster."""
    import distributed

    taken = {}
    for workers in (1, WORKERS):
        with empty_cache(), distributed.LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster:
            taken[workers], _ = timed(partial(_network, args.seed, args.count // 4), "cycles,max:macs",
                                      cluster=cluster.scheduler_address)
    return {"scaling": taken[1] / taken[WORKERS]}


def timed(space: Callable[[Any], Any], objectives: str, **how: Any) -> tuple[float, Any]:
    """Seconds of a search of a grid with a store, and its result."""
    import archloom

    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        start = time.perf_counter()
        result = archloom.search(space, sampler="grid", objectives=objectives, output=Path(folder) / "search",
                                 quiet=True, **{"workers": WORKERS, **({"workers": 1} if how else {}), **how})
        return time.perf_counter() - start, result


def _network(seed: int, count: int, trial: Any) -> Any:
    import archloom

    number = trial.suggest_int("number", 0, count - 1)
    return archloom.Candidate(partial(_model, seed, number), "gemmini", figures={"macs": partial(_macs, seed, number)},
                              as_int8=True)


def _architecture(seed: int, number: int) -> Any:
    from examples import nas_space

    return nas_space.draw(np.random.default_rng([seed, number]))


def _model(seed: int, number: int) -> Any:
    from examples import nas_space

    return nas_space.onnx_model(_architecture(seed, number))


def _macs(seed: int, number: int) -> float:
    """What stands here for an accuracy."""
    found = _architecture(seed, number)
    return float(sum(b.hidden * (b.inputs + b.outputs + b.kernel**2) for b in found.blocks()))


# quality --------------------------------------------------------------------------------------------------------------


def fronts(args: argparse.Namespace) -> dict[str, Any]:
    """Of each space the front with bounds and without, and the share that is simulated with them."""
    import archloom

    rows = []
    for name in list(SPACES)[:args.spaces]:
        found = [archloom.search(partial(point, name), sampler="grid", objectives=SPACES[name][3], workers=WORKERS,
                                 bounds=bounds, quiet=True) for bounds in (True, False)]
        points = sum(found[1].counts.values())
        rows.append({"space": name, "points": points, "equal": _front(found[0]) == _front(found[1]),
                     "front": len(found[1].front), "simulated": found[0].counts["measured"] / points,
                     "failed": found[1].counts["failed"]})
    return {"fronts": rows, "fronts_equal": sum(row["equal"] for row in rows) / len(rows),
            "simulated_share": max(row["simulated"] for row in rows)}


def point(name: str, trial: Any) -> Any:
    """A candidate of a space."""
    import archloom

    sizes, target, options, _ = SPACES[name]
    chosen = {size: trial.suggest_categorical(size, values) for size, values in sizes.items()}
    operator = ("gemm(m={m},n={n},k={k})" if "m" in sizes else "conv2d(h={h},w={h},c={c},o={o},k={k})").format(**chosen)
    machine = {option: trial.suggest_categorical(option, values) for option, values in options.items()}
    return archloom.Candidate(operator, target, machine, figures={"macs": float(np.prod([*chosen.values()]))})


def _front(result: Any) -> set[tuple[float, ...]]:
    return {row.values for row in result.front}


def samplers(args: argparse.Namespace) -> dict[str, Any]:
    """Hypervolumes over that of random search, medians over the seeds; and seconds for each candidate."""
    import archloom

    name = next(iter(SPACES))
    volumes: dict[str, list[float]] = {}
    seconds: dict[str, float] = {}
    for sampler in ("random", *SAMPLERS):
        start = time.perf_counter()
        results = [archloom.search(partial(point, name), trials=TRIALS, sampler=sampler, seed=args.seed + seed,
                                   objectives=SPACES[name][3], quiet=True) for seed in range(SEEDS)]
        seconds[sampler] = (time.perf_counter() - start) / SEEDS / TRIALS
        volumes[sampler] = [dominated(result) for result in results]
    return {"sampler_seconds": seconds, "hypervolumes": {
        sampler: statistics.median(np.divide(found, volumes["random"])) for sampler, found in volumes.items()}}


def dominated(result: Any) -> float:
    """The share of a box of the objectives' logarithms, the same for all searches, that the front dominates."""
    from archloom.tvm_backend.search.front import Front

    front = Front(len(LEAST))
    for row in result.front:
        front.add(row.key, np.array([1, 1, -1]) * np.log10(row.values))
    return front.hypervolume((LEAST, MOST))


# faults ---------------------------------------------------------------------------------------------------------------

SPACE = """
from functools import partial
import archloom
def network(k):
    return f"gemm(m=32,n=64,k={k})"
def space(trial):
    return archloom.Candidate(partial(network, trial.suggest_int("k", 1, 300)), "gemmini",
                              {"dim": trial.suggest_categorical("dim", [4, 8, 16, 32])})
"""


def faults(args: argparse.Namespace) -> dict[str, Any]:
    """Searches by two processes that are killed until one comes to its end, and one that is left alone."""
    rng, kills = np.random.default_rng(args.seed), 0
    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        (Path(folder) / "space.py").write_text(SPACE)

        def command(name: str) -> list[str]:
            return [sys.executable, "-m", "archloom.tvm_backend.cli", "search", f"{folder}/space.py", "-q", "--sampler",
                    "grid", "--objective", "cycles,area_mm2", "--workers", str(WORKERS), "-o", f"{folder}/{name}"]

        env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        subprocess.run(command("whole"), check=True, env=env, stdout=subprocess.DEVNULL)
        while kills < KILLS:
            with subprocess.Popen(command("killed"), env=env, stdout=subprocess.DEVNULL) as process:
                time.sleep(float(rng.uniform(1, 6)))
                if process.poll() is not None:
                    break
                process.send_signal(signal.SIGKILL)
                kills += 1
        subprocess.run(command("killed"), check=True, env=env, stdout=subprocess.DEVNULL)
        import archloom

        whole, killed = (archloom.read_search(f"{folder}/{name}") for name in ("whole", "killed"))
        return {"kills": kills, "resumed_equal": _front(whole) == _front(killed) and
                sum(whole.counts.values()) == sum(killed.counts.values())}


TASKS: Mapping[str, Callable[[argparse.Namespace], dict[str, Any]]] = {
    "hardware": hardware, "networks": networks, "scaling": scaling, "fronts": fronts, "samplers": samplers,
    "faults": faults}


if __name__ == "__main__":
    main()
