"""Targets as passes of TVM: they stand in ``Sequential``, under ``PassContext`` with instruments, in pipelines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tvm
from tvm import IRModule, relax

from archloom.tvm_backend.inside.form import codegen_name, with_results_of
from archloom.tvm_backend.inside.partition import as_main, entries, partition_for, refuse_other
from archloom.tvm_backend.model import from_relax
from archloom.tvm_backend.targets.choice import Target, choose
from archloom.tvm_backend.targets.partition import prepare

_CONSTANTS = "const_name_to_constant"


def _pass(name: str, run: Callable[[IRModule], IRModule]) -> tvm.transform.Pass:
    return tvm.transform.module_pass(lambda module, context: run(module), opt_level=0, name=name)


def Offload(
    target: Target, params: Mapping[str, Any] | None = None, *, host: bool = True,
    symbols: Mapping[str, int] | None = None, merge: bool = False, **options: Any
) -> tvm.transform.Pass:
    """:func:`partition_for` and ``RunCodegen`` as one pass: what is left calls the compiled regions.

    The module keeps no second copy of the regions' constants, which ``RunCodegen`` alone leaves for code generators
    that are handed their constants when they are run.
    """
    chosen = choose(target, options)

    def run(module: IRModule) -> IRModule:
        before = dict((module.attrs or {}).get(_CONSTANTS, {}))
        made = partition_for(target, module, params, host=host, symbols=symbols, merge=merge, **options)
        made = relax.transform.RunCodegen()(made)
        return made.with_attr(_CONSTANTS, before) if before else made.without_attr(_CONSTANTS)

    return _pass(f"Offload({','.join(c.name for c in chosen)})", run)


def Prepare(
    target: str, params: Mapping[str, Any] | None = None, **options: Any
) -> tvm.transform.Pass:
    """The rewrites after which the target's patterns match: for ``FuseOpsByPattern`` by one's own hand, with
    ``get_patterns_with_prefix(target + ".")``."""
    (chosen,) = choose(target, options)

    def run(module: IRModule) -> IRModule:
        refuse_other(module, params)
        for entry in entries(module):
            network = from_relax(as_main(module, entry, params), entry)
            prepared = prepare(network.module, chosen, lambda variable, reason, needs: None)["main"]
            functions = {gv: f for gv, f in module.functions.items() if gv.name_hint != entry}
            prepared = with_results_of(module[entry], prepared)
            functions[module.get_global_var(entry)] = prepared.with_attr("global_symbol", entry)
            module = relax.transform.Normalize()(
                IRModule(functions, attrs=module.attrs, global_infos=module.global_infos))
        return module

    return _pass(f"Prepare({codegen_name(chosen.name)})", run)


def pipeline_of(target: str) -> Callable[..., tvm.transform.Pass]:
    """What ``relax.get_pipeline("archloom_<target>", **options)`` gives: offloading, then TVM's default pipeline."""
    def make(**options: Any) -> tvm.transform.Pass:
        steps = [Offload(target, **options), relax.get_pipeline("default_build")]
        return _pass(f"archloom_{target}", tvm.transform.Sequential(steps))

    return make
