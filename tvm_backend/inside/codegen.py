"""``relax.ext.<target>`` and ``relax.ext.archloom_host``: functions of a module in, modules of TVM's runtime out.

Each call makes one artifact, in the form in which :meth:`CompiledNetwork.save` writes it: its network calls the
functions one after the other, each on parameters of its own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import tvm
from tvm import relax

from archloom.oracle.errors import ModelError, TargetError
from archloom.oracle.fallbacks import Fallback
from archloom.tvm_backend.compile import compile_among, plan_steps
from archloom.tvm_backend.compiled import CompiledModel, HostPart, Partition, Refused, TensorSpec
from archloom.tvm_backend.executable import CompiledNetwork
from archloom.tvm_backend.host.plan import plan_of
from archloom.tvm_backend.inside import running, stubs
from archloom.tvm_backend.inside.form import Hoisted, hoisted, refuse_changed
from archloom.tvm_backend.inside.partition import ABOUT, host_ops
from archloom.tvm_backend.inside.parts import open_extents
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.match import NotQuantized
from archloom.tvm_backend.model import from_relax
from archloom.tvm_backend.targets.choice import Chosen, choose, named_options
from archloom.tvm_backend.targets.lower import lower_regions
from archloom.tvm_backend.targets.partition import NEEDED, Partitioned
from archloom.tvm_backend.targets.registry import HOST


def generate(
    codegen: str, functions: Sequence[relax.Function], options: Mapping[str, Any]
) -> list[tvm.runtime.Module]:
    """Compile the functions of one code generator, a target or the host.

    ``options`` are those of ``RunCodegen({target: options})``, for functions that ``partition_for`` has not made.
    TargetError for options that differ from those that a function was partitioned with.
    """
    for function in functions:
        refuse_changed(codegen, function)
    given = _plain(options)
    noted = dict(zip(functions, _about(functions), strict=True))
    made = []
    for kind, make in zip(stubs.KINDS, (_lowered, _parts, _open), strict=True):
        if chosen := [f for f in functions if _kind(f, noted[f]) == kind]:
            callee, data = make(codegen, chosen, [noted[f] for f in chosen], given)
            made += stubs.modules(running.keep(data, callee), f"{codegen}{kind}", callee.symbols, data)
    return made


Made: TypeAlias = tuple[running.Callee, bytes]
"""Functions to be called, and the artifact that holds them."""
Abouts: TypeAlias = Sequence[Mapping[str, Any]]


def _kind(function: relax.Function, about: Mapping[str, Any]) -> str:
    """Which of :data:`stubs.KINDS` a function is."""
    return ".open" if open_extents(function) else ".parts" if about.get("as_imported") else ""


def _lowered(codegen: str, functions: Sequence[relax.Function], about: Abouts, options: Mapping[str, Any]) -> Made:
    """Functions of composite functions: the calls of one network."""
    network = CompiledNetwork(_compiled(codegen, hoisted(functions), about, options))
    network.prepare()
    return running.Functions(network), network.packed()


def _parts(codegen: str, functions: Sequence[relax.Function], about: Abouts, options: Mapping[str, Any]) -> Made:
    """Parts of a network as it was imported: each is a network."""
    chosen = _chosen(codegen, about, options)
    modules = running.modules_of(functions)
    parts = running.Parts({symbol: CompiledNetwork(compile_among(from_relax(module, symbol), chosen))
                           for symbol, module in modules.items()})
    return parts, parts.packed()


def _open(codegen: str, functions: Sequence[relax.Function], about: Abouts, options: Mapping[str, Any]) -> Made:
    """Functions of open extents: networks when they are called."""
    later = running.OpenFunctions(running.modules_of(functions), _chosen(codegen, about, options))
    return later, later.packed()


def _about(functions: Sequence[relax.Function]) -> list[dict[str, Any]]:
    """What partitioning noted on functions; nothing on those of others."""
    return [json.loads(str(f.attrs[ABOUT])) if ABOUT in f.attrs else {} for f in functions]


def _plain(options: Mapping[Any, Any]) -> dict[str, Any]:
    """Options as TVM hands them over: its own strings and numbers."""
    return {str(k): str(v) if isinstance(v, str) else v for k, v in options.items()}


def _compiled(
    codegen: str, found: Hoisted, about: Sequence[Mapping[str, Any]], options: Mapping[str, Any]
) -> CompiledModel:
    chosen = _chosen(codegen, about, options)
    refused = {v: tuple(Refused(**r) for r in answers) for of in about for v, answers in of.get("refused", {}).items()}
    positions = {symbol: tuple(of.get("positions", ())) or tuple(range(len(ir.bindings(found.module[symbol]))))
                 for symbol, of in zip(found.symbols, about, strict=True)}
    partitioned = Partitioned(found.module, found.module, refused, (), positions)
    try:
        regions = lower_regions(partitioned, chosen) if chosen else ()
    except NotQuantized as error:
        hint = ("a pass has changed it since partition_for (FoldConstant, ConvertLayout?): run RunCodegen before that"
                if any(about) else "functions that FuseOpsByPattern makes need bind_constants=True")
        needed = NEEDED[chosen[0].backend.numbers]
        raise ModelError(f"relax.ext.{codegen}: {error}; expected {needed}; {hint}") from error
    kept = ir.of(found.module).keep_functions(found.module, lambda f: ir.codegen_of(f) in (None, "xla"))
    host = HostPart(None, host_ops(about), kept, partial(plan_of, kept))
    name = "+".join(found.symbols) if len(found.symbols) < 4 else f"{found.symbols[0]}...{found.symbols[-1]}"
    of = Partition(name, "relax", ",".join(c.name for c in chosen), named_options(chosen), _specs(found.inputs),
                   _specs(found.outputs), regions, host,
                   fallbacks=tuple(Fallback(**f) for of in about for f in of.get("fallbacks", ())))
    return CompiledModel.of(of, plan_steps(of, chosen))


def _specs(tensors: Sequence[tuple[str, Any]]) -> tuple[TensorSpec, ...]:
    return tuple(TensorSpec(name, ir.shape_of(x), ir.dtype_of(x)) for name, x in tensors)


def _chosen(codegen: str, about: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> tuple[Chosen, ...]:
    """The targets that the functions were partitioned for, with their options; none for the host."""
    if codegen == HOST:
        return ()
    stated = {json.dumps([of["targets"], of["options"]], sort_keys=True) for of in about if of}
    if not stated:
        return choose(codegen, options)
    if len(stated) > 1:
        raise TargetError(f"relax.ext.{codegen}: its regions were partitioned with different targets or options: "
                          f"{'; '.join(sorted(stated))}; run RunCodegen after each")
    targets, known = json.loads(stated.pop())
    chosen = choose(targets, known)
    if options:
        (own,) = (c for c in chosen if c.name == codegen)
        wanted = choose(codegen, options)[0].options
        different = [k for k in options if wanted[k] != own.options[k]]
        if different:
            raise TargetError(f"relax.ext.{codegen}: option {different[0]!r}: the module was partitioned for "
                              f"{own.options[different[0]]!r}, RunCodegen asks for {wanted[different[0]]!r}")
    return chosen
