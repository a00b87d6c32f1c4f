"""ONNX networks as plain modules, operator by operator as TVM's importer reads them.

Only operators whose form in Relax is known exactly are read (:mod:`.converters`); any other raises
:class:`~archloom.tvm_backend.ir.nodes.Unsupported`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from archloom.tvm_backend.frontends.onnx.calls import Node
from archloom.tvm_backend.frontends.onnx.converters import CONVERTERS
from archloom.tvm_backend.frontends.onnx.editor import attributes_of, opset_of
from archloom.tvm_backend.frontends.onnx.guard import without_weights
from archloom.tvm_backend.frontends.onnx.skeleton import is_weight
from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.conversion import NAMED_OPERATORS, blank, rename
from archloom.tvm_backend.ir.operators import type_of_call
from archloom.tvm_backend.ir.plain import ensure_dataflow

UNNAMED = "lv"
"""The name of what a converter binds on its way, and of tuples: TVM numbers these, which nothing depends on."""
RAW: Mapping[int, np.dtype[Any]] = {
    number: np.dtype(name) for number, name in ((1, "<f4"), (2, "u1"), (3, "i1"), (6, "<i4"), (7, "<i8"))}
"""Types by their numbers in ``onnx.TensorProto`` whose bytes are those of NumPy."""
TAKES_SHAPES = frozenset({"Reshape", "Gather", "Slice", "Concat", "Cast", "Unsqueeze", "Squeeze"})
"""Operators whose converters here know what to do with the result of ``Shape``."""


def from_onnx(proto: onnx.ModelProto) -> nodes.Module:
    """The network; every node's result is bound to a variable of the node's name."""
    opset = opset_of(proto)
    if opset < 13:
        raise nodes.Unsupported(f"operator set {opset}")
    with without_weights():
        return _Importer(proto.graph, opset).module()


class _Importer:
    def __init__(self, graph: onnx.GraphProto, opset: int) -> None:
        self.graph = graph
        self.opset = opset
        self.values: dict[str, Any] = {}
        self.body: list[nodes.Binding] = []
        self.taken: dict[str, int] = {}
        self.shapes = False
        """Whether any value is a shape."""

    def module(self) -> nodes.Module:
        graph = self.graph
        for tensor in graph.initializer:
            self.values[tensor.name] = nodes.Constant(array(tensor))
        params = [self._parameter(info) for info in graph.input if info.name not in self.values]
        for node in graph.node:
            self._node(node)
        results = [self.values[o.name] for o in graph.output]
        if not all(isinstance(r, nodes.Var) for r in results):
            raise nodes.Unsupported("a constant as a result")
        return _module_of(params, self.body, results)

    def _parameter(self, info: onnx.ValueInfoProto) -> nodes.Var:
        kind = info.type.tensor_type
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        name = info.name.replace(".", "_")
        if not name or not (name[0].isalpha() or name[0] == "_"):
            raise nodes.Unsupported(f"an input called {info.name!r}")
        var = nodes.Var(name, nodes.TensorType(tuple(d.dim_value for d in kind.shape.dim), str(dtype)))
        self.values[info.name] = var
        return var

    def _node(self, node: onnx.NodeProto) -> None:
        convert = CONVERTERS.get(node.op_type)
        if convert is None or node.domain not in ("", "ai.onnx"):
            raise nodes.Unsupported(f"operator {node.op_type}")
        inputs = [self.values[name] if name else None for name in node.input]
        if self.shapes and node.op_type not in TAKES_SHAPES and any(isinstance(i, nodes.Shape) for i in inputs):
            raise nodes.Unsupported(f"{node.op_type} of a shape")
        attributes = {name: tuple(value) if isinstance(value, list) else value
                      for name, value in attributes_of(node).items()}
        expr = convert(Node(inputs, attributes, self.opset, len(node.output), self._unnamed))
        results = self._named(expr, rename(node.name or node.op_type))
        if len(results) < len(node.output):
            raise nodes.Unsupported(f"operator {node.op_type} of {len(node.output)} results")
        self.values.update((name, value) for name, value in zip(node.output, results) if name)
        self.shapes = self.shapes or any(isinstance(r, nodes.Shape) for r in results)

    def _named(self, expr: Any, name: str) -> list[Any]:
        """Bind nested calls one by one; the heaviest operator, else the last, gets the node's own name."""
        if isinstance(expr, nodes.Tuple):
            return [self._unnamed(f) if isinstance(f, nodes.Call | nodes.TupleGet) else f for f in expr.fields]
        if not isinstance(expr, nodes.Call):
            return [expr]
        nested = any(isinstance(a, nodes.Call) for a in expr.args)
        anchor = next((o for o in _operators(expr) if o in NAMED_OPERATORS), expr.op) if nested else expr.op
        result = self._emitted(expr, name, anchor)
        if isinstance(result.ty, nodes.TupleType):
            return [self._unnamed(nodes.TupleGet(result, i)) for i in range(len(result.ty.fields))]
        return [result]

    def _emitted(self, expr: nodes.Call, name: str, anchor: Any) -> nodes.Var:
        args = tuple([self._emitted(a, name, anchor) if type(a) is nodes.Call else a for a in expr.args])
        call = nodes.Call(expr.op, args, expr.attrs, None)
        call.ty = type_of_call(call)
        own = str(expr.op)
        if not isinstance(call.ty, nodes.TensorType):
            return self._unnamed(call)
        var = nodes.Var(self._unique(name if own == anchor else f"{name}.{own.split('.')[-1]}"), call.ty)
        self.body.append(nodes.Binding(var, call))
        return var

    def _unnamed(self, expr: Any) -> nodes.Var:
        """Bind an expression, and those inside it, to variables without a name of their own."""
        if isinstance(expr, nodes.Call):
            args = tuple(self._unnamed(a) if isinstance(a, nodes.Call) else a for a in expr.args)
            expr = nodes.Call(expr.op, args, expr.attrs, None)
            expr.ty = type_of_call(expr)
        elif isinstance(expr, nodes.TupleGet) and isinstance(expr.tuple_value, nodes.Call):
            expr = nodes.TupleGet(self._unnamed(expr.tuple_value), expr.index)
        var = nodes.Var(self._unique(UNNAMED), expr.ty)
        self.body.append(nodes.Binding(var, expr))
        return var

    def _unique(self, name: str) -> str:
        """The name that TVM's builder gives: free of dots, numbered where it is taken."""
        base = name.replace(".", "_")
        if base not in self.taken:
            self.taken[base] = 0
            return base
        while True:
            self.taken[base] += 1
            numbered = f"{base}{self.taken[base]}"
            if numbered not in self.taken:
                self.taken[numbered] = 0
                return numbered


