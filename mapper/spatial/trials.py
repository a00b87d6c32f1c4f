"""The trials of every search on a mesh of cores: candidates are ranked by an objective, the first ones simulated.

A search of any workload has a space of candidates, their estimated cycles and joules, and what emits a plan; all else
is the same for products, attention, chains, convolutions and sweeps, and stands here. The trials themselves
are those of :mod:`archloom.mapper.explore`, which searches on a single core share.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Generic, Protocol, TypeVar

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import Heard
from archloom.acadl_models.timing.energy import has_energy
from archloom.mapper.asked import Allowed
from archloom.mapper.explore import (
    EASY,
    HOPELESS,
    OBJECTIVES,
    SMALL,
    Objective,
    Steps,
    Trial,
    explore,
    is_time,
    least,
    objective_of,
    patience,
    ranked,
)
from archloom.mapper.spatial.machines.machine import Machine
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.rates import Rates, measured_joules
from archloom.oracle.errors import MappingError
from archloom.oracle.stream import Stream

TOP_K = 5
"""Candidates that are simulated, as in the paper."""

ALIKE = 3
"""Of candidates that are alike so many are simulated at most: the model's errors are alike, too."""

MOST_EXHAUSTIVE = 20_000
"""Candidates that are simulated one and all when this is asked for."""

_RANKED = 800
"""Candidates in order for each that is to be simulated: more than what is skipped because it is like others."""

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)
W = TypeVar("W")


class Candidates(Protocol[P_co]):
    """A space of plans."""

    def __len__(self) -> int: ...
    def plan(self, i: int, /) -> P_co: ...


@dataclass(frozen=True)
class Measured(Trial[P]):
    """A plan that was simulated, what it costs by the search's objective, and its energy where that is asked for."""

    score: float
    joules: float | None = None


@dataclass(frozen=True)
class Found(Generic[W, P]):
    """What a search found: the best of ``trials``, which are in the order of their estimates."""

    work: W
    trials: tuple[Measured[P], ...]
    considered: int

    @property
    def best(self) -> Measured[P]:
        return min(self.trials, key=_score)


def _score(trial: Trial[P]) -> float:
    assert isinstance(trial, Measured)
    return trial.score


@dataclass(frozen=True)
class Wishes(Generic[P]):
    """What is asked of a search.

    ``top_k``: candidates that are simulated. ``objective``: "time", "energy", "edp" or a function of seconds and joules
    (:mod:`archloom.mapper.explore`). ``exhaustive``: every candidate is simulated, of which there may be at most
    MOST_EXHAUSTIVE. ``progress`` is told every trial, ``begun`` each plan that is about to be simulated, with the
    cycles that it is expected to take, ``heard`` how far its simulation is. ``allowed``: the plans that the user asks
    for (None: all).
    """

    top_k: int = TOP_K
    objective: str | Objective = "time"
    exhaustive: bool = False
    progress: Callable[[Measured[P]], None] | None = None
    begun: Callable[[P, float], None] | None = None
    heard: Heard | None = None
    allowed: Allowed[P] | None = None


