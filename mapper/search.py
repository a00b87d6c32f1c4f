"""The best mapping of a workload: rank all candidates by the cost model, simulate the best, keep what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from archloom.acadl_models.timing import Heard
from archloom.acadl_models.timing.result import TimingResult
from archloom.mapper import cache, known
from archloom.mapper.asked import Allowed
from archloom.mapper.bounds import least as least_of
from archloom.mapper.explore import (
    ALIKE,
    HOPELESS,
    OBJECTIVES,
    PROVEN,
    SMALL,
    Effort,
    GivenUp,
    Objective,
    Steps,
    Trial,
    explore,
    fewest_cycles,
    is_time,
    least,
    longest,
    objective_of,
    patience,
    ranked,
)
from archloom.mapper.mapping import Mapping
from archloom.mapper.places import placed, rooms
from archloom.mapper.simulations import Simulation, Simulations, score_of
from archloom.mapper.space import Space
from archloom.mapper.workload import Workload, plain
from archloom.oracle.errors import InputError, MappingError, StreamError, counted
from archloom.oracle.memory import paused
from archloom.oracle.pages import Heading, Paragraph, Table, fragment

if TYPE_CHECKING:
    from archloom.mapper.accelerator import Accelerator, Configuration
    from archloom.oracle.stream import Stream


MOST_OF_FAMILY, FEW = 2, 40
"""Candidates that are simulated of those whose table says that they are alike; where there are but a few, all that do
not take too long."""

KEPT: cache.Kept[cache.Entry] = cache.Kept()
"""What searches have found."""

GIVEN_UP: cache.Kept[str] = cache.Kept()
"""Why searches have found nothing within the steps that they may take: a layer is asked for again as part of a whole
network, of other networks, and by other processes."""


@dataclass(frozen=True)
class Plan(cache.Entry):
    """What a search found for a ``workload``, with its stream, which is written when it is first asked for."""

    workload: Workload = field(kw_only=True)
    emit: "Callable[[], Stream]" = field(kw_only=True, repr=False, compare=False)

    @cached_property
    def stream(self) -> "Stream":
        return self.emit()

    def __str__(self) -> str:
        return f"{self.workload.title}: {self.mapping}, {self.timing.cycles:,} cycles"

    def _repr_html_(self) -> str:
        """The mapping, what the search looked at, and what units did."""
        rows = tuple((u.name, f"{u.instructions:,}", f"{u.busy_cycles:,}", f"{u.dependency_stall_cycles:,}",
                      f"{u.storage_stall_cycles:,}") for u in self.timing.units if u.instructions)
        return fragment([
            Heading(4, str(self)),
            Paragraph(f"{counted(self.considered, 'candidate')}, {self.fitting:,} fit, {self.simulated:,} simulated; "
                      f"the model expected {self.estimated_cycles:,.0f} cycles"),
            Table(("unit", "instructions", "busy cycles", "waiting for data", "waiting for storage"), rows)])


def search(
    workload: Workload, accelerator: "Accelerator", options: Any = None, *, top_k: int | None = None,
    objective: str | Objective = "time", use_cache: bool = True, heard: Heard | None = None,
) -> Plan:
    """The best mapping among the ``top_k`` (None: as many as the accelerator says) that the cost model ranks first by
    time, and those one step away from it.

    ``objective``: simulated ``time``, ``energy``, their product ``edp``, or a function of seconds and joules (None
    where the graph states no energies), which is searched for anew each time.
    ``heard`` is told how far long simulations are.
    Deterministic. Mapping and timing depend neither on the workload's name nor on the value of its output scale.
    MappingError if no mapping fits, with demand, bound, gap and what would help, or if the first cannot be simulated
    within :data:`~archloom.mapper.explore.LONGEST` instructions; TargetError for wrong options.
    """
    top_k = accelerator.top_k if top_k is None else top_k
    if top_k < 1:
        raise InputError(f"top_k: expected a positive number of candidates, found {top_k}")
    aim, configuration = objective_of(objective), accelerator.configure(options)
    if objective in ("energy", "edp") and not configuration.has_energy:
        raise InputError(f"objective {objective!r}: graph {configuration.graph.name!r} states no energies")
    if use_cache and isinstance(objective, str):
        _, entry = found(workload, configuration, top_k, objective, heard)
    else:
        entry = _search(workload, configuration, top_k, aim, heard)
    named = replace(entry, timing=replace(entry.timing, stream=workload.name))
    return Plan(**vars(named), workload=workload, emit=lambda: configuration.emit(workload, entry.mapping))


def found(
    workload: Workload, configuration: "Configuration", top_k: int | None = None, objective: str = "time",
    heard: Heard | None = None,
) -> tuple[str, cache.Entry]:
    """What is known of a workload, or else found by a search, after its key."""
    top_k = configuration.accelerator.top_k if top_k is None else top_k
    key = key_of(workload, configuration, top_k, objective)
    return key, KEPT.once(key, cache.from_json, cache.to_json, lambda: _unless_given_up(
        key, workload, lambda: _search(workload, configuration, top_k, objective_of(objective), heard)))


def _unless_given_up(key: str, workload: Workload, find: Callable[[], cache.Entry]) -> cache.Entry:
    """What ``find`` finds; GivenUp, under this workload's name, where it was given up before."""
    key = cache.key_of([key, "given up", str(longest())])
    if (why := GIVEN_UP.get(key, str)) is not None:
        raise GivenUp(workload.name + why if why.startswith(": ") else why)
    try:
        return find()
    except GivenUp as error:
        why = str(error).removeprefix(workload.name)
        GIVEN_UP.remember(key, why)
        cache.store_plan(key, why)
        raise


