"""How good the cost model and the search of plans of products over cores are (``mapper/spatial``), on Wormhole.

Rank correlation (Spearman) of the model with the simulation, for products of every benchmark: of table 1 (within its
own rules), of figures 5 and 6, of ``mapper.py``, and others of odd sizes on meshes of odd shapes. Candidates are drawn
from the whole ranking up to eight times the best estimate (``tl_common.drawn``); those of more than 40,000 products of
blocks are left out, as they take long to simulate (and are bad).

The same for products on other machines: small meshes, rows and columns of cores, small memories, narrow ports, no
torus, and the triple ring (``OTHERS``).

Small products on few cores: every plan is simulated, and the plan that the search chooses is compared with the best of
all, with and without the cycles of the launch, which all plans share. Products of which the search has simulated all
plans itself are left out of that (``searched_whole``).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.cores.tl_common import OTHERS, other, ranking, sampled

if TYPE_CHECKING:
    from archloom.acadl_models.acadl import ArchitectureGraph
    from archloom.mapper.spatial.space import Rules

Mesh = tuple[int, int]
Shape = tuple[int, int, int]

RANKED: dict[str, tuple[tuple[Mesh, Shape], ...]] = {
    "table 1": tuple(((8, 8), (size, size, size)) for size in (1024, 2048, 4096, 5120, 6144)),
    "figure 5": (
        ((1, 8), (256, 256, 4096)), ((1, 8), (2048, 2048, 512)), ((1, 8), (16384, 1024, 1024)),
        ((4, 8), (1024, 256, 2048)), ((4, 8), (8192, 1024, 512)), ((4, 8), (16384, 8192, 256)),
        ((8, 8), (512, 256, 4096)), ((8, 8), (2048, 2048, 256)), ((8, 8), (16384, 256, 1024)),
        ((8, 8), (8192, 4096, 2048)),
    ),
    "figure 6": (((8, 8), (32768, 32768, 256)), ((8, 8), (32768, 768, 32768))),
    "mapper.py": tuple(
        (mesh, shape) for mesh in ((1, 8), (4, 8), (8, 8))
        for shape in ((1024, 1024, 1024), (4096, 512, 256), (512, 512, 2048))),
    "others": (
        ((8, 8), (300, 700, 900)), ((8, 8), (1000, 40, 3000)), ((4, 8), (33, 5000, 70)), ((2, 4), (640, 352, 480)),
        ((3, 5), (777, 555, 333)), ((6, 2), (96, 2000, 1000)), ((1, 1), (256, 320, 512)), ((4, 4), (1024, 1024, 32)),
        ((8, 8), (450, 1100, 650)), ((7, 3), (1234, 321, 800)), ((2, 8), (70, 900, 2100)), ((5, 5), (2000, 2000, 130)),
        ((8, 4), (32, 32, 8192)), ((8, 8), (1536, 100, 1536)),
    ),
}

SMALL: tuple[tuple[Mesh, tuple[int, int, int]], ...] = (
    ((1, 1), (3, 4, 5)), ((1, 1), (4, 4, 8)), ((1, 1), (9, 5, 2)), ((1, 2), (2, 3, 4)), ((1, 2), (5, 3, 2)),
    ((1, 2), (1, 8, 6)), ((1, 2), (7, 7, 1)), ((1, 2), (4, 4, 8)), ((1, 3), (3, 3, 3)), ((1, 3), (2, 9, 4)),
    ((1, 4), (4, 8, 2)), ((1, 4), (2, 2, 8)), ((1, 4), (8, 1, 5)), ((1, 4), (3, 6, 4)), ((1, 5), (5, 5, 2)),
    ((2, 2), (2, 2, 4)), ((2, 2), (3, 3, 2)), ((2, 2), (3, 7, 1)), ((2, 2), (4, 4, 2)), ((2, 2), (1, 4, 16)),
    ((2, 3), (4, 3, 2)), ((2, 3), (2, 6, 3)), ((2, 4), (2, 4, 4)), ((2, 4), (4, 4, 2)),
)
"""Extents in tiles."""

OTHER_SHAPES: tuple[Shape, ...] = (
    (512, 512, 512), (1024, 256, 2048), (200, 700, 300), (2048, 64, 512), (4096, 1024, 256))

MOST_PRODUCTS = 40_000


def main() -> None:
    args = arguments(__doc__ or "", _options, seeded=True)
    with ProcessPoolExecutor(args.jobs) as pool:
        correlations = dict(_correlations(args, pool))
        others = dict(_on_others(args, pool))
        chosen = [] if args.ranks_only else list(_told(pool.map(_against_all, *zip(*SMALL))))
    by_group = {group: min(v for name, v in correlations.items() if name.startswith(group)) for group in RANKED}
    finish(args, {
        "least_correlation": min(correlations.values()), "mean_correlation": _mean(correlations),
        "least_on_others": min(others.values()), "mean_on_others": _mean(others),
        **{f"least of {g}": v for g, v in by_group.items()},
        **_quality(chosen), "correlations": correlations, "others": others, "exhaustive": chosen,
    })


def _options(parser: argparse.ArgumentParser) -> None:
    sampled(parser)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--ranks-only", action="store_true", help="rank correlations alone")


def _mean(found: dict[str, float]) -> float:
    return sum(found.values()) / len(found)


def _quality(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Chosen plans over the best, of the products whose plans the search has not all simulated."""
    chosen = [r for r in rows if r["simulated"] < r["plans"]]
    if not chosen:
        return {}
    return {
        "worst_choice": max(r["chosen"] / r["best"] for r in chosen), "searched_whole": len(rows) - len(chosen),
        "worst_choice_without_launch": max(r["without_launch"] for r in chosen), "compared": len(chosen),
        "mean_choice": sum(r["chosen"] / r["best"] for r in chosen) / len(chosen),
        "mean_choice_without_launch": sum(r["without_launch"] for r in chosen) / len(chosen),
        "best_chosen": sum(r["chosen"] == r["best"] for r in chosen) / len(chosen),
    }


