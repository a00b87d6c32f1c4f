"""The only module that knows TVM's moving names (written against apache-tvm 0.27, Relax).

It imports TVM when it is imported, which takes a second: import it where TVM is first needed. The rest of archloom sees
Relax through the functions and names below; when TVM renames something, this file changes and nothing else.
"""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.frontends.onnx.names import NAMED_OPERATORS, rename

_torch = sys.modules.get("torch")
if _torch is None:  # TVM imports torch when it finds it, which doubles its own time of import and serves nobody here
    sys.modules["torch"] = None  # type: ignore[assignment]
try:
    import tvm
    import tvm_ffi
    from tvm import relax
    from tvm.relax.dpl import is_const, is_op, wildcard
    from tvm.relax.dpl.pattern import DFPattern
finally:
    if _torch is None:
        del sys.modules["torch"]

__all__ = ["DFPattern", "is_const", "is_op", "wildcard"]  # TVM's own, taken as they are

Expr: TypeAlias = relax.Expr
Var: TypeAlias = relax.Var
Call: TypeAlias = relax.Call
Function: TypeAlias = relax.Function
GlobalVar: TypeAlias = relax.GlobalVar
IRModule: TypeAlias = tvm.IRModule
Binding: TypeAlias = relax.VarBinding
Tensor: TypeAlias = tvm.runtime.Tensor
_Constant = tvm.ir.GenericConst

IMPORT_ERRORS: tuple[type[Exception], ...] = (Exception,)
"""What an importer may raise on a network it does not understand: TVM's converters raise any type."""

_registry_lock = threading.Lock()


def version() -> str:
    """Version of the installed TVM."""
    return str(tvm.__version__)


# Expressions -------------------------------------------------------------------------------------------------------


def is_constant(expr: Any) -> bool:
    """Whether ``expr`` is a tensor constant."""
    return isinstance(expr, _Constant)


def const_value(expr: Any) -> np.ndarray:
    """A constant's tensor as a NumPy array (shares memory where it can)."""
    return np.asarray(expr.value.numpy())


def constant(array: np.ndarray) -> Expr:
    """A tensor constant."""
    return relax.const(np.ascontiguousarray(array) if array.ndim else array, str(array.dtype))


def is_var(expr: Any) -> bool:
    return isinstance(expr, relax.Var)


def is_tensor(expr: Any) -> bool:
    """Whether ``expr`` is a single tensor of known rank and static shape."""
    ty = expr.ty
    return isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr) and not symbolic_dims(expr)


def has_static_type(expr: Any) -> bool:
    """Whether a tensor, or every tensor of a tuple, has a static shape; shapes and scalars have."""

    def static(ty: Any) -> bool:
        if isinstance(ty, relax.TupleType):
            return all(static(f) for f in ty.fields)
        if isinstance(ty, relax.TensorType):
            dims = ty.shape.values if isinstance(ty.shape, relax.ShapeExpr) else [None]
            return all(isinstance(d, tvm.tirx.IntImm) for d in dims)
        if isinstance(ty, relax.ShapeType):
            return ty.values is not None and all(isinstance(d, tvm.tirx.IntImm) for d in ty.values)
        return True

    return static(expr.ty)


def type_text(expr: Any) -> str:
    """The type of an expression as Relax prints it."""
    return str(expr.ty)


def symbolic_dims(expr: Any) -> list[str]:
    """Names of the dimensions of a tensor that are not numbers."""
    ty = expr.ty
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return ["?"]
    return [str(d) for d in ty.shape.values if not isinstance(d, tvm.tirx.IntImm)]


def shape_of(expr: Any) -> tuple[int, ...]:
    """Static shape of a tensor expression."""
    return tuple(int(d) for d in expr.ty.shape.values)


def dtype_of(expr: Any) -> str:
    """NumPy name of a tensor expression's dtype."""
    return str(expr.ty.dtype)


def op_name(expr: Any) -> str | None:
    """``nn.conv2d`` for a call of ``relax.nn.conv2d``; None for anything that calls no operator."""
    if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
        return str(expr.op.name).removeprefix("relax.")
    return None


def attr(call: Any, name: str) -> Any:
    """Attribute ``name`` of a call as a number, string or None (see :func:`attr_ints` for lists)."""
    return scalar_of(getattr(call.attrs, name))


