"""Numbers by which the result of a dense layer is multiplied: they go into its weights and its bias.

    (x · W + b) * c   →  x · (c W) + c b        also behind a reshape or a transpose

So are queries scaled before attention.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank
from archloom.tvm_backend.ir.rewriter import Rewriter

RELAYOUTS = frozenset({"reshape", "permute_dims"})


def fold_scales(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above) where nothing else reads what is multiplied."""
    return _Scales(module).rewritten()


class _Scales(Rewriter):
    """``factors`` has the number by which each variable of a dense layer is multiplied, ``sources`` what has the result
    then, by the variable of the multiplication."""

    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.factors: dict[Any, float] = {}
        self.sources: dict[Any, Any] = {}
        for var, value in self.values.items():
            found = self._scaled(value)
            if found is not None:
                source, layer, number = found
                self.factors.update(dict.fromkeys(layer, number))
                self.sources[var] = source

    def visit(self, var: ir.Var, value: Any) -> None:
        if var in self.sources:
            self.replaced[var] = self.new(self.sources[var])
        elif var in self.factors:  # under another name: its numbers are others than the network's
            new = _times(self.new(value), self.factors[var])
            self.replaced[var] = self.bind(ir.new_var(f"{var.name}.scaled", new), new)
        else:
            self.keep(var, value)

    def _scaled(self, call: ir.Call) -> tuple[Any, tuple[Any, ...], float] | None:
        """What a call multiplies by one number, the variables of the dense layer behind it, and that number."""
        if ir.op_name(call) != "multiply":
            return None
        for side in (0, 1):
            number, source = ir.number_of(call.args[1 - side]), call.args[side]
            layer = self._layer(source) if number is not None else ()
            if number is not None and layer and ir.shape_of(call) == ir.shape_of(source):
                return source, layer, number
        return None

    def _layer(self, var: ir.Var) -> tuple[Any, ...]:
        """The variables of a product with constant weights and of the bias added to it, in any shape; () for others."""
        if not ir.is_var(var) or self.uses[var] != 1:
            return ()
        call = self.value_of(var)
        name = ir.op_name(call)
        if name in RELAYOUTS:
            return self._layer(call.args[0])
        if name == "matmul" and ir.is_constant(call.args[1]):
            return (var,)
        if name == "add":
            for side in (0, 1):
                inner = call.args[side]
                if ir.op_name(self.value_of(inner)) == "matmul" and ir.is_constant(call.args[1 - side]):
                    below = self._layer(inner)
                    return (*below, var) if below else ()
        return ()


def _times(call: ir.Call, factor: float) -> Any:
    """A product or an addition with its constant multiplied; one without numbers stays as it is."""
    def scaled(expr: Any) -> Any:
        if not ir.is_constant(expr):
            return expr
        array = ir.const_value(expr)
        return expr if is_blank(array) else ir.constant_like(
            (array * np.asarray(factor, array.dtype)).astype(array.dtype), expr)

    return ir.make_call(call, [scaled(a) for a in call.args])
