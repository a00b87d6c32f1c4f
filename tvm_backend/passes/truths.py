"""Truths as numbers in float32, 0 or 1, for vector units whose tensors in memory have no elements of one byte::

    c = a < b; d = c and e; f = where(d, x, y)   ->  c = float(a < b); d = c * e; f = where(bool(d), x, y)

so that a truth is only what an operator makes for the next one in the same piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.rewriter import Rewriter

COMPARED = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})
COMBINED = {"logical_and": "multiply", "bitwise_and": "multiply", "logical_or": "maximum", "bitwise_or": "maximum"}
MOVING = frozenset({"reshape", "flatten", "expand_dims", "squeeze", "permute_dims", "broadcast_to", "strided_slice",
                    "take", "tile", "repeat"})


def without_truths(module: ir.IRModule) -> ir.IRModule:
    """Rewrite ``main`` (see above); what is given to other operators, or returned, is made a truth again."""
    return _Truths(module).rewritten()


class _Truths(Rewriter):
    """``numbers``: for variables of the old body that hold truths the variables that have them as float32."""

    changed = False

    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.numbers: dict[Any, Any] = {}

    def visit(self, var: ir.Var, value: Any) -> None:
        made = self._number(value) if ir.is_tensor(var) and ir.dtype_of(var) == "bool" else self._of_truth(value)
        if made is None:
            self.keep(var, self._given_truths(value))
            return
        self.changed = True
        if ir.dtype_of(var) == "bool":
            self.numbers[var] = made
        else:
            self.replaced[var] = made

    def result(self, expr: Any) -> Any:
        return self._truth(expr) if ir.is_var(expr) and expr in self.numbers else self.new(expr)

    def _number(self, value: Any) -> Any:
        """A truth as float32; None for one that stays."""
        name = ir.op_name(value)
        if name in COMPARED:
            # two truths are compared as numbers, too
            return self._as_number(self.emit(name, *self._numbers_of(value.args)))
        if name == "astype" and ir.dtype_of(value.args[0]) != "bool":
            source = self.new(value.args[0])
            zero = ir.constant_like(np.zeros((), ir.dtype_of(source)), source)
            return self._as_number(self.emit("not_equal", source, zero))
        if name not in {"logical_not", "bitwise_not", *COMBINED, *MOVING} or not self._known(value.args[0]):
            return None
        if name in MOVING:
            return self._moved(value)
        given = self._numbers_of(value.args)
        if name in COMBINED:
            return self.emit(COMBINED[name], *given)
        return self.emit("subtract", ir.constant_like(np.ones((), np.float32), given[0]), given[0])

    def _moved(self, value: Any) -> Any:
        first, *others = value.args
        return self.name(ir.make_like(value, [*self._numbers_of([first]), *map(self.new, others)]), "moved")

    def _of_truth(self, value: Any) -> Any:
        """What becomes another number of a truth; None for anything else."""
        if ir.op_name(value) != "astype" or not self._known(value.args[0]) or not ir.is_tensor(value):
            return None
        number, dtype = self.numbers[value.args[0]], ir.dtype_of(value)
        if dtype == "float32":
            return number
        yes, no = (ir.constant_like(np.array(n, dtype), number) for n in (1, 0))
        return self.emit("where", self._truth(value.args[0]), yes, no)

    def _known(self, expr: Any) -> bool:
        return ir.is_var(expr) and expr in self.numbers

    def _numbers_of(self, args: Any) -> list[Any]:
        """Arguments with truths as numbers."""
        return [self.numbers[a] if self._known(a) else self._as_number(self.new(a))
                if ir.is_tensor(a) and ir.dtype_of(a) == "bool" else self.new(a) for a in args]

    def _as_number(self, truth: Any) -> Any:
        if ir.is_constant(truth):
            return ir.constant_like(ir.const_value(truth).astype(np.float32), truth)
        return self.emit("astype", truth, dtype="float32")

    def _truth(self, var: Any) -> Any:
        """Anew for each that reads it, so that it may be of its piece."""
        return self.emit("astype", self.numbers[var], dtype="bool")

    def _given_truths(self, value: Any) -> Any:
        """A value that reads truths as such, in terms of the old body otherwise."""
        read = [v for v in ir.variables(value) if v in self.numbers]
        return ir.substitute(value, {v: self._truth(v) for v in read}) if read else value