def attr_ints(call: Any, name: str) -> tuple[int, ...]:
    """Attribute ``name`` of a call as a tuple of integers."""
    return tuple(int(v) for v in getattr(call.attrs, name))


def scalar_of(value: Any) -> Any:
    """A Python number, string or None from TVM's immediates."""
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    if hasattr(value, "value") and not is_constant(value):
        return scalar_of(value.value)
    return value


def tuple_fields(expr: Any) -> list[Any] | None:
    """Fields of a tuple literal, else None."""
    return list(expr.fields) if isinstance(expr, relax.Tuple) else None


def shape_values(expr: Any) -> tuple[int, ...] | None:
    """Numbers of a shape literal, or of a variable that holds a static shape, else None."""
    if isinstance(expr, relax.Var) and isinstance(expr.ty, relax.type.ShapeType):
        expr = expr.ty
        if expr.values is None or not all(isinstance(v, tvm.tirx.IntImm) for v in expr.values):
            return None
    elif not isinstance(expr, relax.ShapeExpr):
        return None
    return tuple(int(v) for v in expr.values)


def is_tuple_get(expr: Any) -> tuple[Any, int] | None:
    """``(tuple, index)`` of an access to a field, else None."""
    return (expr.tuple_value, int(expr.index)) if isinstance(expr, relax.TupleGetItem) else None


def make_call(call: Call, args: Sequence[Expr]) -> Call:
    """A new call of the same operator with the same attributes and type on other arguments."""
    return typed_call(call, args, call)


def make_like(call: Call, args: Sequence[Expr]) -> Call:
    """A new call of the same operator and attributes on arguments of other shapes; its type is not yet known."""
    return relax.Call(call.op, list(args), call.attrs, call.ty_args)


def typed_call(call: Call, args: Sequence[Expr], like: Expr) -> Call:
    """A new call of the same operator and attributes, of the type of ``like``."""
    new = make_like(call, args)
    relax.expr._update_type(new, like.ty)
    return new


# Functions and modules ---------------------------------------------------------------------------------------------


def bindings(function: Function) -> list[Binding]:
    """All bindings of a function without control flow, in order."""
    return [b for block in function.body.blocks for b in block.bindings]


def is_branch(expr: Expr) -> bool:
    """Whether an expression chooses between others by a value that is computed."""
    return isinstance(expr, relax.If)


def outputs_of(function: Function) -> list[Expr]:
    """What the function returns: the fields of a tuple, or the one value."""
    result = function.body.body
    bound = {b.var: b.value for b in bindings(function)}
    fields = tuple_fields(bound.get(result, result)) if is_var(result) else tuple_fields(result)
    return fields if fields is not None else [result]


def is_composite(module: IRModule, expr: Any) -> tuple[str, Function] | None:
    """``(name, function)`` where ``expr`` calls a composite function of ``module``, else None."""
    if isinstance(expr, relax.Call) and isinstance(expr.op, relax.GlobalVar):
        function = module[expr.op]
        if isinstance(function, relax.Function) and function.attrs and "Composite" in function.attrs:
            return str(function.attrs["Composite"]), function
    return None


def new_var(name: str, like: Expr) -> Var:
    """A dataflow variable of the type of ``like``."""
    return relax.DataflowVar(name, like.ty)


def symbolic(name: str) -> Any:
    """A dimension without a number."""
    return tvm.tirx.Var(name, "int64")


def parameter(name: str, shape: Sequence[Any], dtype: str) -> Var:
    """A function parameter: a tensor."""
    return relax.Var(name, relax.TensorType(list(shape), dtype))


def parameter_like(var: Var) -> Var:
    """A function parameter of the name and type of ``var``."""
    return relax.Var(var.name, var.ty)


def variables(expr: Any) -> list[Var]:
    """Variables that an expression reads, in order, without repetition."""
    if isinstance(expr, relax.Var):
        return [expr]
    return list(relax.analysis.free_vars(expr))


def is_single(expr: Any) -> bool:
    """Whether an expression is one tensor, not a tuple or a shape."""
    return isinstance(expr.ty, relax.TensorType)


def bind(var: Var, value: Expr) -> Binding:
    return relax.VarBinding(var, value)


