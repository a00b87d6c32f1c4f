"""Regions as TVM's users know them, and as archloom lowers them.

TVM has a region as a function with the attribute ``Codegen`` whose composite functions are local to it, called from
``main`` by its global name. Archloom's partitioner and lowering have composites as functions of the module, and call a
region as a packed function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import IRModule, relax

from archloom.oracle.errors import ModelError
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.targets.regions import HOST_CODEGEN
from archloom.tvm_backend.targets.registry import HOST


def codegen_name(codegen: str) -> str:
    """The name in TVM of who runs a function."""
    return HOST if codegen == HOST_CODEGEN else codegen


# from archloom's form to TVM's ---------------------------------------------------------------------------------------


def with_local_composites(
    module: IRModule, symbols: Mapping[str, str], attributes: Mapping[str, Mapping[str, Any]], left: Sequence[str] = (),
) -> tuple[relax.Function, dict[str, relax.Function]]:
    """``main`` of a partitioned module, and the functions that it calls, in TVM's form.

    ``symbols`` gives each function its name in TVM, ``attributes`` further attributes, both by the name that the
    partitioner gave it. The operators of functions of the host that are ``left`` stand in ``main``.
    """
    regions = {gv.name_hint: f for gv, f in module.functions.items() if ir.codegen_of(f)}
    main = module["main"]
    replaced: dict[Any, Any] = {}
    body: list[Any] = []
    made: dict[str, relax.Function] = {}
    names: dict[str, relax.GlobalVar] = {}
    for binding in ir.bindings(main):
        called = compat.external_call(binding.value)
        if ir.is_var(binding.value):
            replaced[binding.var] = ir.substitute(binding.value, replaced)
            continue
        if called is None or called[0] not in regions:
            body.append(ir.bind(binding.var, ir.substitute(binding.value, replaced)))
            continue
        symbol, arguments = called
        given = [ir.substitute(a, replaced) for a in arguments]
        if symbol in left:
            replaced[binding.var] = _inlined(regions[symbol], given, body)
            continue
        name = symbols[symbol]
        made[name] = _nested(module, regions[symbol], name, attributes.get(symbol, {}))
        names[name] = relax.GlobalVar(name)
        relax.expr._update_type(names[name], made[name].ty)
        flat = [field for a, p in zip(given, regions[symbol].params, strict=True) for field in _fields(a, p)]
        call = relax.Call(names[name], flat)
        relax.expr._update_type(call, binding.var.ty)
        replaced[binding.var] = var = ir.new_var(name, binding.var)
        body.append(ir.bind(var, call))
    results = [ir.substitute(r, replaced) for r in ir.outputs_of(main)]
    return ir.rebuild(main, [_without_fields_of_tuples(b) for b in body], results), made


def with_results_of(original: relax.Function, flat: relax.Function) -> relax.Function:
    """``flat`` with its results in tuples as those of ``original``, of which they are the tensors in order."""
    if not isinstance(original.body.body.ty, relax.TupleType):
        return flat
    leaves = iter(ir.outputs_of(flat))

    def nested(ty: Any) -> Any:
        return relax.Tuple([nested(f) for f in ty.fields]) if isinstance(ty, relax.TupleType) else next(leaves)

    result = nested(original.body.body.ty)
    body = [b for b in ir.bindings(flat) if not b.var.same_as(flat.body.body) or ir.tuple_fields(b.value) is None]
    return ir.rebuild(flat, body, [result])


def _without_fields_of_tuples(binding: Any) -> Any:
    """A field of a tuple that is written out is the field itself."""
    access = ir.is_tuple_get(binding.value)
    fields = ir.tuple_fields(access[0]) if access else None
    return ir.bind(binding.var, fields[access[1]]) if access and fields is not None else binding


def _inlined(function: relax.Function, arguments: Sequence[Any], body: list[Any]) -> Any:
    """The value of a call of ``function``, whose bindings are appended to ``body``."""
    inner = dict(zip(function.params, arguments, strict=True))
    for binding in ir.bindings(function):
        if ir.same(binding.var, function.body.body) and ir.tuple_fields(binding.value) is not None:
            continue  # the tuple of the results
        var = ir.new_var(binding.var.name, binding.var)
        body.append(ir.bind(var, ir.substitute(binding.value, inner)))
        inner[binding.var] = var
    results = [ir.substitute(r, inner) for r in ir.outputs_of(function)]
    return results[0] if len(results) == 1 else relax.Tuple(results)


def _fields(argument: Any, parameter: Any) -> list[Any]:
    """Tensors of an argument: packed functions are called with tensors, not with tuples."""
    if not isinstance(parameter.ty, relax.TupleType):
        return [argument]
    known = ir.tuple_fields(argument)
    return known if known is not None else [relax.TupleGetItem(argument, i) for i in range(len(parameter.ty.fields))]


def _nested(module: IRModule, function: relax.Function, name: str, attributes: Mapping[str, Any]) -> relax.Function:
    """A region with its composite functions inside."""
    inner: dict[Any, Any] = {}
    parameters: list[Any] = []
    body: list[Any] = []
    for parameter in function.params:
        fields = getattr(parameter.ty, "fields", None)
        if fields is None:
            parameters.append(parameter)
            continue
        flat = [relax.Var(f"{parameter.name}_{i}", ty) for i, ty in enumerate(fields)]
        parameters += flat
        inner[parameter] = relax.Tuple(flat)
    for binding in ir.bindings(function):
        value = ir.substitute(binding.value, inner)
        if ir.is_var(value):
            inner[binding.var] = value
            continue
        composite = compat.callee(module, binding.value)
        if composite is not None:
            local = relax.Var(f"{binding.var.name}_composite", composite.ty)
            body.append(relax.VarBinding(local, composite.without_attr("global_symbol")))
            value = relax.Call(local, value.args)
            relax.expr._update_type(value, binding.var.ty)
        inner[binding.var] = var = relax.Var(binding.var.name, binding.var.ty)
        body.append(relax.VarBinding(var, value))
    results = [ir.substitute(r, inner) for r in ir.outputs_of(function)]
    out = results[0]
    if len(results) > 1 or not ir.is_var(out):
        out = relax.Var("result", relax.TupleType([r.ty for r in results]) if len(results) > 1 else out.ty)
        body.append(relax.VarBinding(out, relax.Tuple(results) if len(results) > 1 else results[0]))
    made = relax.Function(parameters, relax.SeqExpr([relax.BindingBlock(body)], out), out.ty)
    codegen = codegen_name(str(ir.codegen_of(function)))
    return made.with_attrs({"Codegen": codegen, "global_symbol": name, **attributes})


# from TVM's form to archloom's ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hoisted:
    """Functions of one code generator as a module that archloom lowers: ``main`` takes the parameters of all, calls one
    after the other, and returns all results. ``symbols`` are in the order of the calls."""

    module: IRModule
    symbols: tuple[str, ...]
    inputs: tuple[tuple[str, Any], ...]
    outputs: tuple[tuple[str, Any], ...]


def hoisted(functions: Sequence[relax.Function]) -> Hoisted:
    """What ``RunCodegen`` gives a code generator, with composite functions as functions of the module."""
    made: dict[str, relax.Function] = {}
    composites: dict[relax.GlobalVar, relax.Function] = {}
    parameters: list[Any] = []
    body: list[Any] = []
    results: list[Any] = []
    outputs: list[tuple[str, Any]] = []
    for function in functions:
        symbol = str(function.attrs["global_symbol"])
        made[symbol] = plain = _flat(function, symbol, composites)
        own = [relax.Var(f"{symbol}.{p.name}", p.ty) for p in plain.params]
        parameters += own
        given = ir.outputs_of(plain)
        call = compat.call_external(symbol, own, given)
        result = ir.new_var(symbol, call)
        body.append(ir.bind(result, call))
        for i, out in enumerate(given):
            var = result
            if len(given) > 1:
                var = ir.new_var(f"{symbol}.{i}", out)
                body.append(ir.bind(var, relax.TupleGetItem(result, i)))
            results.append(var)
            outputs.append((f"{symbol}.{i}", out))
    main = compat.make_function(parameters, body, results)
    alone = compat.module_of(main)
    module = compat.with_functions(main, made, IRModule({**dict(alone.functions.items()), **composites}))
    return Hoisted(module, tuple(made), tuple((p.name, p) for p in parameters), tuple(outputs))


def refuse_changed(codegen: str, function: relax.Function) -> None:
    """ModelError for a region whose operators or composite functions a pass has taken out of it."""
    local = [b.value for b in ir.bindings(function) if isinstance(b.value, relax.Function)]
    for binding in (b for f in (function, *local) for b in ir.bindings(f)):
        where = f"relax.ext.{codegen}: {function.attrs['global_symbol']}: {binding.var.name!r} is a call of"
        if ir.op_name(binding.value) in ("call_tir", "call_tir_inplace"):
            raise ModelError(f"{where} the TIR function {binding.value.args[0].name_hint!r}: LegalizeOps (or a "
                             "pipeline that begins with it) has run; run RunCodegen before it")
        if isinstance(binding.value, relax.Call) and isinstance(binding.value.op, relax.GlobalVar):
            raise ModelError(f"{where} {binding.value.op.name_hint!r}, which stands beside the region (LambdaLift?); "
                             "RunCodegen hands over regions alone: run it before")


def _flat(function: relax.Function, symbol: str, composites: dict[relax.GlobalVar, relax.Function]) -> relax.Function:
    """A region whose composite functions are taken out, to ``composites``."""
    local: dict[Any, relax.GlobalVar] = {}
    inner: dict[Any, Any] = {}
    body: list[Any] = []
    for binding in ir.bindings(function):
        if isinstance(binding.value, relax.Function):
            name = relax.GlobalVar(f"{symbol}.{len(local)}")
            relax.expr._update_type(name, binding.value.ty)
            composites[name], local[binding.var] = binding.value, name
            continue
        value = ir.substitute(binding.value, inner)
        if isinstance(value, relax.Call) and value.op in local:
            value = relax.Call(local[value.op], value.args)
            relax.expr._update_type(value, binding.var.ty)
        inner[binding.var] = var = ir.new_var(binding.var.name, binding.var)
        body.append(ir.bind(var, value))
    results = [ir.substitute(r, inner) for r in ir.outputs_of(function)]
    kept = [b for b in body if ir.tuple_fields(b.value) is None or any(
        b.var in ir.variables(e) for e in (*(o.value for o in body), *results))]
    codegen = str(function.attrs["Codegen"])
    return compat.make_function(function.params, kept, results, {
        **function.attrs, "Codegen": HOST_CODEGEN if codegen == HOST else codegen, "global_symbol": symbol})
