"""Candidates a second of searches from empty caches, with sampler and store, and what they hold after many."""

from __future__ import annotations

import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.mapper.planner import Convolution, onnx_model
from examples import nas_space

MACHINES: Mapping[str, Sequence[int]] = {
    "dim": (4, 8, 16, 32, 64), "scratchpad_kib": (64, 96, 128, 256, 512), "accumulator_kib": (16, 32, 64, 128, 256),
    "dma_bus_bits": (64, 128), "max_in_flight": (4, 8, 16, 32)}
"""1,000 Gemminis."""
LAYERS = 4
"""Of a network whose layers are all new."""


@contextmanager
def empty_cache() -> Iterator[None]:
    before = os.environ.get("ARCHLOOM_CACHE_DIR")
    with tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        os.environ["ARCHLOOM_CACHE_DIR"] = folder
        yield
    if before is None:
        del os.environ["ARCHLOOM_CACHE_DIR"]
    else:
        os.environ["ARCHLOOM_CACHE_DIR"] = before


def timed(space: Callable[[Any], Any], objectives: str, **how: Any) -> tuple[float, Any]:
    """Seconds of a search of a grid with a store and an empty cache, and its result."""
    import archloom

    with empty_cache(), tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        start = time.perf_counter()
        result = archloom.search(space, sampler="grid", objectives=objectives, output=Path(folder) / "search",
                                 quiet=True, **how)
        return time.perf_counter() - start, result


def each(estimates: Callable[[], Sequence[Any]]) -> float:
    """Seconds of one of several estimates, together, with an empty cache."""
    with empty_cache():
        start = time.perf_counter()
        count = len(estimates())
        return (time.perf_counter() - start) / count


def figures(name: str, count: int, seconds: float, result: Any, alone: float) -> dict[str, Any]:
    """``alone``: seconds of an estimate without a search."""
    return {f"{name}_per_second": count / seconds, f"{name}_measured": result.counts["measured"],
            f"{name}_failed": result.counts["failed"], f"{name}_over_estimate_many": alone * count / seconds}


# machines -------------------------------------------------------------------------------------------------------------


