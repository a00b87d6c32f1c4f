"""TVM's moving names (written against apache-tvm 0.27, Relax).

It imports TVM when it is imported, which takes a second: import it where TVM is first needed. The rest of archloom sees
Relax through the functions and names below; when TVM renames something, this file changes, with
:mod:`~archloom.tvm_backend.frontends.onnx.by_tvm`, which has TVM import ONNX, and
:mod:`~archloom.tvm_backend.host.virtual_machine`, which has it compile and run what it imported. It is Relax's
:class:`~archloom.tvm_backend.ir.expressions.Representation`.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from archloom.tvm_backend.ir.nodes import Kind, OpenType, ShapeType, TensorType, TupleType, Type, needed

_torch = sys.modules.get("torch")
if _torch is None:  # TVM imports torch when it finds it, which doubles its own time of import and serves nobody here
    sys.modules["torch"] = None  # type: ignore[assignment]
try:
    import tvm
    import tvm_ffi
    from tvm import relax
    from tvm.relax.dpl import is_const as is_const  # TVM's own, taken as they are
    from tvm.relax.dpl import is_op as is_op
    from tvm.relax.dpl import wildcard as wildcard
    from tvm.relax.dpl.pattern import DFPattern as DFPattern
finally:
    if _torch is None:
        del sys.modules["torch"]

IRModule: TypeAlias = tvm.IRModule

IMPORT_ERRORS = (
    ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, RuntimeError, TypeError, ValueError)
"""What TVM's importers and torch raise on a network that they do not understand; TVM's own are RuntimeErrors."""


# Expressions: archloom.tvm_backend.ir.expressions describes these functions -----------------------------------------


tuple_get, bind, result_of = relax.TupleGetItem, relax.VarBinding, attrgetter("body.body")


def kind(expr: Any) -> Kind:
    return next((name for name, types in _KINDS.items() if isinstance(expr, types)), "other")


_KINDS: dict[Kind, Any] = {
    "var": relax.Var, "constant": tvm.ir.GenericConst, "call": relax.Call, "tuple": relax.Tuple,
    "field": relax.TupleGetItem, "shape": relax.ShapeExpr,
    "branch": relax.If}


def type_of(expr: Any) -> Type:
    return _type(expr.ty)


def _type(ty: Any) -> Type:
    if isinstance(ty, relax.TupleType):
        return TupleType(tuple(_type(f) for f in ty.fields))
    if isinstance(ty, relax.TensorType):
        shape = _numbers(ty.shape.values) if isinstance(ty.shape, relax.ShapeExpr) else None
        return OpenType(str(ty), True, str(ty.dtype)) if shape is None else TensorType(shape, str(ty.dtype))
    if isinstance(ty, relax.ShapeType):
        values = None if ty.values is None else _numbers(ty.values)
        return OpenType(str(ty), False) if values is None else ShapeType(values)
    return None


def _numbers(dims: Any) -> tuple[int, ...] | None:
    """Dimensions, where all are numbers."""
    return tuple(int(d) for d in dims) if all(isinstance(d, tvm.tirx.IntImm) for d in dims) else None


def op_name(expr: Any) -> str | None:
    if isinstance(expr, relax.Call) and isinstance(expr.op, tvm.ir.Op):
        return str(expr.op.name).removeprefix("relax.")
    return None


def const_value(expr: Any) -> np.ndarray:
    return np.asarray(expr.value.numpy())


def scalar_of(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, Sequence):
        return tuple(scalar_of(v) for v in value)
    return scalar_of(value.value) if hasattr(value, "value") and kind(value) != "constant" else value


def attributes_of(call: relax.Call) -> dict[str, Any]:
    """The attributes of a call by name, as numbers, strings, None, or tuples of those."""
    fields = () if call.attrs is None else type(call.attrs).__tvm_ffi_type_info__.fields
    return {field.name: scalar_of(getattr(call.attrs, field.name)) for field in fields}


def variables(expr: Any) -> list[relax.Var]:
    return [expr] if isinstance(expr, relax.Var) else list(relax.analysis.free_vars(expr))


def constant(array: np.ndarray) -> relax.Expr:
    array = np.asarray(array)
    return relax.const(np.ascontiguousarray(array) if array.ndim else array, str(array.dtype))


def on_arguments(call: relax.Call, args: Sequence[relax.Expr], like: relax.Expr | None) -> relax.Call:
    new = relax.Call(call.op, list(args), call.attrs, call.ty_args)
    if like is not None:
        relax.expr._update_type(new, like.ty)
    return new


def normalized(call: relax.Call) -> relax.Call:
    return relax.BlockBuilder().normalize(call)


def call_of(op: str, args: Sequence[Any], attributes: Mapping[str, Any]) -> relax.Call:
    if op == "nn.attention" and "scale" in attributes:
        attributes = {**attributes, "scale": float_immediate(attributes["scale"])}
    return relax_op(op)(*args, **attributes)


def call_external(symbol: str, args: Sequence[relax.Expr], results: Sequence[relax.Expr]) -> relax.Call:
    return _external(symbol, args, [r.ty for r in results])


def call_function(symbol: str, args: Sequence[relax.Expr], results: Sequence[TensorType]) -> relax.Call:
    """A call of a function from outside by the types of its results."""
    return _external(symbol, args, [relax.TensorType(list(ty.shape), ty.dtype) for ty in results])


def _external(symbol: str, args: Sequence[relax.Expr], types: list[Any]) -> relax.Call:
    ty = types[0] if len(types) == 1 else relax.TupleType(types)
    call = relax.op.call_pure_packed(relax.ExternFunc(symbol), *args, ty_args=ty)
    relax.expr._update_type(call, ty)
    return call


def external_call(expr: Any) -> tuple[str, list[relax.Expr]] | None:
    if op_name(expr) != "call_pure_packed":
        return None
    function, *arguments = expr.args
    return str(function.global_symbol), arguments


def new_var(name: str, like: relax.Expr) -> relax.Var:
    return relax.DataflowVar(name, like.ty)


def parameter_like(var: relax.Var) -> relax.Var:
    return relax.Var(var.name, var.ty)


def substitute(expr: relax.Expr, replacements: Mapping[relax.Var, relax.Expr]) -> relax.Expr:
    match kind(expr):
        case "var":
            return replacements.get(expr, expr)
        case "call":
            args = [substitute(a, replacements) for a in expr.args]
            same = all(new is old for new, old in zip(args, expr.args, strict=True))
            return expr if same else on_arguments(expr, args, expr)
        case "tuple":
            return relax.Tuple([substitute(f, replacements) for f in expr.fields])
        case "field":
            return relax.TupleGetItem(substitute(expr.tuple_value, replacements), expr.index)
    return expr


# Functions and modules ---------------------------------------------------------------------------------------------


def bindings(function: relax.Function) -> list[relax.VarBinding]:
    return [b for block in function.body.blocks for b in block.bindings]


def callee(module: IRModule, expr: Any) -> Any:
    return module[expr.op] if isinstance(expr, relax.Call) and isinstance(expr.op, relax.GlobalVar) else None


def make_function(
    params: Sequence[relax.Var], body: Sequence[relax.VarBinding], results: Sequence[relax.Expr],
    attrs: Mapping[str, Any] | None = None,
) -> relax.Function:
    result = results[0] if len(results) == 1 else relax.Tuple(list(results))
    out = relax.Var("result", result.ty)
    block = relax.DataflowBlock([*body, relax.VarBinding(out, result)])
    function = relax.Function(list(params), relax.SeqExpr([block], out), out.ty)
    return function.with_attrs(dict(attrs)) if attrs else function


def entry_functions(module: IRModule) -> list[str]:
    """The functions in which TVM's FuseOpsByPattern looks for matches: those that are no parts of others."""
    def is_part(attrs: Any) -> bool:
        return "Composite" in attrs or "Codegen" in attrs or ("Primitive" in attrs and bool(attrs["Primitive"]))

    return [str(symbol.name_hint) for symbol, function in module.functions.items()
            if isinstance(function, relax.Function) and not is_part(function.attrs or {})]