def _rules(group: str) -> "Rules":
    from archloom.mapper.spatial.space import EVERYTHING
    from benchmarks.cores.templates import PAPER

    return PAPER if group == "table 1" else EVERYTHING


def _correlations(args: argparse.Namespace, pool: ProcessPoolExecutor) -> Iterator[tuple[str, float]]:
    cases = [(group, mesh, shape, args.seed, args.samples) for group, found in RANKED.items() for mesh, shape in found]
    for (group, mesh, shape, *_), (found, error) in zip(cases, pool.map(_correlation, *zip(*cases))):
        name = f"{group}: {mesh[0]}x{mesh[1]} {'x'.join(map(str, shape))}"
        print(f"rank correlation, {name}: {found:.4f} (mean error of the model {100 * error:.1f} %)", flush=True)
        yield name, found


def _correlation(group: str, mesh: Mesh, shape: Shape, seed: int, samples: int) -> tuple[float, float]:
    from archloom.acadl_models.wormhole import wormhole

    return _ranked(wormhole(rows=mesh[0], columns=mesh[1]), shape, _rules(group), seed, samples)


def _on_others(args: argparse.Namespace, pool: ProcessPoolExecutor) -> Iterator[tuple[str, float]]:
    cases = [(machine, shape, args.seed, args.samples) for machine in OTHERS for shape in OTHER_SHAPES]
    for (machine, shape, *_), (found, error) in zip(cases, pool.map(_on_other, *zip(*cases))):
        name = f"{machine}: {'x'.join(map(str, shape))}"
        print(f"rank correlation, {name}: {found:.4f} (mean error of the model {100 * error:.1f} %)", flush=True)
        yield name, found


def _on_other(machine: str, shape: Shape, seed: int, samples: int) -> tuple[float, float]:
    from archloom.mapper.spatial.space import EVERYTHING

    return _ranked(other(machine), shape, EVERYTHING, seed, samples)


def _ranked(
    graph: "ArchitectureGraph", shape: Shape, rules: "Rules", seed: int, samples: int,
) -> tuple[float, float]:
    """Rank correlation, and mean error of the estimates."""
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.products.cost import cycles
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.space import space
    from archloom.mapper.spatial.workloads import emitted

    machine, gemm = Machine.of(graph), TileGemm.of(*shape)
    candidates = space(gemm, machine, rules)
    c = candidates.columns
    products = -(-gemm.m // c["bm"]) * -(-gemm.n // c["bn"]) * -(-gemm.k // c["bk"])
    estimated, _ = cycles(gemm, machine, candidates)
    return ranking(
        estimated, lambda i: simulated(emitted(gemm, candidates.plan(i), machine), graph).cycles, seed,
        products <= MOST_PRODUCTS, samples)


def _against_all(mesh: Mesh, tiles: tuple[int, int, int]) -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.workloads import search

    graph, gemm = wormhole(rows=mesh[0], columns=mesh[1]), TileGemm(*tiles)
    launch = Machine.of(graph).launch_cycles
    every, found = search(gemm, graph, exhaustive=True), search(gemm, graph)
    best, chosen = every.best.cycles, found.best.cycles
    return {
        "mesh": mesh, "tiles": tiles, "plans": len(every.trials), "best": best, "chosen": chosen,
        "without_launch": (chosen - launch) / (best - launch), "simulated": len(found.trials),
        "best_plan": str(every.best.plan), "chosen_plan": str(found.best.plan),
    }


def _told(rows: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for r in rows:
        mesh, tiles, ratio = r["mesh"], "x".join(map(str, r["tiles"])), r["chosen"] / r["best"]
        print(f"{mesh[0]}x{mesh[1]} {tiles:8} tiles: {r['plans']:5} plans, best {r['best']:7}, chosen {r['chosen']:7} "
              f"({ratio:.4f}, without the launch {r['without_launch']:.4f})  {r['chosen_plan']}", flush=True)
        yield r


if __name__ == "__main__":
    main()
