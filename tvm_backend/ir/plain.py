"""Networks as plain Python objects: what partitioning needs to know of one, without TVM and without its weights.

Estimates read ONNX networks into these expressions and send them through the same passes, rules, strategies and regions
as TVM's. This is their :class:`~archloom.tvm_backend.ir.expressions.Representation`, where the functions are described;
matches of a target's patterns are found by :mod:`.matcher`. What cannot be read in this way raises
:class:`Unsupported` and takes TVM's way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_
from typing import Any

import numpy as np

from archloom.tvm_backend.ir.infer import infer
from archloom.tvm_backend.ir.nodes import (
    Binding,
    Call,
    Constant,
    Function,
    Kind,
    Module,
    Shape,
    Target,
    Tuple,
    TupleGet,
    TupleType,
    Type,
    Var,
    attributes,
    variables_in,
)
from archloom.tvm_backend.ir.nodes import Unsupported as Unsupported

_KINDS: dict[type, Kind] = {
    Var: "var", Constant: "constant", Call: "call", Tuple: "tuple", TupleGet: "field", Shape: "shape"}


def kind(expr: Any) -> Kind:
    return _KINDS.get(type(expr), "other")


def type_of(expr: Any) -> Type:
    return getattr(expr, "ty", None)


def op_name(expr: Any) -> str | None:
    return expr.op if type(expr) is Call and isinstance(expr.op, str) else None


def const_value(expr: Constant) -> np.ndarray:
    return expr.value


def scalar_of(value: Any) -> Any:
    return value


def variables(expr: Any) -> list[Var]:
    return list(dict.fromkeys(variables_in(expr)))


def constant(array: np.ndarray) -> Constant:
    return Constant(np.asarray(array))


def on_arguments(call: Call, args: Sequence[Any], like: Any) -> Call:
    return Call(call.op, tuple(args), call.attrs, None if like is None else like.ty)


def normalized(call: Call) -> Call:
    if call.ty is None:
        call.ty = infer(call)
    return call


def call_of(op: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> Call:
    """A call as converters make them: shapes and lists are tuples; products name the type of their result."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in attrs.items()}
    own: dict[str, Any] = {"out_dtype": None} if op == "matmul" else {}
    if op == "nn.attention":
        bias, own = given.pop("bias", None), {"causal_mask": None}
        op, args = (op, args) if bias is None else ("nn.attention_bias", [*args, bias])
    return Call(op, tuple(Shape(a) if isinstance(a, tuple) else a for a in args), attributes(**own, **given), None)


def call_external(symbol: str, args: Sequence[Any], results: Sequence[Any]) -> Call:
    types = [r.ty for r in results]
    ty = types[0] if len(types) == 1 else TupleType(tuple(types))
    return Call(Target(symbol, external=True), tuple(args), attributes(), ty)


def substitute(expr: Any, replacements: Mapping[Any, Any]) -> Any:
    match kind(expr) if replacements else None:
        case "var":
            return replacements.get(expr, expr)
        case "call":
            args = [a if type(a) is Constant else substitute(a, replacements) for a in expr.args]
            return expr if all(map(is_, args, expr.args)) else on_arguments(expr, args, expr)
        case "tuple":
            return Tuple(tuple(substitute(f, replacements) for f in expr.fields))
        case "field":
            return TupleGet(substitute(expr.tuple_value, replacements), expr.index)
    return expr


def external_call(expr: Any) -> tuple[str, list[Any]] | None:
    if type(expr) is Call and isinstance(expr.op, Target) and expr.op.external:
        return expr.op.name, list(expr.args)
    return None


def tuple_get(expr: Any, index: int) -> TupleGet:
    return TupleGet(expr, index)


def new_var(name: str, like: Any) -> Var:
    return Var(name, like.ty)


def parameter_like(var: Var) -> Var:
    return Var(var.name, var.ty)


def bind(var: Var, value: Any) -> Binding:
    return Binding(var, value)


def bindings(function: Function) -> Sequence[Binding]:
    return function.body


def result_of(function: Function) -> Var:
    return function.result


def make_function(
    params: Sequence[Var], body: Sequence[Binding], results: Sequence[Any], attrs: Mapping[str, Any] | None = None
) -> Function:
    result = results[0] if len(results) == 1 else Tuple(tuple(results))
    out = Var("result", result.ty)
    return Function(tuple(params), (*body, Binding(out, result)), out, dict(attrs or {}))


def is_composite(module: Module, expr: Any) -> tuple[str, Function] | None:
    if isinstance(expr, Call) and isinstance(expr.op, Target) and not expr.op.external:
        function = module[expr.op.name]
        if "Composite" in function.attrs:
            return str(function.attrs["Composite"]), function
    return None


def codegen_of(function: Function) -> str | None:
    if "Codegen" in function.attrs:
        return str(function.attrs["Codegen"])
    return "" if "Composite" in function.attrs else None


def keep_functions(module: Module, wanted: Callable[[Any], bool]) -> Module:
    return Module({name: f for name, f in module.named.items() if wanted(f)})


def with_functions(main: Function, others: Mapping[str, Function], module: Module) -> Module:
    return Module({**module.named, "main": main, **others})


def replace_main(module: Module, main: Function) -> Module:
    main = _without_dead_code(main)
    called = {b.value.op.name for b in main.body if isinstance(b.value, Call) and isinstance(b.value.op, Target)}
    return Module({**{n: f for n, f in module.named.items() if n in called}, "main": main})


def _without_dead_code(function: Function) -> Function:
    """The function without the bindings that its result does not need."""
    live: set[Var] = {function.result}
    body = []
    for binding in reversed(function.body):
        if binding.var in live:
            live.update(variables_in(binding.value))
            body.append(binding)
    return Function(function.params, tuple(reversed(body)), function.result, function.attrs)


def ensure_dataflow(module: Module) -> Module:
    """A result that only names another variable takes that variable's place, as in Relax's canonical form."""
    main = module["main"]
    last = main.body[-1] if main.body else None
    if last is None or last.var is not main.result or not isinstance(last.value, Var) or last.value in main.params:
        return module
    renamed = {last.value: main.result}
    body = [Binding(renamed.get(b.var, b.var), substitute(b.value, renamed)) for b in main.body[:-1]]
    return Module({**module.named, "main": Function(main.params, tuple(body), main.result, main.attrs)})
