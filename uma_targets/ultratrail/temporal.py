"""Temporal convolutions of int8 networks on UltraTrail: one axis of an NCHW convolution has extent and kernel 1.

The whole input is in a feature memory; weights come in tiles of output channels, one while the other is in use. Sums go
through the memory of partial sums and are scaled when they are stored, as those of matrix products.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.costs.pipeline import cycles
from archloom.mapper.costs.rates import Issue, Loop
from archloom.mapper.hardware import Hardware
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.memory import Memory
from archloom.mapper.options import OptionValue
from archloom.mapper.space import Space, SpaceBuilder, Table, divided
from archloom.mapper.workload import Workload
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import HbmTensor, Instr, Stream
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.uma_targets.kit import rules
from archloom.uma_targets.kit.gemm import LOWEST
from archloom.uma_targets.kit.nest import Nodes, Piece, ceil_div, each, float_bits, pieces, repeat
from archloom.uma_targets.ultratrail.emit import NONE, room


@dataclass(frozen=True)
class Windows:
    """Windows of ``kernel`` taps, ``stride`` positions apart, over ``positions`` padded ``before`` and ``after``."""

    positions: int
    kernel: int
    stride: int
    before: int
    after: int

    @property
    def count(self) -> int:
        return (self.positions + self.before + self.after - self.kernel) // self.stride + 1

    def taps(self, window: int) -> tuple[int, int]:
        """The first tap of a window that is not in the padding, and how many are not."""
        first = max(0, self.before - window * self.stride)
        return first, min(self.kernel, self.positions + self.before - window * self.stride) - first

    def first_position(self, window: int) -> int:
        """The position under that tap."""
        return window * self.stride + self.taps(window)[0] - self.before

    def runs(self, alone: Collection[int] = ()) -> list[tuple[int, int]]:
        """Windows as runs (first, count) through which the taps are the same and the position moves by the stride.

        ``alone``: windows that are to be runs of their own.
        """
        found: list[tuple[int, int]] = []
        for window in range(self.count):
            # where taps fall into the padding, the first one moves against the window
            regular = self.taps(window) == (0, self.kernel) and window not in alone
            if regular and found and self.taps(found[-1][0]) == (0, self.kernel) and (
                    found[-1][0] not in alone):
                found[-1] = found[-1][0], found[-1][1] + 1
            else:
                found.append((window, 1))
        return found


@dataclass(frozen=True)
class Temporal:
    """A convolution over ``windows`` from ``channels`` to ``outputs``, for each of ``batch`` inputs."""

    batch: int
    channels: int
    outputs: int
    windows: Windows

    @staticmethod
    def of(
        data: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...]
    ) -> "Temporal | None":
        """From NHWC extents, a kernel (height, width, inputs, outputs), strides and padding (top, left, bottom, right).

        None where neither axis is trivial.
        """
        batch, *extents, channels = data
        for along in (1, 0):
            other = 1 - along
            if extents[other] == kernel[other] == 1 and not (padding[other] or padding[other + 2]):
                windows = Windows(extents[along], kernel[along], stride[along], padding[along], padding[along + 2])
                return Temporal(batch, channels, kernel[3], windows)
        return None

    def demand(self, outputs: Any, dim: int) -> dict[str, Any]:
        """Rows of each memory that so many output channels at a time take; integers, or arrays of them."""
        blocks, more = ceil_div(self.channels, dim), -(-outputs // dim)
        return {
            "fmem": blocks * self.windows.positions + 0 * more, "wmem": more * blocks * self.windows.kernel,
            "lmem": more * self.windows.count, "bmem": more,
        }

    def fits(self, parameters: Mapping[str, int], outputs: int = 1) -> bool:
        """Whether so many output channels at a time fit, and each window has a tap outside of the padding."""
        need, have = self.demand(outputs, parameters["dim"]), room(parameters)
        inside = max(self.windows.before, self.windows.after) < self.windows.kernel
        return inside and all(need[name] <= have[name] for name in need)


# --- what is taken, and as what -------------------------------------------------------------------------------------


def _temporal(op: QuantizedOp) -> Temporal | None:
    (n, c, h, w), (o, _, kh, kw) = op.operands[0].shape, op.operands[1].shape
    return Temporal.of((n, h, w, c), (kh, kw, c, o), tuple(op.attrs["strides"]), tuple(op.attrs["padding"]))


def one_axis(op: QuantizedOp) -> str | None:
    """A convolution runs along one axis: the other one has extent 1, a kernel of 1 and no padding."""
    if _temporal(op) is None:
        kernel, data = op.operands[1].shape[2:], op.operands[0].shape[2:]
        return f"the kernel is {'x'.join(map(str, kernel))}, on an image of {'x'.join(map(str, data))}"
    return None


def fits(op: QuantizedOp, options: Mapping[str, OptionValue]) -> str | None:
    """The input of a temporal convolution fits a feature memory, weights and sums of dim channels half of theirs."""
    work = _temporal(op)
    parameters = {k: v for k, v in options.items() if isinstance(v, int)}
    if work is None or work.fits(parameters):
        return None
    return (f"{work.channels} channels at {work.windows.positions} positions, kernel {work.windows.kernel}, "
            f"{work.windows.count} results do not fit")


TAKEN = rules.AllOf("nn.conv2d", (*rules.QUANTIZATION, rules.int32_bias, rules.plain_convolution, one_axis), (fits,))
"""What is taken as a temporal convolution."""


def temporal_of(workload: Workload) -> Temporal:
    """The convolution of a ``conv2d`` workload; MappingError if it has two axes."""
    x, w = workload.inputs[:2]
    found = Temporal.of(x.shape, w.shape, workload.stride, workload.padding)
    if found is None:
        raise MappingError(f"{workload.name}: a convolution over {x.shape} by {w.shape} has no axis of extent 1")
    return found


def space(workload: Workload, hardware: Hardware, parameters: Mapping[str, int]) -> Space:
    """Output channels at a time that fit the memories; MappingError if none does."""
    work, dim = temporal_of(workload), parameters["dim"]
    if max(work.windows.before, work.windows.after) >= work.windows.kernel:
        raise MappingError(f"{workload.name}: {work} has windows that lie in the padding")
    sizes = np.array(divided(work.outputs, dim))
    builder = SpaceBuilder(
        workload.name, {f"rows of {name}": rows for name, rows in room(parameters).items()},
        "larger memories (features, weights, sums)")
    needs = {f"rows of {name}": need for name, need in work.demand(sizes, dim).items()}
    builder.add(Table(
        {"o": sizes}, needs, lambda c: cycles(_loops(work, workload.epilogue.bias, c["o"], dim), hardware),
        lambda c, i: TileMapping("conv2d", "", (("o", int(c["o"][i])),))))
    return builder.build()


def _loops(work: Temporal, bias: bool, outputs: np.ndarray, dim: int) -> Loop:
    """Inputs one after the other; for each tile of output channels weights, sums of all windows, results.

    Features, weights and sums take turns. Sizes are those of mean tiles.
    """
    w, blocks, all_of = work.windows, ceil_div(work.channels, dim), -(-work.outputs // dim)
    tiles = -(-work.outputs // outputs)
    more, inputs, filters = all_of / tiles, work.channels / blocks, work.outputs / all_of
    features = Issue("load_features", blocks, inputs, w.positions, beats=w.positions)
    weights = Issue("load_weights", more * blocks, filters, w.kernel * inputs, beats=w.kernel)
    first = Issue("load_bias", bias * more, 4 * filters, beats=1)
    store = Issue("store_sums", more, filters, w.count, beats=w.count)
    macs = Issue("mac", more * w.count, values={"layer_blocks": blocks, "taps": w.kernel}, beats=blocks * w.kernel + 1)
    one = Loop(1, (Issue("layer"), macs), first=(weights, first), slots=2)
    tile = Loop(tiles, (one,), last=(store,), slots=2)
    return Loop(1, (Loop(work.batch, (tile,), first=(features,), slots=2),), alone=(macs, replace(store, times=1)))


# --- instructions ---------------------------------------------------------------------------------------------------


def emit(workload: Workload, mapping: TileMapping, isa_parameters: tuple[tuple[str, int], ...]) -> Stream:
    """The stream of a temporal convolution; arguments and results as the workload's tensors."""
    parameters, tile = dict(isa_parameters), mapping.size("o")
    work = temporal_of(workload)
    if tile % parameters["dim"] or not work.fits(parameters, tile):
        raise MappingError(f"{mapping}: expected tiles of a multiple of {parameters['dim']} output channels that fit "
                           f"{room(parameters)}, found {work.demand(tile, parameters['dim'])}")
    memory = Memory.of(workload)
    writer = _Writer(work, memory.by_name, parameters, workload.epilogue, tile)
    return memory.stream("ultratrail", isa_parameters, repeat("batch", work.batch, writer.one))