def make_function(
    params: Sequence[Var], body: Sequence[Binding], results: Sequence[Expr], attrs: Mapping[str, Any] | None = None
) -> Function:
    """A function of one dataflow block that returns ``results`` (a tuple when there are several, or none)."""
    result = results[0] if len(results) == 1 else relax.Tuple(list(results))
    out = relax.Var("result", result.ty)
    block = relax.DataflowBlock([*body, relax.VarBinding(out, result)])
    function = relax.Function(list(params), relax.SeqExpr([block], out), out.ty)
    return function.with_attrs(dict(attrs)) if attrs else function


def rebuild(function: Function, body: Sequence[Binding], results: Sequence[Expr]) -> Function:
    """The function with another body and other results; parameters and attributes stay."""
    return make_function(function.params, body, results, function.attrs)


def substitute(expr: Expr, replacements: Mapping[Var, Expr]) -> Expr:
    """The expression with variables replaced, in calls, tuples and accesses to tuples."""
    if isinstance(expr, relax.Var):
        return replacements.get(expr, expr)
    if isinstance(expr, relax.Tuple):
        return relax.Tuple([substitute(f, replacements) for f in expr.fields])
    if isinstance(expr, relax.TupleGetItem):
        return relax.TupleGetItem(substitute(expr.tuple_value, replacements), expr.index)
    if isinstance(expr, relax.Call):
        args = [substitute(a, replacements) for a in expr.args]
        if any(new is not old for new, old in zip(args, expr.args, strict=True)):
            return make_call(expr, args)
    return expr


def replace_main(module: IRModule, main: Function) -> IRModule:
    """The module with another ``main``, without the functions that it no longer needs, checked for form."""
    functions = {gv: f for gv, f in module.functions.items() if gv.name_hint != "main"}
    functions[module.get_global_var("main")] = main
    result = relax.transform.Normalize()(tvm.IRModule(functions, attrs=module.attrs))
    return relax.transform.DeadCodeElimination(["main"])(result)


def with_functions(main: Function, others: Mapping[str, Function], module: IRModule) -> IRModule:
    """``module`` with another ``main`` and further functions by name."""
    functions = {gv: f for gv, f in module.functions.items() if gv.name_hint != "main"}
    functions[module.get_global_var("main")] = main
    functions.update({relax.GlobalVar(name): function for name, function in others.items()})
    return relax.transform.Normalize()(tvm.IRModule(functions, attrs=module.attrs))


def codegen_of(function: Any) -> str | None:
    """Who runs a function (its attribute ``Codegen``): None for ``main`` and TIR, ``""`` for composite functions."""
    if not isinstance(function, relax.Function):
        return None
    attrs = function.attrs or {}
    if "Codegen" in attrs:
        return str(attrs["Codegen"])
    return "" if "Composite" in attrs else None


def keep_functions(module: IRModule, wanted: Callable[[Any], bool]) -> IRModule:
    """The module without the functions that are not wanted; the others must not call them."""
    return tvm.IRModule({gv: f for gv, f in module.functions.items() if wanted(f)}, attrs=module.attrs)


def module_of(main: Function) -> IRModule:
    """A module with the one function ``main``."""
    return tvm.IRModule({relax.GlobalVar("main"): main.with_attr("global_symbol", "main")})


def normalized(call: Call) -> Call:
    """A call with its type."""
    return relax.BlockBuilder().normalize(call)


def normalize(module: IRModule) -> IRModule:
    """Bring hand-made functions into Relax's normal form."""
    return relax.transform.Normalize()(module)


def tuple_arity(expr: Any) -> int:
    """Number of fields of an expression whose value is a tuple, 0 for others."""
    return len(expr.ty.fields) if isinstance(expr.ty, relax.TupleType) else 0


def tuple_arities(expr: Any) -> list[int]:
    """For each result of an expression the fields of a tuple, or 0 for a tensor."""
    types = expr.ty.fields if isinstance(expr.ty, relax.TupleType) else [expr.ty]
    return [len(ty.fields) if isinstance(ty, relax.TupleType) else 0 for ty in types]


def tensor_types(expr: Any) -> list[tuple[tuple[int, ...], str]]:
    """Shapes and types of the tensors of an expression's value: of its fields, for a tuple."""
    types = expr.ty.fields if isinstance(expr.ty, relax.TupleType) else [expr.ty]
    return [(tuple(int(d) for d in ty.shape.values), str(ty.dtype)) for ty in types]


