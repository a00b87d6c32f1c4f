"""Speed and quality of the mapper of products over cores (``mapper/spatial``), on Wormhole.

Speed, in processor time: candidates costed in a second, listing them included; planning one product on 8 x 8 with five
simulations; planning every product of BERT-base, and its attention, at a sequence of 512. Quality: rank correlation
(Spearman) of the cost model with the simulation over candidates from the whole range of estimates, for each mesh;
ablations as in table 1, figure 8 and table 2 of the TL paper: without spatial reuse, without temporal reuse, and with 1
to 5 simulated plans.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from common import arguments, finish
from tl_common import geometric_mean, spearman

MESHES = ((1, 8), (4, 8), (8, 8))
BERT = ((512, 2304, 768), (512, 768, 768), (512, 3072, 768), (512, 768, 3072))
"""Projections of queries, keys and values together, of the output, and the two of the feed-forward part."""
RANKED = ((1024, 1024, 1024), (4096, 512, 256), (512, 512, 2048))
REUSED = ((2048, 2048, 1024), (4096, 4096, 512), (8192, 4096, 256), (8192, 8192, 128), (16384, 256, 256))


def seconds(run: Any, rounds: int = 3) -> float:
    """Least processor time of some runs."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    args = arguments(__doc__ or "", lambda p: p.add_argument(
        "--samples", type=int, default=25, help="candidates of each product that are simulated for the correlation"))
    result = {**_speed(), **_correlation(args), **_ablations()}
    finish(args, result)


def _speed() -> dict[str, Any]:
    from acadl_models.wormhole import wormhole
    from mapper.spatial.attention import Attention
    from mapper.spatial.attention_search import search_attention
    from mapper.spatial.cost import cycles
    from mapper.spatial.machine import Machine
    from mapper.spatial.plan import TileGemm
    from mapper.spatial.search import search
    from mapper.spatial.space import space

    graph = wormhole()
    machine, gemm = Machine.of(graph), TileGemm.of(4096, 4096, 4096)
    count = len(space(gemm, machine))
    costed = seconds(lambda: cycles(gemm, machine, space(gemm, machine)))
    search(TileGemm.of(256, 256, 256), graph, top_k=1, refine=False)  # compiles the engine
    one = seconds(lambda: search(gemm, graph, refine=False))
    attention = Attention.of(1, 12, 512, 64)
    bert = seconds(lambda: [
        *(search(TileGemm.of(*shape), graph, refine=False) for shape in BERT), search_attention(attention, graph)], 1)
    print(f"{count} candidates of a product of 4096^3 on 8 x 8")
    return {"candidates": count, "candidates_per_second": count / costed, "one_gemm_s": one, "bert_base_s": bert}


def _correlation(args: argparse.Namespace) -> dict[str, Any]:
    from acadl_models.wormhole import wormhole
    from mapper.spatial.cost import cycles
    from mapper.spatial.emit import emit
    from mapper.spatial.machine import Machine
    from mapper.spatial.plan import TileGemm
    from mapper.spatial.space import space
    from mapper.spatial.timing import simulated

    found: dict[str, float] = {}
    errors: list[float] = []
    for rows, columns in MESHES:
        graph = wormhole(rows=rows, columns=columns)
        machine = Machine.of(graph)
        for shape in RANKED:
            gemm = TileGemm.of(*shape)
            candidates = space(gemm, machine)
            estimated, _ = cycles(gemm, machine, candidates)
            order = np.argsort(estimated, kind="stable")
            order = order[estimated[order] <= 8 * estimated[order[0]]]
            chosen = order[np.linspace(0, len(order) - 1, args.samples).astype(int)]
            real = np.array([
                simulated(emit(gemm, candidates.plan(int(i)), machine), graph).cycles for i in chosen])
            name = f"{rows}x{columns} {'x'.join(map(str, shape))}"
            found[name] = spearman(estimated[chosen], real)
            errors += np.abs(estimated[chosen] / real - 1).tolist()
            print(f"rank correlation {name}: {found[name]:.4f}", flush=True)
    return {"least_correlation": min(found.values()), "correlations": found, "mean_model_error": float(np.mean(errors))}


def _ablations() -> dict[str, Any]:
    from acadl_models.wormhole import wormhole
    from mapper.spatial.plan import TileGemm
    from mapper.spatial.search import search
    from mapper.spatial.space import Rules

    alone, streamed = frozenset({"none"}), frozenset({"stream"})
    rows = []
    print(f"{'':18}{'no spatial':>11}{'no temporal':>12}" + "".join(f"{f'top {k}':>8}" for k in range(1, 6)))
    graph = wormhole()
    for shape in REUSED:
        gemm = TileGemm.of(*shape)
        found = search(gemm, graph, refine=False)
        best = found.best.cycles
        row = {
            "shape": shape,
            "spatial_reuse": search(gemm, graph, rules=Rules(a=alone, b=alone), refine=False).best.cycles / best,
            "temporal_reuse": search(gemm, graph, rules=Rules(levels=streamed), refine=False).best.cycles / best,
            "top": [found.within(k).cycles / best for k in range(1, 6)],
        }
        rows.append(row)
        print(f"{'x'.join(map(str, shape)):18}{row['spatial_reuse']:11.3f}{row['temporal_reuse']:12.3f}"
              + "".join(f"{r:8.3f}" for r in row["top"]), flush=True)
    return {
        "spatial_reuse": geometric_mean(r["spatial_reuse"] for r in rows),
        "temporal_reuse": geometric_mean(r["temporal_reuse"] for r in rows),
        "most_temporal_reuse": max(r["temporal_reuse"] for r in rows), "ablations": rows,
    }


if __name__ == "__main__":
    main()
