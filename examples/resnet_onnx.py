"""Residual networks (He et al. 2016, stride in the 3×3 convolution) as ONNX, without PyTorch.

Their seeded random weights keep the activations of every layer near unit variance, as trained networks with batch
normalization do, and the classifier is centred, so that the logits of different images differ and a wrong class can be
seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime

from archloom.models.data import random_images
from examples.onnx_graph import OnnxGraph

BRANCH_GAIN = 0.4
"""Gain of the last normalization of each residual branch: the stream grows slowly with depth."""
BATCH_NORM_EPSILON = 1e-5
NORM = ("scale", "shift", "mean", "var")
"""Parts of a batch normalization, in ONNX's order."""


@dataclass(frozen=True)
class ResNet:
    """Sizes of a residual network; ``blocks`` are the numbers of blocks in its stages."""

    blocks: tuple[int, ...] = (3, 4, 6, 3)
    bottleneck: bool = True
    width: int = 64
    image: int = 224
    channels: int = 3
    classes: int = 1000
    name: str = "resnet50"

    @property
    def features(self) -> int:
        return self.width * 2 ** (len(self.blocks) - 1) * (4 if self.bottleneck else 1)


@dataclass(frozen=True)
class Convolution:
    """One convolution with its batch normalization."""

    name: str
    inputs: int
    outputs: int
    kernel: int
    stride: int
    gain: float = 1.0

    @property
    def padding(self) -> int:
        return self.kernel // 2


@dataclass(frozen=True)
class Block:
    """A residual block: ``branch`` in order, and ``shortcut`` where the shape changes."""

    name: str
    branch: tuple[Convolution, ...]
    shortcut: Convolution | None


def resnet50(image: int = 224, classes: int = 1000) -> ResNet:
    return ResNet(image=image, classes=classes)


def resnet18(image: int = 224, classes: int = 1000) -> ResNet:
    return ResNet((2, 2, 2, 2), False, image=image, classes=classes, name="resnet18")


def tiny(image: int = 32, classes: int = 10) -> ResNet:
    """Every kind of layer of ResNet-50 in two stages of one block each."""
    return ResNet((1, 1), True, width=8, image=image, classes=classes, name="resnet_tiny")


def stem(net: ResNet) -> Convolution:
    return Convolution("conv1", net.channels, net.width, 7, 2)


def blocks(net: ResNet) -> Iterator[Block]:
    """The residual blocks in order."""
    inputs = net.width
    for stage, count in enumerate(net.blocks):
        inner = net.width << stage
        outputs = inner * (4 if net.bottleneck else 1)
        for i in range(count):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage and not i else 1
            shortcut = None
            if stride != 1 or inputs != outputs:
                shortcut = Convolution(f"{name}.shortcut", inputs, outputs, 1, stride)
            yield Block(name, _branch(net, name, inputs, inner, outputs, stride), shortcut)
            inputs = outputs


def _branch(net: ResNet, name: str, inputs: int, inner: int, outputs: int, stride: int) -> tuple[Convolution, ...]:
    if net.bottleneck:
        return (
            Convolution(f"{name}.conv1", inputs, inner, 1, 1),
            Convolution(f"{name}.conv2", inner, inner, 3, stride),
            Convolution(f"{name}.conv3", inner, outputs, 1, 1, BRANCH_GAIN),
        )
    return (
        Convolution(f"{name}.conv1", inputs, inner, 3, stride),
        Convolution(f"{name}.conv2", inner, outputs, 3, 1, BRANCH_GAIN),
    )


def convolutions(net: ResNet) -> list[Convolution]:
    """All convolutions in order of execution, shortcuts last in their block."""
    found = [stem(net)]
    for block in blocks(net):
        found += [*block.branch] + ([block.shortcut] if block.shortcut else [])
    return found


def weights(net: ResNet, seed: int = 0) -> dict[str, np.ndarray]:
    """float32 weights by name.

    ``X.weight`` [o, c, k, k] and ``X.{scale,shift,mean,var}`` [o] of each convolution ``X``, ``fc.weight``
    [classes, features] and ``fc.bias`` [classes].
    """
    rng = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for conv in convolutions(net):
        fan_in = conv.inputs * conv.kernel**2
        shape = (conv.outputs, conv.inputs, conv.kernel, conv.kernel)
        found[f"{conv.name}.weight"] = _normal(rng, shape, np.sqrt(2 / fan_in))
        found[f"{conv.name}.scale"] = (conv.gain * rng.uniform(0.8, 1.2, conv.outputs)).astype(np.float32)
        found[f"{conv.name}.shift"] = _normal(rng, (conv.outputs,), 0.1)
        found[f"{conv.name}.mean"] = _normal(rng, (conv.outputs,), 0.1)
        found[f"{conv.name}.var"] = rng.uniform(0.8, 1.25, conv.outputs).astype(np.float32)
    found["fc.weight"] = _normal(rng, (net.classes, net.features), 1 / np.sqrt(net.features))
    found["fc.bias"] = np.zeros(net.classes, np.float32)
    return found


def _normal(rng: np.random.Generator, shape: tuple[int, ...], deviation: float) -> np.ndarray:
    return (rng.standard_normal(shape) * deviation).astype(np.float32)


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