def is_one_block(function: relax.Function) -> bool:
    """Whether a function is one block of dataflow without casts."""
    blocks = function.body.blocks
    return (len(blocks) == 1 and isinstance(blocks[0], relax.DataflowBlock)
            and all(isinstance(b, relax.VarBinding) for b in blocks[0].bindings))


def block_function(like: relax.Function, body: Sequence[relax.VarBinding], result: relax.Expr) -> relax.Function:
    """A function as ``like`` with another body, of one block of dataflow, and another result: a variable, or a tuple
    of some."""
    whole = relax.SeqExpr([relax.DataflowBlock(body)], result)
    relax.expr._update_type(whole, result.ty)
    return relax.Function(like.params, whole, result.ty, like.is_pure, like.attrs, like.span)


def has_symbols(function: relax.Function) -> bool:
    """Whether shapes in a function have symbols in place of numbers."""
    return bool(relax.analysis.defined_symbolic_vars(function) or relax.analysis.free_symbolic_vars(function))


def is_inner(var: relax.Var) -> bool:
    """Whether a variable is not seen outside of its block."""
    return isinstance(var, relax.DataflowVar)


def identity(expr: Any) -> int:
    """A number that no other expression has as long as both exist."""
    return int(expr.__chandle__())


def structural_equal(one: Any, other: Any) -> bool:
    """Whether two functions are equal but for the names and identity of what they define."""
    return bool(tvm_ffi.structural_equal(one, other))