def ensure_dataflow(module: IRModule) -> IRModule:
    """Patterns only match inside dataflow blocks: make them."""
    return relax.transform.ConvertToDataflow()(module)


def fuse_by_pattern(
    module: IRModule, patterns: Sequence[tuple[str, DFPattern, Callable[[Any], bool]]]
) -> IRModule:
    """Move every match into a composite function; earlier patterns win. A check that raises ends the pass with it."""
    failure: list[BaseException] = []

    def guarded(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def run(context: Any) -> bool:
            if failure:
                return False
            try:
                return bool(check(context))
            except BaseException as error:  # crossing C++ would lose the exception's type
                failure.append(error)
                return False

        return run

    items: list[tuple[Any, ...]] = [(name, pattern, {}, guarded(check)) for name, pattern, check in patterns]
    result = relax.transform.FuseOpsByPattern(items, bind_constants=True, annotate_codegen=False)(module)
    if failure:
        raise failure[0]
    return result


def call_external(symbol: str, args: Sequence[Expr], results: Sequence[Expr]) -> Call:
    """A call of the packed function ``symbol`` that returns tensors like ``results`` (a tuple of several)."""
    types = [r.ty for r in results]
    ty = types[0] if len(types) == 1 else relax.TupleType(types)
    call = relax.op.call_pure_packed(relax.ExternFunc(symbol), *args, ty_args=ty)
    relax.expr._update_type(call, ty)
    return call


def external_call(expr: Any) -> tuple[str, list[Expr]] | None:
    """The symbol and arguments of what :func:`call_external` made, else None."""
    if op_name(expr) != "call_pure_packed":
        return None
    function, *arguments = expr.args
    return str(function.global_symbol), arguments


def tuple_get(expr: Expr, index: int) -> Expr:
    """Field ``index`` of a tuple."""
    return relax.TupleGetItem(expr, index)


def to_json(module: IRModule) -> str:
    """The module with its constants as text."""
    return str(tvm.ir.save_json(module))


def from_json(text: str) -> IRModule:
    """Inverse of :func:`to_json`; raises ValueError for a text that is no module."""
    try:
        module = tvm.ir.load_json(text)
    except Exception as error:
        raise ValueError(f"not a serialized Relax module: {error}") from error
    if not isinstance(module, tvm.IRModule):
        raise ValueError(f"expected a serialized Relax module, found {type(module).__name__}")
    return module


# Frontends ---------------------------------------------------------------------------------------------------------


class ConversionError(Exception):
    """A converter of TVM's failed; ``node`` and ``operator`` say where."""

    def __init__(self, node: str, operator: str, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.node = node
        self.operator = operator


def unsupported_onnx_operators(graph: Any) -> list[tuple[str, str, str]]:
    """``(domain, operator, node)`` of the nodes that TVM has no converter for."""
    from tvm.relax.frontend.onnx.onnx_frontend import _get_convert_map

    known = set(_get_convert_map()) | {"If", "Constant"}
    return [
        (node.domain, node.op_type, node.name or f"#{index}")
        for index, node in enumerate(graph.node) if node.op_type not in known
    ]


def from_onnx(model: Any) -> IRModule:
    """Import an ONNX model; the result of each node is bound to a variable of the node's name.

    Raises :class:`ConversionError` with the node, or what the importer raises outside of a node.
    """
    from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter, _get_convert_map

    converters = _get_convert_map()

    class Importer(ONNXGraphImporter):  # type: ignore[misc]
        def _convert_operator(self, name: str, inputs: Any, attrs: Any, opset: int) -> Any:
            node = str(attrs.get("tvm_custom", {}).get("name") or name)
            try:
                result = _clip(inputs, attrs) if name == "Clip" else None
                if result is None:
                    convert = converters[name].get_converter(opset)
                    result = convert(self.bb, inputs, attrs, [self._nodes, self._params])
                return self._named(result, rename(node)) if isinstance(result, relax.Expr) else result
            except Exception as error:
                raise ConversionError(node, name, error) from error

        def _named(self, expr: Any, name: str) -> Any:
            """Emit nested calls one by one; the heaviest operator, else the last, gets the node's own name."""
            operators: list[str | None] = []
            relax.analysis.post_order_visit(expr, lambda e: operators.append(op_name(e)))
            anchor = next((o for o in operators if o in NAMED_OPERATORS), op_name(expr))
            return self._emitted(expr, name, anchor)

        def _emitted(self, expr: Any, name: str, anchor: str | None) -> Any:
            if not isinstance(expr, relax.Call):
                return self.bb.normalize(expr)
            args = [self._emitted(a, name, anchor) if isinstance(a, relax.Call) else a for a in expr.args]
            call = self.bb.normalize(relax.Call(expr.op, args, expr.attrs, expr.ty_args))
            if not isinstance(call.ty, relax.TensorType):
                return call
            own = op_name(expr)
            return self.bb.emit(call, name_hint=name if own == anchor else f"{name}.{str(own).split('.')[-1]}")

    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    # the importer prints what it fails on, and warns about names that it changes
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return Importer({}, {}).from_onnx(model.graph, opset)


def _clip(inputs: Any, attrs: Mapping[str, Any]) -> Expr | None:
    """``Clip`` between constants as one operator (TVM's converter makes six of it); None for other bounds."""
    ty = inputs[0].ty
    if not isinstance(ty, relax.TensorType) or str(ty.dtype) not in ("float16", "float32", "float64"):
        return None
    limits = np.finfo(str(ty.dtype))
    bounds = []
    for position, (key, default) in enumerate((("min", limits.min), ("max", limits.max)), start=1):
        given = inputs[position] if len(inputs) > position else None
        if given is None:
            bounds.append(float(attrs.get(key, default)))
        elif is_constant(given) and const_value(given).size == 1 and np.isfinite(const_value(given)).all():
            bounds.append(float(const_value(given).reshape(())))
        else:
            return None
    return relax.op.clip(inputs[0], *bounds)


def relax_op(name: str) -> Callable[..., Expr]:
    """The Relax operator ``name`` (``nn.attention``) as a function that makes a call."""
    found: Any = relax.op
    for part in name.split("."):
        found = getattr(found, part)
    return found


def float_immediate(value: float | None) -> Any:
    """A float32 number as an attribute."""
    return None if value is None else tvm.tirx.FloatImm("float32", float(value))


def torch_decompositions(keep: frozenset[str]) -> Any:
    """torch's default decompositions without the ATen operators in ``keep`` (by base name, but for padding by name)."""
    import torch

    table = torch.export.default_decompositions()
    for key in list(table.keys()):
        parts = str(key).split(".")
        if parts[0] == "aten" and parts[1] in keep and parts[2] != "padding":
            table.pop(key)
    return table


def from_exported_program(program: Any, converters: Mapping[str, Callable[[Any, Any], Any]]) -> IRModule:
    """Import an ExportedProgram that is already decomposed, with further converters by ATen name."""
    from tvm.relax.frontend.torch import from_exported_program as convert

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return convert(
            program, run_ep_decomposition=False, unwrap_unit_return_tuple=True, custom_convert_map=dict(converters)
        )


# Running -----------------------------------------------------------------------------------------------------------


def packed_functions(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """See :func:`compile_vm`."""
    for name, function in functions.items():
        tvm_ffi.register_global_func(name, function, override=True)
    yield
    for name in functions:
        tvm_ffi.registry.remove_global_func(name)


def build(module: IRModule) -> Any:
    """Compile the host module with TVM's LLVM: an executable for :func:`compile_vm`."""
    target = tvm.target.Target("llvm")
    with target, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return relax.build(module, target=target)


def compile_vm(executable: Any, functions: Mapping[str, Callable[..., Any]]) -> Callable[..., Any]:
    """``main`` of an executable as a callable on TVM tensors, with the given packed functions bound to it.

    A virtual machine looks its packed functions up once, when it is made: they are registered under a lock for just
    that long, so that networks never see each other's.
    """
    with _registry_lock, contextlib.contextmanager(packed_functions)(functions):
        return relax.VirtualMachine(executable, tvm.cpu())["main"]


def to_tvm(array: Any) -> Tensor:
    """A NumPy or JAX array as a TVM tensor: shared memory when it is aligned to 64 bytes, else a copy."""
    if isinstance(array, np.ndarray):
        if array.ctypes.data % 64 == 0 and array.flags.c_contiguous and array.flags.writeable and array.size:
            return tvm.runtime.from_dlpack(array)
        return tvm.runtime.tensor(np.ascontiguousarray(array) if array.ndim else array)
    return tvm.runtime.from_dlpack(array)
