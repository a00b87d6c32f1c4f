"""Passes over an imported network: fold constants with NumPy, give each consumer its own dequantize."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.conversion import blank, is_blank
from archloom.tvm_backend.ir.names import is_made_up
from archloom.tvm_backend.ir.operators import Result, operator
from archloom.tvm_backend.ir.rewriter import Rewriter

MAX_FOLDED_BYTES = 1 << 28
"""A constant expression larger than this stays an expression."""


def fold_constants(module: ir.IRModule) -> ir.IRModule:
    """Evaluate operators on constants with NumPy (TVM's own folding compiles each through LLVM).

    ``quantize`` and ``dequantize`` stay: they carry the numbers by which quantized operators are recognized.
    """
    return _Folding(module).rewritten()


class _Folding(Rewriter):
    def __init__(self, module: ir.IRModule) -> None:
        super().__init__(module)
        self.known: dict[Any, np.ndarray] = {}

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, or its array."""
        array = _folded(value, self.known)
        if array is None:
            self.keep(var, value)
        else:
            self.known[var] = array
            self.replaced[var] = ir.constant_like(array, var)

    def finish(self) -> None:
        """Leave out shapes that nothing asks for any more."""
        results = [self.result(r) for r in ir.outputs_of(self.main)]
        read = {var for expr in [*(b.value for b in self.body), *results] for var in ir.variables(expr)}
        self.body = [b for b in self.body if ir.op_name(b.value) != "shape_of" or b.var in read]


def _folded(expr: Any, known: Mapping[Any, np.ndarray]) -> np.ndarray | None:
    name = ir.op_name(expr)
    rule = operator(name).fold
    if rule is None or not ir.is_tensor(expr):
        return None
    size = int(np.prod(ir.shape_of(expr))) * np.dtype(ir.dtype_of(expr)).itemsize
    if size > MAX_FOLDED_BYTES:
        return None
    if name == "matmul" and size * ir.shape_of(expr.args[0])[-1] > MAX_FOLDED_BYTES:
        return None
    args = [_known(a, known) for a in expr.args]
    if any(a is None for a in args):
        return None
    wanted = Result(ir.shape_of(expr), ir.dtype_of(expr), lambda attribute: ir.attr(expr, attribute))
    if any(map(_is_unread, args)):
        return blank(wanted.shape, wanted.dtype)  # what is made of weights that were not read
    with np.errstate(all="ignore"):
        result = rule(wanted, *args)
    return np.ascontiguousarray(result).astype(wanted.dtype, copy=False).reshape(wanted.shape)


def _known(expr: Any, known: Mapping[Any, np.ndarray]) -> Any:
    if ir.is_constant(expr):
        return ir.const_value(expr)
    if ir.is_var(expr):
        return known[expr] if expr in known else ir.shape_values(expr)
    fields = ir.tuple_fields(expr)
    if fields is not None:
        values = [_known(f, known) for f in fields]
        return None if any(v is None for v in values) else tuple(values)
    shape = ir.shape_values(expr)
    return shape if shape is not None else ir.scalar_of(expr)


def _is_unread(arg: Any) -> bool:
    """Whether an argument is, or has in it, a weight that was not read."""
    return any(map(_is_unread, arg)) if isinstance(arg, tuple) else isinstance(arg, np.ndarray) and is_blank(arg)


def float_weights(module: ir.IRModule) -> ir.IRModule:
    """The module with the floats that dequantized constants are: for targets that compute in floats."""
    rewritten: ir.IRModule = _FloatWeights(module).rewritten()
    return module if rewritten is module else fold_constants(rewritten)


class _FloatWeights(Rewriter):
    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, or the floats that it gives."""
        if ir.op_name(value) == "dequantize" and all(map(ir.is_constant, value.args)):
            self.replaced[var] = ir.constant_like(_dequantized(value), var)
        else:
            self.keep(var, value)


def _dequantized(call: ir.Call) -> np.ndarray:
    """``(integers - zero point) * scale``; of weights that were not read, only the shape and type."""
    data, scale, zero = (ir.const_value(a) for a in call.args)
    dtype = ir.dtype_of(call)
    if is_blank(data):
        return blank(data.shape, dtype)
    along = [1] * data.ndim
    if max(scale.size, zero.size) > 1:
        along[int(ir.attr(call, "axis"))] = -1
    scale, zero = (a.reshape(along) if a.size > 1 else a.reshape(()) for a in (scale, zero))
    real: np.ndarray = (data.astype(np.int32) - zero.astype(np.int32)).astype(scale.dtype) * scale
    return real.astype(dtype, copy=False)


def duplicate_dequantize(module: ir.IRModule) -> ir.IRModule:
    """Give each consumer its own ``dequantize``, so that a pattern can take it along without taking it from others."""
    return _OwnDequantize(module).rewritten()


class _OwnDequantize(Rewriter):
    changed = True

    def visit(self, var: ir.Var, value: Any) -> None:
        """Take over one binding, with copies of what it reads dequantized."""
        args = []
        for position, arg in enumerate(value.args if ir.op_name(value) not in (None, "dequantize") else ()):
            source = self.value_of(arg)
            if ir.op_name(source) == "dequantize":
                name = arg.name if is_made_up(arg.name) else f"{arg.name}.{var.name}.{position}"
                copy = ir.new_var(name, arg)
                arg = self.bind(copy, ir.make_call(source, source.args))
            args.append(arg)
        self.bind(var, ir.make_call(value, args) if args else value)
