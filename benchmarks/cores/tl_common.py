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


def ranking(
    estimated: np.ndarray, simulated: Callable[[int], int], samples: int, allowed: np.ndarray | None = None,
) -> tuple[float, float]:
    """Rank correlation of estimates (cycles) with the simulation, and mean error of the estimates.

    Candidates are taken at even distances of the ranking, up to eight times the best estimate, of those that are
    ``allowed`` (all); the correlation of fewer than three is 1.
    """
    order = np.argsort(estimated, kind="stable")
    if allowed is not None:
        order = order[allowed[order]]
    order = order[estimated[order] <= 8 * estimated[order[0]]]
    chosen = order[np.unique(np.linspace(0, len(order) - 1, samples).astype(int))]
    real = np.array([simulated(i) for i in chosen.tolist()])
    correlation = spearman(estimated[chosen], real) if len(chosen) > 2 else 1.0
    return correlation, float(np.abs(estimated[chosen] / real - 1).mean())


def ranked(work: Any, graph: "ArchitectureGraph", samples: int) -> tuple[float, float]:
    """:func:`ranking` of the space of a workload on a machine of cores."""
    from archloom.mapper.spatial.machine import Machine
    from archloom.mapper.spatial.timing import simulated
    from archloom.mapper.spatial.workloads import emitted, kind_of

    kind, machine = kind_of(work), Machine.of(graph)
    found = kind.space(work, machine, None)
    return ranking(kind.cycles(work, machine, found),
                   lambda i: simulated(emitted(work, found.plan(i), machine), graph).cycles, samples)


def on_others(works: dict[str, Any], samples: int) -> dict[str, float]:
    """Rank correlation of each workload on each of ``OTHERS`` on which it fits; printed as they come."""
    from archloom.mapper.spatial.machine import Machine
    from archloom.mapper.spatial.workloads import kind_of

    found = {}
    for machine in OTHERS:
        graph = other(machine)
        for name, work in works.items():
            if len(kind_of(work).space(work, Machine.of(graph), None)):
                found[f"{machine}: {name}"] = value = ranked(work, graph, samples)[0]
                print(f"rank correlation, {machine}: {name}: {value:.4f}", flush=True)
    return found
