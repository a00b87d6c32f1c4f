"""Speed and quality of the mapper of products over cores (``mapper/spatial``), on Wormhole.

Speed, in processor time: candidates costed in a second, listing them included; planning one product on 8 x 8 with five
simulations; planning every product of BERT-base, and its attention, at a sequence of 512. How good the plans are:
``tl_gemm.py``, ``tl_model.py``, ``tl_ablations.py``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from benchmarks.figures import Figure, Figures, at_least, at_most

BERT = ((512, 2304, 768), (512, 768, 768), (512, 3072, 768), (512, 768, 3072))
"""Projections of queries, keys and values together, of the output, and the two of the feed-forward part."""


def seconds(run: Any, rounds: int = 3) -> float:
    """Least processor time of some runs."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    args = arguments(__doc__ or "")
    finish(args, _speed())


def _speed() -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.attention import Attention
    from archloom.mapper.spatial.cost import cycles
    from archloom.mapper.spatial.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.space import space
    from archloom.mapper.spatial.workloads import search, search_workload

    graph = wormhole()
    machine, gemm = Machine.of(graph), TileGemm.of(4096, 4096, 4096)
    count = len(space(gemm, machine))
    costed = seconds(lambda: cycles(gemm, machine, space(gemm, machine)))
    search(TileGemm.of(256, 256, 256), graph, top_k=1, refine=False)  # compiles the engine
    one = seconds(lambda: search(gemm, graph, refine=False))
    attention = Attention.of(1, 12, 512, 64)
    bert = seconds(lambda: [
        *(search(TileGemm.of(*shape), graph, refine=False) for shape in BERT), search_workload(attention, graph)], 1)
    print(f"{count} candidates of a product of 4096^3 on 8 x 8")
    return {"candidates": count, "candidates_per_second": count / costed, "one_gemm_s": one, "bert_base_s": bert}


FIGURES: Figures = {
    "": (
        Figure("mapper of products over cores: candidates/s, processor time", lambda r: r["candidates_per_second"],
               *at_least(1e6), shown="{:,.0f}"),
        Figure("… one product on 8 x 8 with five simulations, seconds", lambda r: r["one_gemm_s"], *at_most(0.5)),
        Figure("… the products and the attention of BERT-base, seconds", lambda r: r["bert_base_s"], *at_most(5)),
    ),
}


if __name__ == "__main__":
    main()
