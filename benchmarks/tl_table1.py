"""Table 1 of the TL paper: products of M=N=K=1024...6144 on Wormhole with and without spatial reuse.

Simulated TFLOP/s beside what the paper measured on hardware. Both columns leave temporal reuse (hoisting) out: the
table is about spatial reuse alone. *DRAM only* is the plan that was found with spatial reuse, with every broadcast
replaced by a load of each core, as when the pass is switched off; beside it, for comparison, the best plan without
broadcasts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from common import arguments, finish
from tl_common import data, reference


def main() -> None:
    args = arguments(__doc__ or "", data)
    table = reference(args.data)["results"]["table1_tflops"]
    from acadl_models.wormhole import figures, wormhole
    from mapper.spatial.emit import emit
    from mapper.spatial.machine import Machine
    from mapper.spatial.plan import TileGemm
    from mapper.spatial.search import search
    from mapper.spatial.space import Rules
    from mapper.spatial.timing import simulated

    graph = wormhole()
    machine = Machine.of(graph)
    rows: list[dict[str, Any]] = []
    print(" M=N=K     TL  paper   DRAM  paper speedup  paper best alone  plan")
    for row in table:
        size = int(row["config"].rsplit("=", 1)[1])
        gemm = TileGemm.of(size, size, size)
        best = search(gemm, graph, rules=Rules(levels=frozenset({"stream"})), refine=False).best
        apart = replace(best.plan, a=("none", best.plan.a[1]), b=("none", best.plan.b[1]))
        dram = simulated(emit(gemm, apart, machine), graph).cycles
        alone = Rules(frozenset({"none"}), frozenset({"none"}), frozenset({"stream"}))
        other = search(gemm, graph, rules=alone, refine=False).best.cycles
        ours, theirs = (2 * size**3 * graph.clock_hz / c / 1e12 for c in (best.cycles, dram))
        rows.append({
            "size": size, "tl": ours, "tl_measured": row["TL"], "dram_only": theirs,
            "dram_only_measured": row["dram_only"], "speedup": ours / theirs, "speedup_measured": row["speedup"],
            "best_without_broadcasts": 2 * size**3 * graph.clock_hz / other / 1e12, "plan": str(best.plan),
        })
        r = rows[-1]
        print(f"{size:6} {ours:6.2f} {row['TL']:6.2f} {theirs:6.2f} {row['dram_only']:6.2f} {r['speedup']:7.2f} "
              f"{row['speedup']:6.2f} {r['best_without_broadcasts']:10.2f}  {best.plan}", flush=True)
    errors = [abs(r[name] / r[f"{name}_measured"] - 1) for r in rows for name in ("tl", "dram_only")]
    finish(args, {
        "mean_error": sum(errors) / len(errors), "worst_error": max(errors),
        "worst_speedup_error": max(abs(r["speedup"] / r["speedup_measured"] - 1) for r in rows),
        "same_order": _same_order(rows), "fitted": {
            "launch_cycles": figures.LAUNCH_CYCLES, "sums": figures.SUMS, "block_cycles": figures.BLOCK_CYCLES,
        }, "rows": rows,
    })


def _same_order(rows: list[dict[str, Any]]) -> float:
    """Share of the pairs of figures of the table that lie in the measured order."""
    pairs = [(r[n], r[f"{n}_measured"]) for r in rows for n in ("tl", "dram_only")]
    both = [(x, y) for i, x in enumerate(pairs) for y in pairs[:i]]
    return sum((x[0] - y[0]) * (x[1] - y[1]) > 0 for x, y in both) / len(both)


if __name__ == "__main__":
    main()
