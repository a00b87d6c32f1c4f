"""Partitioning: patterns of a target → composite functions → regions; what is left over is the host's.

Several targets share a network in order of preference: each is offered what those before it have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archloom.oracle.fallbacks import Fallback
from archloom.oracle.user_code import in_user_code
from archloom.tvm_backend.compiled import HostOp, Refuse, Refused
from archloom.tvm_backend.ir import expressions as ir
from archloom.tvm_backend.ir.attention import ATTENTION
from archloom.tvm_backend.ir.fusing import fuse_by_pattern
from archloom.tvm_backend.ir.match import NotQuantized, QuantizedOp
from archloom.tvm_backend.ir.names import is_made_up
from archloom.tvm_backend.ir.numbers import Numbers
from archloom.tvm_backend.ir.operators import SWEPT
from archloom.tvm_backend.passes import channels_last, quantized_products
from archloom.tvm_backend.passes.constants import duplicate_dequantize
from archloom.tvm_backend.passes.marks import unmarked
from archloom.tvm_backend.passes.own_names import with_own_names
from archloom.tvm_backend.passes.sink_reshapes import sink_reshapes
from archloom.tvm_backend.targets.backend import Pattern, UMABackend, UMAPhase, Verdict
from archloom.tvm_backend.targets.choice import Chosen
from archloom.tvm_backend.targets.live_ranges import Flow
from archloom.tvm_backend.targets.regions import Positions, form_regions

EXPLAINED = frozenset({"nn.conv2d", "matmul", "add", "nn.max_pool2d", *ATTENTION})
"""Operators of a match to which a refusal is noted; of targets with vector instructions those of sweeps, too."""


NEEDED: dict[Numbers, str] = {
    "int8": "a quantized operator: int8 operands by dequantize, the result by quantize, scales constant "
            "(archloom.quantize, --calibrate)",
    "float32": "float32 operands",
    "float16": "operands of float32 or float16",
}
"""What a target takes that computes with these numbers."""


@dataclass(frozen=True, eq=False)
class Partitioned:
    """A partitioned module, the host's operators (without reasons), and where each region's were.

    ``network`` is the module before, with names of its own for all variables: one of such a name in ``module`` holds
    the same numbers. ``refused`` has for each variable the first answer of each target that did not take its operator.
    ``pixels`` has the names of images [n, h, w, c], which the network has as [n, c, h, w]; ``merged`` of results of
    products how many groups of a convolution are one, with zeros beside the diagonal.
    """

    module: ir.IRModule
    network: ir.IRModule
    refused: Mapping[str, tuple[Refused, ...]]
    host: tuple[HostOp, ...]
    positions: Positions
    pixels: frozenset[str] = frozenset()
    merged: Mapping[str, int] = field(default_factory=dict)
    flow: Flow = field(default_factory=Flow)
    """what operators read and make"""
    fallbacks: tuple[Fallback, ...] = ()


def partition(module: ir.IRModule, chosen: Sequence[Chosen]) -> Partitioned:
    """Split a module into regions of the targets and the host's ``main``.

    In the result each region is a function with the attributes ``Codegen`` (the target) and ``global_symbol``, which
    calls composite functions.
    """
    module = network = named(module)
    refused: dict[str, dict[str, Refused]] = {}
    marks = Marks()
    fallbacks: dict[Fallback, None] = {}
    for target in chosen:
        backend = target.backend

        def refuse(variable: str, reason: str, needs: str, name: str = target.name) -> None:
            refused.setdefault(variable, {}).setdefault(name, Refused(name, reason, needs))

        module, slower = fuse_by_pattern(prepare(module, target, refuse, marks), patterns_of(target, refuse))
        fallbacks.update(dict.fromkeys(slower))
        module = backend.run_passes(UMAPhase.POST_PARTITIONING_0, module, target.options, refuse)
    owners = {name: target.name for target in chosen for name in target.composites}
    tiled, plain = (frozenset(c.name for c in chosen if has(c.backend)) for has in (
        lambda backend: backend.vectors, lambda backend: backend.nests))
    module, host, positions, flow = form_regions(module, owners, tiled, plain)
    for target in chosen:
        module = target.backend.run_passes(
            UMAPhase.POST_PARTITIONING_1, module, target.options, lambda variable, reason, needs: None)
    answers = {variable: tuple(by_target.values()) for variable, by_target in refused.items()}
    return Partitioned(module, network, answers, host, positions, frozenset(marks.pixels), marks.merged, flow,
                       tuple(fallbacks))


def named(module: ir.IRModule) -> ir.IRModule:
    """A network as it is partitioned: with names of its own for all variables, and its result bound once."""
    module = with_own_names(ir.of(module).ensure_dataflow(module))
    return ir.of(module).ensure_dataflow(module)


@dataclass
class Marks:
    """What passes of targets tell of variables, as :class:`Partitioned` has it."""

    pixels: set[str] = field(default_factory=set)
    merged: dict[str, int] = field(default_factory=dict)


def prepare(module: ir.IRModule, target: Chosen, refuse: Refuse, marks: Marks | None = None) -> ir.IRModule:
    """The module as the target's patterns match it; ``marks`` gets what its passes tell of variables."""
    module = target.backend.run_passes(UMAPhase.PRE_PARTITIONING, module, target.options, refuse)
    module, pixels = unmarked(module, channels_last.MARK, list[str]())
    module, merged = unmarked(module, quantized_products.MERGED, dict[str, int]())
    if marks is not None:
        marks.pixels.update(pixels)
        marks.merged.update(merged)
    return duplicate_dequantize(sink_reshapes(module, sums=target.backend.vectors))


