"""The network of :mod:`archloom.models.digits` as ONNX, node by node."""

from __future__ import annotations

import onnx
from torch import nn

from archloom.models.digits import CLASSES, SHAPE, DigitsNet, Residual
from examples.onnx_graph import OnnxGraph


def onnx_model(net: DigitsNet, batch: int | str = 1) -> onnx.ModelProto:
    """The network as ONNX: ``image`` [batch, 1, 8, 8] → ``logits`` [batch, 10]; a string leaves the batch open."""
    graph = OnnxGraph("digits")

    def conv(x: str, layer: nn.Conv2d, name: str) -> str:
        weight, bias = layer.weight.detach().numpy(), layer.bias.detach().numpy()
        return graph.conv(x, weight, bias, name, padding=1)

    def residual(x: str, block: Residual, name: str) -> str:
        y = graph.relu(conv(x, block.first, f"{name}.first"), f"{name}.first.relu")
        y = graph.add(conv(y, block.second, f"{name}.second"), x, f"{name}.add")
        return graph.relu(y, f"{name}.relu")

    x = graph.input("image", (batch, *SHAPE))
    x = graph.relu(conv(x, net.stem, "stem"), "stem.relu")
    x = graph.relu(conv(residual(x, net.block1, "block1"), net.widen, "widen"), "widen.relu")
    x = residual(graph.max_pool(x, "pool1", size=2, stride=2), net.block2, "block2")
    x = graph.max_pool(graph.relu(conv(x, net.last, "last"), "last.relu"), "pool2", size=2, stride=2)
    x = graph.node("Flatten", [x], "flatten", axis=1)
    x = graph.dense(x, net.head.weight.detach().numpy(), net.head.bias.detach().numpy(), "logits")
    return graph.model(x, (batch, CLASSES))
