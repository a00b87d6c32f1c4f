"""Calls that are the same, computed once::

    a = f(x); b = f(x)   ->  a = f(x), which stands for b, too
"""

from __future__ import annotations

from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import is_blank
from archloom.tvm_backend.ir.rewriter import Rewriter


def without_copies(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above); calls of weights, of which none is the same as another, stay."""
    return _Common(module).rewritten()


class _Common(Rewriter):
    """``known`` has the variables of the new body by what they compute."""

    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.known: dict[Any, Any] = {}

    def visit(self, var: ir.Var, value: Any) -> None:
        call = self.new(value)
        key = self._key(call) if ir.op_name(call) is not None and ir.is_tensor(var) else None
        if key is not None and key in self.known:
            self.replaced[var] = self.known[key]
            return
        self.bind(var, call)
        if key is not None:
            self.known[key] = var

    def _key(self, call: ir.Call) -> Any:
        """Equal for calls that are the same; None for one that is not looked at."""
        args = [_argument(a) for a in call.args]
        attributes = repr(sorted(ir.of(call).attributes_of(call).items()))
        return None if None in args else (ir.op_name(call), tuple(args), attributes)


SMALL = 1 << 16
"""Elements of constants that are compared."""


def _argument(expr: Any) -> Any:
    if ir.is_var(expr):
        return expr
    if ir.is_constant(expr):
        array = ir.const_value(expr)
        return None if is_blank(array) or array.size > SMALL else (array.shape, str(array.dtype), array.tobytes())
    shape = ir.shape_values(expr)
    if shape is not None:
        return shape
    return None if ir.is_tensor(expr) or ir.tuple_fields(expr) is not None else repr(ir.scalar_of(expr))
