"""Speed and quality of the mapper of products over cores (``mapper/spatial``), on Wormhole.

Speed, in processor time: candidates costed in a second, listing them included; planning one product on 8 x 8; planning
every product of BERT-base, and its attention, at a sequence of 512. Planning is the search as it is by default
(``_s``), and without the variants of the best that it tries (``_without_variants_s``). How good the plans are:
``tl_gemm.py``, ``tl_model.py``, ``tl_ablations.py``.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish

BERT = ((512, 2304, 768), (512, 768, 768), (512, 3072, 768), (512, 768, 3072))
"""Projections of queries, keys and values together, of the output, and the two of the feed-forward part."""


def seconds(run: Any, rounds: int = 5) -> float:
    """Median processor time of some runs."""
    found = []
    for _ in range(rounds):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return statistics.median(found)


def main() -> None:
    args = arguments(__doc__ or "")
    finish(args, _speed())


def _speed() -> dict[str, Any]:
    from archloom.acadl_models.wormhole import wormhole
    from archloom.mapper.spatial.attention.space import Attention
    from archloom.mapper.spatial.machines.machine import Machine
    from archloom.mapper.spatial.plan import TileGemm
    from archloom.mapper.spatial.products.cost import cycles
    from archloom.mapper.spatial.space import space
    from archloom.mapper.spatial.workloads import search, search_workload

    graph = wormhole()
    machine, gemm = Machine.of(graph), TileGemm.of(4096, 4096, 4096)
    count = len(space(gemm, machine))
    costed = seconds(lambda: cycles(gemm, machine, space(gemm, machine)))
    search(TileGemm.of(256, 256, 256), graph, top_k=1, refine=False)  # compiles the engine
    attention, found = Attention.of(1, 12, 512, 64), {}
    for refine, name in ((True, "s"), (False, "without_variants_s")):
        found[f"one_gemm_{name}"] = seconds(lambda r=refine: search(gemm, graph, refine=r))  # type: ignore[misc]
        found[f"bert_base_{name}"] = seconds(lambda r=refine: [  # type: ignore[misc]
            *(search(TileGemm.of(*shape), graph, refine=r) for shape in BERT), search_workload(attention, graph)])
    print(f"{count} candidates of a product of 4096^3 on 8 x 8")
    return {"candidates": count, "candidates_per_second": count / costed, **found}


if __name__ == "__main__":
    main()
