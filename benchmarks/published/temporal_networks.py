"""Temporal convolutional networks for UltraTrail: their layers, and a whole inference as one stream.

A network is a list of convolutions over feature maps of (channels, positions); the average over the positions and a
dense layer end it. Map 0 is the input, map i + 1 the output of layer i.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from archloom.acadl_models.ultratrail import FEATURE_MEMORIES
from archloom.mapper.memory import place
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Instr, Node, Stream
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, pieces, repeat
from archloom.uma_targets.ultratrail.temporal import Windows

NONE = 0xFFFFFFFF


@dataclass(frozen=True)
class Layer:
    """A 1-D convolution of ``source`` with padding to both sides, plus ``residual``, rounded and perhaps activated.

    ``positions`` are those of its source, ``outputs`` its channels. Features are shifted right by ``shift`` (and the
    residual left by ``residual_shift`` before). ``pooled``: only the average over the positions is kept, as the sum
    shifted right.
    """

    name: str
    source: int
    channels: int
    positions: int
    outputs: int
    kernel: int = 1
    stride: int = 1
    relu: bool = True
    bias: bool = True
    shift: int = 7
    residual: int | None = None
    residual_shift: int = 0
    pooled: bool = False

    @cached_property
    def windows(self) -> Windows:
        """Where its kernel looks: as much padding on both sides."""
        return Windows(self.positions, self.kernel, self.stride, self.kernel // 2, self.kernel // 2)

    @property
    def made(self) -> int:
        """Positions before pooling."""
        return self.windows.count

    @property
    def kept(self) -> int:
        """Positions of the map that it leaves."""
        return 1 if self.pooled else self.made

    @property
    def pool_shift(self) -> int:
        """The shift that stands for the division by :attr:`made`: the power of two next to it."""
        return round(math.log2(self.made))


@dataclass(frozen=True)
class Block:
    """Convolutions one after the other, (outputs, kernel, activated) each, the first with ``stride``.

    ``residual``: the block's input is added to its result, through a 1 × 1 convolution of the same stride. As in the
    networks' source, a block of stride 1 has no such way around.
    """

    convolutions: tuple[tuple[int, int, bool], ...]
    stride: int = 1
    residual: bool = False


@dataclass(frozen=True)
class Network:
    """``layers`` over an input of (channels, positions)."""

    name: str
    channels: int
    positions: int
    layers: tuple[Layer, ...]

    @property
    def macs(self) -> int:
        """Multiplications by weights, those of the padding left out."""
        return sum(n.channels * n.outputs * sum(n.windows.taps(p)[1] for p in range(n.made)) for n in self.layers)


def network(name: str, channels: int, positions: int, blocks: Sequence[Block], classes: int) -> Network:
    """The blocks, the average over positions and a dense layer to ``classes``.

    MappingError where a block's way around ends with other positions than its convolutions (even kernels add one).
    """
    layers: list[Layer] = []
    source, now = 0, (channels, positions)
    for number, block in enumerate(blocks):
        around = None
        if block.residual and block.stride > 1:
            layers.append(Layer(f"block{number}.around", source, *now, block.convolutions[-1][0], 1, block.stride))
            around = len(layers)
        stride = block.stride
        for i, (outputs, kernel, relu) in enumerate(block.convolutions):
            last = i + 1 == len(block.convolutions)
            layers.append(Layer(
                f"block{number}.conv{i}", source, *now, outputs, kernel, stride, relu or (last and around is not None),
                residual=around if last else None, residual_shift=7 if last and around is not None else 0))
            source, stride, now = len(layers), 1, (outputs, layers[-1].made)
        if around is not None and layers[around - 1].made != now[1]:
            raise MappingError(f"{name}: block {number} makes {now[1]} positions, and the way around it "
                               f"{layers[around - 1].made}; its kernels must be odd")
    layers[-1] = replace(layers[-1], pooled=now[1] > 1)
    layers.append(Layer("dense", source, now[0], 1, classes, relu=False))
    return Network(name, channels, positions, tuple(layers))


def inference(net: Network, parameters: Mapping[str, int], *, resident: bool = False) -> Stream:
    """One inference. Arguments: ``x`` (channels, positions) int8, and for each layer its weights (outputs, channels,
    kernel) int8 and bias (outputs) int32, named after it; result ``y`` (classes) int8.

    ``resident``: input and weights are in place already and the result stays, as the latencies of the sources count:
    such a stream has no arguments and is good for timing alone. MappingError for a network that does not fit.
    """
    writer = _Writer(net, parameters)
    last = net.layers[-1]
    if resident:
        return Stream("ultratrail", tuple(parameters.items()), (), (), 0, tuple(writer.compute()), net.name)
    tensors: list[tuple[str, tuple[int, ...], str, int]] = [
        ("x", (net.channels, net.positions), "int8", net.channels * net.positions)
    ]
    for layer in net.layers:
        shape = layer.outputs, layer.channels, layer.kernel
        tensors.append((f"{layer.name}.weight", shape, "int8", shape[0] * shape[1] * shape[2]))
        tensors += [(f"{layer.name}.bias", (layer.outputs,), "int32", 4 * layer.outputs)] if layer.bias else []
    memory = place([*tensors, ("y", (last.outputs,), "int8", last.outputs)])
    body = [*writer.load({t.name: t for t in memory}), *writer.compute(), *writer.store(memory[-1])]
    end = memory[-1].address + last.outputs
    return Stream(
        "ultratrail", tuple(parameters.items()), tuple(memory[:-1]), (memory[-1],), end, tuple(body), net.name
    )


@dataclass(frozen=True)
class _Writer:
    net: Network
    parameters: Mapping[str, int]

    @property
    def dim(self) -> int:
        return self.parameters["dim"]

    def _blocks(self, channels: int) -> int:
        return ceil_div(channels, self.dim)

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """First row of each layer's weights: blocks of outputs, within them of inputs, within them taps."""
        rows = [self._blocks(n.outputs) * self._blocks(n.channels) * n.kernel for n in self.net.layers]
        return self._starts("weights", rows)

    @cached_property
    def biases(self) -> tuple[int, ...]:
        return self._starts("biases", [self._blocks(n.outputs) if n.bias else 0 for n in self.net.layers])

    def _starts(self, memory: str, rows: Sequence[int]) -> tuple[int, ...]:
        have = self.parameters[memory]
        if sum(rows) > have:
            raise MappingError(f"{self.net.name} on ultratrail needs {sum(rows)} rows of {memory}, {have} are there")
        return tuple(sum(rows[:i]) for i in range(len(rows)))

    @cached_property
    def maps(self) -> tuple[int, ...]:
        """First row of each feature map; a map takes a feature memory until its last reader is through."""
        layers, size = self.net.layers, self.parameters["features"]
        readers = [[i for i, n in enumerate(layers) if m in (n.source, n.residual)] for m in range(len(layers) + 1)]
        shapes = [(self.net.channels, self.net.positions), *((n.outputs, n.kept) for n in layers)]
        rows = [self._blocks(c) * p for c, p in shapes]
        if max(rows) > size:
            raise MappingError(
                f"{self.net.name} on ultratrail needs {max(rows)} rows of features in one memory, {size} are there"
            )
        memories = [0]
        for i in range(len(layers)):
            taken = {memories[m] for m in range(i + 1) if readers[m] and max(readers[m]) >= i}
            memories.append(next(k for k in range(FEATURE_MEMORIES) if k not in taken))
        return tuple(m * size for m in memories)

    # --- moves ----------------------------------------------------------------------------------------------------
    def load(self, memory: Mapping[str, HbmTensor]) -> Iterator[Node]:
        """Input, weights and biases."""
        net, dim = self.net, self.dim
        yield from each("cb", pieces(net.channels, dim), lambda c, run: [Instr.make(
            "load_features", dram=memory["x"].address + c * (dim * net.positions), row=self.maps[0] + c * net.positions,
            count=net.positions, step=1, channels=run.size, channel_step=net.positions)])
        for i, layer in enumerate(net.layers):
            yield from self._load_weights(layer, memory[f"{layer.name}.weight"].address, self.weights[i])
            if layer.bias:
                address, row = memory[f"{layer.name}.bias"].address, self.biases[i]
                yield from self._load_bias(layer, address, row)

    def _load_weights(self, n: Layer, address: int, row: int) -> Nodes:
        dim, blocks = self.dim, self._blocks(n.channels)

        def one(o: Affine, outputs: Piece, c: Affine, inputs: Piece) -> Nodes:
            return [Instr.make(
                "load_weights", dram=(o * n.channels + c) * (dim * n.kernel) + address,
                row=(o * blocks + c) * n.kernel + row, count=n.kernel, step=1, inputs=inputs.size,
                input_step=n.kernel, outputs=outputs.size, output_step=n.channels * n.kernel)]

        return each("ob", pieces(n.outputs, dim), lambda o, outputs: each(
            "cb", pieces(n.channels, dim), lambda c, inputs: one(o, outputs, c, inputs)))

    def _load_bias(self, n: Layer, address: int, row: int) -> Nodes:
        return each("ob", pieces(n.outputs, self.dim), lambda o, run: [Instr.make(
            "load_bias", dram=o * (4 * self.dim) + address, row=o + row, channels=run.size)])

    def store(self, y: HbmTensor) -> Nodes:
        """The classes' values."""
        return each("ob", pieces(y.shape[0], self.dim), lambda o, run: [Instr.make(
            "store_features", dram=o * self.dim + y.address, row=o + self.maps[-1], count=1, step=0, channels=run.size,
            channel_step=1)])

    # --- layers ---------------------------------------------------------------------------------------------------
    def compute(self) -> Iterator[Node]:
        """The convolutions, layer by layer: for each block of outputs all positions."""
        for i, layer in enumerate(self.net.layers):
            yield self.setup(layer)
            yield from repeat("ob", self._blocks(layer.outputs), lambda o, i=i: self._positions(i, o))  # type: ignore[misc]

    def setup(self, n: Layer) -> Instr:
        """What holds for all positions of a layer."""
        return Instr.make("layer", pitch=n.positions, blocks=self._blocks(n.channels), kernel=n.kernel,
                          residual_shift=n.residual_shift, shift=n.shift, relu=int(n.relu),
                          pool_shift=n.pool_shift if n.pooled else 0)

    def _positions(self, i: int, o: Affine) -> Nodes:
        layer = self.net.layers[i]
        ends = (0, layer.made - 1) if layer.pooled else ()  # which start and end the average
        return [node for first, count in layer.windows.runs(ends) for node in repeat(
            "p", count, lambda p, first=first: [self._convolution(i, o, first, p)])]  # type: ignore[misc]

    def _convolution(self, i: int, o: Affine, first: int, more: Affine) -> Node:
        """Output ``first + more`` of block ``o`` of layer ``i``; ``more`` changes no taps."""
        n = self.net.layers[i]
        tap, taps = n.windows.taps(first)
        blocks, position = self._blocks(n.channels), more + first
        residual: Affine | int = NONE
        if n.residual is not None:
            residual = o * n.made + position + self.maps[n.residual]
        attributes: dict[str, Affine | int] = {
            "src": more * n.stride + (self.maps[n.source] + n.windows.first_position(first)),
            "weight": o * (blocks * n.kernel) + (self.weights[i] + tap), "taps": taps,
            "bias": o + self.biases[i] if n.bias else NONE, "residual": residual,
            "dst": o * n.kept + (0 if n.pooled else position) + self.maps[i + 1],
        }
        if not n.pooled:
            return Instr.make("conv", **attributes)
        return Instr.make("conv_pool", **attributes, first=int(first == 0), last=int(first + 1 == n.made))
