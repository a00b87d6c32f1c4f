"""A name of its own for each variable, by which it can be told however often ``main`` is rewritten::

    lv = f(x); lv1 = g(lv); y = h(lv1); y = k(y)  ->  lv__1 = f(x); lv__2 = g(lv__1); y = h(lv__2); y__1 = k(y)
"""

from __future__ import annotations

from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.names import RESULT, own
from archloom.tvm_backend.ir.rewriter import Rewriter


def with_own_names(module: ir.IRModule) -> ir.IRModule:
    """Rename what ``main`` binds (:func:`~archloom.tvm_backend.ir.names.own`); what has such names stays."""
    return _OwnNames(module).rewritten()


def results_of(main: ir.Function) -> list[str]:
    """The names of what a function with such names returns; empty where that is no variable that it binds."""
    bound = ir.bound_in(main)
    found = []
    for result in ir.outputs_of(main):
        while ir.is_var(result) and ir.is_var(bound.get(result)) and bound[result] in bound:
            result = bound[result]
        found.append(str(result.name) if ir.is_var(result) and result in bound else "")
    return found


class _OwnNames(Rewriter):
    """``taken`` has the names of the new body."""

    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.taken: dict[str, int] = {}
        self.last = ir.of(self.main).result_of(self.main)

    def visit(self, var: ir.Var, value: Any) -> None:
        is_last = var.name == RESULT and ir.same(var, self.last)
        name = RESULT if is_last else own(var.name, self.taken)
        if name == var.name:
            self.keep(var, value)
        else:
            self.replaced[var] = self.bind(ir.new_var(name, var), self.new(value))
