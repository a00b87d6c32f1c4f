"""The UMA target ``gemmini``: what it takes, rule by rule, and how that becomes workloads for its mapper.

A rule's docstring is the rule; it returns None where an operator keeps it, and what it saw where it does not. The
partition report prints both, and ``archloom describe gemmini`` prints the list.

The array takes dim input and dim output channels of a convolution at a time. Groups of fewer channels (of one, in a
depthwise convolution) are taken together as one group whose kernel has theirs as blocks on its diagonal, with zeros
elsewhere: the products with zeros change no sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from archloom.acadl_models import gemmini as model
from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.mapper import workload as wl
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.options import GraphOptions, Option, OptionValue
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.passes.gathered import merged
from archloom.tvm_backend.targets.backend import Lowered, UMABackend
from archloom.tvm_backend.targets.layouts import NHWC
from archloom.uma_targets.gemmini.emit import GemminiEmitter
from archloom.uma_targets.gemmini.instructions import MOST_POOL_EXTENT
from archloom.uma_targets.gemmini.space import space
from archloom.uma_targets.kit import rules, strategies, sums
from archloom.uma_targets.kit.patterns import fused

GRAPH = GraphOptions(model.gemmini)
RTL: dict[str, OptionValue] = {"scratchpad_single_ported": True, "row_requests": True, "loop_entries": 4096}
"""What the generator's default configuration has, and the defaults of the graph simplify (docs/gemmini.md)."""


def _graph(options: Mapping[str, Any]) -> ArchitectureGraph:
    """The graph; a preset takes the place of defaults, not of what was asked for."""
    preset = RTL if options["preset"] == "rtl" else {}
    defaults = {option.name: option.default for option in GRAPH.options()}
    taken = {name: value for name, value in preset.items() if options[name] == defaults[name]}
    return GRAPH.graph({**options, **taken})


GEMMINI = Accelerator(
    "gemmini", "systolic array for int8 with scratchpad, accumulator and DMA (ucb-bar/gemmini)",
    GRAPH.options({"dim": [
        Option("dataflow", str, "auto", "what stays in the array: weights (ws), sums (os), or the faster for each "
               "operator", choices=("auto", "ws", "os")),
        Option("preset", str, "none", "defaults of the graph: simplified (none), or as in the generator's default "
               "configuration (rtl)", choices=("none", "rtl")),
    ]}),
    "gemmini", _graph, lambda isa, options: GemminiEmitter(isa.parameters), space, is_bounded=True,
    touched=lambda workload, mapping, isa: GemminiEmitter(isa.parameters).emission(workload, mapping).touched,
    # a tile of products begins a cycle before the one before it has left: no rate that lasts
    macs_per_cycle=lambda graph: graph.parameters["dim"] ** 2,
    # of 60 random layers on random machines plans of three were 0.2 % slower than those of five, 7 % at most
    top_k=3,
)
FUSED = {"pool": ("conv2d",), "activation": ("conv2d", "matmul", "add"), "plain": ("conv2d", "matmul", "add")}
"""Forms of which the array makes int8 results, in the order in which they are tried, each with its operators."""

POOL_FIELD = 3
"""largest window, stride and padding that the two-bit fields of config_st hold"""


def tied_addition(op: QuantizedOp) -> str | None:
    """An addition has operands of one shape and one scale, so that integers can be added before scaling."""
    a, b = op.operands
    if a.shape != b.shape:
        return f"the operands have shapes {a.shape} and {b.shape}"
    if a.is_constant or b.is_constant:
        return "an operand is constant"
    if rules.scalar(a.scale) != rules.scalar(b.scale):
        return f"the operands have scales {float(rules.scalar(a.scale)):.6g} and {float(rules.scalar(b.scale)):.6g}"
    return None


def pool_in_mvout(op: QuantizedOp) -> str | None:
    """A max-pool has a square window and stride of at most 3, dilation 1, images below 256 x 256, and follows ReLU.

    mvout pads with zeros, which is the maximum's neutral element only for values that are not negative.
    """
    pool = rules.pool_stage(op)
    if pool is None:
        return None
    window, stride, padding = pool.attrs["pool_size"], pool.attrs["strides"], pool.attrs["padding"]
    if len(set(window)) != 1 or len(set(stride)) != 1:
        return f"the window is {window} with stride {stride}, not square"
    if max(*window, *stride, *padding) > POOL_FIELD:
        return f"the window is {window} with stride {stride} and padding {padding}, above {POOL_FIELD}"
    if max(padding) >= window[0]:
        return f"the padding {padding} is not below the window {window}"
    if tuple(pool.attrs["dilation"]) != (1, 1) or pool.attrs["ceil_mode"] or pool.attrs["layout"] != "NCHW":
        return "it has dilation, ceil_mode or another layout than NCHW"
    if max(op.shape[2:] + pool.shape[2:]) > MOST_POOL_EXTENT:
        return f"the image of {op.shape[2]} x {op.shape[3]} is larger than {MOST_POOL_EXTENT}"
    if not rules.has_relu(op):
        return "no ReLU precedes it"
    return None


