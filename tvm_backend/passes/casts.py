"""Conversions of floats to int32 as one operator, which TVM's importer of ONNX writes out.

It writes ``x`` as int64, 0 for what is no finite number, modulo 2^32, and that as int32: the number without what is
behind the point. Beyond int32, for which ONNX leaves open what comes out, it wraps, and the one operator saturates.
"""

from __future__ import annotations

from typing import Any

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.rewriter import Rewriter

WRAP, HALF = 1 << 32, 1 << 31


def plain_casts(module: ir.IRModule) -> ir.IRModule:
    """``main`` with each of them as one ``astype``."""
    return _Casts(module).rewritten()


class _Casts(Rewriter):
    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, or the conversion that it is the end of."""
        source = self._source(value)
        if source is None:
            self.keep(var, value)
        else:
            self.replaced[var] = self.emit("astype", self.new(source), dtype="int32", label=var.name)

    def _source(self, call: Any) -> Any:
        """What is converted; None for anything else."""
        if ir.op_name(call) != "astype" or not ir.is_tensor(call) or ir.dtype_of(call) != "int32":
            return None
        found = set()
        chosen = self._call(call.args[0], "where")
        if chosen is None:
            return None
        upper, below = self._call(chosen.args[0], "greater_equal"), self._call(chosen.args[1], "subtract")
        if upper is None or below is None or not (_is(upper.args[1], HALF) and _is(below.args[1], WRAP)):
            return None
        for rest in (upper.args[0], below.args[0], chosen.args[2]):
            found.add(self._finite(rest))
        return next(iter(found)) if len(found) == 1 else None

    def _finite(self, expr: Any) -> Any:
        """``x`` of the rest of ``x`` as int64, 0 where it is not finite; None for anything else."""
        rest = self._call(expr, "floor_mod")
        kept: Any
        wide = None if rest is None or not _is(rest.args[1], WRAP) else self._call(rest.args[0], "astype")
        kept = None if wide is None else self._call(wide.args[0], "where")
        other = None if kept is None or not _is(kept.args[1], 0) else self._call(kept.args[0], "logical_not")
        finite = None if other is None else self._call(other.args[0], "isfinite")
        same = finite is not None and ir.same(finite.args[0], kept.args[2])
        return kept.args[2] if same and ir.dtype_of(kept.args[2]) == "float32" else None

    def _call(self, expr: Any, name: str) -> Any:
        value = self.value_of(expr)
        return value if ir.op_name(value) == name else None


def _is(expr: Any, number: int) -> bool:
    return ir.number_of(expr) == number
