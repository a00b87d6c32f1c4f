"""Relax modules without their weights: the same calls as plain expressions, which need no numbers."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from archloom.tvm_backend.ir import compat, nodes
from archloom.tvm_backend.ir.conversion import blank


def without_weights(module: compat.IRModule, weights: Container[str]) -> nodes.Module:
    """``main`` as plain expressions; parameters that are called as one of ``weights`` become constants of their shape.

    Raises :class:`~archloom.tvm_backend.ir.nodes.Unsupported` for what plain expressions do not have.
    """
    return _Reader(module["main"], weights).module()


class _Reader:
    def __init__(self, main: Any, weights: Container[str]) -> None:
        self.main = main
        self.weights = weights
        self.values: dict[Any, Any] = {}

    def module(self) -> nodes.Module:
        params = [self._variable(p) for p in self.main.params if p.name not in self.weights]
        for param in self.main.params:
            if param.name in self.weights:
                ty = compat.type_of(param)
                assert isinstance(ty, nodes.TensorType)
                self.values[param] = nodes.Constant(blank(ty.shape, ty.dtype))
        body = [nodes.Binding(self._variable(b.var, value), value) for b in compat.bindings(self.main)
                for value in [self._read(b.value)]]
        result = self._read(compat.result_of(self.main))
        if not isinstance(result, nodes.Var):
            body.append(nodes.Binding(nodes.Var("result", result.ty), result))
            result = body[-1].var
        return nodes.Module({"main": nodes.Function(tuple(params), tuple(body), result)})

    def _variable(self, var: Any, value: Any = None) -> nodes.Var:
        ty = compat.type_of(var)
        made = self.values[var] = nodes.Var(str(var.name), getattr(value, "ty", None) if ty is None else ty)
        return made

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
                return nodes.TupleGet(self._read(expr.tuple_value), int(expr.index))
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
