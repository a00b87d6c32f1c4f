"""Normalizations and GELU that a network writes out in arithmetic, as the one operator that each of them is.

Recognized are ``x / sqrt(mean(x^2) + e) * gamma`` (RMS norm), ``(x - mean) / sqrt(mean((x - mean)^2) + e) * gamma +
beta`` (layer norm), both of the last axis, and ``0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))``. Numbers are those
of the original up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.rewriter import Rewriter


def fuse_composites(module: ir.IRModule) -> ir.IRModule:
    """``main`` with each of them as one operator."""
    return _Composites(module).rewritten()


_Made = tuple[str, list[Any], dict[str, Any]]
"""An operator, its arguments and attributes."""


class _Composites(Rewriter):
    changed = False

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, as the operator that it is the end of, if there is one."""
        made = self.whole(value)
        self.changed = self.changed or made is not None
        call = value if made is None else ir.call_of(*made)
        self.bind(var, value if made is None else ir.of(call).normalized(call))

    def whole(self, call: ir.Call) -> _Made | None:
        """The operator that ``call`` is the end of."""
        name = ir.op_name(call)
        if name == "multiply":
            return self._rms_norm(call) or self._gelu(call)
        return self._layer_norm(call) if name == "add" else None

    # what is recognized

    def _rms_norm(self, call: ir.Call) -> _Made | None:
        for inner, gamma in self._with_vector(call, "multiply"):
            scaled = self._over_root(inner)
            if scaled is not None and ir.same(*scaled[:2]):
                return "nn.rms_norm", [scaled[0], gamma], {"axes": [-1], "epsilon": scaled[2]}
        return None

    def _layer_norm(self, call: ir.Call) -> _Made | None:
        for product, beta in self._with_vector(call, "add"):
            for inner, gamma in self._with_vector(product, "multiply"):
                scaled = self._over_root(inner)
                if scaled is None or not ir.same(*scaled[:2]):
                    continue
                apart = self._call(scaled[0], "subtract")
                mean = None if apart is None else self._call(apart.args[1], "mean")
                if mean is not None and ir.same(mean.args[0], apart.args[0]) and _is_of_rows(mean):
                    return "nn.layer_norm", [mean.args[0], gamma, beta], {"axes": [-1], "epsilon": scaled[2]}
        return None

    def _over_root(self, call: ir.Call) -> tuple[Any, Any, float] | None:
        """Of ``x / sqrt(mean(y^2) + e)``: x, y and e."""
        name = ir.op_name(call)
        if name not in ("multiply", "divide"):
            return None
        for x, root in self._sides(call) if name == "multiply" else [tuple(call.args)]:
            below = self._call(root, "rsqrt" if name == "multiply" else "sqrt")
            added = None if below is None else self._call(below.args[0], "add")
            for mean, shift in [] if added is None else self._sides(added):
                epsilon, rows = ir.number_of(shift), self._call(mean, "mean")
                square = None if rows is None or not _is_of_rows(rows) else self._squared(rows.args[0])
                if epsilon is not None and square is not None:
                    return x, square, epsilon
        return None

    def _gelu(self, call: ir.Call) -> _Made | None:
        for half, rest in self._sides(call):
            x = self._with_number(half, "multiply", 0.5)
            wave = self._with_number(rest, "add", 1.0)
            inner = None if x is None or wave is None else self._call(wave, "tanh")
            sums = None if inner is None else self._with_number(inner.args[0], "multiply", math.sqrt(2 / math.pi))
            added = None if sums is None else self._call(sums, "add")
            for one, cubic in [] if added is None else self._sides(added):
                third = self._with_number(cubic, "multiply", 0.044715)
                power = None if third is None else self._call(third, "power")
                if power is None or ir.number_of(power.args[1]) != 3.0:
                    continue
                if ir.same(one, x) and ir.same(power.args[0], x):
                    return "nn.gelu_tanh", [x], {}
        return None

    # what an expression is made of

    def _call(self, expr: Any, name: str) -> Any:
        value = self.value_of(expr)
        return value if ir.op_name(value) == name else None

    def _sides(self, call: ir.Call) -> Iterator[tuple[Any, Any]]:
        first, second = call.args
        yield first, second
        yield second, first

    def _with_vector(self, call: ir.Call, name: str) -> Iterator[tuple[Any, Any]]:
        """What a call of ``name`` does with a constant that has a number for each column, and that constant."""
        if ir.op_name(call) != name:
            return
        columns = ir.shape_of(call)[-1:]
        for expr, constant in self._sides(call):
            if ir.is_constant(constant) and columns == ir.shape_of(constant) and ir.is_var(expr):
                yield self.values.get(expr), constant

    def _squared(self, expr: Any) -> Any:
        power, product = self._call(expr, "power"), self._call(expr, "multiply")
        if power is not None and ir.number_of(power.args[1]) == 2.0:
            return power.args[0]
        return product.args[0] if product is not None and ir.same(*product.args) else None

    def _with_number(self, expr: Any, name: str, number: float) -> Any:
        call = self._call(expr, name)
        for inner, constant in [] if call is None else self._sides(call):
            given = ir.number_of(constant)
            if given is not None and math.isclose(given, number, rel_tol=1e-5):
                return inner
        return None


def _is_of_rows(call: ir.Call) -> bool:
    """Whether a mean is one of the last axis, which stays."""
    axes, rank = ir.attr(call, "axis"), len(ir.shape_of(call.args[0]))
    return bool(ir.attr(call, "keepdims")) and axes is not None and [a % rank for a in axes] == [rank - 1]
