"""Processor time of planning what is new: random convolutions, and random networks of them, on Gemmini.

A network has 4 to 12 convolutions one after the other, of nine widths, three kernels and nine sizes of images; a
seventh of them are depthwise. Layers are those of networks that are drawn, each once for a machine, and planned without
any cache; the engine is compiled and machines are made before. Networks are other ones, estimated in int8 in this
process from an empty cache, which they share: making them in ONNX is part of the time. Machines are 8 x 8, 16 x 16 and
32 x 32.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from archloom.mapper import disk
from archloom.mapper.cache import PLANS
from archloom.mapper.parallel import ENVIRONMENT as PROCESSES
from archloom.mapper.search import search, warm
from archloom.mapper.workload import Epilogue, Workload, conv2d
from archloom.uma_targets.gemmini.target import GEMMINI
from benchmarks.common import arguments, finish

if TYPE_CHECKING:
    import onnx

DIMS = (8, 16, 32)
WIDTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256)
KERNELS = (1, 3, 5)
IMAGES = (32, 56, 64, 96, 112, 128, 160, 192, 224)
SEPARATE, HALVED = 1 / 7, 0.4
"""Shares of convolutions that are depthwise, and that halve the image as long as it has more than seven rows."""


@dataclass(frozen=True)
class Convolution:
    """Of a square image, padded so that stride 1 keeps its size; depthwise where ``groups`` are the ``inputs``."""

    side: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    groups: int = 1

    def workload(self) -> Workload:
        """Its int8 form."""
        return conv2d(
            1, self.side, self.side, self.inputs // self.groups, self.outputs // self.groups, self.kernel, self.kernel,
            stride=(self.stride,) * 2, padding=(self.kernel // 2,) * 4, groups=self.groups,
            epilogue=Epilogue(True, 0.01, True, "int8"))


WARM = Convolution(14, 64, 64, 3, 1)
"""Planned before anything is measured."""


def draw(rng: np.random.Generator) -> tuple[Convolution, ...]:
    """A random network."""
    side, inputs, found = int(rng.choice(IMAGES)), 3, list[Convolution]()
    for _ in range(int(rng.integers(4, 13))):
        kernel, stride = int(rng.choice(KERNELS)), 2 if side > 7 and rng.random() < HALVED else 1
        depthwise = inputs > 3 and rng.random() < SEPARATE
        outputs = inputs if depthwise else int(rng.choice(WIDTHS))
        found.append(Convolution(side, inputs, outputs, kernel, stride, inputs if depthwise else 1))
        side, inputs = (side - 1) // stride + 1, outputs
    return tuple(found)


def onnx_model(network: tuple[Convolution, ...]) -> "onnx.ModelProto":
    """The network in float32, ReLU after each convolution, its weights zero."""
    from examples.onnx_graph import OnnxGraph

    graph, first, last = OnnxGraph("random"), network[0], network[-1]
    x = graph.input("image", (1, first.inputs, first.side, first.side))
    for number, c in enumerate(network):
        weight = np.broadcast_to(np.float32(0), (c.outputs, c.inputs // c.groups, c.kernel, c.kernel))
        bias = np.broadcast_to(np.float32(0), (c.outputs,))
        x = graph.conv(x, weight, bias, f"conv{number}", stride=c.stride, padding=c.kernel // 2, groups=c.groups)
        x = graph.relu(x, f"conv{number}.relu")
    side = (last.side - 1) // last.stride + 1
    return graph.model(x, (1, last.outputs, side, side), check=False)


def layers(seed: int, count: int) -> dict[str, Any]:
    """Milliseconds of processor time of each of so many new layers."""
    rng, distinct = np.random.default_rng([seed, 0]), dict[tuple[int, Convolution], None]()
    while len(distinct) < count:
        distinct.update(dict.fromkeys((int(rng.choice(DIMS)), layer) for layer in draw(rng)))
    spent, simulated = [], []
    for dim, layer in list(distinct)[:count]:
        start = time.process_time()
        plan = search(layer.workload(), GEMMINI, {"dim": dim}, use_cache=False)
        spent.append(1e3 * (time.process_time() - start))
        simulated.append(plan.simulated)
    return {"new_layer_ms": statistics.mean(spent), "worst_layer_ms": max(spent), "layers": count,
            "simulated_per_layer": statistics.mean(simulated)}


def networks(seed: int, count: int) -> dict[str, Any]:
    """Milliseconds of processor time of each of so many new networks, from an empty cache."""
    import archloom

    rng, spent = np.random.default_rng([seed, 1]), list[float]()
    archloom.estimate(onnx_model(4 * (WARM,)), "gemmini", as_int8=True)  # imports what estimates need
    with tempfile.TemporaryDirectory() as cache:
        os.environ[disk.ENVIRONMENT] = cache
        for number in range(count):
            network = draw(rng)
            start = time.process_time()
            archloom.estimate(onnx_model(network), "gemmini", {"dim": DIMS[number % len(DIMS)]}, as_int8=True)
            spent.append(1e3 * (time.process_time() - start))
        plans = next(kind.results for kind in disk.kinds() if kind.name == PLANS)
    return {"new_network_ms": statistics.mean(spent), "worst_network_ms": max(spent), "networks": count,
            "layers_planned": plans}


def warmed() -> Iterator[int]:
    """The machines, made; each plans one layer."""
    for dim in DIMS:
        warm(GEMMINI.configure({"dim": dim}))
        search(WARM.workload(), GEMMINI, {"dim": dim}, use_cache=False)
        yield dim


def _more(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--layers", type=int, default=200, help="new layers (default 200)")
    parser.add_argument("--networks", type=int, default=300, help="new networks (default 300)")


def main() -> None:
    args = arguments(__doc__ or "", _more, seeded=True)
    os.environ |= {disk.ENVIRONMENT: "", PROCESSES: "1"}  # forks have processor time of their own
    result: dict[str, Any] = {"machines": list(warmed())}
    if args.layers:
        result |= layers(args.seed, args.layers)
    if args.networks:
        result |= networks(args.seed, args.networks)
    finish(args, result)


if __name__ == "__main__":
    main()
