"""What passes do with expressions: the functions of :mod:`tvm_backend.ir.compat` of the same names, for plain ones."""

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
    Module,
    Shape,
    ShapeType,
    Target,
    TensorType,
    Tuple,
    TupleGet,
    TupleType,
    Unsupported,
    Var,
    attributes,
    variables_in,
)

# expressions --------------------------------------------------------------------------------------------------------


def is_constant(expr: Any) -> bool:
    return isinstance(expr, Constant)


def const_value(expr: Constant) -> np.ndarray:
    return expr.value


def constant_like(array: np.ndarray, _like: Any) -> Constant:
    return Constant(array)


def is_var(expr: Any) -> bool:
    return isinstance(expr, Var)


def is_tensor(expr: Any) -> bool:
    return isinstance(getattr(expr, "ty", None), TensorType)


def has_static_type(_expr: Any) -> bool:
    return True


def type_text(expr: Any) -> str:
    return str(expr.ty)


def shape_of(expr: Any) -> tuple[int, ...]:
    return expr.ty.shape  # type: ignore[no-any-return]


def dtype_of(expr: Any) -> str:
    return expr.ty.dtype  # type: ignore[no-any-return]


def op_name(expr: Any) -> str | None:
    return expr.op if isinstance(expr, Call) and isinstance(expr.op, str) else None


def attr(call: Call, name: str) -> Any:
    return getattr(call.attrs, name)


def attr_ints(call: Call, name: str) -> tuple[int, ...]:
    return tuple(getattr(call.attrs, name))


def tuple_fields(expr: Any) -> list[Any] | None:
    return list(expr.fields) if isinstance(expr, Tuple) else None


def shape_values(expr: Any) -> tuple[int, ...] | None:
    if isinstance(expr, Var) and isinstance(expr.ty, ShapeType):
        return expr.ty.values
    return expr.values if isinstance(expr, Shape) else None


def is_tuple_get(expr: Any) -> tuple[Any, int] | None:
    return (expr.tuple_value, expr.index) if isinstance(expr, TupleGet) else None


def is_single(expr: Any) -> bool:
    return isinstance(expr.ty, TensorType)


def tuple_arity(expr: Any) -> int:
    return len(expr.ty.fields) if isinstance(expr.ty, TupleType) else 0


def variables(expr: Any) -> list[Var]:
    return list(dict.fromkeys(variables_in(expr)))


def make_call(call: Call, args: Sequence[Any]) -> Call:
    return Call(call.op, tuple(args), call.attrs, call.ty)


def make_like(call: Call, args: Sequence[Any]) -> Call:
    return Call(call.op, tuple(args), call.attrs, None)


def typed_call(call: Call, args: Sequence[Any], like: Any) -> Call:
    return Call(call.op, tuple(args), call.attrs, like.ty)


def normalized(call: Call) -> Call:
    if call.ty is None:
        call.ty = infer(call)
    return call


def call_of(op: str, args: Sequence[Any], attrs: Mapping[str, Any]) -> Call:
    """A call as converters make them: shapes and lists are tuples; products name the type of their result."""
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in attrs.items()}
    own = {"out_dtype": None} if op == "matmul" else {}
    return Call(op, tuple(Shape(a) if isinstance(a, tuple) else a for a in args), attributes(**own, **given), None)


def reshape(source: Any, shape: Sequence[int]) -> Call:
    return Call("reshape", (source, Shape(tuple(shape))), attributes(), TensorType(tuple(shape), source.ty.dtype))


def substitute(expr: Any, replacements: Mapping[Var, Any]) -> Any:
    if not replacements:
        return expr
    kind = type(expr)
    if kind is Var:
        return replacements.get(expr, expr)
    if kind is Call:
        args = tuple([a if type(a) is Constant else substitute(a, replacements) for a in expr.args])
        return expr if all(map(is_, args, expr.args)) else Call(expr.op, args, expr.attrs, expr.ty)
    if kind is Tuple:
        return Tuple(tuple(substitute(f, replacements) for f in expr.fields))
    if kind is TupleGet:
        return TupleGet(substitute(expr.tuple_value, replacements), expr.index)
    return expr


