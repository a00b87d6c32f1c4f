"""What small networks give by the rules of IEEE arithmetic, in plain NumPy: a third opinion beside the oracle and the
interpreter. It is written from ONNX's definitions and the pages of the targets, not from any code."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

SLACK = 0.98
"""From this part of the largest number on, one may as well be infinite: sums and exponentials end a little apart."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Float32 numbers, and which of them depend on the order of a sum: finite terms whose magnitudes add up beyond the
    range of the type may overflow on the way, and do not in another order."""

    values: np.ndarray
    open: np.ndarray


def stated(proto: onnx.ModelProto, given: Mapping[str, np.ndarray], narrow: bool) -> Iterator[Numbers]:
    """Results of a network, one for each choice of the tensors that are stored in float16 on the way.

    Which are, depends on what is fused. ``narrow``: whether any may be; else all are float32 throughout, and there is
    one result. Inputs and constants are stored together.
    """
    constants = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    made = [name for node in proto.graph.node for name in node.output]
    limit = largest(proto, False)
    for choice in product((False, True), repeat=len(made) + 1) if narrow else [(False,) * (len(made) + 1)]:
        known = {name: _stored(Numbers(x.astype(np.float32), np.zeros(x.shape, np.bool_)), choice[0])
                 for name, x in {**constants, **given}.items()}
        for node, stored in zip(proto.graph.node, choice[1:], strict=True):
            operands = [known[name] for name in node.input]
            attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
            known[node.output[0]] = _stored(OPERATORS[node.op_type](operands, attributes, limit), stored)
        yield known[proto.graph.output[0].name]


def largest(proto: onnx.ModelProto, narrow: bool) -> float:
    """The largest number of float16 where that is the network's type or the machine's, or of float32."""
    half = narrow or proto.graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT16
    return float(np.finfo(np.float16 if half else np.float32).max)


def contradicts(found: np.ndarray, outcomes: Sequence[Numbers], limit: float, close: bool) -> bool:
    """Whether a number is none of its outcomes: not a number, infinite with its sign, or finite; where that is asked
    for, also ``close``."""
    right = np.zeros(found.shape, np.bool_)
    for outcome in outcomes:
        a, b = (np.where(np.abs(y) >= SLACK * limit, np.copysign(np.float32(np.inf), y), y)
                for y in (found.astype(np.float32), outcome.values))  # the bound is no number of float16
        near = np.isclose(a, b, rtol=2e-2, atol=2e-2) if close else np.isfinite(a) & np.isfinite(b)
        right |= outcome.open | (a == b) | (np.isnan(a) & np.isnan(b)) | near
    return not right.all()


def _stored(x: Numbers, half: bool) -> Numbers:
    return Numbers(x.values.astype(np.float16).astype(np.float32), x.open) if half else x


def _each(function: Callable[..., np.ndarray]) -> Callable[..., Numbers]:
    """Of an element-wise operator."""
    def run(operands: Sequence[Numbers], attributes: Mapping[str, Any], limit: float) -> Numbers:
        values = function(*(x.values for x in operands)).astype(np.float32)
        return Numbers(values, np.broadcast_to(np.logical_or.reduce(
            np.broadcast_arrays(*(x.open for x in operands))), values.shape))

    return run


def _sum(terms: Numbers, axis: int, limit: float) -> Numbers:
    values = terms.values.astype(np.float64)
    magnitudes = np.where(np.isfinite(values), np.abs(values), 0).sum(axis, keepdims=True)
    total = values.sum(axis, keepdims=True)
    beyond = (magnitudes > limit) & ~np.isnan(total)
    return Numbers(total.astype(np.float32), beyond | terms.open.any(axis, keepdims=True))


def _mean(x: Numbers, limit: float) -> Numbers:
    total = _sum(x, -1, limit)
    return Numbers(total.values / np.float32(x.values.shape[-1]), total.open)


def _product(operands: Sequence[Numbers], attributes: Mapping[str, Any], limit: float) -> Numbers:
    a, b = operands
    left, right = a.values[..., :, :, None].astype(np.float64), b.values[..., None, :, :].astype(np.float64)
    total = _sum(Numbers(left * right, a.open[..., :, :, None] | b.open[..., None, :, :]), -2, limit)
    return Numbers(total.values[..., 0, :], total.open[..., 0, :])


def _softmax(operands: Sequence[Numbers], attributes: Mapping[str, Any], limit: float) -> Numbers:
    x, = operands
    weights = np.exp(x.values - x.values.max(-1, keepdims=True))
    return Numbers(weights / weights.sum(-1, keepdims=True), _any(x))


def _any(x: Numbers) -> np.ndarray:
    return np.broadcast_to(x.open.any(-1, keepdims=True), x.values.shape)


def _layer_norm(operands: Sequence[Numbers], attributes: Mapping[str, Any], limit: float) -> Numbers:
    """Open as well where the squares themselves overflow: variances may be the mean square less the squared mean."""
    x, gains = operands
    mean = _mean(x, limit)
    centred = x.values - mean.values
    variance = _mean(Numbers(np.square(centred), x.open | mean.open), limit)
    squares = _mean(Numbers(np.square(x.values.astype(np.float64)), x.open), limit)
    values = centred / np.sqrt(variance.values + np.float32(1e-5)) * gains.values
    return Numbers(values, np.broadcast_to(variance.open | squares.open, values.shape))


OPERATORS: Mapping[str, Callable[[Sequence[Numbers], Mapping[str, Any], float], Numbers]] = {
    "Add": _each(np.add), "Mul": _each(np.multiply), "Div": _each(np.divide), "Sqrt": _each(np.sqrt),
    "Exp": _each(np.exp), "Relu": _each(lambda x: np.maximum(x, 0)), "MatMul": _product, "Softmax": _softmax,
    "LayerNormalization": _layer_norm, "ReduceMean": lambda operands, _, limit: _mean(operands[0], limit),
    "ReduceMax": lambda operands, *_: Numbers(
        operands[0].values.max(-1, keepdims=True), operands[0].open.any(-1, keepdims=True)),
    "Transpose": lambda operands, attributes, _: Numbers(
        operands[0].values.transpose(attributes["perm"]), operands[0].open.transpose(attributes["perm"])),
}
