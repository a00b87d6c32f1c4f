"""What an attention operator says of itself: its sizes, its scale, and which keys a query sees."""

from __future__ import annotations

from dataclasses import dataclass

from archloom.tvm_backend.ir import expressions as ir

ATTENTION = ("nn.attention", "nn.attention_bias")
"""Attention without and with what is added to its scores."""


@dataclass(frozen=True)
class AttentionShape:
    """Sizes of attention: ``heads`` in each of ``batch``; scores are ``queries`` × ``keys``, from ``depth``; results
    have ``values`` columns."""

    batch: int
    heads: int
    queries: int
    keys: int
    depth: int
    values: int

    @property
    def macs(self) -> int:
        """Multiply-accumulates of both products."""
        return self.batch * self.queries * self.heads * self.keys * (self.depth + self.values)


def attention_shape(call: ir.Call) -> AttentionShape:
    """The sizes of an attention operator, whose operands are [batch, length, heads, depth]."""
    batch, queries, heads, depth = ir.shape_of(call.args[0])
    return AttentionShape(batch, heads, queries, ir.shape_of(call.args[1])[1], depth, ir.shape_of(call.args[2])[-1])


def attention_scale(call: ir.Call) -> float:
    """The factor on its scores: its own, else 1 / √depth."""
    scale = ir.attr(call, "scale")
    return float(ir.shape_of(call.args[0])[-1] ** -0.5 if scale is None else scale)


def causal_diagonal(call: ir.Call) -> int | None:
    """Under a causal mask, the diagonal of the scores [queries, keys] up to which queries see keys; else None."""
    mask = ir.attr(call, "causal_mask")
    if mask is None:
        return None
    return ir.shape_of(call.args[1])[1] - ir.shape_of(call.args[0])[1] if mask == "BottomRight" else 0
