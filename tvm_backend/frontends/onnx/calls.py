"""Nodes of ONNX as converters see them, and the calls and constants that these make of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.conversion import blank, is_blank
from archloom.tvm_backend.ir.operators import type_of_call


@dataclass(frozen=True)
class Node:
    """An ONNX node: its arguments (None where one is left out), attributes and number of results.

    ``unnamed`` binds an expression to a variable without a name, as TVM's converters do on their way.
    """

    inputs: Sequence[Any]
    attrs: Mapping[str, Any]
    opset: int
    outputs: int
    unnamed: Callable[[Any], nodes.Var]

    def at(self, index: int) -> Any:
        """An argument, or None."""
        return self.inputs[index] if len(self.inputs) > index else None

    def text(self, name: str, default: str) -> str:
        """An attribute that is a word."""
        value = self.attrs.get(name, default)
        return value.decode() if isinstance(value, bytes) else str(value)


Converter: TypeAlias = Callable[[Node], Any]


def call(op: str, *args: Any, **attrs: Any) -> nodes.Call:
    """A call whose type is found when it is bound."""
    return nodes.Call(op, args, nodes.attributes(**attrs), None)


def typed(expr: Any) -> nodes.TensorType:
    """The type of a tensor expression, also of one that is not bound yet."""
    ty = expr.ty if expr is not None and expr.ty is not None else None
    if ty is None and isinstance(expr, nodes.Call):
        ty = expr.ty = type_of_call(expr)
    if not isinstance(ty, nodes.TensorType):
        raise nodes.Unsupported("an operand that is no tensor")
    return ty


def integers(expr: Any, what: str) -> list[int]:
    """The numbers of a constant or a shape."""
    if isinstance(expr, nodes.Shape):
        return list(expr.values)
    if not isinstance(expr, nodes.Constant):
        raise nodes.Unsupported(f"{what} that {'are' if what.endswith('s') else 'is'} not constant")
    return [int(v) for v in expr.value.reshape(-1).tolist()]


def scalar(value: float, like: Any) -> nodes.Constant:
    """A number as a tensor of the type of ``like``."""
    return nodes.Constant(np.asarray(value, typed(like).dtype))


def computed(function: Callable[..., Any], *arrays: np.ndarray) -> nodes.Constant:
    """``function`` of constants; of weights that were not read, only the shape and type are worked out."""
    result = np.asarray(function(*arrays))
    if any(is_blank(a) for a in arrays) and result.ndim:
        result = blank(result.shape, result.dtype)
    return nodes.Constant(result)


def reshaped(array: np.ndarray, shape: Sequence[int]) -> nodes.Constant:
    """A constant in another shape; a blank one stays blank."""
    if is_blank(array):
        if math.prod(shape) != array.size:
            raise nodes.Unsupported(f"a reshape of {array.shape} to {tuple(shape)}")
        return nodes.Constant(blank(shape, array.dtype))
    return nodes.Constant(array.reshape(tuple(shape)))


def constants(values: Sequence[Any]) -> list[np.ndarray] | None:
    """The arrays of values that are all constants."""
    return [v.value for v in values] if all(isinstance(v, nodes.Constant) for v in values) else None
