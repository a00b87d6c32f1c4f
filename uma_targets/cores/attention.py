"""Attention as one workload of a mesh of cores: which it takes, and how a match becomes one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from archloom.mapper import workload as wl
from archloom.mapper.options import OptionValue
from archloom.mapper.spatial.attention.space import Attention, check
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.plan import AttentionPlan
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.ir import expressions
from archloom.tvm_backend.ir.attention import AttentionShape, attention_scale, attention_shape
from archloom.tvm_backend.ir.match import QuantizedOp
from archloom.tvm_backend.passes.attention import BARRED
from archloom.tvm_backend.targets.backend import InTiles, Lowered
from archloom.tvm_backend.targets.layouts import DTYPE, HEADS, SIDE
from archloom.uma_targets.cores.sweeps import packed
from archloom.uma_targets.kit.attention import sizes
from archloom.uma_targets.kit.rules import AllOf


def misfit(shape: AttentionShape, machine: "Machine") -> tuple[str, str] | None:
    """None where attention of these sizes fits into a core; else what was seen, and what would be taken."""
    if shape.depth != shape.values:
        return (f"keys have {shape.depth} numbers and values {shape.values}",
                "attention whose keys and values have as many numbers")
    attention = Attention(shape.batch * shape.heads, shape.queries, shape.keys, shape.depth)
    try:
        check(attention, AttentionPlan((1, 1), (machine.rows, 1), (machine.columns, 1), ("none", "stream")), machine)
    except MappingError as error:
        return str(error), "attention of which a tile of queries and of keys fit into a core; else its two products"
    return None


def is_whole(call: Any, machine: "Machine") -> bool:
    """Whether an attention operator is taken as it is: it fits, and its scores have nothing added but a causal mask."""
    shape = attention_shape(call)
    if misfit(shape, machine) is not None:
        return False
    mask = call.args[3] if len(call.args) > 3 else None
    masked = mask is None or (expressions.is_constant(mask) and mask_of(expressions.const_value(mask)) is not None)
    return masked and math.isclose(attention_scale(call), shape.depth**-0.5, rel_tol=1e-6)


def mask_of(bias: np.ndarray) -> str | None:
    """What a constant [batch, heads, queries, keys] that is added to scores is: ``causal``, ``nothing``, or None."""
    if bias.size > 1 and not any(bias.strides):
        return None  # a constant without its numbers
    queries, keys = bias.shape[-2:]
    if not bias.any():
        return "nothing"
    seen = np.tril(np.ones((queries, keys), bool), keys - queries)
    causal = keys >= queries and not bias[..., seen].any() and bool((bias[..., ~seen] <= BARRED).all())
    return "causal" if causal else None


def without_other_masks(op: QuantizedOp) -> str | None:
    """Nothing is added to the scores but a causal mask."""
    plain = len(op.operands) < 4 or (op.operands[3].array is not None and mask_of(op.operands[3].array) is not None)
    return None if plain else "scores have something added to them"


def usual_scale(op: QuantizedOp) -> str | None:
    """Scores are scaled by 1 / sqrt(depth)."""
    scale = float(op.attrs["scale"])
    return None if math.isclose(scale, sizes(op).depth**-0.5, rel_tol=1e-6) else f"scores are scaled by {scale:g}"


def rules(machine: "Callable[[Mapping[str, OptionValue]], Machine]") -> AllOf:
    """What of attention is taken by a machine that follows from options."""
    def fits_a_core(op: QuantizedOp, options: "Mapping[str, OptionValue]") -> str | None:
        """Keys and values have as many numbers; a tile of queries and one of keys fit into a core."""
        refused = misfit(sizes(op), machine(options))
        return None if refused is None else refused[0]

    return AllOf("nn.attention", (without_other_masks, usual_scale), (fits_a_core,))


def strategy(op: QuantizedOp) -> Lowered:
    """Queries, keys and values of each head as matrices in tiles."""
    s = sizes(op)
    causal = len(op.operands) > 3 and op.operands[3].array is not None and mask_of(op.operands[3].array) == "causal"
    work = wl.attention(s.batch, s.heads, s.queries, s.keys, s.depth, s.values, name=op.name, tile=SIDE, causal=causal,
                        epilogue=wl.Epilogue(False, float(op.attrs["scale"]), False, DTYPE))
    inputs, constants = [], {}
    for position, (tensor, operand) in enumerate(zip(work.inputs, op.operands)):
        if operand.array is None:
            inputs.append((tensor.name, position))
        else:
            constants[tensor.name] = packed(operand.array, HEADS)
    return Lowered(work, "attention+causal" if causal else "attention", tuple(inputs), constants, HEADS,
                   tiles=InTiles(nonzero_edges=("rows",), zero_edges={
                       "Q": ("columns",), "K": ("rows", "columns"), "V": ("rows", "columns")}))