def hardware(count: int, seed: int, workers: int) -> dict[str, Any]:
    """A sweep of machines for ResNet-50, as many as are asked for, drawn from all."""
    import archloom

    every = [dict(zip(MACHINES, values)) for values in itertools.product(*MACHINES.values())]
    chosen = [every[i] for i in np.random.default_rng(seed).permutation(len(every))[:count]]

    def space(trial: Any) -> Any:
        return archloom.Candidate("resnet50", "gemmini", chosen[trial.suggest_int("number", 0, len(chosen) - 1)])

    seconds, result = timed(space, "cycles,area_mm2", workers=workers)
    few = chosen[:max(2, len(chosen) // 25)]
    alone = each(lambda: archloom.estimate_many("resnet50", "gemmini", few, workers=workers))
    return figures("hardware", len(chosen), seconds, result, alone)


# networks -------------------------------------------------------------------------------------------------------------


def networks(count: int, seed: int, workers: int) -> dict[str, Any]:
    """Random networks of ``examples.nas_space`` on one machine."""
    return _of_networks("networks", _known_kinds, count, seed, workers)


def new_networks(count: int, seed: int, workers: int) -> dict[str, Any]:
    """Random networks that hardly share a layer."""
    layers = [layer for number in range(count) for layer in _drawn(seed, number)]
    return {**_of_networks("new_networks", _new_layers, count, seed, workers),
            "new_layers_share": len(set(layers)) / len(layers)}


def scaling(count: int, seed: int, workers: int) -> dict[str, Any]:
    """The networks by one and by several workers of a Dask cluster."""
    import distributed

    taken = {}
    for some in (1, workers):
        with empty_cache(), distributed.LocalCluster(
                n_workers=some, threads_per_worker=1, dashboard_address=None) as cluster:
            taken[some], _ = timed(partial(_candidate, _known_kinds, seed, count // 4), "cycles,max:macs",
                                   cluster=cluster.scheduler_address)
    return {"scaling": taken[1] / taken[workers]}


Make = Callable[[int, int], tuple[Any, float]]
"""Of a seed and a number: a network in ONNX, and its products."""


def _of_networks(name: str, make: Make, count: int, seed: int, workers: int) -> dict[str, Any]:
    import archloom

    seconds, result = timed(partial(_candidate, make, seed, count), "cycles,max:macs", workers=workers)
    few = max(2, count // 5)
    alone = each(lambda: archloom.estimate_many((make(seed, count + i)[0] for i in range(few)), "gemmini",
                                                as_int8=True, workers=workers))
    return figures(name, count, seconds, result, alone)


def _candidate(make: Make, seed: int, count: int, trial: Any) -> Any:
    import archloom

    number = trial.suggest_int("number", 0, count - 1)
    return archloom.Candidate(partial(_network, make, seed, number), "gemmini",
                              figures={"macs": partial(_macs, make, seed, number)}, as_int8=True)


def _network(make: Make, seed: int, number: int) -> Any:
    return make(seed, number)[0]


def _macs(make: Make, seed: int, number: int) -> float:
    """What stands here for an accuracy."""
    return make(seed, number)[1]


def _known_kinds(seed: int, number: int) -> tuple[Any, float]:
    found = nas_space.draw(np.random.default_rng([seed, number]))
    return nas_space.onnx_model(found), float(sum(b.hidden * (b.inputs + b.outputs + b.kernel**2)
                                                  for b in found.blocks()))


def _new_layers(seed: int, number: int) -> tuple[Any, float]:
    network = _drawn(seed, number)
    return onnx_model(network), float(sum(layer.workload().macs for layer in network))


def _drawn(seed: int, number: int) -> tuple[Convolution, ...]:
    """A network of convolutions: 505 widths, five kinds, any size of images from 16 to 112."""
    rng = np.random.default_rng([seed, number])
    side, inputs, found = int(rng.integers(16, 113)), 3, list[Convolution]()
    for _ in range(LAYERS):
        kernel, stride, outputs = int(rng.choice((1, 3, 5))), int(rng.choice((1, 2))), int(rng.integers(8, 513))
        found.append(Convolution(side, inputs, outputs, kernel, stride))
        side, inputs = (side - 1) // stride + 1, outputs
    return tuple(found)


# memory ---------------------------------------------------------------------------------------------------------------


def memory(count: int, seed: int) -> dict[str, Any]:
    """Small products on four machines, most of which are new."""
    import archloom

    def space(trial: Any) -> Any:
        k, dim = trial.suggest_int("k", 1, count), trial.suggest_categorical("dim", [4, 8, 16, 32])
        return archloom.Candidate(f"gemm(m={1 + k % 7},n={8 + k % 13},k={k})", "gemmini", {"dim": dim})

    return _held("memory", space, count, seed, "cycles,area_mm2")


def network_memory(count: int, seed: int) -> dict[str, Any]:
    """Random networks of ``examples.nas_space``, which share their layers."""
    return _held("network_memory", partial(_candidate, _known_kinds, seed, count), count, seed, "cycles,max:macs")


def _held(name: str, space: Callable[[Any], Any], count: int, seed: int, objectives: str) -> dict[str, Any]:
    """A search in this process: MiB that it held after the first thousand candidates, the most and the least after
    that over it, and MiB in steps of as many; and the files of its cache."""
    from archloom.tvm_backend.search.searching import search  # whose progress is heard

    held: list[tuple[int, float]] = []

    def heard(_: str, done: int, __: int) -> None:
        held.append((done, resident_mib()))

    with empty_cache(), tempfile.TemporaryDirectory(prefix="archloom-search-") as folder:
        search(space, trials=count, sampler="pymoo", seed=seed, objectives=objectives, bounds=False,
               output=Path(folder) / "search", progress=heard)
        files = sum(path.is_file() for path in Path(os.environ["ARCHLOOM_CACHE_DIR"]).rglob("*"))
    step = min(1000, count // 4)
    after = [mib for done, mib in held if done >= step]
    steps = [round(next(mib for done, mib in held if done >= at)) for at in range(step, held[-1][0], step)]
    return {f"{name}_mib": after[0], f"{name}_most": max(after) / after[0], f"{name}_least": min(after) / after[0],
            f"{name}_candidates": count, f"{name}_steps": steps, "cache_files": files}


def resident_mib() -> float:
    """What this process holds in memory."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