def patterns_of(
    target: Chosen, refuse: Refuse = lambda variable, reason, needs: None,
) -> list[tuple[str, Any, Callable[[Any], bool]]]:
    """Names, patterns and checks; ``refuse`` hears what a check sees."""
    return [(name, p.make(), _check(p, target, refuse)) for name, p in target.composites.items()]


def _check(pattern: Pattern, target: Chosen, refuse: Refuse) -> Callable[[Any], bool]:
    """The pattern's predicate as TVM calls it, noting each refusal."""

    def check(context: Any) -> bool:
        inside = dict(context.matched_bindings.items())
        found = _read(target.backend, context, inside)
        if isinstance(found, Verdict):
            verdict = found
        else:
            with in_user_code(lambda: f"target {target.name!r}, pattern {pattern.name!r} of operator {found.name!r}"):
                verdict = Verdict(True, "") if pattern.predicate is None else pattern.predicate(found, target.options)
                verdict = target.placed(pattern, found) if verdict.ok else verdict
            if verdict.ok:
                return True
        if pattern.quiet:
            return False
        explained = EXPLAINED | SWEPT if target.backend.vectors else EXPLAINED
        for var, value in inside.items():
            if target.backend.nests or ir.op_name(value) in explained:
                refuse(var.name, verdict.seen, verdict.needs)
        return False

    return check


def _read(backend: UMABackend, context: Any, inside: Mapping[Any, Any]) -> QuantizedOp | Verdict:
    """The operator that a match is, or why it is none that the target could take."""
    if not all(ir.is_tensor(var) for var in inside):
        return Verdict(False, "a tensor in it has no static shape", "tensors of static shapes")
    shared = _leaking(context, inside)
    if shared is not None:
        return Verdict(False, f"its intermediate result{shared} is used elsewhere too",
                       "intermediate results that nothing else reads")
    try:
        return backend.read(context.matched_expr, inside.get)
    except NotQuantized as error:
        return Verdict(False, str(error), NEEDED[backend.numbers])


def _leaking(context: Any, inside: Mapping[Any, Any]) -> str | None:
    """The name of an intermediate variable that something outside of the match reads, in quotes after a blank; nothing
    in place of a name that was made up."""
    usages = context.var_usages  # of all variables of the network
    for var, value in inside.items():
        if value.same_as(context.matched_expr) or var not in usages:
            continue
        if any(user not in inside for user in usages[var]):
            return "" if is_made_up(var.name) else f" {var.name!r}"
    return None
