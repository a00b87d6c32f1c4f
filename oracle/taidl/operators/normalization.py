"""Batch normalization: what StableHLO says of it, step by step, each rounded; sums in row-major order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from archloom.oracle.resolved import Shaped, TensorType
from archloom.oracle.taidl.operators import base
from archloom.oracle.taidl.operators.base import Attribute, Attributes, Opcode, Values, integer
from archloom.oracle.taidl.operators.reduction import combined, last
from archloom.oracle.taidl.operators.stepwise import Steps


def _fault(operands: Sequence[Shaped], a: Attributes, like: Sequence[int] = ()) -> str | None:
    """Operand 0 is a tensor of floats, as those numbered ``like`` are; all others have an element for each feature."""
    x, axis = operands[0], a["feature_index"]
    if not base.is_kind(x.dtype, "float"):
        return f"{{}} is not defined for {x.dtype}"
    fault = base.axis_fault(axis, len(x.shape))
    if fault or not isinstance(axis, int):
        return fault
    features = Shaped((x.shape[axis],), x.dtype)
    for i, other in enumerate(operands):
        wanted = x if i == 0 or i in like else features
        if base.types_differ(other, wanted):
            return f"operand {i} of {{}} must be {wanted}, found {other}"
    return None


@dataclass(frozen=True)
class _Features:
    """Steps on tensors of numbers with a feature axis, and on vectors with a number for each feature."""

    s: Steps
    shape: tuple[int, ...]
    axis: int
    epsilon: Any

    @staticmethod
    def of(lib: Any, shape: Sequence[int], dtype: str, a: Values) -> "_Features":
        s = Steps(lib, dtype)
        return _Features(s, tuple(shape), a["feature_index"], s.value(lib.constant(a["epsilon"], dtype)))

    def spread(self, v: Any) -> Any:
        return v.reshape([n if i == self.axis else 1 for i, n in enumerate(self.shape)])

    def sum(self, x: Any) -> Any:
        """Of the elements of each feature."""
        rest = [i for i in range(len(self.shape)) if i != self.axis]
        whole = self.s.element(self.s.lib.xp.broadcast_to(x, self.shape))
        return self.s.value(combined(self.s.lib, last(whole, rest), "add", self.s.dtype))

    @property
    def count(self) -> Any:
        """How many elements each feature has, as a number of the type."""
        return self.s.value(self.s.lib.constant(math.prod(self.shape) // self.shape[self.axis], self.s.dtype))

    def centered(self, x: Any, mean: Any) -> Any:
        return self.s.subtract(x, self.spread(mean))

    def deviation(self, variance: Any) -> Any:
        return self.s.sqrt(self.s.add(variance, self.epsilon))

    def normalized(self, x: Any, mean: Any, variance: Any) -> Any:
        return self.s.divide(self.centered(x, mean), self.spread(self.deviation(variance)))

    def moments(self, x: Any) -> tuple[Any, Any]:
        """Mean and variance."""
        mean = self.s.divide(self.sum(x), self.count)
        off = self.centered(x, mean)
        return mean, self.s.divide(self.sum(self.s.multiply(off, off)), self.count)

    def scaled(self, x: Any, scale: Any, offset: Any) -> Any:
        return self.s.add(self.s.multiply(x, self.spread(scale)), self.spread(offset))


def _inference_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    return _fault(operands, a) or base.wrong(result, operands[0].shape, operands[0].dtype)


def _inference(lib: Any, result: TensorType, operands: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    f = _Features.of(lib, operands[0].shape, result.dtype, a)
    x, scale, offset, mean, variance = map(f.s.value, operands)
    return f.s.element(f.scaled(f.normalized(x, mean, variance), scale, offset))


def _training_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, scale, _ = operands
    return _fault(operands, a) or base.chosen(result, (x, scale, scale), a)


def _training(lib: Any, result: TensorType, operands: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    f = _Features.of(lib, operands[0].shape, result.dtype, a)
    x, scale, offset = map(f.s.value, operands)
    mean, variance = f.moments(x)
    return f.s.element((f.scaled(f.normalized(x, mean, variance), scale, offset), mean, variance)[a["result"]])


def _grad_rule(result: Shaped, operands: Sequence[Shaped], a: Attributes) -> str | None:
    x, scale, *_ = operands
    return _fault(operands, a, (4,)) or base.chosen(result, (x, scale, scale), a)


def _grad(lib: Any, result: TensorType, operands: Sequence[Any], a: Values, types: Sequence[str]) -> Any:
    f = _Features.of(lib, operands[0].shape, result.dtype, a)
    s = f.s
    x, scale, mean, variance, upper = map(s.value, operands)
    off, total = f.centered(x, mean), f.sum(upper)
    slope = s.divide(s.multiply(f.spread(f.sum(s.multiply(upper, off))), off), f.spread(s.add(variance, f.epsilon)))
    inner = s.subtract(s.subtract(s.multiply(upper, f.count), f.spread(total)), slope)
    outer = s.divide(s.divide(scale, f.deviation(variance)), f.count)
    gradients = (s.multiply(f.spread(outer), inner), f.sum(s.multiply(upper, f.normalized(x, mean, variance))), total)
    return s.element(gradients[a["result"]])


EPSILON, FEATURES, RESULT = Attribute("epsilon", "number"), integer("feature_index"), integer("result", 0)

ROWS: list[Opcode] = [
    Opcode("batch_norm_inference", 5, _inference_rule, *base.in_both(_inference), "opaque",
           "x, scale, offset, mean, variance: (x - mean) / sqrt(variance + `epsilon`) * scale + offset, for each "
           "feature",
           (EPSILON, FEATURES)),
    Opcode("batch_norm_training", 3, _training_rule, *base.in_both(_training), "opaque",
           "x, scale, offset: as above with the mean and the variance of x, which are outputs 1 and 2",
           (EPSILON, FEATURES, RESULT)),
    Opcode("batch_norm_grad", 5, _grad_rule, *base.in_both(_grad), "opaque",
           "x, scale, mean, variance, gradient: the gradients to x, scale and offset",
           (EPSILON, FEATURES, RESULT)),
]
