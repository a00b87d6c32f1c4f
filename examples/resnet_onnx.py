"""The residual networks of :mod:`archloom.models.resnet` as ONNX, without PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime

from archloom.models.data import random_images
from archloom.models.resnet import BATCH_NORM_EPSILON, Convolution, ResNet, blocks, stem, weights
from examples.onnx_graph import OnnxGraph

NORM = ("scale", "shift", "mean", "var")
"""Parts of a batch normalization, in ONNX's order."""


def folded(conv: Convolution, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Weight and bias of ``conv`` with its batch normalization folded in: w·g/σ, shift − mean·g/σ."""
    factor = values[f"{conv.name}.scale"] / np.sqrt(values[f"{conv.name}.var"] + BATCH_NORM_EPSILON)
    weight = values[f"{conv.name}.weight"] * factor[:, None, None, None]
    return weight, values[f"{conv.name}.shift"] - values[f"{conv.name}.mean"] * factor


def onnx_model(
    net: ResNet, seed: int = 0, *, batch: int | str = 1, fold_batch_norm: bool = True, centre: bool = True
) -> onnx.ModelProto:
    """The network as ONNX with input ``image`` [batch, channels, image, image] and output ``logits`` [batch, classes].

    ``centre`` subtracts the mean logits of a few random images (one short run of onnxruntime), without which
    a random network answers every image with the same class. A string as ``batch`` leaves that dimension open.
    """
    values = weights(net, seed)
    if centre:
        values["fc.weight"], values["fc.bias"] = _centred_head(net, values)
    return _assemble(net, values, batch, fold_batch_norm, head=True)


def _assemble(net: ResNet, values: Mapping[str, np.ndarray], batch: int | str, fold: bool, head: bool
              ) -> onnx.ModelProto:
    graph = OnnxGraph(net.name)

    def conv(x: str, c: Convolution) -> str:
        if fold:
            weight, bias = folded(c, values)
            return graph.conv(x, weight, bias, c.name, stride=c.stride, padding=c.padding)
        y = graph.conv(x, values[f"{c.name}.weight"], None, c.name, stride=c.stride, padding=c.padding)
        return graph.batch_norm(y, {part: values[f"{c.name}.{part}"] for part in NORM}, f"{c.name}.norm")

    x = graph.input("image", (batch, net.channels, net.image, net.image))
    x = graph.relu(conv(x, stem(net)), "conv1.relu")
    x = graph.max_pool(x, "pool1", size=3, stride=2, padding=1)
    for block in blocks(net):
        y = x
        for i, c in enumerate(block.branch):
            y = conv(y, c)
            if i + 1 < len(block.branch):
                y = graph.relu(y, f"{c.name}.relu")
        x = graph.add(y, conv(x, block.shortcut) if block.shortcut else x, f"{block.name}.add")
        x = graph.relu(x, f"{block.name}.relu")
    x = graph.global_average(x, "features")
    if not head:
        return graph.model(x, (batch, net.features))
    return graph.model(graph.dense(x, values["fc.weight"], values["fc.bias"], "logits"), (batch, net.classes))


def _centred_head(net: ResNet, values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Classifier weights scaled to unit logits and a bias that subtracts the mean over a few random images."""
    body = _assemble(net, values, 1, True, head=False)
    session = onnxruntime.InferenceSession(body.SerializeToString(), providers=["CPUExecutionProvider"])
    images = random_images(8, net.image, net.channels, seed=2**20)
    features = np.concatenate([session.run(None, {"image": image[None]})[0] for image in images])
    mean = features.mean(0)
    weight = values["fc.weight"] * np.float32(2 / max(float((features - mean).std()), 1e-6))
    return weight, (-weight @ mean).astype(np.float32)