def _module_of(params: list[nodes.Var], body: list[nodes.Binding], results: list[nodes.Var]) -> nodes.Module:
    """A module in TVM's canonical form: the one result is the variable ``gv``."""
    result = results[0] if len(results) == 1 else nodes.Tuple(tuple(results))
    out = nodes.Var("gv", result.ty)
    main = nodes.Function(tuple(params), (*body, nodes.Binding(out, result)), out)
    return ensure_dataflow(nodes.Module({"main": main}))


def _operators(expr: nodes.Call) -> list[str]:
    """Operators of nested calls, inner ones first."""
    inner = [o for a in expr.args if isinstance(a, nodes.Call) for o in _operators(a)]
    return [*inner, str(expr.op)]


def array(tensor: onnx.TensorProto) -> np.ndarray:
    """A constant; of weights only the shape."""
    shape = tuple(tensor.dims)
    if is_weight(tensor.data_type, shape):
        dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
        return blank(shape, dtype)
    if tensor.data_location == TensorProto.EXTERNAL:
        raise nodes.Unsupported("a small constant in an external file")
    dtype = RAW.get(tensor.data_type)
    if dtype is not None and tensor.raw_data:
        return np.frombuffer(tensor.raw_data, dtype).reshape(shape)
    return numpy_helper.to_array(tensor)
