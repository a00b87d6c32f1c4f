"""TPU v1: simulated TeraOps/s of dense networks beside what Jouppi et al. measured (ISCA 2017, tables 1 and 3).

The paper states for MLP0 and MLP1 the number of layers, the weights in all and the batch, but not the widths of the
layers: here they are equal and square. Its figures are of production networks with their host; these are of the chain
of products alone, activations in the Unified Buffer, with the first input and the last output passed over the host
link. The third row has no published figure: it shows what a large batch reaches.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.tpu_v1 import tpu_v1
from benchmarks.common import arguments, finish
from examples.tpu_v1_kernels import mlp


@dataclass(frozen=True)
class Network:
    """Layers of ``width`` x ``width``; published: TeraOps/s, and the share of cycles in which the array is active."""

    name: str
    batch: int
    layers: int
    width: int
    published_tops: float | None
    published_active: float | None


NETWORKS = (
    Network("MLP0: 5 layers, 20M weights, batch 200", 200, 5, 2000, 12.3, 0.127),
    Network("MLP1: 4 layers, 5M weights, batch 168", 168, 4, 1118, 9.7, 0.106),
    Network("5 layers of 4096 x 4096, batch 2048", 2048, 5, 4096, None, None),
)


def measure(network: Network) -> dict[str, object]:
    """Cycles, TeraOps/s, share of the peak, and cycles in which rows stream through the array."""
    graph = tpu_v1()
    dim = graph.parameters["dim"]
    kernel = mlp(network.batch, [network.width] * (network.layers + 1), [1.0] * network.layers)
    timing = simulate(graph, kernel.resolved)
    macs = network.batch * network.layers * network.width ** 2
    seconds = timing.cycles / graph.clock_hz
    tiles = network.layers * (-(-network.width // dim)) ** 2
    tops = 2 * macs / seconds / 1e12
    return {
        **asdict(network), "cycles": timing.cycles, "tops": tops, "share_of_peak": macs / dim ** 2 / timing.cycles,
        "active": tiles * network.batch / timing.cycles, "instructions": timing.instructions,
        "ratio": tops / network.published_tops if network.published_tops else None,
    }


def main() -> None:
    args = arguments(__doc__.splitlines()[0])
    rows = [measure(network) for network in NETWORKS]
    print(f"{'network':42} {'cycles':>10} {'TOPS':>6} {'published':>9} {'of peak':>8} {'active':>7} {'published':>9}")
    for row in rows:
        tops = "" if row["published_tops"] is None else f"{row['published_tops']:.1f}"
        active = "" if row["published_active"] is None else f"{row['published_active']:.1%}"
        print(f"{row['name']:42} {row['cycles']:10,} {row['tops']:6.1f} {tops:>9} {row['share_of_peak']:8.1%} "
              f"{row['active']:7.1%} {active:>9}")
    finish(args, {"networks": rows, "mlp0_ratio": rows[0]["ratio"], "mlp1_ratio": rows[1]["ratio"],
                  "large_batch_share": rows[2]["share_of_peak"]})


if __name__ == "__main__":
    main()
