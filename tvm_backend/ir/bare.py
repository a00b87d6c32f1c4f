"""Relax modules without their weights: the same calls as plain expressions, which need no numbers."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from typing import Any

from archloom.tvm_backend.ir import compat, nodes, plain
from archloom.tvm_backend.ir.conversion import blank

_NUMBERED = re.compile(r"lv\d*")


def without_weights(
    module: compat.IRModule, weights: Container[str], functions: Mapping[str, nodes.Function] = {},
) -> nodes.Function:
    """``main`` as plain expressions; parameters that are called as one of ``weights`` become constants of their shape.

    Calls of ``functions`` from outside are written out, under the names that TVM would have given if they had been part
    of ``main``. Raises :class:`~archloom.tvm_backend.ir.nodes.Unsupported` for what plain expressions do not have.
    """
    return _Reader(module["main"], weights, functions).function()


class _Reader:
    def __init__(self, main: Any, weights: Container[str], functions: Mapping[str, nodes.Function]) -> None:
        self.main = main
        self.weights = weights
        self.functions = functions
        self.values: dict[Any, Any] = {}
        self.body: list[nodes.Binding] = []
        self.numbered = 0

    def function(self) -> nodes.Function:
        params = [self._parameter(param) for param in self.main.params]
        for binding in compat.bindings(self.main):
            self.values[binding.var] = self._bound(binding)
        result = self._read(compat.result_of(self.main))
        if not isinstance(result, nodes.Var) or not self.body or result is not self.body[-1].var:
            result = self._bind("result", result)
        return nodes.Function(tuple(p for p in params if isinstance(p, nodes.Var)), tuple(self.body), result)

    def _parameter(self, param: Any) -> "nodes.Var | nodes.Constant":
        ty = compat.type_of(param)
        assert isinstance(ty, nodes.TensorType)
        known = nodes.Constant(blank(ty.shape, ty.dtype)) if param.name in self.weights else None
        self.values[param] = known or nodes.Var(str(param.name), ty)
        return self.values[param]

    def _bound(self, binding: Any) -> Any:
        """What stands for a variable."""
        called = compat.external_call(binding.value)
        if called is not None and called[0] in self.functions:
            return self._written_out(self.functions[called[0]], [self._read(arg) for arg in called[1]])
        value, kind = self._read(binding.value), compat.kind(binding.value)
        if isinstance(value, nodes.Constant) or (kind == "tuple" and isinstance(value, nodes.Tuple)):
            # takes the variable's place: constants are folded, and fields may be all that is read of a tuple
            self.numbered += _NUMBERED.fullmatch(str(binding.var.name)) is not None
            return value
        given = kind == "field" and isinstance(value, nodes.Var)  # in a tuple that is known
        return value if given else self._bind(str(binding.var.name), value)

    def _written_out(self, function: nodes.Function, args: list[Any]) -> Any:
        known: dict[Any, Any] = dict(zip(function.params, args, strict=True))
        for binding in function.body:
            value = plain.substitute(binding.value, known)
            is_result = binding.var is function.result and not isinstance(value, nodes.Call)
            known[binding.var] = value if is_result else self._bind(binding.var.name, value)
        return known[function.result]

    def _bind(self, name: str, value: Any) -> nodes.Var:
        if _NUMBERED.fullmatch(name):
            name = f"lv{self.numbered or ''}"
            self.numbered += 1
        self.body.append(nodes.Binding(nodes.Var(name, value.ty), value))
        return self.body[-1].var

    def _read(self, expr: Any) -> Any:
        match compat.kind(expr):
            case "var":
                return self.values[expr]
            case "constant":
                return nodes.Constant(compat.const_value(expr))
            case "call":
                return self._call(expr)
            case "tuple":
                fields = tuple(map(self._read, expr.fields))
                return nodes.Tuple(fields) if all(map(nodes.is_plain, fields)) else fields
            case "field":
                of = self._read(expr.tuple_value)
                return of.fields[expr.index] if isinstance(of, nodes.Tuple) else nodes.TupleGet(of, int(expr.index))
            case "shape":
                return self._shape(expr)
            case "branch":
                raise nodes.Unsupported("a choice by a value that is computed")
        return compat.scalar_of(expr)

    @staticmethod
    def _shape(expr: Any) -> nodes.Shape:
        ty = compat.type_of(expr)
        if not isinstance(ty, nodes.ShapeType):
            raise nodes.Unsupported("a shape that is not static")
        return nodes.Shape(ty.values)

    def _call(self, call: Any) -> nodes.Call:
        name = compat.op_name(call)
        if name is None:
            raise nodes.Unsupported("a call of a function")
        attributes = nodes.attributes(**compat.attributes_of(call))
        return nodes.Call(name, tuple(map(self._read, call.args)), attributes, compat.type_of(call))