@dataclass(frozen=True)
class _Writer:
    work: Temporal
    memory: Mapping[str, HbmTensor]
    parameters: Mapping[str, int]
    epilogue: wl.Epilogue
    tile: int

    @property
    def dim(self) -> int:
        return self.parameters["dim"]

    @property
    def blocks(self) -> int:
        return ceil_div(self.work.channels, self.dim)

    def one(self, batch: Affine) -> Nodes:
        w, dim = self.work, self.dim
        row = batch % 2 * self.parameters["features"]
        start = batch * (w.windows.positions * w.channels) + self.memory["X"].address
        loads = each("cb", pieces(w.channels, dim), lambda c, run: [Instr.make(
            "load_features", dram=c * dim + start, row=c * w.windows.positions + row, count=w.windows.positions,
            step=w.channels, channels=run.size, channel_step=1)])
        return loads + each("ot", pieces(w.outputs, self.tile), lambda t, run: self._tile(batch, t, run.size, row))

    def _tile(self, batch: Affine, t: Affine, outputs: int, features: Affine) -> Nodes:
        w, half, first = self.work, room(self.parameters), t * self.tile
        weights, sums, bias = (t % 2 * half[name] for name in ("wmem", "lmem", "bmem"))
        layer = Instr.make("layer", pitch=w.windows.positions, blocks=self.blocks, kernel=w.windows.kernel,
                           residual_shift=0, shift=0, relu=0, pool_shift=0)
        return [
            *self._weights(first, outputs, weights), *self._bias(first, outputs, bias), layer,
            *repeat("ob", ceil_div(outputs, self.dim), lambda o: self._sums(o, features, weights, sums, bias)),
            *self._store(batch, first, outputs, sums),
        ]

    def _weights(self, first: Affine, outputs: int, row: Affine) -> Nodes:
        w, dim, start = self.work, self.dim, self.memory["W"].address
        kernel = w.windows.kernel

        def one(o: Affine, out: Piece, c: Affine, inputs: Piece) -> Nodes:
            return [Instr.make(
                "load_weights", dram=first + o * dim + c * (dim * w.outputs) + start,
                row=(o * self.blocks + c) * kernel + row, count=kernel, step=w.channels * w.outputs,
                inputs=inputs.size, input_step=w.outputs, outputs=out.size, output_step=1)]

        return each("ob", pieces(outputs, dim), lambda o, out: each(
            "cb", pieces(w.channels, dim), lambda c, inputs: one(o, out, c, inputs)))

    def _bias(self, first: Affine, outputs: int, row: Affine) -> Nodes:
        if not self.epilogue.bias:
            return []
        return each("ob", pieces(outputs, self.dim), lambda o, run: [Instr.make(
            "load_bias", dram=(first + o * self.dim) * 4 + self.memory["bias"].address, row=o + row,
            channels=run.size)])

    def _sums(self, o: Affine, features: Affine, weights: Affine, sums: Affine, bias: Affine) -> Nodes:
        windows = self.work.windows

        def one(first: int, more: Affine) -> Nodes:
            tap, taps = windows.taps(first)
            return [Instr.make(
                "mac", src=more * windows.stride + windows.first_position(first) + features,
                weight=o * (self.blocks * windows.kernel) + tap + weights, taps=taps,
                bias=o + bias if self.epilogue.bias else NONE, sum=o * windows.count + more + first + sums, more=0)]

        return [node for first, count in windows.runs() for node in repeat(
            "p", count, lambda p, first=first: one(first, p))]  # type: ignore[misc]

    def _store(self, batch: Affine, first: Affine, outputs: int, sums: Affine) -> Nodes:
        w, scale = self.work, float_bits(self.epilogue.scale)
        start = batch * (w.windows.count * w.outputs) + first + self.memory["Y"].address
        return each("ob", pieces(outputs, self.dim), lambda o, run: [Instr.make(
            "store_sums", dram=o * self.dim + start, row=o * w.windows.count + sums, count=w.windows.count,
            step=w.outputs, channels=run.size, scale=scale, low=0 if self.epilogue.relu else LOWEST)])
