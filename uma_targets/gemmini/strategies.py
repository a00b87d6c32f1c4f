"""Convolutions of any groups and dilation as workloads of Gemmini.

The array takes dim input and dim output channels at a time. Groups of fewer channels (of one, in a depthwise
convolution) are taken together as one group whose kernel has theirs as blocks on its diagonal, with zeros elsewhere:
the products with zeros change no sum.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.options import OptionValue
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.targets.backend import Lowered
from archloom.tvm_backend.targets.layouts import NHWC
from archloom.uma_targets.gemmini.predicates import isa_parameters
from archloom.uma_targets.kit import strategies


def conv2d(op: QuantizedOp, options: Mapping[str, OptionValue]) -> Lowered:
    """NCHW in the network, channels last in memory; the OIHW kernel becomes [groups, kh, kw, c, o]."""
    groups = int(op.attrs["groups"])
    kernel = op.operands[1]
    if groups == 1 and tuple(op.attrs["dilation"]) == (1, 1):
        return strategies.conv2d(op)
    n, channels, h, w = op.operands[0].shape
    o, c, kh, kw = kernel.shape
    blocks = merged_groups(groups, max(c, o // groups), isa_parameters(options)["dim"])
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
    o, c, kh, kw = kernel.shape
    outputs = o // groups
    parts = kernel.reshape(groups // blocks, blocks, outputs, c, kh, kw)
    made = np.zeros((groups // blocks, kh, kw, blocks, c, blocks, outputs), kernel.dtype)
    for i in range(blocks):
        made[:, :, :, i, :, i, :] = parts[:, i].transpose(0, 3, 4, 2, 1)
    return made.reshape(groups // blocks, kh, kw, blocks * c, blocks * outputs)
