"""What converters of ONNX operators share: names, a node as they see it, constants, and calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir.nodes import Call, Constant, Shape, TensorType, Unsupported, Var, attributes
from archloom.tvm_backend.ir.operators import type_of_call

NAMED_OPERATORS = frozenset({"nn.conv1d", "nn.conv2d", "nn.conv3d", "nn.conv2d_transpose", "matmul"})
"""Operators that take the name of the ONNX node of which they are part."""


def rename(name: str) -> str:
    """A node's name as a variable's name."""
    return name.strip("/").replace("/", ".").replace("::", ".") or "node"


def clip_bounds(
    inputs: Sequence[Any], attrs: Mapping[str, Any], dtype: str, number_of: Callable[[Any], float | None]
) -> list[float] | None:
    """Both bounds of ``Clip``, those of the type where they are left out; None where they are computed or infinite."""
    limits, bounds = np.finfo(dtype), []
    for position, (key, default) in enumerate((("min", limits.min), ("max", limits.max)), start=1):
        given = inputs[position] if len(inputs) > position else None
        number = attrs.get(key, default) if given is None else number_of(given)
        if number is None or (given is not None and not math.isfinite(number)):
            return None
        bounds.append(float(number))
    return bounds


@dataclass(frozen=True)
class Node:
    """An ONNX node: its arguments (None where one is left out), attributes and number of results.

    ``unnamed`` binds an expression to a variable without a name, as TVM's converters do on their way.
    """

    inputs: Sequence[Any]
    attrs: Mapping[str, Any]
    opset: int
    outputs: int
    unnamed: Callable[[Any], Var]

    def at(self, index: int) -> Any:
        """An argument, or None."""
        return self.inputs[index] if len(self.inputs) > index else None

    def text(self, name: str, default: str) -> str:
        """An attribute that is a word."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)


Converter: TypeAlias = Callable[[Node], Any]


def call(op: str, *args: Any, **attrs: Any) -> Call:
    """A call whose type is found when it is bound."""
    return Call(op, args, attributes(**attrs), None)


def typed(expr: Any) -> TensorType:
    """The type of a tensor expression, also of one that is not bound yet."""
    ty = expr.ty if expr is not None and expr.ty is not None else None
    if ty is None and isinstance(expr, Call):
        ty = expr.ty = type_of_call(expr)
    if not isinstance(ty, TensorType):
        raise Unsupported("an operand that is no tensor")
    return ty


def integers(expr: Any, what: str) -> list[int]:
    """The numbers of a constant or a shape."""
    if isinstance(expr, Shape):
        return list(expr.values)
    if not isinstance(expr, Constant):
        raise Unsupported(f"{what} that {'are' if what.endswith('s') else 'is'} not constant")
    return [int(v) for v in expr.value.reshape(-1).tolist()]


def scalar(value: float, like: Any) -> Constant:
    """A number as a tensor of the type of ``like``."""
    return Constant(np.asarray(value, typed(like).dtype))


def is_blank(array: np.ndarray) -> bool:
    """Whether ``array`` stands for a weight that was not read: one zero seen in a shape."""
    return array.size > 1 and not any(array.strides)


def computed(function: Callable[..., Any], *arrays: np.ndarray) -> Constant:
    """``function`` of constants; of weights that were not read, only the shape and type are worked out."""
    result = np.asarray(function(*arrays))
    if any(is_blank(a) for a in arrays) and result.ndim:
        result = np.broadcast_to(np.zeros((), result.dtype), result.shape)
    return Constant(result)


def reshaped(array: np.ndarray, shape: Sequence[int]) -> Constant:
    """A constant in another shape; a blank one stays blank."""
    if is_blank(array):
        if math.prod(shape) != array.size:
            raise Unsupported(f"a reshape of {array.shape} to {tuple(shape)}")
        return Constant(np.broadcast_to(np.zeros((), array.dtype), tuple(shape)))
    return Constant(array.reshape(tuple(shape)))


def constants(values: Sequence[Any]) -> list[np.ndarray] | None:
    """The arrays of values that are all constants."""
    return [v.value for v in values] if all(isinstance(v, Constant) for v in values) else None
