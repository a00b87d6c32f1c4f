"""What passes over ``main`` share: a walk over its bindings that makes another body."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from archloom.tvm_backend.ir import expressions as ir


class Rewriter:
    """Another body for ``main``, made binding by binding: subclasses say in :meth:`visit` what becomes of each.

    ``values`` has the old body's values by variable, ``replaced`` for variables of the old body what takes their place
    in the new one, whose bindings are ``body`` and whose values ``made``. ``changed``: whether the new body is another;
    None: where a variable was replaced.
    """

    changed: bool | None = None

    def __init__(self, module: ir.IRModule) -> None:
        self.module = module
        self.main: ir.Function = module["main"]
        self.values: Mapping[Any, Any] = ir.bound_in(self.main)
        self.replaced: dict[Any, Any] = {}
        self.body: list[ir.Binding] = []
        self.made: dict[Any, Any] = {}

    @cached_property
    def uses(self) -> Counter[Any]:
        """How often each variable of the old body is read."""
        return ir.use_counts(self.main)

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding; by default as it is."""
        self.keep(var, value)

    def value_of(self, expr: Any) -> Any:
        """What the old body binds a variable to; None for anything else."""
        return self.values.get(expr) if ir.is_var(expr) else None

    def finish(self) -> None:
        """Called behind the last binding."""

    def result(self, expr: Any) -> Any:
        """What the new function returns for what the old one does."""
        return self.new(expr)

    def rewritten(self) -> Any:
        """The module with the new ``main``; the old one where nothing has changed."""
        for var, value in self.values.items():
            self.visit(var, value)
        self.finish()
        if not (bool(self.replaced) if self.changed is None else self.changed):
            return self.module
        results = [self.result(r) for r in ir.outputs_of(self.main)]
        return ir.of(self.module).replace_main(self.module, ir.rebuild(self.main, self.body, results))

    def new(self, expr: Any) -> Any:
        """An expression of the old body in the new one."""
        return ir.substitute(expr, self.replaced)

    def keep(self, var: ir.Var, value: Any) -> None:
        """Bind a variable to its value."""
        self.bind(var, self.new(value))

    def bind(self, var: ir.Var, value: Any) -> Any:
        """Bind a variable to a value of the new body; the variable."""
        self.body.append(ir.bind(var, value))
        self.made[var] = value
        return var

    def name(self, call: ir.Call, label: str) -> Any:
        """A new variable called ``label`` for a call."""
        call = ir.of(call).normalized(call)
        return self.bind(ir.new_var(label, call), call)

    def emit(self, op: str, *args: Any, label: str = "lv", **attributes: Any) -> Any:
        """A new variable for a call of an operator (see :func:`~archloom.tvm_backend.ir.expressions.call_of`)."""
        return self.name(ir.call_of(op, args, attributes), label)