def replace_main(module: IRModule, main: relax.Function) -> IRModule:
    functions = {gv: f for gv, f in module.functions.items() if gv.name_hint != "main"}
    if is_one_block(main):  # TVM's pass takes each binding that nothing needs out by a walk over all
        result = main.body.body
        main = block_function(main, needed(bindings(main), set(variables(result)), variables), result)
    functions[module.get_global_var("main")] = main
    whole = relax.transform.Normalize()(tvm.IRModule(functions, attrs=module.attrs))
    return relax.transform.DeadCodeElimination(["main"])(whole)


def with_functions(main: relax.Function, others: Mapping[str, relax.Function], module: IRModule) -> IRModule:
    functions = {gv: f for gv, f in module.functions.items() if gv.name_hint != "main"}
    functions[module.get_global_var("main")] = main
    functions.update({relax.GlobalVar(name): function for name, function in others.items()})
    return relax.transform.Normalize()(tvm.IRModule(functions, attrs=module.attrs))


def keep_functions(module: IRModule, wanted: Callable[[Any], bool]) -> IRModule:
    return tvm.IRModule({gv: f for gv, f in module.functions.items() if wanted(f)}, attrs=module.attrs)


def module_of(main: relax.Function) -> IRModule:
    """A module with the one function ``main``."""
    return tvm.IRModule({relax.GlobalVar("main"): main.with_attr("global_symbol", "main")})


def normalize(module: IRModule) -> IRModule:
    """Bring hand-made functions into Relax's normal form."""
    return relax.transform.Normalize()(module)


_SUMS = {"Add": "+", "Sub": "-", "Mul": "*"}


def open_inputs(module: IRModule) -> list[tuple[str, str, tuple[str, ...]]]:
    """Name, dtype and dimensions (as text) of each input of ``main``; ValueError for what is no tensor with a shape."""
    found = []
    for var in module["main"].params:
        if not (isinstance(var.ty, relax.TensorType) and isinstance(var.ty.shape, relax.ShapeExpr)):
            raise ValueError(f"input {var.name!r}: expected a tensor with a shape, found {var.ty}")
        found.append((str(var.name), str(var.ty.dtype), tuple(_dim_text(dim) for dim in var.ty.shape.values)))
    return found


def _dim_text(dim: Any) -> str:
    if isinstance(dim, tvm.tirx.IntImm):
        return str(int(dim))
    sign = _SUMS.get(type(dim).__name__)
    return str(dim) if sign is None else f"({_dim_text(dim.a)} {sign} {_dim_text(dim.b)})"


def extent_bounds(module: IRModule) -> tuple[dict[str, int], dict[str, int]]:
    """The least and the greatest extents that ``main`` states for its symbols, where it states any."""
    attributes = module["main"].attrs or {}
    stated = [attributes.get(f"tir_var_{side}_bound") or {} for side in ("lower", "upper")]
    lower, upper = ({str(name): int(value) for name, value in bounds.items()} for bounds in stated)
    return lower, upper


def at_extents(module: IRModule, extents: Mapping[str, int]) -> IRModule:
    """The module with numbers for the symbols of ``main``."""
    return relax.transform.BindSymbolicVars(dict(extents), "main")(module)


def ensure_dataflow(module: IRModule) -> IRModule:
    module = relax.transform.ConvertToDataflow()(module)
    main = module["main"]
    if not is_one_block(main):
        return module
    body = bindings(main)
    live = needed(body, set(variables(main.body.body)), variables)
    return module if len(live) == len(body) else replace_main(module, main)


def fuse_by_pattern(module: IRModule, patterns: Sequence[tuple[str, DFPattern, Callable[[Any], bool]]]) -> IRModule:
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


def emptied(builder: relax.BlockBuilder | None) -> None:
    """End the blocks that a failure has left open: TVM prints a warning for a builder that goes with some."""
    while builder is not None:
        try:
            builder._end_block()
        except RuntimeError:  # there is none
            return


def relax_op(name: str) -> Callable[..., relax.Expr]:
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
    from tvm.relax.frontend.torch.exported_program_translator import ExportedProgramImporter

    importer = ExportedProgramImporter()
    with warnings.catch_warnings(action="ignore"):
        try:
            return importer.from_exported_program(
                program, keep_params_as_input=False, unwrap_unit_return_tuple=True, no_bind_return_tuple=False,
                custom_convert_map=dict(converters))
        finally:
            emptied(getattr(importer, "block_builder", None))