def pool_without_recomputation(op: QuantizedOp, options: Mapping[str, OptionValue]) -> str | None:
    """A max-pool whose windows overlap is taken where half of the accumulator holds the whole image.

    Tiles of a larger image would each compute the rows again in which their windows overlap.
    """
    pool = rules.pool_stage(op)
    if pool is None or pool.attrs["pool_size"][0] <= pool.attrs["strides"][0]:
        return None
    rows = GEMMINI.graph(options).parameters["acc_rows"] // 2
    height, width = op.shape[2:]
    if height * width > rows:
        return (f"its windows overlap ({pool.attrs['pool_size'][0]} > {pool.attrs['strides'][0]}) and the {height} x "
                f"{width} image does not fit half of the accumulator's rows ({rows})")
    return None


CONV2D: tuple[rules.Rule, ...] = (*rules.QUANTIZATION, rules.int32_bias, rules.constant_kernel, pool_in_mvout)
CONV2D_SIZED: tuple[rules.SizedRule, ...] = (pool_without_recomputation,)
ADD: tuple[rules.Rule, ...] = (*rules.QUANTIZATION, tied_addition)


def conv2d(op: QuantizedOp, options: Mapping[str, OptionValue]) -> Lowered:
    """NCHW in the network, channels last in memory; the OIHW kernel becomes [groups, kh, kw, c, o]."""
    groups = int(op.attrs["groups"])
    kernel = op.operands[1]
    if groups == 1 and tuple(op.attrs["dilation"]) == (1, 1):
        return strategies.conv2d(op)
    n, channels, h, w = op.operands[0].shape
    o, c, kh, kw = kernel.shape
    blocks = merged_groups(groups, max(c, o // groups), GEMMINI.graph(options).parameters["dim"])
    top, left, bottom, right = op.attrs["padding"]
    sh, sw = op.attrs["strides"]
    dh, dw = op.attrs["dilation"]
    work = wl.conv2d(
        n, h, w, channels // groups * blocks, o // groups * blocks, kh, kw, stride=(sh, sw),
        padding=(top, left, bottom, right), dilation=(dh, dw), groups=groups // blocks, blocks=blocks,
        epilogue=strategies.epilogue(op), name=op.name)
    assert kernel.array is not None
    weights = np.ascontiguousarray(diagonal(kernel.array, groups, blocks)).reshape(work.inputs[1].shape)
    base = "conv2d" if groups == 1 else "depthwise_conv2d" if c == 1 else "grouped_conv2d"
    return Lowered(work, strategies.label(base, op), (("X", 0),), {"W": weights, **strategies.bias(op)}, NHWC)


def merged_groups(groups: int, channels: int, dim: int) -> int:
    """How many groups of ``channels`` channels are taken together: the largest divisor that the array has room for."""
    return max(t for t in range(1, groups + 1) if groups % t == 0 and (t == 1 or t * channels <= dim))


def diagonal(kernel: np.ndarray, groups: int, blocks: int) -> np.ndarray:
    """OIHW of ``groups`` groups → [groups / blocks, kh, kw, blocks · c, blocks · o] with zeros beside the diagonal."""
    wide = merged(kernel, groups, blocks)
    return wide.reshape(groups // blocks, -1, *wide.shape[1:]).transpose(0, 3, 4, 2, 1)


class Gemmini(UMABackend):
    """Gemmini: a systolic array for int8 with weight- and output-stationary dataflow, scratchpad and accumulator."""

    def __init__(self) -> None:
        super().__init__()
        conv = rules.AllOf("nn.conv2d", CONV2D, CONV2D_SIZED)
        matmul = rules.AllOf("matmul", rules.INT8_MATMUL)
        add = rules.AllOf("add", ADD)
        taken: dict[str, tuple[rules.AllOf, Any]] = {
            "conv2d": (conv, conv2d), "matmul": (matmul, strategies.matmul), "add": (add, strategies.add)}
        for form, anchors in FUSED.items():
            for anchor in anchors:
                predicate, strategy = taken[anchor]
                self._register_pattern(f"{anchor}_{form}", partial(fused, anchor, form), predicate)
                self._register_operator_strategy(f"{anchor}_{form}", strategy, takes_options=anchor == "conv2d")
        self._offer_sums()
        self._register_codegen("stream", lambda: GEMMINI)

    def _offer_sums(self) -> None:
        """What one factor for all sums and zero points of 0 are not enough for: the host makes the results."""
        sums.offer(self, "conv2d", rules.AllOf("nn.conv2d", sums.SUMS_CONV2D), conv2d)
        sums.offer(self, "matmul", rules.AllOf("matmul", sums.SUMS_MATMUL), lambda op, options: strategies.matmul(op))

    @property
    def target_name(self) -> str:
        return "gemmini"
