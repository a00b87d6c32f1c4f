"""Partitioning: patterns of a target → composite functions → regions; what is left over is the host's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tvm_backend import expressions as compat
from tvm_backend.compiled import OptionValue
from tvm_backend.passes import bind_parameters, duplicate_dequantize
from tvm_backend.uma.backend import Pattern, UMABackend, UMAPhase
from tvm_backend.uma.match import NotQuantized, Numbers, read
from tvm_backend.uma.regions import HostFunction, form_regions
from tvm_backend.views import sink_reshapes

EXPLAINED = frozenset({"nn.conv2d", "matmul", "add", "nn.max_pool2d"})
"""Operators of a match to which a refusal is noted."""


@dataclass(frozen=True)
class Refusal:
    """A match that the target did not take: the variable of the anchor's result, the pattern, and why."""

    variable: str
    pattern: str
    reason: str


@dataclass(frozen=True, eq=False)
class Partitioned:
    """A partitioned module, with the refusals on the way and the host's operators."""

    module: compat.IRModule
    refusals: tuple[Refusal, ...]
    host: tuple[HostFunction, ...]


def partition(
    module: compat.IRModule, backend: UMABackend, options: Mapping[str, OptionValue],
    params: Mapping[str, np.ndarray] | None = None,
) -> Partitioned:
    """Split a module into regions of ``backend``'s target and the host; see :meth:`UMABackend.partition`."""
    if params:
        module = bind_parameters(module, params)
    module = compat.ensure_dataflow(module)
    module = backend.run_passes(UMAPhase.PRE_PARTITIONING, module)
    module = duplicate_dequantize(sink_reshapes(module))
    refusals: list[Refusal] = []
    patterns = [
        (f"{backend.target_name}.{p.name}", p.make(), _check(p, options, refusals, backend.numbers))
        for p in backend.patterns
    ]
    module = compat.fuse_by_pattern(module, patterns)
    module = backend.run_passes(UMAPhase.POST_PARTITIONING_0, module)
    module, host = form_regions(module, backend.target_name)
    module = backend.run_passes(UMAPhase.POST_PARTITIONING_1, module)
    return Partitioned(module, tuple(refusals), host)


def _check(
    pattern: Pattern, options: Mapping[str, OptionValue], refusals: list[Refusal], numbers: Numbers
) -> Callable[[Any], bool]:
    """The pattern's predicate as TVM calls it, noting each refusal."""

    def check(context: Any) -> bool:
        reason = _refused(pattern, options, context, numbers)
        if reason is None:
            return True
        variables = [var.name for var, value in context.matched_bindings.items()
                     if compat.op_name(value) in EXPLAINED]
        refusals.extend(Refusal(v, pattern.name, reason) for v in variables)
        return False

    return check


def _refused(
    pattern: Pattern, options: Mapping[str, OptionValue], context: Any, numbers: Numbers
) -> str | None:
    inside = dict(context.matched_bindings.items())
    if not all(compat.is_tensor(var) for var in inside):
        return "a tensor in it has no static shape"
    shared = _leaking(context, inside)
    if shared is not None:
        return f"its intermediate result {shared!r} is used elsewhere too"
    try:
        op = read(context.matched_expr, inside.get, numbers=numbers)
    except NotQuantized as error:
        return str(error)
    if pattern.predicate is None:
        return None
    verdict = pattern.predicate(op, options)
    return None if verdict.ok else verdict.seen


def _leaking(context: Any, inside: Mapping[Any, Any]) -> str | None:
    """Name of an intermediate variable that something outside of the match reads."""
    for var, users in context.var_usages.items():
        if var not in inside or inside[var].same_as(context.matched_expr):
            continue
        if any(user not in inside for user in users):
            return str(var.name)
    return None
