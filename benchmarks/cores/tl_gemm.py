"""The products of figures 5 and 6 of the TL paper: searched plans against the fixed templates TT-1D and TT-2D.

Figure 5: C[M, N] = A[M, K] . B[K, N] in fp16 on the meshes 1 x 8, 4 x 8 and 8 x 8 for the 28 pairs M >= N of powers
of two from 256 to 16384, and five K (the paper does not state its own: 256 to 4096 are taken): 140 products on each
mesh. Figure 6: M = N = 32768 with K from 256 to 2048, and M = K = 32768 with N from 256 to 2048, on 8 x 8.

All plans are timed by the same simulation of all cores. The paper's text defines TT-1D: the smaller input is loaded by
each core, the larger one is sent to all. What it measures does not go with that (TT-1D is the faster template where N
is much smaller than M), but with the library, in which the smaller input is sent to all cores; so both are compared
with (``benchmarks/cores/templates.py``): ``over_tt1d`` is the text's definition, ``over_vendor_1d`` the library's
orientation, and ``1d_better`` says for each how often it beats TT-2D. ``worst`` compares with the best of all three.
The paper's own baseline is TTNN, which chooses one of the two templates by a rule of its own. The rule is not stated,
and the kernels were timed on hardware: what stands for it here is the better of the library's two (``over_ttnn``, and
``won``, the share of products with less time), which is at least as good as any rule. It says nothing of the kernels.
Ratios have a form ``_without_launch``, less the fitted launch of the cores that both sides have once.

``--plot`` draws figure 6, ``--every 10`` takes a tenth of the sweep.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish, refuse
from benchmarks.cores.tl_common import geometric_mean, times

MESHES = ((1, 8), (4, 8), (8, 8))
SIZES = (256, 512, 1024, 2048, 4096, 8192, 16384)
DEPTHS = (256, 512, 1024, 2048, 4096)
WIDE = 32768
SWEPT = (256, 512, 768, 1024, 1536, 2048)
TEMPLATES = ("tt1d", "vendor_1d", "tt2d")

Point = tuple[tuple[int, int], int, int, int]
"""A mesh, and M, N, K."""


def points(every: int) -> list[Point]:
    pairs = [(m, n) for m in SIZES for n in SIZES if m >= n]
    return [(mesh, m, n, k) for mesh in MESHES for k in DEPTHS for m, n in pairs][::every]


def irregular() -> list[Point]:
    return [((8, 8), WIDE, WIDE, k) for k in SWEPT] + [((8, 8), WIDE, n, WIDE) for n in SWEPT]


@cache
def _graph(mesh: tuple[int, int], block_cycles: int | None) -> Any:
    from archloom.acadl_models.wormhole import wormhole

    other = {} if block_cycles is None else {"block_cycles": block_cycles}
    return wormhole(rows=mesh[0], columns=mesh[1], **other)


def measured(point: Point, block_cycles: int | None = None) -> dict[str, Any]:
    """Cycles of the searched plan and of the templates."""
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.workloads import emitted, search
    from benchmarks.cores import templates

    mesh, m, n, k = point
    graph, gemm = _graph(mesh, block_cycles), TileGemm.of(m, n, k)
    machine = Machine.of(graph)
    found = search(gemm, graph)
    cycles = {trial.plan: trial.cycles for trial in found.trials}
    row: dict[str, Any] = {
        "mesh": f"{mesh[0]}x{mesh[1]}", "m": m, "n": n, "k": k, "cycles": found.best.cycles,
        "launch": machine.launch_cycles, "plan": str(found.best.plan),
        "top": [replace(found, trials=found.trials[:i]).best.cycles for i in range(1, 6)],
    }
    for name, plan_of in zip(TEMPLATES, (templates.tt_1d, templates.vendor_1d, templates.tt_2d)):
        plan = plan_of(gemm, machine)
        if plan not in cycles:
            cycles[plan] = simulated(emitted(gemm, plan, machine), graph).cycles
        row[name] = cycles[plan]
    return row


def main() -> None:
    args = arguments(__doc__ or "", _options)
    if args.irregular and args.every > 1:
        refuse("--irregular is figure 6, of which --every takes nothing")
    swept = [] if args.irregular else points(args.every)
    odd = irregular() if args.irregular or args.every == 1 else []
    rows = list(_all([*swept, *odd], args.jobs, args.block_cycles))
    figure5, figure6 = rows[:len(swept)], rows[len(swept):]
    meshes = [f"{r}x{c}" for r, c in MESHES]
    by_mesh = {mesh: _means(found) for mesh in meshes if (found := [r for r in figure5 if r["mesh"] == mesh])}
    print(f"{'':6}{'over TT-1D':>12}{'vendor 1D':>12}{'over TT-2D':>12}{'worst':>8}")
    for mesh, means in {**by_mesh, **({"all": _means(figure5)} if figure5 else {})}.items():
        print(f"{mesh:6}{means['over_tt1d']:12.3f}{means['over_vendor_1d']:12.3f}{means['over_tt2d']:12.3f}"
              f"{means['worst']:8.3f}")
    for r in figure6:
        print(f"M={r['m']} N={r['n']} K={r['k']}: over TT-1D {r['tt1d'] / r['cycles']:.3f}, vendor 1D "
              f"{r['vendor_1d'] / r['cycles']:.3f}, TT-2D {r['tt2d'] / r['cycles']:.3f}  {r['plan']}")
    if args.plot and figure6:
        _plot(figure6, args.plot)
    finish(args, {
        **(_means(figure5) if figure5 else {}), "points": len(figure5), "meshes": by_mesh,
        "1d_better": {name: sum(r[name] < r["tt2d"] for r in figure5) for name in ("tt1d", "vendor_1d")},
        **({"irregular_worst": _means(figure6)["worst"]} if figure6 else {}), "crossover": _crossover(figure6),
        "irregular": figure6, "rows": figure5,
    })


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--every", type=int, default=1, help="only every so manyth point, and no irregular shapes")
    parser.add_argument("--block-cycles", type=int, help="in place of the fitted number, to see what rests on it")
    parser.add_argument("--irregular", action="store_true", help="figure 6 alone")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: all cores)")
    parser.add_argument("--plot", type=Path, help="draw figure 6 into this file")


def _all(chosen: list[Point], jobs: int, block_cycles: int | None) -> Iterator[dict[str, Any]]:
    measure = partial(measured, block_cycles=block_cycles)
    if jobs == 1:
        yield from _told(map(measure, chosen), len(chosen))
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from _told(pool.map(measure, chosen, chunksize=4), len(chosen))


def _told(rows: Iterable[dict[str, Any]], total: int) -> Iterator[dict[str, Any]]:
    for number, row in enumerate(rows, 1):
        if number % 20 == 0 or number == total:
            print(f"{number} of {total} products", file=sys.stderr, flush=True)
        yield row


def _means(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Geometric means and least of the templates' cycles over ours; ``worst``: of the best of the three; ``top``: over
    the better of the library's two, of the best of the first one to five candidates."""
    theirs = {name: [r[name] for r in rows] for name in TEMPLATES}
    theirs["ttnn"] = [min(r["vendor_1d"], r["tt2d"]) for r in rows]
    found: dict[str, float] = {}
    for name, cycles in theirs.items():
        pairs = [times(r["cycles"], c, r["launch"]) for r, c in zip(rows, cycles)]
        for number, ending in enumerate(("", "_without_launch")):
            ratios = [pair[number] for pair in pairs]
            found |= {f"over_{name}{ending}": geometric_mean(ratios), f"least_over_{name}{ending}": min(ratios)}
    best = [times(r["cycles"], min(r[name] for name in TEMPLATES), r["launch"]) for r in rows]
    return {
        **found, "worst": min(best)[0], "worst_without_launch": min(b for _, b in best),
        "won": sum(r["cycles"] < c for r, c in zip(rows, theirs["ttnn"])) / len(rows),
        "within_tenth": sum(abs(c / r["cycles"] - 1) <= 0.1 for r, c in zip(rows, theirs["ttnn"])) / len(rows),
        "most_over_ttnn": max(c / r["cycles"] for r, c in zip(rows, theirs["ttnn"])),
        "top": [geometric_mean(c / r["top"][k] for r, c in zip(rows, theirs["ttnn"])) for k in range(5)],
        "top1_over_top5": geometric_mean(r["top"][0] / r["top"][4] for r in rows),
    }