def warm(configuration: "Configuration") -> None:
    """Load all that a search needs, before processes are forked that will need it too."""
    from archloom.acadl_models.timing.engine import warmup

    _ = configuration.isa, configuration.hardware, configuration.emitter
    warmup()


@paused()
def _search(
    workload: Workload, configuration: "Configuration", top_k: int, objective: Objective = OBJECTIVES["time"],
    heard: Heard | None = None,
) -> cache.Entry:
    placed(workload, configuration.graph)  # no space of mappings is worth listing where tensors have no room
    asked = None if configuration.asked is None else configuration.asked.of(workload)
    if asked is not None and (whole := asked.whole) is not None:
        return _of_mapping(workload, configuration, whole, heard)
    if configuration.planner is not None:
        entry = configuration.planner.find(workload, top_k, objective, heard, asked)
        return replace(entry, bound_cycles=least_of(workload, configuration).cycles)
    effort = Effort(Steps(workload.name, heard), configuration.accelerator.patience)
    runs, run_of = Simulations(configuration, effort.steps.hear, not is_time(objective)), dict[Mapping, Simulation]()
    noted = dict[str, known.Run]()

    def simulated(mapping: Mapping) -> tuple[TimingResult, int, int]:
        stream = configuration.emit(workload, mapping)
        with configuration.running(workload, mapping):
            run = run_of[mapping] = runs.of(stream)
        if runs.kin is not None and run.timing.exact:
            noted[configuration.told_apart(workload, mapping, lambda: stream)] = run.noted(runs.kin)
        return run.timing, run.written, run.bound

    score = score_of(configuration, objective, run_of)
    space = configuration.space(workload)
    bound = least_of(workload, configuration, space=space).cycles
    if is_time(objective):
        effort.proven = PROVEN * bound
    trials = _tried(workload, configuration, space, top_k, effort, simulated, score)
    if runs.kin is not None:
        known.note(runs.kin, _text(plain(workload)), noted)
    if not trials:
        raise MappingError(f"{workload.name}: no mapping is defined for this operator")
    best = min(trials, key=score)  # the first of equals
    return cache.Entry(best.plan, best.timing, best.estimated_cycles, space.considered, len(space), len(trials),
                       run_of[best.plan].energy_if_any, bound)


def _tried(
    workload: Workload, configuration: "Configuration", space: Space, top_k: int, effort: "Effort",
    simulated: Callable[[Mapping], tuple[TimingResult, int, int]], score: Callable[[Trial[Mapping]], float],
) -> tuple[Trial[Mapping], ...]:
    """The trials of a search in the space of a workload; of a mapping is known when its stream is ``simulated`` how
    long it takes, how many instructions are written in it, and how many its program has."""
    asked = None if configuration.asked is None else configuration.asked.of(workload)
    estimated, mapping_of = space.ranked()
    few = len(space) <= FEW

    def attempt(mapping: Mapping, estimate: float) -> Trial[Mapping]:
        timing, written, bound = simulated(mapping)
        effort.add(written, bound, timing)
        return Trial(mapping, estimate, timing)

    numbers: dict[Mapping, int] = {}
    bounds = space.bounds if effort.proven else None  # of cycles, which do not decide where energies do
    order = least(estimated)
    others = _other_ways(space, estimated, order[:top_k])
    if asked is not None:
        order = Allowed(asked, workload, lambda mapping: mapping).among(order, mapping_of)
        others = others[np.isin(others, order)]

    def candidates(some: np.ndarray) -> Iterator[tuple[Mapping, float]]:
        """Of mappings that agree in tiling, order and load levels one is tried first."""
        for i, mapping in ranked(
                some, mapping_of, family=lambda i, _: space.family(i), most=FEW if few else MOST_OF_FAMILY,
                same=lambda _, m: (m.kind, m.dataflow, m.tile, m.order, m.loads, m.packing, m.lanes)):
            numbers[mapping] = i
            yield mapping, float(estimated[i])

    def beaten(mapping: Mapping) -> bool:
        """Whether a candidate is proven to be hardly better than the best so far, at most."""
        i = numbers.get(mapping)
        return bounds is not None and i is not None and PROVEN * bounds[i] >= effort.fewest

    def variants(mapping: Mapping) -> Iterator[Mapping]:
        near = {mapping_of(i): i for i in space.neighbours(numbers[mapping])}
        numbers.update(near)
        found = chain(_variants(mapping), near)
        return (each for each in found if asked is None or asked.allows(each, workload))

    def further(tried: int, over: float) -> bool:
        easy = FEW if few else SMALL * (top_k + len(others))
        return (over <= effort.near and tried < ALIKE) or (over <= HOPELESS and effort.easy() and tried < easy)

    return explore(
        candidates(order), attempt, top_k=top_k, score=score, variants=variants, enough=effort.spent, further=further,
        beaten=beaten, others=tuple(candidates(others)))


