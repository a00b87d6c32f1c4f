"""From a resolved stream to one expression for each of its results."""

from __future__ import annotations

from dataclasses import dataclass

from oracle.affine import Affine
from oracle.resolved import ResolvedStream
from oracle.stream import HbmTensor
from oracle.xla.build import bounded_work, fresh, from_bytes
from oracle.xla.dataflow import Query, taidl_dtype
from oracle.xla.expr import Expr, Range, width
from oracle.xla.match import Unraisable
from oracle.xla.program import program
from oracle.xla.rings import without_rings
from oracle.xla.tensors import Raiser


@dataclass(frozen=True)
class Raised:
    """A result in index notation: ``value`` over ``axes``, with the ranges of the axes."""

    tensor: HbmTensor
    axes: tuple[str, ...]
    value: Expr
    ranges: dict[str, Range]


def raise_stream(stream: ResolvedStream, *, reassociate: bool = False) -> tuple[Raised, ...]:
    """The results of the stream as expressions over its arguments; Unraisable says why there are none."""
    try:
        return _raised(stream, reassociate)
    except Unraisable:
        straight = without_rings(stream)
        if straight is stream:
            raise
    return _raised(straight, reassociate)


def _raised(stream: ResolvedStream, reassociate: bool) -> tuple[Raised, ...]:
    raiser = Raiser(program(stream), reassociate)
    with bounded_work():
        return tuple(_result(raiser, tensor) for tensor in stream.results)


def _result(raiser: Raiser, tensor: HbmTensor) -> Raised:
    axes = tuple(fresh() for _ in tensor.shape)
    ranges = {axis: (0, extent - 1) for axis, extent in zip(axes, tensor.shape, strict=True)}
    dtype, byte = taidl_dtype(tensor.dtype), fresh()
    element = Affine(0)
    for axis, extent in zip(axes, tensor.shape, strict=True):
        element = element * extent + Affine.variable(axis)
    inner = {**ranges, byte: (0, width(dtype) - 1)}
    address = (element * width(dtype) + Affine.variable(byte) + tensor.address).simplify(inner)
    value = raiser.dataflow.at_end(Query("hbm", (address,), inner))
    return Raised(tensor, axes, from_bytes(byte, value, dtype, ranges), ranges)
