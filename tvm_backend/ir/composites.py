"""Composite functions of Relax, made of matches as FuseOpsByPattern makes them, but in proportion to the depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from archloom.tvm_backend.ir.compat import (
    IRModule,
    bindings,
    block_function,
    const_value,
    is_inner,
    kind,
    op_name,
    parameter_like,
    relax,
    structural_equal,
    substitute,
    tvm,
    variables,
)

Group = tuple[str, Sequence[relax.VarBinding]]
"""The name of a composite function, and its bindings; the last is its result."""


def with_composites(
    module: IRModule, groups: Mapping[str, Group], body: Iterable[relax.VarBinding | str],
) -> IRModule:
    """The module with ``body`` in the one block of ``main``: bindings as they were, and keys of ``groups``, each for a
    call of a composite function in place of the group's last binding. Groups of one name stand together."""
    main, functions = module["main"], _Functions(module)
    results: dict[relax.Var, relax.Var] = {}
    made = {}
    for _, run in groupby(groups.items(), lambda item: item[1][0]):
        of_one_name = {key: _composite(*group, results) for key, group in run}
        for key, (function, arguments) in of_one_name.items():
            var = groups[key][1][-1].var
            results[var] = (relax.DataflowVar if is_inner(var) else relax.Var)(var.name, var.ty)
            made[key] = results[var], functions.symbol(function), arguments
    new_body = []
    for item in body:
        if isinstance(item, str):
            var, symbol, arguments = made[item]
            call = relax.Call(symbol, [results.get(v, v) for v in arguments])
            relax.expr._update_type(call, var.ty)
            new_body.append(relax.VarBinding(var, call))
        else:
            value = substitute(item.value, results)
            new_body.append(item if value is item.value else relax.VarBinding(item.var, value))
    new_main = block_function(main, new_body, substitute(main.body.body, results))
    functions.named[module.get_global_var("main")] = new_main
    return tvm.IRModule(functions.named, attrs=module.attrs, global_infos=module.global_infos)


def _composite(
    name: str, group: Sequence[relax.VarBinding], results: Mapping[relax.Var, relax.Var],
) -> tuple[relax.Function, list[relax.Var]]:
    """A function of a group's bindings, and the variables to call it with; ``results`` of earlier functions give their
    names."""
    members = {binding.var for binding in group}
    outside = dict.fromkeys(v for b in group for v in variables(b.value) if v not in members)
    params = {v: parameter_like(results.get(v, v)) for v in outside}
    body = [relax.VarBinding(b.var, substitute(b.value, params)) for b in group]
    out = relax.Var("gv", group[-1].var.ty)
    body[-1] = relax.VarBinding(out, body[-1].value)
    whole = relax.SeqExpr([relax.DataflowBlock(body)], out)
    relax.expr._update_type(whole, out.ty)
    function = relax.Function(list(params.values()), whole, out.ty)
    return function.with_attrs({"Composite": name, "Primitive": True}), list(outside)


class _Functions:
    """Functions of a module with composites that are added, equal ones once.

    TVM's own builder compares each with all that differ in their constants alone.
    """

    def __init__(self, module: IRModule) -> None:
        self.named: dict[relax.GlobalVar, relax.Function] = dict(module.functions.items())
        self.names = {str(symbol.name_hint) for symbol in self.named}
        self.alike: dict[Any, list[relax.GlobalVar]] = {}
        self.samples: dict[relax.Expr, Any] = {}
        self.count: Counter[str] = Counter()
        for symbol, function in self.named.items():
            if "Composite" in (getattr(function, "attrs", None) or {}):
                self.alike.setdefault(self._key(function), []).append(symbol)

    def symbol(self, function: relax.Function) -> relax.GlobalVar:
        """The symbol of a composite function."""
        key = self._key(function)
        for known in self.alike.get(key, ()):
            if structural_equal(self.named[known], function):
                return known
        operators = (str(b.value.op.name).replace(".", "_") for b in bindings(function))
        symbol = relax.GlobalVar(self._unused("_".join(["fused", *operators])))
        relax.expr._update_type(symbol, function.ty)
        self.named[symbol] = function
        self.alike.setdefault(key, []).append(symbol)
        return symbol

    def _unused(self, name: str) -> str:
        while True:
            number, self.count[name] = self.count[name], self.count[name] + 1
            found = f"{name}{number or ''}"
            if found not in self.names:
                self.names.add(found)
                return found

    def _key(self, function: relax.Function) -> Any:
        """By what most composite functions differ: equal ones have equal keys."""
        values = [b.value for b in bindings(function)]
        return function.attrs["Composite"], *(
            (op_name(value), *(self._sample(a) for a in getattr(value, "args", ()) if kind(a) == "constant"))
            for value in values)

    def _sample(self, constant: relax.Expr) -> Any:
        if constant not in self.samples:
            flat = const_value(constant).reshape(-1)
            self.samples[constant] = flat[::flat.size // 1024 + 1].tobytes()
        return self.samples[constant]