class Attempts(Generic[P]):
    """What plans cost on a graph, as the models expect it and as it is measured."""

    def __init__(
        self, graph: "ArchitectureGraph", objective: str | Objective, emit: Callable[[P, Machine], "Stream"]
    ) -> None:
        self.graph, self.objective, self.emit = graph, objective_of(objective), emit
        self.machine = Machine.of(graph)
        # a function of one's own may do without energies
        wanted = self.objective in OBJECTIVES.values() or has_energy(graph)
        self.rates = Rates.of(graph) if wanted and not is_time(self.objective) else None

    def cost(self, cycles: np.ndarray, joules: Callable[[Rates], np.ndarray]) -> np.ndarray:
        """By the models, what candidates of ``cycles`` cost, whose energies ``joules`` gives."""
        if is_time(self.objective):
            return cycles
        seconds = cycles / self.machine.clock_hz
        energy = None if self.rates is None else joules(self.rates) + self.rates.watts * seconds
        cost = np.asarray(self.objective(seconds, energy), np.float64)
        if cost.shape != cycles.shape:
            raise MappingError(f"the objective gives {cost.shape} numbers for {len(cycles)} candidates")
        return cost

    def attempt(self, plan: P, estimate: float, steps: Steps) -> Measured[P]:
        """The plan as it is simulated, with ``steps`` for all trials."""
        stream = self.emit(plan, self.machine)
        timing = simulated(stream, self.graph, steps.hear, patience=patience())
        steps.add(timing)
        energy = None if self.rates is None else measured_joules(stream, self.graph, timing)
        score = timing.cycles if is_time(self.objective) else float(self.objective(timing.seconds, energy))
        return Measured(plan, estimate, timing, score, energy)


def tried(
    work: W, found: Candidates[P], expected: tuple[np.ndarray, np.ndarray], attempts: Attempts[P], wishes: Wishes[P], *,
    same: Callable[[P, float], Hashable] | None = None, alike: Callable[[P], Hashable] | None = None,
    variants: Callable[[P], Iterable[P]] | None = None, considered: int | None = None,
) -> Found[W, P]:
    """The first candidates by what they are ``expected`` to cost (and to take in cycles), simulated.

    Of those that are the ``same``, by plan and cost, the first, and of those that are ``alike`` ALIKE at most; then the
    ``variants`` of the best. ``considered``: how many candidates there are, if ``found`` has not each of them once.
    """
    cost, cycles = expected
    count = wishes.top_k
    steps = Steps(str(work), wishes.heard)
    if wishes.exhaustive:
        steps.first = steps.most = inf
        if len(found) > MOST_EXHAUSTIVE:
            raise MappingError(f"{len(found)} plans for {work}: all are simulated only of up to {MOST_EXHAUSTIVE}")
        order: Iterator[tuple[int, P]] = ((i, found.plan(i)) for i in _numbers(found, cost, None, wishes).tolist())
        count, variants = len(found), None
    else:
        key = None if same is None else lambda i, plan: same(plan, float(cost[i]))
        likeness = None if alike is None else lambda _, plan: alike(plan)
        numbers = _numbers(found, cost, _RANKED * count, wishes)
        order = ranked(numbers, found.plan, same=key, family=likeness, most=ALIKE)

    def further(number: int, over: float) -> bool:
        """Whether another one is tried, as that costs little: estimates of short programs err most."""
        return is_time(attempts.objective) and over <= HOPELESS and steps.done < EASY and number < SMALL * count

    def attempt(plan: P, estimate: float) -> Measured[P]:
        if wishes.begun is not None:
            wishes.begun(plan, estimate)
        return attempts.attempt(plan, estimate, steps)

    trials = explore(
        ((plan, float(cycles[i])) for i, plan in order), attempt, top_k=count, score=_score,
        variants=_allowed(variants, wishes), enough=steps.spent, further=further,
        heard=wishes.progress)  # type: ignore[arg-type]
    measured = tuple(t for t in trials if isinstance(t, Measured))
    return Found(work, measured, len(found) if considered is None else considered)


def _numbers(found: Candidates[P], cost: np.ndarray, most: int | None, wishes: Wishes[P]) -> np.ndarray:
    """Candidates in the order of their costs, ``most`` at most; all that the user asks for, where something is."""
    return least(cost, most) if wishes.allowed is None else wishes.allowed.among(least(cost), found.plan)


def _allowed(
    variants: Callable[[P], Iterable[P]] | None, wishes: Wishes[P]
) -> Callable[[P], Iterable[P]] | None:
    """The variants of a plan that the user may ask for."""
    if variants is None or wishes.allowed is None:
        return variants
    return lambda plan: filter(wishes.allowed, variants(plan))
