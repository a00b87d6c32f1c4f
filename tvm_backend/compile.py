"""Compilation: partition a network, map each distinct workload once, emit a stream for each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from oracle.collector import paused
from tvm_backend.compiled import CompiledModel, OptionValue, Partition
from tvm_backend.model import Model
from tvm_backend.uma import registry

if TYPE_CHECKING:
    from mapper.search import Plan
    from tvm_backend.uma.backend import UMABackend

Progress: TypeAlias = Callable[[str, int, int], None]
"""Hears what is being done, how many of the steps are done, and of how many."""


@paused()
def partition_model(
    model: Model, target: str | UMABackend = "gemmini", options: Mapping[str, Any] | None = None
) -> Partition:
    """Split a network between ``target`` and the host; nothing is mapped, built or run."""
    from tvm_backend.lower import lower_host, lower_regions
    from tvm_backend.uma.partition import partition

    backend = registry.get(target) if isinstance(target, str) else target
    resolved = resolve_options(backend, options or {})
    partitioned = partition(model.module, backend, resolved)
    regions = lower_regions(partitioned, backend, resolved)
    return Partition(
        model.name, model.source, backend.target_name, resolved, model.inputs, model.outputs, regions,
        lower_host(partitioned, model, backend),
    )


def compile_model(
    model: Model, target: str | UMABackend = "gemmini", options: Mapping[str, Any] | None = None, *,
    progress: Progress | None = None,
) -> CompiledModel:
    """Partition a network and plan every step: mapping, instruction stream, timing.

    Raises :class:`~oracle.errors.TargetError` for a target or options that are not valid, and
    :class:`~oracle.errors.MappingError` for a workload that no mapping fits.
    """
    backend = registry.get(target) if isinstance(target, str) else target
    partition = partition_model(model, backend, options)
    return CompiledModel(partition, plan_steps(partition, backend, progress))


def resolve_options(backend: UMABackend, options: Mapping[str, Any]) -> dict[str, OptionValue]:
    """The target's own attributes and its accelerator's options, with defaults filled in and values checked."""
    own = dict(backend.attributes)
    rest = {key: value for key, value in options.items() if key not in own}
    own.update({key: value for key, value in options.items() if key in own})
    return {**backend.accelerator.resolve_options(rest), **own}


def plan_steps(
    partition: Partition, backend: UMABackend, progress: Progress | None = None
) -> dict[str, Plan]:
    """A plan for each step by its name.

    The search keeps what it finds, whatever a workload's name and output scale: each distinct one is searched once.
    """
    from mapper.search import search

    options = {k: v for k, v in partition.options.items() if k not in backend.attributes}
    plans: dict[str, Plan] = {}
    steps = list(partition.steps())
    for done, step in enumerate(steps):
        if progress is not None:
            progress(step.name, done, len(steps))
        plans[step.name] = search(step.workload, backend.accelerator, options)
    return plans
