"""Compilation: partition a network, map each distinct workload once, emit a stream for each step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from archloom.acadl_models.timing import Heard
from archloom.mapper.explore import GivenUp
from archloom.mapper.parallel import look_ahead
from archloom.mapper.search import Plan, search
from archloom.mapper.workload import Workload, plain
from archloom.oracle.errors import MappingError, ModelError
from archloom.oracle.memory import paused
from archloom.tvm_backend.compiled import CompiledModel, Partition
from archloom.tvm_backend.model import Model
from archloom.tvm_backend.progress import Progress
from archloom.tvm_backend.targets.choice import Chosen, Target, choose, named_options

T = TypeVar("T")


@paused()
def partition_model(model: Model, target: Target = "gemmini", options: Mapping[str, Any] | None = None) -> Partition:
    """Split a network between the targets and the host; nothing is built or run, and nothing mapped but what a target
    weighs as one layer or two.

    ``target`` is one, or several in order of preference: each operator goes to the first that takes it.
    """
    return partition_among(model, choose(target, options))


def partition_among(model: Model, chosen: Sequence[Chosen]) -> Partition:
    """:func:`partition_model` for targets with their options; without any, all of it is the host's."""
    from archloom.tvm_backend.targets.live_ranges import memory_of
    from archloom.tvm_backend.targets.lower import lower_host, lower_regions
    from archloom.tvm_backend.targets.partition import partition

    partitioned = partition(model.module, chosen)
    regions, host = lower_regions(partitioned, chosen), lower_host(partitioned, model, chosen)
    return Partition(
        model.name, model.source, ",".join(c.name for c in chosen), named_options(chosen), model.inputs, model.outputs,
        regions, host, (*model.fallbacks, *partitioned.fallbacks),
        memory_of(partitioned.flow, model.inputs, regions, host.ops),
    )


def compile_model(
    model: Model, target: Target = "gemmini", options: Mapping[str, Any] | None = None, *,
    progress: Progress | None = None,
) -> CompiledModel:
    """Partition a network and plan every step: mapping, instruction stream, timing.

    An operator that no mapping fits is the next target's, or stays with the host, with that as the reason. Raises
    :class:`~archloom.oracle.errors.TargetError` for a target or options that are not valid,
    :class:`~archloom.oracle.errors.MappingError` where no mapping fits any operator, and
    :class:`~archloom.oracle.errors.ModelError` for a network without its weights.
    """
    return compile_among(model, choose(target, options), progress=progress)


def compile_among(model: Model, chosen: Sequence[Chosen], *, progress: Progress | None = None) -> CompiledModel:
    """:func:`compile_model` for targets with their options; without any, all of it is the host's."""
    if not model.has_weights:
        raise ModelError(f"{model.name}: expected a network with its weights, found their shapes alone (torch's meta "
                         "device), which are enough to estimate it, not to compile, run or check it")
    return CompiledModel.of(*planned(model, chosen, progress))


class Unplaced(MappingError):
    """Workloads that no mapping fits, with the reasons, by target; the message is the first of these."""

    def __init__(self, by_target: Mapping[str, Mapping[Workload, str]]) -> None:
        super().__init__(next(reason for reasons in by_target.values() for reason in reasons.values()))
        self.by_target = by_target


def planned(
    model: Model, chosen: Sequence[Chosen], progress: Progress | None = None
) -> tuple[Partition, dict[str, Plan]]:
    """A network's partition and the plans of its steps, without the operators that no mapping fits: see
    :func:`compile_model`."""
    return placed(model, chosen, lambda partition, left: plan_steps(partition, left, progress))


def placed(
    model: Model, chosen: Sequence[Chosen], find: Callable[[Partition, Sequence[Chosen]], T]
) -> tuple[Partition, T]:
    """A network's partition, and what ``find`` makes of it: an operator of which that says that it is Unplaced goes to
    the next target, or to the host."""
    refused: Unplaced | None = None
    while True:
        partition = partition_among(model, chosen)
        if refused is not None and not any(region.steps for region in partition.regions):
            raise MappingError(str(refused)) from refused
        try:
            return partition, find(partition, chosen)
        except Unplaced as error:
            known = [c.unplaced for c in chosen]
            chosen = [c.without(error.by_target.get(c.name, {})) for c in chosen]
            if [c.unplaced for c in chosen] == known:  # taken again, in another form than it was refused in
                raise MappingError(str(error)) from error
            refused = error


def plan_steps(partition: Partition, chosen: Sequence[Chosen], progress: Progress | None = None) -> dict[str, Plan]:
    """A plan for each step by its name; Unplaced, once all were looked for, if no mapping fits some.

    The search keeps what it finds, whatever a workload's name and output scale: each distinct one is searched once.
    """
    targets = {c.name: (c.backend.accelerator, c.accelerator_options) for c in chosen}
    plans: dict[str, Plan] = {}
    steps = [(step, region.target) for region in partition.regions for step in region.steps]

    def searching(position: int) -> None:
        if progress is not None:
            progress(steps[position][0].name, 0, len(steps))

    look_ahead([(step.workload, *targets[target]) for step, target in steps], searching)
    with _refusals() as refused:
        for done, (step, target) in enumerate(steps):
            if progress is not None:
                progress(step.name, done, len(steps))
            heard = None if progress is None else _simulating(step.name, done, len(steps), progress)
            with refused(target, step.workload):
                plans[step.name] = search(step.workload, *targets[target], heard=heard)
    return plans


def require_mappings(partition: Partition, chosen: Sequence[Chosen]) -> None:
    """Unplaced if the space of some step has no mapping; nothing is searched, so that one that has may still turn out
    to have none that can be written."""
    made = {c.name: c.backend.accelerator.configure(c.accelerator_options) for c in chosen}
    works = {(region.target, plain(step.workload)): step.workload
             for region in partition.regions for step in region.steps}
    with _refusals() as refused:
        for (target, _), work in works.items():
            if made[target].planner is None:
                with refused(target, work):
                    made[target].least_of_mappings(work)


@contextmanager
def _refusals() -> Iterator[Callable[[str, Workload], AbstractContextManager[None]]]:
    """A guard for each workload of a target, which keeps why no mapping fits; Unplaced at the end if there were any."""
    unplaced: dict[str, dict[Workload, str]] = {}

    @contextmanager
    def guard(target: str, work: Workload) -> Iterator[None]:
        try:
            yield
        except GivenUp:  # a mapping fits: what it takes is not known
            raise
        except MappingError as error:
            unplaced.setdefault(target, {}).setdefault(plain(work), str(error))

    yield guard
    if unplaced:
        raise Unplaced(unplaced)


def _simulating(name: str, done: int, count: int, progress: Progress) -> Heard:
    """Hears of the simulations for a step, and says so."""
    return lambda _, finished, total: progress(f"{name}: {finished / total:.1%} of {total:,} instructions", done, count)