# functions and modules ----------------------------------------------------------------------------------------------


def bindings(function: Function) -> list[Binding]:
    return list(function.body)


def is_branch(_expr: Any) -> bool:
    return False


def outputs_of(function: Function) -> list[Any]:
    for binding in reversed(function.body):
        if binding.var is function.result:
            fields = tuple_fields(binding.value)
            return fields if fields is not None else [function.result]
    return [function.result]


def is_composite(module: Module, expr: Any) -> tuple[str, Function] | None:
    if isinstance(expr, Call) and isinstance(expr.op, Target) and not expr.op.external:
        function = module[expr.op.name]
        if "Composite" in function.attrs:
            return str(function.attrs["Composite"]), function
    return None


def new_var(name: str, like: Any) -> Var:
    return Var(name, like.ty)


def parameter_like(var: Var) -> Var:
    return Var(var.name, var.ty)


def bind(var: Var, value: Any) -> Binding:
    return Binding(var, value)


def make_function(
    params: Sequence[Var], body: Sequence[Binding], results: Sequence[Any], attrs: Mapping[str, Any] | None = None
) -> Function:
    result = results[0] if len(results) == 1 else Tuple(tuple(results))
    out = Var("result", result.ty)
    return Function(tuple(params), (*body, Binding(out, result)), out, dict(attrs or {}))


def rebuild(function: Function, body: Sequence[Binding], results: Sequence[Any]) -> Function:
    return make_function(function.params, body, results, function.attrs)


def replace_main(module: Module, main: Function) -> Module:
    main = without_dead_code(main)
    called = {b.value.op.name for b in main.body if isinstance(b.value, Call) and isinstance(b.value.op, Target)}
    return Module({**{n: f for n, f in module.named.items() if n in called}, "main": main})


def without_dead_code(function: Function) -> Function:
    """The function without the bindings that its result does not need."""
    live: set[Var] = {function.result}
    body = []
    for binding in reversed(function.body):
        if binding.var in live:
            live.update(variables_in(binding.value))
            body.append(binding)
    return Function(function.params, tuple(reversed(body)), function.result, function.attrs)


def with_functions(main: Function, others: Mapping[str, Function], module: Module) -> Module:
    return Module({**module.named, "main": main, **others})


def codegen_of(function: Function) -> str | None:
    if "Codegen" in function.attrs:
        return str(function.attrs["Codegen"])
    return "" if "Composite" in function.attrs else None


def keep_functions(module: Module, wanted: Callable[[Any], bool]) -> Module:
    return Module({name: f for name, f in module.named.items() if wanted(f)})


def ensure_dataflow(module: Module) -> Module:
    """A result that only names another variable takes that variable's place, as in Relax's canonical form."""
    main = module["main"]
    last = main.body[-1] if main.body else None
    if last is None or last.var is not main.result or not isinstance(last.value, Var) or last.value in main.params:
        return module
    renamed = {last.value: main.result}
    body = [
        Binding(renamed.get(b.var, b.var), substitute(b.value, renamed)) for b in main.body[:-1]
    ]
    return Module({**module.named, "main": Function(main.params, tuple(body), main.result, main.attrs)})


def call_external(symbol: str, args: Sequence[Any], results: Sequence[Any]) -> Call:
    types = [r.ty for r in results]
    ty = types[0] if len(types) == 1 else TupleType(tuple(types))
    return Call(Target(symbol, external=True), tuple(args), attributes(), ty)


def tuple_get(expr: Any, index: int) -> TupleGet:
    return TupleGet(expr, index)


def bind_parameters(_module: Module, _params: Any) -> Module:
    raise Unsupported("parameters of main that become constants")
