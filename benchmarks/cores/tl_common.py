"""What the benchmarks of the TL paper share: its recorded figures, means of ratios, and rank correlations."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.common import ROOT, refuse

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph

DATA = ROOT / "benchmarks" / "data"
NAME = "tl_reference.json"


def data(parser: argparse.ArgumentParser) -> None:
    """Adds ``--data``."""
    parser.add_argument("--data", type=Path, default=DATA, help=f"the folder of {NAME}")


def reference(folder: Path) -> Any:
    """The figures of the paper."""
    path = folder / NAME if folder.is_dir() else folder
    if not path.is_file():
        refuse(f"{path} is missing: --data must be the folder of {NAME}")
    return json.loads(path.read_text())


def geometric_mean(values: Iterable[float]) -> float:
    """Of positive values."""
    found = list(values)
    return math.exp(sum(map(math.log, found)) / len(found))


def times(ours: float, theirs: float, launch: int) -> tuple[float, float]:
    """How many times as long theirs takes, and the same without the launch of the cores, which both have once."""
    return theirs / ours, (theirs - launch) / (ours - launch)


def sampled(parser: argparse.ArgumentParser) -> None:
    """Adds ``--samples``."""
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"candidates that are simulated ({SAMPLES})")


def spearman(a: np.ndarray, b: np.ndarray) -> float:
    """Correlation of the ranks, equal values having their mean rank."""
    ranks = []
    for values in (a, b):
        _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
        ends = np.cumsum(counts)
        ranks.append((ends - (counts - 1) / 2)[inverse])
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "mesh 2x2": ("mesh", {"x": 2, "y": 2}), "mesh 4x1": ("mesh", {"x": 1, "y": 4}),
    "mesh 1x8": ("mesh", {"x": 8, "y": 1}),
    "mesh 4x4": ("mesh", {"x": 4, "y": 4}),
    "mesh 4x4, small L1": ("mesh", {"x": 4, "y": 4, "sums": 12, "stats": 32, "l1_bytes": 1 << 17}),
    "mesh 4x4, narrow ports": ("mesh", {"x": 4, "y": 4, "l1_bytes_per_cycle": 40}),
    "mesh 4x4, narrow memory": ("mesh", {"x": 4, "y": 4, "dram_bytes_per_cycle": 32}),
    "mesh 3x4, no torus": ("mesh", {"x": 4, "y": 3, "torus": False}), "mesh 8x8": ("mesh", {"x": 8, "y": 8}),
    "triple ring": ("triple_ring", {}), "triple ring of 8": ("triple_ring", {"columns": 8}),
    "triple ring of 16 x 4": ("triple_ring", {"columns": 16, "rows": 4, "memories": 1}),
}
"""Machines other than Wormhole: the graph and its options."""


def other(machine: str) -> "ArchitectureGraph":
    """The graph of one of ``OTHERS``."""
    from archloom.acadl_models.mesh import mesh
    from archloom.acadl_models.triple_ring import triple_ring

    kind, options = OTHERS[machine]
    return mesh(**options) if kind == "mesh" else triple_ring(**options)


SAMPLES, RANGE = 100, 8
"""Candidates of a workload that are simulated for a rank correlation, and how far from the best estimate they lie."""


def drawn(estimated: np.ndarray, seed: int, allowed: np.ndarray | None = None, samples: int = SAMPLES) -> np.ndarray:
    """Candidates for a rank correlation: of those that are ``allowed`` (all), up to ``RANGE`` times the best estimate,
    the ranking is cut into ``samples`` equal parts and one of each is drawn."""
    order = np.argsort(estimated, kind="stable")
    if allowed is not None:
        order = order[allowed[order]]
    order = order[estimated[order] <= RANGE * estimated[order[0]]]
    edges = np.linspace(0, len(order), min(samples, len(order)) + 1).astype(int)
    return order[np.random.default_rng(seed).integers(edges[:-1], edges[1:])]


def ranking(
    estimated: np.ndarray, simulated: Callable[[int], int], seed: int, allowed: np.ndarray | None = None,
    samples: int = SAMPLES,
) -> tuple[float, float]:
    """Rank correlation of estimates (cycles) with the simulation, and mean error of the estimates, of candidates as
    :func:`drawn`; ValueError where there are fewer than three."""
    chosen = drawn(estimated, seed, allowed, samples)
    if len(chosen) < 3:
        raise ValueError(f"expected three candidates or more to rank, found {len(chosen)}")
    real = np.array([simulated(i) for i in chosen.tolist()])
    return spearman(estimated[chosen], real), float(np.abs(estimated[chosen] / real - 1).mean())


def ranked(work: Any, graph: "ArchitectureGraph", seed: int, samples: int = SAMPLES) -> tuple[float, float]:
    """:func:`ranking` of the space of a workload on a machine of cores."""
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.workloads import emitted, kind_of

    kind, machine = kind_of(work), Machine.of(graph)
    found = kind.space(work, machine, None)
    return ranking(kind.cycles(work, machine, found),
                   lambda i: simulated(emitted(work, found.plan(i), machine), graph).cycles, seed, None, samples)


def on_others(works: dict[str, Any], seed: int, samples: int = SAMPLES) -> dict[str, float]:
    """Rank correlation of each workload on each of ``OTHERS`` on which it fits; printed as they come."""
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.workloads import kind_of

    found = {}
    for machine in OTHERS:
        graph = other(machine)
        for name, work in works.items():
            if len(kind_of(work).space(work, Machine.of(graph), None)):
                found[f"{machine}: {name}"] = value = ranked(work, graph, seed, samples)[0]
                print(f"rank correlation, {machine}: {name}: {value:.4f}", flush=True)
    return found
