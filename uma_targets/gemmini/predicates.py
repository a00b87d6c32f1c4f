"""What Gemmini takes, rule by rule.

A rule's docstring is the rule; it returns None where an operator keeps it, and what it saw where it does not. The
partition report prints both, and ``archloom describe gemmini`` prints the list.
"""

from __future__ import annotations

from collections.abc import Mapping

from archloom.mapper.options import OptionValue
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.uma_targets.gemmini.instructions import MOST_POOL_EXTENT
from archloom.uma_targets.kit import rules

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
    rows = isa_parameters(options)["acc_rows"] // 2
    height, width = op.shape[2:]
    if height * width > rows:
        return (f"its windows overlap ({pool.attrs['pool_size'][0]} > {pool.attrs['strides'][0]}) and the {height} x "
                f"{width} image does not fit half of the accumulator's rows ({rows})")
    return None


def isa_parameters(options: Mapping[str, OptionValue]) -> Mapping[str, int]:
    """The parameters of the ISA at these options: sizes of the array and of its memories."""
    from archloom.uma_targets.gemmini.accelerator import GEMMINI

    return dict(GEMMINI.isa(options).parameters)


CONV2D: tuple[rules.Rule, ...] = (*rules.QUANTIZATION, rules.int32_bias, rules.constant_kernel, pool_in_mvout)
CONV2D_SIZED: tuple[rules.SizedRule, ...] = (pool_without_recomputation,)
ADD: tuple[rules.Rule, ...] = (*rules.QUANTIZATION, tied_addition)
