"""Networks with a published latency on UltraTrail (DSD 2022), and TC-ResNet8, by simulation.

TC-ResNet8 (keyword spotting, Choi et al., Interspeech 2019) is also compiled from a quantized ONNX network of seeded
random weights through the target and compared with onnxruntime: there, loads and stores of each layer count, and
additions run on the host. Its audio is 101 frames of 40 coefficients, frames along the width; convolutions run along
it. What comes out are the features before the average and the dense layer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # this checkout, however the script is run:
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))  # its benchmarks, its examples and its archloom

from benchmarks.common import arguments, finish
from examples.onnx_graph import OnnxGraph

CHANNELS, FRAMES = 40, 101
INPUT = (1, CHANNELS, 1, FRAMES)
STEM, WIDTHS = 16, (24, 32, 48)


def tc_resnet8(seed: int) -> onnx.ModelProto:
    """The network in float32: ``x`` [1, 40, 1, 101] → [1, 48, 1, 13]."""
    rng = np.random.default_rng(seed)
    graph = OnnxGraph("tc_resnet8")

    def conv(x: str, outputs: int, inputs: int, kernel: int, stride: int, name: str) -> str:
        weight = rng.standard_normal((outputs, inputs, 1, kernel)) / np.sqrt(inputs * kernel)
        bias = rng.standard_normal(outputs) / 10
        tensors = [graph.weight(f"{name}.{part}", value.astype(np.float32))
                   for part, value in (("weight", weight), ("bias", bias))]
        return graph.node("Conv", [x, *tensors], name, kernel_shape=[1, kernel], strides=[1, stride],
                          pads=[0, kernel // 2] * 2)

    x = graph.relu(conv(graph.input("x", INPUT), STEM, CHANNELS, 3, 1, "stem"), "stem.relu")
    inputs = STEM
    for number, outputs in enumerate(WIDTHS):
        name = f"block{number}"
        around = graph.relu(conv(x, outputs, inputs, 1, 2, f"{name}.around"), f"{name}.around.relu")
        y = graph.relu(conv(x, outputs, inputs, 9, 2, f"{name}.first"), f"{name}.first.relu")
        y = conv(y, outputs, outputs, 9, 1, f"{name}.second")
        x = graph.relu(graph.add(y, around, f"{name}.sum"), f"{name}.relu")
        inputs = outputs
    return graph.model(x, (1, WIDTHS[-1], 1, -(-FRAMES // 2 ** len(WIDTHS))))


def random_audio(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """``count`` inputs of normally distributed coefficients."""
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal(INPUT).astype(np.float32)} for _ in range(count)]


def through_the_target(seed: int) -> dict[str, Any]:
    """TC-ResNet8 from ONNX to UltraTrail."""
    import archloom
    from archloom.tvm_backend.quantization.quantize import quantize

    model = archloom.load(quantize(tc_resnet8(seed), random_audio(4, seed + 1)))
    report = archloom.estimate(model, "ultratrail")
    checked = archloom.check(model, "ultratrail")
    exact = all(layer.bit_exact for layer in checked.layers) and checked.outputs[0].max_error_in_steps == 0
    return {"cycles": report.accelerator_cycles, "offloaded": report.offloaded_macs_share, "equal": exact}


def main(args: argparse.Namespace) -> None:
    from benchmarks.published import dsd22

    rows = []
    print(f"{'network':12} {'array':>6} {'MACs':>9} {'cycles':>7} {'published':>10} {'ms at 250 kHz':>14} {'use':>6}")
    for entry in (*dsd22.NETWORKS, dsd22.Published(dsd22.TC_RESNET8, 8, None)):
        cycles, net = dsd22.simulate_cycles(entry), entry.network
        use = net.macs / (cycles * entry.dim ** 2)
        print(f"{net.name:12} {f'{entry.dim}x{entry.dim}':>6} {net.macs:9,} {cycles:7} {entry.cycles or '':>10} "
              f"{1e3 * cycles / dsd22.CLOCK_HZ:14.2f} {use:6.1%}")
        rows.append({"name": net.name, "dim": entry.dim, "cycles": cycles, "published": entry.cycles})
    compiled = through_the_target(args.seed)
    print(f"TC-ResNet8 from ONNX: {compiled['cycles']} cycles with loads and stores, {compiled['offloaded']:.0%} of "
          f"MACs offloaded, equal to onnxruntime: {compiled['equal']}")
    compared = [row for row in rows if row["published"]]
    finish(args, {
        "networks": rows, "compiled": compiled, "compared": len(compared),
        "equal": sum(row["cycles"] == row["published"] for row in compared),
        "equal_share": sum(row["cycles"] == row["published"] for row in compared) / len(compared),
        "worst_ratio": max(max(r["cycles"] / r["published"], r["published"] / r["cycles"]) for r in compared),
    })


if __name__ == "__main__":
    main(arguments(__doc__ or "", seeded=True))
