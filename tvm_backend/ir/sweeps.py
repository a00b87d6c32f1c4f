"""Matches without a product: element-wise operators one after the other, and what is done with rows or columns.

They are read as plain data, as products are (:mod:`archloom.tvm_backend.ir.match`). A chain of element-wise operators
has the anchor ``elementwise``: its first operand goes through ``attrs["operations"]``, each an :class:`Applied`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.operators import BINARY, ROWS, UNARY

ELEMENTWISE = "elementwise"
POWERS: Mapping[float, tuple[str, ...]] = {
    2.0: ("square",), 0.5: ("sqrt",), -0.5: ("sqrt", "reciprocal"), -1.0: ("reciprocal",)}

@dataclass(frozen=True)
class Applied:
    """An operation on the numbers so far: by itself, with ``factor`` and ``shift`` (``linear``), or with an operand."""

    kind: str
    operand: int | None = None
    factor: float = 1.0
    shift: float = 0.0


class NotQuantized(Exception):
    """The piece is no operator on the target's numbers; the message says what was seen."""


Swept: TypeAlias = tuple[str, Mapping[str, Any], Sequence[Any], Sequence[Any]]
"""A match: its anchor, what is done, the expressions of its operands, and the variables of the results on the way."""


def read_sweep(root: Any, lookup: ir.Lookup) -> Swept:
    """What ``root`` computes; ``lookup`` gives the values of variables inside the match. NotQuantized for others."""
    name = ir.op_name(root)
    if name in ROWS:
        return _rows(str(name), root)
    calls, variables, expr = [root], [], root
    while (below := _below(expr, lookup)) is not None:
        variables.append(below)
        expr = lookup(below)
        calls.append(expr)
    reading = _Reading(ir.shape_of(root), lookup)
    through: Any = None
    for call, var in zip(reversed(calls), [*reversed(variables), None], strict=True):
        reading.apply(call, through)
        through = var
    return ELEMENTWISE, {"operations": tuple(reading.operations)}, reading.operands, variables


def _is_inside(expr: Any, lookup: ir.Lookup) -> bool:
    """Whether a match has the operator whose result ``expr`` is."""
    return ir.is_var(expr) and ir.op_name(lookup(expr)) is not None


def _below(call: ir.Call, lookup: ir.Lookup) -> Any:
    """The variable through which the chain comes to a call, None at its beginning."""
    found = [a for a in call.args if _is_inside(a, lookup)]
    if len(found) > 1:
        raise NotQuantized("two of its results on the way meet")
    return found[0] if found else None


@dataclass
class _Reading:
    """The operations so far; operand 0 is what goes through them."""

    shape: tuple[int, ...]
    lookup: ir.Lookup
    operands: list[Any] = field(default_factory=list)
    operations: list[Applied] = field(default_factory=list)

    def apply(self, call: ir.Call, through: Any) -> None:
        """Take over one call, of the variable ``through`` (None: the first)."""
        name = str(ir.op_name(call))
        if ir.shape_of(call) != self.shape:
            raise NotQuantized(f"{name} gives {ir.shape_of(call)}, the result has {self.shape}")
        if name in BINARY:
            self._binary(name, call, through)
            return
        if through is None:
            self._begin(call.args[0])
        if name == "clip":
            low, high = (float(ir.scalar_of(a)) for a in call.args[1:])
            self._bound("maximum", low)
            self._bound("minimum", high)
        elif name == "power":
            self._power(call)
        elif name in UNARY:
            self.operations += [Applied(kind) for kind in UNARY[name]]
        else:
            raise NotQuantized(f"{name} is none of the vector unit's functions")

    def _begin(self, expr: Any) -> None:
        if ir.is_constant(expr) or ir.shape_of(expr) != self.shape:
            raise NotQuantized(f"its first operand has {ir.shape_of(expr)}, the result {self.shape}")
        self.operands.append(expr)

    def _power(self, call: ir.Call) -> None:
        exponent = ir.number_of(call.args[1])
        if exponent == 3.0 and not self.operations:
            self.operations += [Applied("square"), Applied("multiply", self._operand(call.args[0]))]
        elif exponent is not None and exponent in POWERS:
            self.operations += [Applied(kind) for kind in POWERS[exponent]]
        else:
            raise NotQuantized("a power other than a square, a cube, a root or a reciprocal")

    def _binary(self, name: str, call: ir.Call, through: Any) -> None:
        first, second = call.args
        if through is None:
            swapped = ir.is_constant(first) or ir.shape_of(first) != self.shape
            self._begin(second if swapped else first)
        else:
            swapped = not (ir.is_var(first) and ir.same(first, through))
        other = first if swapped else second
        if swapped and name == "subtract":
            self.operations.append(Applied("linear", None, -1.0))
            name = "add"
        elif swapped and name == "divide":
            self.operations.append(Applied("reciprocal"))
            name = "multiply"
        number = ir.number_of(other)
        if number is None:
            self.operations.append(Applied(name, self._operand(other)))
        elif name in ("maximum", "minimum"):
            self._bound(name, number)
        else:
            factor, shift = {
                "add": (1.0, number), "subtract": (1.0, -number), "multiply": (number, 0.0),
                "divide": (1.0 / number if number else float("inf"), 0.0)}[name]
            self.operations.append(Applied("linear", None, factor, shift))

    def _bound(self, kind: str, number: float) -> None:
        if abs(number) < float(np.finfo(np.float16).max):  # max(x, c) = c + relu(x - c), min(x, c) = c - relu(c - x)
            sign = 1.0 if kind == "maximum" else -1.0
            self.operations += [Applied("linear", None, sign, -sign * number), Applied("relu"),
                                Applied("linear", None, sign, number)]
        elif (number > 0) == (kind == "maximum"):
            raise NotQuantized(f"it clips to {number:g}")

    def _operand(self, expr: Any) -> int:
        if not ir.is_tensor(expr) or _is_inside(expr, self.lookup):
            raise NotQuantized("a result on the way is an operand, too")
        self.operands.append(expr)
        return len(self.operands) - 1


def _rows(name: str, call: ir.Call) -> Swept:
    """An operator of rows or columns."""
    shape = ir.shape_of(call.args[0])
    attrs: dict[str, Any] = {"keepdims": True}
    if name == "nn.softmax":
        attrs["axes"] = (int(ir.attr(call, "axis")) % len(shape),)
    elif name == "nn.adaptive_avg_pool2d":
        if str(ir.attr(call, "layout")) != "NCHW" or ir.shape_of(call)[2:] != (1, 1):
            raise NotQuantized("it pools to more than one place")
        name, attrs["axes"] = "mean", (2, 3)
    else:
        given = ir.attr(call, "axis" if name in ("mean", "sum", "max") else "axes")
        axes = range(len(shape)) if given is None else given
        attrs["axes"] = tuple(sorted(int(a) % len(shape) for a in axes))
        if name.startswith("nn."):
            attrs["epsilon"] = float(ir.attr(call, "epsilon"))
            if not all(ir.attr(call, flag, True) for flag in ("center", "scale")):
                raise NotQuantized("it does not scale or shift")
        else:
            attrs["keepdims"] = bool(ir.attr(call, "keepdims"))
    return name, attrs, call.args, ()
