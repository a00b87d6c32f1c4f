"""A search space of image classifiers at ImageNet size, in the manner of MobileNetV2 and once-for-all networks.

An architecture has an image size, a width multiplier, and for each of six stages a depth; each block of a stage has a
kernel size and an expansion ratio of its own (Cai et al. 2020, over the stages of MobileNetV2, Sandler et al. 2018).
A block is an inverted residual: 1×1 expansion, depthwise convolution, 1×1 projection, and the sum with its input where
both have one shape.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

    from examples.onnx_graph import OnnxGraph


@dataclass(frozen=True)
class Stage:
    """Blocks of one width; the first of them has ``stride``."""

    width: int
    stride: int
    depths: tuple[int, ...] = (2, 3, 4)


@dataclass(frozen=True)
class Space:
    """What may be chosen, and what is the same for all networks."""

    images: tuple[int, ...] = (128, 160, 192, 224)
    multipliers: tuple[float, ...] = (0.75, 1.0)
    kernels: tuple[int, ...] = (3, 5, 7)
    expansions: tuple[int, ...] = (3, 4, 6)
    stages: tuple[Stage, ...] = (
        Stage(24, 2), Stage(32, 2), Stage(64, 2), Stage(96, 1), Stage(160, 2), Stage(320, 1, (1,)),
    )
    stem: int = 32
    first: int = 16
    head: int = 1280
    classes: int = 1000

    @property
    def size(self) -> int:
        """Number of architectures."""
        blocks = len(self.kernels) * len(self.expansions)
        networks = math.prod(sum(blocks**depth for depth in stage.depths) for stage in self.stages)
        return networks * len(self.images) * len(self.multipliers)


MOBILE = Space()


@dataclass(frozen=True)
class Block:
    """An inverted residual with its choices and the sizes that follow from them."""

    inputs: int
    outputs: int
    kernel: int
    expansion: int
    stride: int

    @property
    def hidden(self) -> int:
        return self.inputs * self.expansion

    @property
    def residual(self) -> bool:
        return self.stride == 1 and self.inputs == self.outputs


@dataclass(frozen=True)
class Architecture:
    """One network: ``choices`` has for each stage the (kernel, expansion) of its blocks."""

    image: int
    multiplier: float
    choices: tuple[tuple[tuple[int, int], ...], ...]
    space: Space = MOBILE

    @property
    def name(self) -> str:
        stages = "_".join("".join(f"k{k}e{e}" for k, e in stage) for stage in self.choices)
        return f"nas_r{self.image}_w{self.multiplier:g}_{stages}"

    def width(self, channels: int) -> int:
        """``channels`` times the multiplier, a multiple of 8 that is not more than a tenth smaller."""
        wanted = channels * self.multiplier
        rounded = max(8, int(wanted + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * wanted else rounded

    def blocks(self) -> Iterator[Block]:
        """All inverted residuals, in order; the first has no expansion."""
        inputs = self.width(self.space.first)
        yield Block(self.width(self.space.stem), inputs, 3, 1, 1)
        for stage, choices in zip(self.space.stages, self.choices, strict=True):
            outputs = self.width(stage.width)
            for position, (kernel, expansion) in enumerate(choices):
                yield Block(inputs, outputs, kernel, expansion, 1 if position else stage.stride)
                inputs = outputs


def draw(rng: np.random.Generator, space: Space = MOBILE) -> Architecture:
    """A random architecture: every choice is uniform and independent."""

    def block() -> tuple[int, int]:
        return int(rng.choice(space.kernels)), int(rng.choice(space.expansions))

    return Architecture(
        int(rng.choice(space.images)), float(rng.choice(space.multipliers)),
        tuple(tuple(block() for _ in range(int(rng.choice(stage.depths)))) for stage in space.stages), space,
    )


def onnx_model(architecture: Architecture, seed: int | None = None) -> "onnx.ModelProto":
    """The network in float32: ``image`` [1, 3, s, s] → ``logits`` [1, classes], batch normalization folded.

    With a ``seed`` the weights are random; without one they are zero, which is enough to map and time it.
    """
    from examples.onnx_graph import OnnxGraph

    graph, weights = OnnxGraph(architecture.name), _Weights(seed)
    size = architecture.image
    x = graph.input("image", (1, 3, size, size))
    x = _conv(graph, weights, x, (3, architecture.width(architecture.space.stem), 3), "stem", stride=2)
    last = 0
    for position, block in enumerate(architecture.blocks()):
        x, last = _block(graph, weights, x, block, f"block{position}"), block.outputs
    head = max(architecture.space.head, architecture.width(architecture.space.head))
    x = _conv(graph, weights, x, (last, head, 1), "head")
    x = graph.global_average(x, "pool")
    classes = architecture.space.classes
    x = graph.dense(x, weights((classes, head)), weights((classes,)), "logits")
    return graph.model(x, (1, classes), check=False)


def _block(graph: "OnnxGraph", weights: "_Weights", x: str, block: Block, name: str) -> str:
    y = x
    if block.expansion > 1:
        y = _conv(graph, weights, y, (block.inputs, block.hidden, 1), f"{name}.expand")
    y = _conv(graph, weights, y, (block.hidden, block.hidden, block.kernel), f"{name}.depthwise", stride=block.stride,
              groups=block.hidden)
    y = _conv(graph, weights, y, (block.hidden, block.outputs, 1), f"{name}.project", activation=False)
    return graph.add(y, x, f"{name}.add") if block.residual else y


def _conv(
    graph: "OnnxGraph", weights: "_Weights", x: str, sizes: tuple[int, int, int], name: str, *, stride: int = 1,
    groups: int = 1, activation: bool = True,
) -> str:
    """A convolution of (inputs, outputs, kernel) ``sizes`` with bias, and ReLU6 if ``activation``."""
    inputs, outputs, kernel = sizes
    weight, bias = weights((outputs, inputs // groups, kernel, kernel)), weights((outputs,))
    x = graph.conv(x, weight, bias, name, stride=stride, padding=kernel // 2, groups=groups)
    return graph.clip(x, f"{name}.relu6", 0.0, 6.0) if activation else x


class _Weights:
    """Weights by shape: random ones of unit gain, or zeros."""

    def __init__(self, seed: int | None) -> None:
        self._rng = None if seed is None else np.random.default_rng(seed)

    def __call__(self, shape: tuple[int, ...]) -> np.ndarray:
        if self._rng is None:
            return np.broadcast_to(np.zeros((), np.float32), shape)
        gain = math.sqrt(2 / max(1, math.prod(shape[1:])))
        return (self._rng.standard_normal(shape) * gain).astype(np.float32)
