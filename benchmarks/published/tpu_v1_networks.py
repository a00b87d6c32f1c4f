"""TPU v1: simulated TeraOps/s of networks beside what Jouppi et al. measured (ISCA 2017, tables 1 and 3).

The paper states the number of layers, the weights in all and the batch, but only parts of the layers' shapes:
``benchmarks/data/tpu_v1.json`` has what is assumed for each network. Its figures are of production networks with their
host; these are of the chain of products alone, activations in the Unified Buffer, with the first input and the last
output passed over the host link. The last row has no published figure: it shows what a large batch reaches.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.tpu_v1 import tpu_v1
from benchmarks.common import arguments, finish
from examples.tpu_v1_kernels import cnn, mlp

DATA = Path(__file__).resolve().parents[1] / "data" / "tpu_v1.json"
LARGE = {"name": "5 layers of 4096", "kind": "dense", "batch": 2048, "layers": 5, "width": 4096}


def measure(network: Mapping[str, Any]) -> dict[str, Any]:
    """Cycles, TeraOps/s, share of the peak, and the share of cycles in which rows stream through the array."""
    graph, batch, layers, width = tpu_v1(), network["batch"], network["layers"], network["width"]
    dim = graph.parameters["dim"]
    if network["kind"] == "dense":
        kernel, pixels, taps = mlp(batch, [width] * (layers + 1), [1.0] * layers), 1, 1
    else:
        kernel = cnn(batch, network["side"], network["taps"], [1.0] * layers)
        pixels, taps = network["side"] ** 2, network["taps"] ** 2
    timing = simulate(graph, kernel.resolved)
    macs = batch * pixels * layers * taps * width ** 2
    rows = batch * pixels * layers * taps * (-(-width // dim)) ** 2
    tops = 2 * macs / timing.seconds / 1e12
    peak = 2 * dim ** 2 * graph.clock_hz / 1e12
    return {
        **network, "cycles": timing.cycles, "ours": tops, "ours_of_peak": tops / peak,
        "ours_active": rows / timing.cycles,
        "ratio": tops / network["tops"] if "tops" in network else None,
        "counters": network["useful"] * peak if "useful" in network else None,
    }


def main() -> None:
    args = arguments(__doc__.splitlines()[0])
    rows = [measure(network) for network in (*json.loads(DATA.read_text())["networks"], LARGE)]
    print(f"{'network':18} {'cycles':>10} {'TOPS':>6} {'theirs':>6} {'ratio':>6} {'by counters':>11} {'active':>7} "
          f"{'theirs':>7}")
    for row in rows:
        theirs = f"{row['tops']:6.1f} {row['ratio']:6.2f} {row['counters']:11.1f}" if "tops" in row else " " * 25
        active = f"{row['active']:7.1%}" if "active" in row else ""
        print(f"{row['name']:18} {row['cycles']:10,} {row['ours']:6.1f} {theirs} {row['ours_active']:7.1%} {active}")
    ratios = {row["name"]: row["ratio"] for row in rows if row["ratio"]}
    finish(args, {"networks": rows[:-1], "large": rows[-1], "ratios": ratios, "least": min(ratios.values()),
                  "most": max(ratios.values()), "large_batch_share": rows[-1]["ours_of_peak"]})


if __name__ == "__main__":
    main()