class _Unknown(Exception):
    """A stream that a search would simulate was not simulated yet."""


@paused()
def known_cycles(workload: Workload, configuration: "Configuration") -> int | None:
    """Cycles of the plan that :func:`search` finds, where nothing has to be simulated for that: the plan is kept, or
    each stream that the search would simulate was simulated on a machine with as little room, or less
    (:mod:`archloom.mapper.known`). None where it is not known, or there is no plan."""
    entry = KEPT.get(key_of(workload, configuration), cache.from_json)
    if entry is not None:
        return entry.timing.cycles
    if configuration.kin is None or configuration.planner is not None or configuration.asked is not None:
        return None
    runs = known.runs_of(configuration.kin, _text(plain(workload)))
    if not runs:
        return None
    effort = Effort(Steps(workload.name), configuration.accelerator.patience)

    def simulated(mapping: Mapping) -> tuple[TimingResult, int, int]:
        run = runs.get(configuration.told_apart(workload, mapping, lambda: configuration.emit(workload, mapping)))
        if run is None or effort.steps.done + run.stepped >= effort.steps.allowed:
            raise _Unknown
        graph = configuration.graph
        return TimingResult(graph.name, workload.name, graph.clock_hz, run.cycles, 0, (), (), (),
                            stepped_instructions=run.stepped), run.written, run.bound

    try:
        placed(workload, configuration.graph)
        space = configuration.space(workload)
        effort.proven = PROVEN * least_of(workload, configuration, space=space).cycles
        trials = _tried(
            workload, configuration, space, configuration.accelerator.top_k, effort, simulated, fewest_cycles)
    except (_Unknown, MappingError, StreamError):
        return None
    return min((trial.cycles for trial in trials), default=None)


def _other_ways(space: "Space", estimated: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The best of each way to keep operands that none of the ``first`` candidates has, where it is not hopeless."""
    tried = {space.way(i) for i in first.tolist()}
    found = [i for way, i in space.leaders(estimated).items()
             if way not in tried and estimated[i] <= HOPELESS * estimated[first[0]]]
    return np.array(found, np.int64)


def _of_mapping(
    workload: Workload, configuration: "Configuration", mapping: Mapping, heard: Heard | None
) -> cache.Entry:
    """The one mapping that is asked for, simulated: nothing is estimated. InputError where it does not fit."""
    runs = Simulations(configuration, Steps(workload.name, heard).hear, energies_decide=False)
    try:
        stream = configuration.emit(workload, mapping)
        with configuration.running(workload, mapping):
            run = runs.of(stream)
    except (MappingError, StreamError) as error:
        raise InputError(f"{workload.name}: the mapping that is asked for does not fit: {error}") from error
    return cache.Entry(mapping, run.timing, run.timing.cycles, 1, 1, 1, run.energy_if_any,
                       least_of(workload, configuration, is_listed=False).cycles)  # it need not be in the space


def _variants(mapping: Mapping) -> Iterator[Mapping]:
    """The mapping with its stores placed the other way, and with half the result tiles, where it has any."""
    slots = dict(mapping.buffers)
    if "C" not in slots:
        return
    if mapping.kind == "gemm":
        yield replace(mapping, store="after" if mapping.store == "interleave" else "interleave")
    if slots["C"] > 1:
        halved = tuple((name, count // 2 if name == "C" else count) for name, count in mapping.buffers)
        yield replace(mapping, buffers=halved)


def key_of(
    workload: Workload, configuration: "Configuration", top_k: int | None = None, objective: str = "time"
) -> str:
    """By what the plan of a workload is known: everything that it depends on."""
    top_k = configuration.accelerator.top_k if top_k is None else top_k
    asked = None if configuration.asked is None else configuration.asked.of(workload)
    return cache.key_of([
        configuration.accelerator.code, configuration.fingerprint, _text(plain(workload)), str(top_k), objective,
        *(workload.constants if rooms(configuration.graph) else ()), *(() if asked is None else (repr(asked),)),
        *(("to the last cycle",) if patience() is None else ()),
    ])


@lru_cache(maxsize=256)
def _text(workload: Workload) -> str:
    return repr(workload)
