"""TC-ResNet8 for keyword spotting (Choi et al., Interspeech 2019) as ONNX with seeded random weights.

The audio is 101 frames of 40 coefficients, frames along the width; convolutions run along it. What comes out are the
features before the average and the dense layer.
"""

from __future__ import annotations

import numpy as np
import onnx

from archloom.models.onnx_graph import OnnxGraph

CHANNELS, FRAMES = 40, 101
INPUT = (1, CHANNELS, 1, FRAMES)
STEM, WIDTHS = 16, (24, 32, 48)


def onnx_model(seed: int = 0) -> onnx.ModelProto:
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


def random_audio(count: int, seed: int = 1) -> list[dict[str, np.ndarray]]:
    """``count`` inputs of normally distributed coefficients."""
    rng = np.random.default_rng(seed)
    return [{"x": rng.standard_normal(INPUT).astype(np.float32)} for _ in range(count)]