def _crossover(rows: list[dict[str, Any]]) -> dict[str, list[int]]:
    """For M = K = 32768, the N for which each template is the faster one, in the library's orientation of TT-1D."""
    narrow = [r for r in rows if r["k"] == WIDE]
    return {
        "1d": [r["n"] for r in narrow if r["vendor_1d"] < r["tt2d"]],
        "2d": [r["n"] for r in narrow if r["vendor_1d"] >= r["tt2d"]],
    }


def _plot(rows: list[dict[str, Any]], path: Path) -> None:
    """TFLOP/s over the dimension that is swept; where the curves of the templates cross, the better one changes."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "archloom"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4), sharey=True)
    curves = (("searched", "cycles"), ("TT-1D, library", "vendor_1d"), ("TT-2D", "tt2d"), ("TT-1D, text", "tt1d"))
    for axis, name, others in ((axes[0], "k", "M = N"), (axes[1], "n", "M = K")):
        part = [r for r in rows if (r["k"] == WIDE) == (name == "n")]
        for label, key in curves:
            axis.plot([r[name] for r in part], [2 * r["m"] * r["n"] * r["k"] / r[key] / 1e3 for r in part], "o-",
                      label=label)
        axis.set_xlabel(name.upper())
        axis.set_title(f"{others} = {WIDE}")
    axes[0].set_ylabel("TFLOP/s")
    axes[0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


if __name__ == "__main__":
    main()
