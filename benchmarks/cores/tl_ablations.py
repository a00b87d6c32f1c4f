"""Ablations of plans of products over the cores of Wormhole, as in section 3.3 of the TL paper.

* *Reuse*: products of figure 8's kind (K falls as M and N grow, so that memory limits) and two small ones: time without
  spatial reuse (no tile is sent to several cores), without temporal reuse (no tile is kept for another wave), without
  stores beside products, and without shallow first steps, which the paper does not have, over the time with all.
  Table 1, the paper's table of spatial reuse, is ``tl_table1.py``.
* *Top k*, as in table 2: for each mesh the mean performance of the best of the first k simulated candidates over the
  better one of TT-1D and TT-2D, and over the best of five. Planning time grows with k as the simulations do.
* *Network*: why no product is planned with ``share``, ``unicast`` or ``gather`` (:mod:`tl_network`): good and bad plans
  with them over the time of the one that is chosen, of three shapes on two machines. A multicast loads the links of a
  row as much as a core that shares what it loaded, which loads a way of its own beside; a unicast takes the network of
  a whole row, where a forward takes the link to the next core; results that one core collects cross the row's network
  and then leave by one way to memory, where each core has its own.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.cores.tl_common import geometric_mean

if TYPE_CHECKING:
    from archloom.mapper.spatial.space import Rules

MESHES = ((1, 8), (4, 8), (8, 8))
REUSED = (
    (1024, 1024, 2048), (2048, 2048, 1024), (4096, 4096, 512), (8192, 4096, 256), (8192, 8192, 128), (16384, 256, 256),
    (16384, 4096, 64), (256, 16384, 256), (512, 512, 2048), (1024, 1024, 1024),
)
SHAPES = (
    (256, 256, 1024), (1024, 512, 512), (2048, 256, 2048), (1024, 1024, 4096), (4096, 1024, 256), (2048, 2048, 1024),
    (16384, 512, 512), (8192, 1024, 1024),
)
KS = range(1, 6)
NETWORK = ((1024, 1024, 512), (4096, 2048, 64), (256, 4096, 256))
RANKS = (0, 1, 2, 3, 5, 10, 30, 100, 300, 1000)
"""Of the plans that are looked at, by their estimates."""


def main() -> None:
    args = arguments(__doc__ or "")
    reuse, tops, network = _reuse(), [_top(mesh) for mesh in MESHES], _network()
    finish(args, {
        **{name: geometric_mean(r[name] for r in reuse) for name in _without()},
        **{f"most_{name}": max(r[name] for r in reuse) for name in _without()},
        **{f"lowest_{name}": min(r[name] for r in reuse) for name in _without()},
        "lowest_top1_over_top5": min(t["over_top5"][0] for t in tops),
        "top1_over_top5": geometric_mean(t["over_top5"][0] for t in tops), "reuse": reuse, "top": tops,
        **{f"least_{name}": min(r[name] for r in network if r[name]) for name in ("share", "unicast", "gather")},
        "network": network,
    })


def _without() -> dict[str, "Rules"]:
    from archloom.mapper.spatial.space import EVERYTHING

    alone = ("none",)
    return {
        "spatial_reuse": replace(EVERYTHING, a=alone, b=alone),
        "temporal_reuse": replace(EVERYTHING, levels=("stream",)),
        "stores_beside_products": replace(EVERYTHING, outputs=1),
        "shallow_first_steps": replace(EVERYTHING, rising=False),
    }


def _reuse() -> list[dict[str, Any]]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.workloads import search

    graph, rows = wormhole(), []
    print(f"{'time without, over that with all':34}" + "".join(f"{name.replace('_', ' '):>24}" for name in _without()))
    for shape in REUSED:
        gemm = TileGemm.of(*shape)
        best = search(gemm, graph).best
        row: dict[str, Any] = {"shape": shape, "cycles": best.cycles, "plan": str(best.plan)}
        for name, rules in _without().items():
            row[name] = search(gemm, graph, rules=rules).best.cycles / best.cycles
        rows.append(row)
        print(f"{'x'.join(map(str, shape)):34}" + "".join(f"{row[name]:24.3f}" for name in _without()), flush=True)
    return rows


def _top(mesh: tuple[int, int]) -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.workloads import emitted, search
    from benchmarks.cores import templates

    graph = wormhole(rows=mesh[0], columns=mesh[1])
    machine = Machine.of(graph)
    ratios: list[list[float]] = []
    fixed, seconds = [], []
    for shape in SHAPES:
        gemm = TileGemm.of(*shape)
        clock = time.process_time()
        found = search(gemm, graph, refine=False)  # the paper's: the best of k, without variants
        seconds.append(time.process_time() - clock)
        best = [replace(found, trials=found.trials[:k]).best.cycles for k in KS]
        theirs = min(simulated(emitted(gemm, plan_of(gemm, machine), machine), graph).cycles
                     for plan_of in (templates.tt_1d, templates.tt_2d))
        ratios.append([best[-1] / c for c in best])
        fixed.append([theirs / c for c in best])
    over = [geometric_mean(r[i] for r in ratios) for i in range(len(KS))]
    over_fixed = [geometric_mean(r[i] for r in fixed) for i in range(len(KS))]
    name, mean = f"{mesh[0]}x{mesh[1]}", sum(seconds) / len(seconds)
    print(f"{name} top 1 to 5, over the better template: " + " ".join(f"{100 * (r - 1):+.1f} %" for r in over_fixed)
          + "; over top 5: " + " ".join(f"{100 * (r - 1):+.1f} %" for r in over) + f"; {mean:.2f} s a product",
          flush=True)
    return {"mesh": name, "over_templates": over_fixed, "over_top5": over, "seconds": mean}


def _network() -> list[dict[str, Any]]:
    import numpy as np
    import tl_network

    from archloom.acadl_models.mesh import mesh
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.products.cost import cycles
    from archloom.mapper.spatial.programs.timing import simulated
    from archloom.mapper.spatial.space import space
    from archloom.mapper.spatial.workloads import emitted, search

    rows = []
    names = ("share", "unicast", "gather")
    print(f"{'time with, over that of the chosen plan without':50}" + "".join(f"{name:>10}" for name in names))
    for graph in (wormhole(), mesh(4, 4, torus=False)):
        machine = Machine.of(graph)
        for shape in NETWORK:
            gemm = TileGemm.of(*shape)
            found = space(gemm, machine)
            order = np.argsort(cycles(gemm, machine, found)[0], kind="stable")
            best = search(gemm, graph).best.cycles
            for number in RANKS:
                plan = found.plan(int(order[min(number, len(order) - 1)]))
                stream = emitted(gemm, plan, machine)
                gathered = tl_network.gathered(gemm, plan, machine)
                changed = {name: tl_network.rewritten(stream, rewrite)
                           for name, rewrite in (("share", tl_network.share), ("unicast", tl_network.unicast))}
                row: dict[str, Any] = {"machine": graph.name, "shape": shape, "rank": number, "plan": str(plan)}
                row |= {name: simulated(s, graph).cycles / best if s != stream else None for name, s in changed.items()}
                row["gather"] = simulated(gathered, graph).cycles / best if gathered is not None else None
                rows.append(row)
                title = f"{graph.name} {'x'.join(map(str, shape))}, rank {number}"
                ratios = (row[name] for name in names)
                print(f"{title:50}" + "".join(f"{'-' if r is None else f'{r:.3f}':>10}" for r in ratios), flush=True)
    return rows


if __name__ == "__main__":
    main()
