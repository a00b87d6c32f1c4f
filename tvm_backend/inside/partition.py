"""``partition_for``: a module of TVM's importers in, the same module with regions of targets and of the host out."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from typing import Any

from tvm import IRModule, relax

from archloom.oracle.errors import InputError, ModelError, TargetError, suggest
from archloom.tvm_backend.compiled import HostOp, Refused
from archloom.tvm_backend.inside import parts
from archloom.tvm_backend.inside.form import codegen_name, with_local_composites, with_results_of
from archloom.tvm_backend.ir import compat
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.model import Model, from_relax
from archloom.tvm_backend.passes.results import with_flat_results
from archloom.tvm_backend.targets import registry
from archloom.tvm_backend.targets.choice import Chosen, Target, choose, named_options
from archloom.tvm_backend.targets.lower import lower_host
from archloom.tvm_backend.targets.partition import Partitioned, partition
from archloom.tvm_backend.targets.regions import HOST_CODEGEN

ABOUT = "archloom"
"""Attribute of a region with what its code generator must know beside its body, as JSON: see :func:`_about`."""


def partition_for(
    target: Target, module: IRModule, params: Mapping[str, Any] | None = None, *, host: bool = True,
    symbols: Mapping[str, int] | None = None, merge: bool = False, **options: Any
) -> IRModule:
    """The module with a function for each region that ``target`` takes, which ``RunCodegen`` compiles.

    ``target``: a name, a :class:`UMABackend`, or several in order of preference; ``options`` are the target's. All
    functions of the module are looked at that can be called from outside (:func:`entries`). ``params`` are bound by
    name, as by ``relax.transform.BindParams``. With ``host``, what is left over goes to XLA in functions for
    ``relax.ext.archloom_host`` where it can; without, it stays as operators, for TVM's own passes.

    With ``merge``, regions and what XLA runs between them are one region, of the first target, with operators as they
    were imported: a call for each takes time (20 to 50 us, and the results are copied), and one call takes as much as
    :func:`archloom.compile`'s network. Nothing changes in what the accelerator runs.

    Extents may be open (``n``): regions are then planned and compiled for those that they are called with.
    ``symbols`` says by name at which extents is looked at what the target takes (:data:`parts.SPECIMENS`).

    TargetError for an unknown target or option; ModelError for a module that another pass has already fused or
    legalized, with what to run earlier.
    """
    chosen = choose(target, options)
    for one in chosen:
        if one.name not in registry.names() or registry.get(one.name) is not one.backend:
            raise TargetError(f"target {one.name!r} is not registered, so that RunCodegen does not find it: call its "
                              "register() before")
    refuse_other(module, params)
    names = _Names(module, (*(c.name for c in chosen), registry.HOST))
    for entry in entries(module):
        module = _one(module, entry, chosen, params, host, symbols, merge, names)
    return module


class _Names:
    """Names for regions, by code generator, that nothing in the module has."""

    def __init__(self, module: IRModule, codegens: Sequence[str]) -> None:
        self._numbers = {name: count() for name in codegens}
        self._taken = {gv.name_hint for gv in module.functions}

    def new(self, codegen: str) -> str:
        stem = codegen.replace("-", "_")
        name = next(n for i in self._numbers[codegen] if (n := f"{stem}_{i}") not in self._taken)
        self._taken.add(name)
        return name


def entries(module: IRModule) -> list[str]:
    """The functions that can be called from outside, but for those that are a code generator's, or fused operators.

    ``RunCodegen`` looks at no others: ``relax.transform.InlinePrivateFunctions`` puts those where they are called.
    """
    made = ("Codegen", "Composite", "Primitive")
    return [gv.name_hint for gv, f in module.functions.items() if isinstance(f, relax.Function)
            and "global_symbol" in (f.attrs or {}) and not any((f.attrs or {}).get(attribute) for attribute in made)]


def _one(
    module: IRModule, entry: str, chosen: Sequence[Chosen], params: Mapping[str, Any] | None, host: bool,
    symbols: Mapping[str, int] | None, merge: bool, names: _Names,
) -> IRModule:
    """The module with one function partitioned."""
    alone = as_main(module, entry, params)
    before = _regions(alone)
    if merge or parts.open_extents(alone["main"]):
        extents = parts.specimen_of(alone["main"], symbols, entry)
        made = parts.partition_parts(alone, chosen, extents, entry, host, merge)
        functions = _regions(made, before)
        about = dict.fromkeys(functions, json.dumps({**_targets(chosen), "as_imported": True}))
    else:
        model = from_relax(alone, entry)
        partitioned = partition(model.module, chosen)
        made, functions = partitioned.module, _regions(partitioned.module, before)
        about = _about(partitioned, model, chosen, functions)
    called = {symbol: names.new(codegen_name(str(ir.codegen_of(f)))) for symbol, f in functions.items()}
    left = () if host else [s for s, f in functions.items() if ir.codegen_of(f) == HOST_CODEGEN]
    main, regions = with_local_composites(made, called, {s: {ABOUT: text} for s, text in about.items()}, left)
    main = with_results_of(module[entry], main)
    kept = {gv: f for gv, f in module.functions.items() if gv.name_hint != entry}
    kept[module.get_global_var(entry)] = main.with_attr("global_symbol", entry)
    kept |= {_global_var_of(main, name): function for name, function in regions.items()}
    return relax.transform.Normalize()(IRModule(kept, attrs=module.attrs, global_infos=module.global_infos))


def _regions(module: IRModule, before: Container[str] = ()) -> dict[str, relax.Function]:
    """The functions of code generators, by name, but for those that were there ``before``."""
    return {gv.name_hint: f for gv, f in module.functions.items() if ir.codegen_of(f) and gv.name_hint not in before}


def as_main(module: IRModule, entry: str, params: Mapping[str, Any] | None) -> IRModule:
    """A module in which one function is ``main``, its parameters bound; ModelError where it is not as imported."""
    refuse_lowered(module, entry)
    alone = IRModule({relax.GlobalVar("main"): module[entry].with_attr("global_symbol", "main"), **{
        gv: f for gv, f in module.functions.items() if gv.name_hint not in (entry, "main")}})
    known = {p.name for p in module[entry].params}
    bound = {k: v for k, v in (params or {}).items() if k in known}
    if bound:
        alone = relax.transform.BindParams("main", bound)(alone)
    return with_flat_results(compat.ensure_dataflow(alone))


def refuse_other(module: Any, params: Mapping[str, Any] | None) -> None:
    """ModelError for what is no module, InputError for parameters that it does not have, or not so."""
    if not isinstance(module, IRModule):
        raise ModelError(f"expected a module of TVM (IRModule), found {type(module).__name__}")
    known = {p.name: p for entry in entries(module) for p in module[entry].params}
    for name, value in (params or {}).items():
        if name not in known:
            raise InputError(f"params: no parameter is named {name!r}{suggest(name, list(known))}")
        if not hasattr(value, "dtype"):
            raise InputError(f"params: {name!r}: expected a tensor, found {type(value).__name__}")
        ty, found = known[name].ty, relax.const(value, str(value.dtype)).ty
        if relax.analysis.type_base_check(ty, found) not in (
                relax.analysis.BaseCheckResult.PASS, relax.analysis.BaseCheckResult.FAIL_L2):  # open extents
            raise InputError(f"params: {name!r}: expected {ty}, found {found}")


def _global_var_of(main: relax.Function, name: str) -> relax.GlobalVar:
    """The variable by which ``main`` calls a function."""
    return next(b.value.op for b in ir.bindings(main) if isinstance(b.value, relax.Call)
                and isinstance(b.value.op, relax.GlobalVar) and b.value.op.name_hint == name)


def refuse_lowered(module: IRModule, entry: str) -> None:
    """ModelError where operators that targets take have become functions of TIR, or were fused."""
    heavy = ("matmul", "conv1d", "conv2d", "conv3d", "attention")
    for binding in ir.bindings(module[entry]):
        name = ir.op_name(binding.value)
        if name in ("call_tir", "call_tir_inplace"):
            called = str(binding.value.args[0].name_hint)
            if any(f"_{name}" in f"_{called}" for name in heavy):  # fused_conv2d_add, matmul1, ...
                raise ModelError(f"{entry}: {binding.var.name!r} is a call of the TIR function {called!r}: LegalizeOps "
                                 "(or a pipeline that begins with it) has run; partition before it")
        function = compat.callee(module, binding.value)
        attributes = getattr(function, "attrs", None) or {}
        if attributes.get("Primitive", 0) and "Composite" not in attributes:  # those are what patterns match
            raise ModelError(f"{entry}: {binding.var.name!r} is a call of {binding.value.op.name_hint!r}, which "
                             "FuseOps has made of operators; partition before it")


def _about(
    partitioned: Partitioned, model: Model, chosen: Sequence[Chosen], functions: Mapping[str, Any]
) -> dict[str, str]:
    """For each region: the targets with their options, where its operators were, and what the targets before said.

    The first one of a network has the host's operators and the fallbacks, too, for reports.
    """
    host = lower_host(partitioned, model, chosen).ops
    about = {}
    for number, symbol in enumerate(functions):
        inside = {b.var.name for b in ir.bindings(functions[symbol])}
        for b in ir.bindings(functions[symbol]):
            composite = compat.callee(partitioned.module, b.value)
            inside |= {v.name for v in ir.bound_in(composite)} if composite is not None else set()
        about[symbol] = json.dumps({
            **_targets(chosen), "positions": partitioned.positions.get(symbol, ()),
            "refused": {v: [asdict(r) for r in answers] for v, answers in partitioned.refused.items() if v in inside},
            "host": [asdict(op) for op in host] if number == 0 else [],
            "fallbacks": [asdict(f) for f in partitioned.fallbacks] if number == 0 else [],
        })
    return about


def _targets(chosen: Sequence[Chosen]) -> dict[str, Any]:
    return {"targets": ",".join(c.name for c in chosen), "options": named_options(chosen)}


def host_ops(about: Sequence[Mapping[str, Any]]) -> tuple[HostOp, ...]:
    """The host's operators of the networks of some regions."""
    return tuple(HostOp(**{**op, "shape": tuple(op["shape"]), "refused": tuple(Refused(**r) for r in op["refused"])})
                 for of in about for op in of.get("host", ()))

