"""Networks of float16 or bfloat16 for targets that multiply with float32 sums: products as such, and what is made of
the sums.

A product of 16 bits becomes one whose sums are float32, rounded once; operands are what they were, or made float32
before it where the target multiplies no others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from archloom.mapper.nests import HALVES
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import blank, is_blank
from archloom.tvm_backend.ir.rewriter import Rewriter

SUMS = "float32"
PRODUCTS = frozenset({"matmul", "nn.conv2d", "nn.conv1d"})


def with_wide_sums(module: ir.IRModule, mixed: bool) -> ir.IRModule:
    """Rewrite ``main`` (see above); ``mixed``: whether the target multiplies numbers of 16 bits."""
    return _Halves(module, mixed).rewritten()


class _Halves(Rewriter):
    def __init__(self, module: ir.IRModule, mixed: bool) -> None:
        super().__init__(module)
        self.mixed = mixed

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, or a product of 16 bits."""
        if ir.op_name(value) not in PRODUCTS or not ir.is_tensor(var) or ir.dtype_of(var) not in HALVES:
            self.keep(var, value)
            return
        attributes = {k: ir.scalar_of(v) for k, v in ir.of(value).attributes_of(value).items()}
        given = [self.new(a) for a in value.args]
        factors = given if self.mixed and ir.op_name(value) != "nn.conv1d" else list(map(self._wide, given))
        attributes["out_dtype"] = SUMS
        sums = self.emit(str(ir.op_name(value)), *factors, **attributes, label=f"{var.name}.sums")
        self.replaced[var] = self.emit("astype", sums, dtype=ir.dtype_of(var), label=var.name)

    def _wide(self, expr: Any) -> Any:
        if not ir.is_constant(expr):
            return self.emit("astype", expr, dtype=SUMS)
        array = ir.const_value(expr)
        return ir.constant_like(blank(array.shape, SUMS) if is_blank(array) else array.astype(np.float32), expr)
