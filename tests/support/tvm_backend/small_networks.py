"""Small networks for tests of the whole way."""

from __future__ import annotations

import numpy as np
import onnx

from archloom.models.data import random_images
from archloom.tvm_backend.quantization.quantize import quantize
from examples.onnx_graph import OnnxGraph

IMAGE = (1, 3, 12, 12)
CLASSES = 5


def images(count: int, seed: int = 0) -> np.ndarray:
    """[count, 3, 12, 12] float32."""
    return random_images(count, IMAGE[2], IMAGE[1], seed)


def float_cnn(seed: int = 0) -> onnx.ModelProto:
    """Every kind of layer that is offloaded, and a global average that is not: about 60,000 MACs."""
    rng = np.random.default_rng(seed)

    def weight(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    def bias(size: int) -> np.ndarray:
        return (0.1 * rng.standard_normal(size)).astype(np.float32)

    graph = OnnxGraph("small")
    x = graph.input("image", IMAGE)
    x = graph.relu(graph.conv(x, weight(8, 3, 3, 3), bias(8), "stem", padding=1), "stem.relu")
    x = graph.max_pool(x, "pool", size=2, stride=2)
    y = graph.conv(x, weight(8, 8, 3, 3), bias(8), "branch", padding=1)
    x = graph.relu(graph.add(y, x, "add"), "add.relu")
    x = graph.relu(graph.conv(x, weight(11, 8, 3, 3), None, "down", stride=2), "down.relu")
    x = graph.dense(graph.global_average(x, "mean"), weight(CLASSES, 11), bias(CLASSES), "logits")
    return graph.model(x, (1, CLASSES))


def int8_cnn(seed: int = 0) -> onnx.ModelProto:
    """:func:`float_cnn`, quantized."""
    return quantize(float_cnn(seed), [{"image": image[None]} for image in images(8, seed + 1)])
