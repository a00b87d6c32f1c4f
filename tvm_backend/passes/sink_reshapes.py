"""Reshapes between operators: moved out of the way, so that operators meet and can be fused.

A dense layer on [batch, length, features] arrives as reshape → matmul → reshape, each between ``dequantize`` and
``quantize``. Reshaping commutes with everything that works element by element, so::

    quantize(reshape(dequantize(q)))   →  reshape(q)          same scale and zero point; also permute_dims, max_pool2d
    relu(reshape(x))                   →  reshape(relu(x))    also clip, and quantize, dequantize with one scale
    reshape(reshape(x))                →  reshape(x)          nothing at all, if x has that shape already

A target that adds tensors to the sums of a product finds them beside it, where rows stay rows::

    add(reshape(x · w), y)             →  reshape(add(x · w, reshape(y)))
"""

from __future__ import annotations

from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.operators import operator
from archloom.tvm_backend.ir.rewriter import Rewriter

OF_INTEGERS = frozenset({"permute_dims", "nn.max_pool2d"})
"""What gives the same on integers as on the real numbers that they stand for."""


def sink_reshapes(module: ir.IRModule, sums: bool = False) -> ir.IRModule:
    """Apply the rules above to ``main``, the last one where the target adds to ``sums``."""
    return _Sinking(module, sums).rewritten()


class _Sinking(Rewriter):
    """``aliases`` maps a variable of the old body to the one that has its value; ``reshaped`` to the variable of which
    it is a reshape, which has not been ``written`` yet."""

    changed = True

    def __init__(self, module: ir.IRModule, sums: bool) -> None:
        super().__init__(module)
        self.sums = sums
        self.aliases: dict[Any, Any] = {}
        self.reshaped: dict[Any, Any] = {}
        self.written: dict[Any, Any] = {}

    def result(self, expr: Any) -> Any:
        return self._value_of(expr)

    def visit(self, var: ir.Var, value: Any) -> None:
        name = ir.op_name(value)
        source = self.aliases.get(value.args[0], value.args[0]) if name is not None and value.args else None
        if name == "reshape" and ir.is_var(source) and ir.is_tensor(var) and not self._is_parameter(source):
            base = self.reshaped.get(source, source)
            if ir.shape_of(base) == ir.shape_of(var):
                self.aliases[var] = base
            else:
                self.reshaped[var] = base
            return
        if operator(name).stage and _uniform(value) and ir.is_var(source):
            view = self.reshaped.get(source)
            if view is not None and not _has_axis(value, view):
                self.bind(var, self._substituted(value))
                return
            result = self._elementwise(var, value, view if view is not None else source)
            if view is not None:
                self.reshaped[var] = result
            elif result is not var:
                self.aliases[var] = result
            return
        if self.sums and name == "add" and self._added(var, value):
            return
        self.bind(var, self._substituted(value))

    def _added(self, var: ir.Var, value: Any) -> bool:
        """An addition to a reshaped product, before the reshape; whether it is one."""
        for side in (0, 1):
            view, other = (self.aliases.get(a, a) if ir.is_var(a) else a
                           for a in (value.args[side], value.args[1 - side]))
            base = self.reshaped.get(view) if ir.is_var(view) else None
            if base is None or not self._is_product(base):
                continue
            shape, whole = ir.shape_of(base), ir.shape_of(var)
            if shape[-1] != whole[-1] or ir.shape_of(other) not in (whole, whole[-1:]):
                continue
            if ir.shape_of(other) == whole:
                own = self.reshaped.get(other) if ir.is_var(other) else None
                same = own is not None and ir.shape_of(own) == shape
                other = own if same else self.name(ir.reshape(self._value_of(other), shape), f"{var.name}.added")
            arguments = (base, other) if side == 0 else (other, base)
            self.reshaped[var] = self.name(ir.make_like(value, list(arguments)), var.name)
            return True
        return False

    def _value_of(self, expr: Any) -> Any:
        return self.materialized(expr) if ir.is_var(expr) else expr

    def _is_product(self, var: ir.Var) -> bool:
        """Whether a variable is a product of matrices, or one with something added."""
        value: Any = self.made.get(var)
        if ir.op_name(value) == "add":
            value = next((self.made[a] for a in value.args if ir.is_var(a) and a in self.made), None)
        return ir.op_name(value) == "matmul"

    def _is_parameter(self, var: ir.Var) -> bool:
        """Whether a variable is a dequantized constant: patterns know biases with their reshape."""
        inner = self.made.get(var)
        return inner is not None and ir.op_name(inner) == "dequantize" and ir.is_constant(inner.args[0])

    def materialized(self, var: ir.Var) -> Any:
        """A variable of the new body that has the value of ``var``; writes a pending reshape."""
        var = self.aliases.get(var, var)
        if var not in self.reshaped:
            return var
        if var not in self.written:
            base = self.reshaped[var]
            inner = self.made.get(base)
            if inner is not None and ir.op_name(inner) == "dequantize" and _uniform(inner):  # the bytes, not the floats
                moved = self.name(ir.reshape(inner.args[0], ir.shape_of(var)), f"{var.name}.bytes")
                self.bind(var, ir.make_call(inner, [moved, *inner.args[1:]], var))
                self.written[var] = var
            else:
                self.written[var] = self.name(ir.reshape(base, ir.shape_of(var)), var.name)
        return self.written[var]

    def _elementwise(self, var: ir.Var, value: Any, source: Any) -> Any:
        """Apply an element-wise operator to ``source``; gives the variable of the result, of ``source``'s shape."""
        name = ir.op_name(value)
        inner = self.made.get(source)
        if name == "quantize" and inner is not None:
            if ir.op_name(inner) == "dequantize" and _inverse(value, inner):
                return inner.args[0]
            below = self.made.get(inner.args[0]) if ir.op_name(inner) in OF_INTEGERS else None
            if below is not None and ir.op_name(below) == "dequantize" and _inverse(value, below):
                return self.name(ir.make_like(inner, [below.args[0]]), source.name)
        if ir.shape_of(source) == ir.shape_of(var):
            self.bind(var, ir.make_call(value, [source, *value.args[1:]]))
            return var
        return self.name(ir.make_like(value, [source, *value.args[1:]]), var.name)

    def _substituted(self, value: Any) -> Any:
        used = {v: self.materialized(v) for v in ir.variables(value)}
        return ir.substitute(value, {v: new for v, new in used.items() if new is not v})


def _uniform(call: ir.Call) -> bool:
    """Whether an element-wise operator treats all elements alike: one scale, or none."""
    if ir.op_name(call) in ("quantize", "dequantize"):
        return all(ir.is_constant(a) and ir.const_value(a).size == 1 for a in call.args[1:])
    return True


def _has_axis(call: ir.Call, tensor: Any) -> bool:
    """Whether a tensor has the axis that ``quantize`` and ``dequantize`` name, even of one scale."""
    if ir.op_name(call) not in ("quantize", "dequantize"):
        return True
    return int(ir.attr(call, "axis")) < len(ir.shape_of(tensor))


def _inverse(quantize: Any, dequantize: Any) -> bool:
    """Whether quantizing gives back what was dequantized: q → fl(q · s) / s is within half a step of q."""
    if not _uniform(dequantize) or ir.dtype_of(quantize) != ir.dtype_of(dequantize.args[0]):
        return False
    ours, theirs = ([float(ir.const_value(a).reshape(())) for a in c.args[1:]] for c in (quantize, dequantize))
    return ours == theirs
