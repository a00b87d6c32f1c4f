"""Networks as plain Python objects: what partitioning needs to know of one, without TVM and without its weights.

Estimates read ONNX networks into these expressions and send them through the same passes, rules, strategies and regions
as TVM's. This is their :class:`~archloom.tvm_backend.ir.expressions.Representation`, where the functions are described;
matches of a target's patterns are found by :mod:`.matcher`. What cannot be read in this way raises
:class:`~archloom.tvm_backend.ir.nodes.Unsupported` and takes TVM's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter, is_
from typing import Any

import numpy as np

from archloom.tvm_backend.ir import nodes
from archloom.tvm_backend.ir.operators import type_of_call

_KINDS: dict[type, nodes.Kind] = {
    nodes.Var: "var", nodes.Constant: "constant", nodes.Call: "call", nodes.Tuple: "tuple", nodes.TupleGet: "field",
    nodes.Shape: "shape"}


tuple_get, bind = nodes.TupleGet, nodes.Binding
bindings, result_of, const_value = map(attrgetter, ("body", "result", "value"))


def kind(expr: Any) -> nodes.Kind:
    return _KINDS.get(type(expr), "other")


def type_of(expr: Any) -> nodes.Type:
    return getattr(expr, "ty", None)


def op_name(expr: Any) -> str | None:
    return expr.op if type(expr) is nodes.Call and isinstance(expr.op, str) else None


def scalar_of(value: Any) -> Any:
    return value


def variables(expr: Any) -> list[nodes.Var]:
    return list(dict.fromkeys(nodes.variables_in(expr)))


def constant(array: np.ndarray) -> nodes.Constant:
    return nodes.Constant(np.asarray(array))


def on_arguments(call: nodes.Call, args: Sequence[Any], like: Any) -> nodes.Call:
    return nodes.Call(call.op, tuple(args), call.attrs, None if like is None else like.ty)


def normalized(call: nodes.Call) -> nodes.Call:
    if call.ty is None:
        call.ty = type_of_call(call)
    return call


def call_of(op: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> nodes.Call:
    """A call as converters make them: shapes and lists are tuples; products name the type of their result."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in attrs.items()}
    own: dict[str, Any] = {"out_dtype": None} if op == "matmul" else {}
    if op == "nn.attention":
        bias, own = given.pop("bias", None), {"causal_mask": None}
        op, args = (op, args) if bias is None else ("nn.attention_bias", [*args, bias])
    if op == "strided_slice":  # of which these are arguments, as converters have them
        axes = given.pop("axes")
        ones = (1,) * len(axes)
        places = axes, given.pop("begin"), given.pop("end"), given.pop("strides", ones)
        return nodes.Call(op, (*args, *places), nodes.attributes(assume_inbound=False), None)
    arguments = tuple(nodes.Shape(a) if isinstance(a, tuple) else a for a in args)
    return nodes.Call(op, arguments, nodes.attributes(**{**own, **given}), None)


def attributes_of(call: nodes.Call) -> dict[str, Any]:
    return dict(vars(call.attrs))


def call_external(symbol: str, args: Sequence[Any], results: Sequence[Any]) -> nodes.Call:
    types = [r.ty for r in results]
    ty = types[0] if len(types) == 1 else nodes.TupleType(tuple(types))
    return nodes.Call(nodes.Target(symbol, external=True), tuple(args), nodes.attributes(), ty)


def substitute(expr: Any, replacements: Mapping[Any, Any]) -> Any:
    match kind(expr) if replacements else None:
        case "var":
            return replacements.get(expr, expr)
        case "call":
            args = [a if type(a) is nodes.Constant else substitute(a, replacements) for a in expr.args]
            return expr if all(map(is_, args, expr.args)) else on_arguments(expr, args, expr)
        case "tuple":
            return nodes.Tuple(tuple(substitute(f, replacements) for f in expr.fields))
        case "field":
            return nodes.TupleGet(substitute(expr.tuple_value, replacements), expr.index)
    return expr


def external_call(expr: Any) -> tuple[str, list[Any]] | None:
    if type(expr) is nodes.Call and isinstance(expr.op, nodes.Target) and expr.op.external:
        return expr.op.name, list(expr.args)
    return None


def new_var(name: str, like: Any) -> nodes.Var:
    return nodes.Var(name, like.ty)


def parameter_like(var: nodes.Var) -> nodes.Var:
    return nodes.Var(var.name, var.ty)


def make_function(
    params: Sequence[nodes.Var], body: Sequence[nodes.Binding], results: Sequence[Any],
    attrs: Mapping[str, Any] | None = None,
) -> nodes.Function:
    result = results[0] if len(results) == 1 else nodes.Tuple(tuple(results))
    out = nodes.Var("result", result.ty)
    return nodes.Function(tuple(params), (*body, nodes.Binding(out, result)), out, dict(attrs or {}))


def callee(module: nodes.Module, expr: Any) -> Any:
    op = expr.op if isinstance(expr, nodes.Call) else None
    return module[op.name] if isinstance(op, nodes.Target) and not op.external else None


def keep_functions(module: nodes.Module, wanted: Callable[[Any], bool]) -> nodes.Module:
    return nodes.Module({name: f for name, f in module.named.items() if wanted(f)})


def with_functions(main: nodes.Function, others: Mapping[str, nodes.Function], module: nodes.Module) -> nodes.Module:
    return nodes.Module({**module.named, "main": main, **others})


def replace_main(module: nodes.Module, main: nodes.Function) -> nodes.Module:
    body = nodes.needed(main.body, {main.result}, nodes.variables_in)
    main = nodes.Function(main.params, tuple(body), main.result, main.attrs)
    calls = (b.value.op for b in main.body if isinstance(b.value, nodes.Call))
    called = {op.name for op in calls if isinstance(op, nodes.Target)}
    return nodes.Module({**{n: f for n, f in module.named.items() if n in called}, "main": main})


def ensure_dataflow(module: nodes.Module) -> nodes.Module:
    """As Relax's canonical form: a result that only names another variable takes that variable's place, and there is
    nothing that no result needs."""
    main = module["main"]
    last = main.body[-1] if main.body else None
    named = last.value if last is not None and last.var is main.result else None
    if not isinstance(named, nodes.Var) or named in main.params:
        return replace_main(module, main)
    renamed = {named: main.result}
    body = [nodes.Binding(renamed.get(b.var, b.var), substitute(b.value, renamed)) for b in main.body[:-1]]
    return replace_main(module, nodes.Function(main.params, tuple(body), main.result, main.attrs))
