"""The trials of every search: candidates in the order of their estimates are simulated, the best and what is like it.

One core or many, a product or attention: a search ranks its candidates, and this tries the first of them out.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from archloom.acadl_models.timing import Heard, Patience, TimingResult
from archloom.oracle.errors import InputError, MappingError, StreamError

Objective: TypeAlias = Callable[[Any, Any], Any]
"""Of seconds and joules, the less the better. Candidates are ranked with arrays of both, trials with numbers; where the
graph states no energies, joules are None."""

OBJECTIVES: dict[str, Objective] = {
    "time": lambda seconds, joules: seconds, "energy": lambda seconds, joules: joules,
    "edp": lambda seconds, joules: seconds * joules}
"""``edp``: the product of energy and delay."""


def objective_of(given: "str | Objective") -> Objective:
    """The function that a name stands for, or the one that is given; MappingError for another name."""
    if callable(given):
        return given
    if given not in OBJECTIVES:
        raise MappingError(f"objective {given!r} is none of {', '.join(OBJECTIVES)}, and no function")
    return OBJECTIVES[given]


def is_time(objective: Objective) -> bool:
    """Whether energies need not be found out."""
    return objective is OBJECTIVES["time"]

MOST_STEPPED = 8_000_000
"""Instructions that the simulations of one search step through at most once there is a plan: one that would go on is
given up. Two seconds or three; a free choice."""

LONGEST = 100_000_000
"""Instructions that the first simulation of a search steps through at most: without it there is no plan. Half a minute;
a free choice, made with layers of ResNet-18 on OMA in view, which take 16 million."""

ENVIRONMENT = "ARCHLOOM_MOST_STEPS"
"""Another number in place of LONGEST; whoever states one waits for all cycles: nothing is taken in proportion."""

STEPPED_BUDGET = 200_000
"""Instructions that the simulations of one search step through before they stop short of ``top_k``."""

WRITTEN_BUDGET = 2_500
"""Instructions written in the streams of one search (those of a loop once) before it stops short of ``top_k``."""

BOUND_BUDGET = 10_000
"""Instructions of the programs of one search before it stops short of ``top_k``: binding copies those of loops over
units. A free choice: of 30 random convolutions of Eyeriss, none of which is judged, plans lose 0.1 % in the mean."""

NEAR, ALIKE = 1.003, 9
"""Candidates whose estimates are so close to the best are tried beyond ``top_k``, too, up to so many of all."""

EASY, SMALL, HOPELESS = 1500, 4, 1.3
"""Where all simulations so far have stepped through fewer instructions, so many times ``top_k`` are tried, but of
those beyond none whose estimate is so many times the lowest. The last is a free choice: of 330 random layers of five
targets, none of which is judged, no plan was lost."""

PROVEN = 1.01
"""A search ends with a plan that takes no more than so many times the cycles that are proven to be the least. A free
choice: of 510 random layers of Gemmini and 60 of QKV, none of which is judged, no plan lost more than 0.6 %."""

MOST_REFUSED = 50
"""Candidates that may turn out to be impossible before a search gives up."""

P = TypeVar("P")


class GivenUp(MappingError):
    """A simulation takes more steps than a search may."""


def longest() -> int:
    """What the first simulation of a search may step through; InputError for a number that is none."""
    asked = os.environ.get(ENVIRONMENT, "")
    if asked and not (asked.isdecimal() and int(asked)):
        raise InputError(f"{ENVIRONMENT}: expected a number of instructions, found {asked!r}")
    return int(asked or LONGEST)


def patience() -> Patience | None:
    """How long simulations of searches are waited for; None: to the last cycle."""
    return None if os.environ.get(ENVIRONMENT, "") else Patience()


@dataclass
class Steps:
    """Instructions that the simulations of a search have stepped through: the ``first`` at most, all of them ``most``;
    ``heard`` is told how far long ones are. One that was so long that it was taken in proportion is the last."""

    name: str
    heard: Heard | None = None
    first: float = field(default_factory=longest)
    most: float = field(default_factory=lambda: MOST_STEPPED)
    done: int = 0
    exact: bool = True

    @property
    def allowed(self) -> float:
        """What may be done in all by the end of the simulation that is next."""
        return self.most if self.done else self.first

    def hear(self, stepped: int, finished: int, total: int) -> None:
        """Of a simulation under way; GivenUp where it takes too many, with its steps among those done."""
        if self.heard is not None:
            self.heard(stepped, finished, total)
        most = self.allowed
        if self.done + stepped >= most:
            self.done += stepped
            raise GivenUp(
                f"{self.name}: too long to simulate: {self.done:,} instructions were stepped through, and a search may "
                f"step through {most:,} (${ENVIRONMENT}); {finished / total:.1%} of the {total:,} of this stream are "
                "finished")

    def add(self, timing: "TimingResult") -> None:
        """Of a simulation that has ended."""
        self.done += timing.stepped_instructions
        self.exact &= timing.exact

    def spent(self) -> bool:
        return self.done >= self.most or not self.exact


@dataclass
class Effort:
    """What the simulations of one search have cost, against what they may: ``patience`` times what others may; and
    whether more of them are of use: a plan of so few cycles is ``proven`` to be nearly the best."""

    steps: Steps
    patience: int
    written: int = 0
    bound: int = 0
    proven: float = 0
    fewest: float = float("inf")

    def add(self, written: int, bound: int, timing: TimingResult) -> None:
        """Of a simulation that has ended, of a stream in which so many instructions are written, and whose program has
        so many."""
        self.steps.add(timing)
        self.written += written
        self.bound += bound
        self.fewest = min(self.fewest, timing.cycles)

    def spent(self) -> bool:
        if self.fewest <= self.proven:
            return True
        stepped = self.steps.spent() or self.steps.done > self.patience * STEPPED_BUDGET
        return stepped or self.written > WRITTEN_BUDGET or self.bound > BOUND_BUDGET

    @property
    def near(self) -> float:
        """How far over the best an estimate may be to be tried beyond the first ones."""
        return 1 + self.patience * (NEAR - 1)

    def easy(self) -> bool:
        """Whether more than the first ones are tried as they cost little."""
        return self.steps.done < self.patience * EASY


@dataclass(frozen=True)
class Trial(Generic[P]):
    """A plan that was simulated, and what the cost model had expected."""

    plan: P
    estimated_cycles: float
    timing: "TimingResult"

    @property
    def cycles(self) -> int:
        return self.timing.cycles


def fewest_cycles(trial: Trial[P]) -> float:
    """The objective that is meant where nothing else is said."""
    return trial.cycles


def explore(
    ranked: Iterable[tuple[P, float]], attempt: Callable[[P, float], Trial[P]], *, top_k: int,
    score: Callable[[Trial[P]], float] = fewest_cycles, variants: Callable[[P], Iterable[P]] | None = None,
    enough: Callable[[], bool] = lambda: False, heard: Callable[[Trial[P]], None] | None = None,
    further: Callable[[int, float], bool] = lambda tried, over: False, beaten: Callable[[P], bool] = lambda plan: False,
    others: Sequence[tuple[P, float]] = (),
) -> tuple[Trial[P], ...]:
    """The trials, in their order: the first ``top_k`` of ``ranked`` (plans with estimates) that are possible, the
    ``others``, then the ``variants`` of the one with the lowest ``score``.

    ``attempt`` simulates a plan; where it raises a MappingError, or the plan's stream cannot be resolved, the next one
    is tried instead. ``enough`` ends the search early, once there is a trial; ``further`` says whether to try one more
    than ``top_k``, of how many were tried and what it is estimated at, over the best; a plan that is ``beaten`` counts
    as tried, without a simulation, once there is a trial; ``heard`` is told each trial. The first of those errors is
    raised where no plan is possible, a GivenUp at once where there is no trial so far; without any plan the trials are
    none.
    """
    trials: dict[P, Trial[P]] = {}
    refused, first = 0, None
    passed: list[P] = []

    def take(plan: P, estimate: float) -> None:
        nonlocal refused, first
        try:
            trial = attempt(plan, estimate)
        except (MappingError, StreamError) as error:
            if isinstance(error, GivenUp) and not trials:
                raise
            refused, first = refused + 1, first or error  # one alone, as their frames hold streams
            return
        trials[plan] = trial
        if heard is not None:
            heard(trial)

    lowest = 0.0
    for plan, estimate in _followed(ranked, others, lambda: len(trials) + len(passed) >= top_k):
        lowest = lowest or estimate
        tried = len(trials) + len(passed)
        if tried >= top_k + len(others) and not further(tried, estimate / lowest if lowest else 1):
            break
        if plan in trials:
            continue
        if trials and beaten(plan):
            passed.append(plan)
            continue
        take(plan, estimate)
        if refused == MOST_REFUSED or (trials and enough()):
            break
    if not trials and first is not None:
        raise first
    if trials and variants is not None:
        best = min(trials.values(), key=score)
        for plan in variants(best.plan):
            if plan not in trials and not beaten(plan) and not enough():
                take(plan, best.estimated_cycles)
    return tuple(trials.values())


def _followed(
    ranked: Iterable[tuple[P, float]], others: Sequence[tuple[P, float]], are_due: Callable[[], bool]
) -> Iterator[tuple[P, float]]:
    """What is ranked, with the ``others`` from when they are due, at the latest behind the last."""
    left = list(others)
    for each in ranked:
        while left and are_due():
            yield left.pop(0)
        yield each
    yield from left


def least(estimated: "np.ndarray[Any, Any]", count: int | None = None) -> "np.ndarray[Any, Any]":
    """Numbers of the candidates with the ``count`` (None: all) lowest estimates, in that order; the first of equals."""
    if count is None or count >= len(estimated):
        return np.argsort(estimated, kind="stable")
    first = np.argpartition(estimated, count - 1)[:count]
    found: np.ndarray[Any, Any] = first[np.lexsort((first, estimated[first]))]
    return found


def ranked(
    numbers: "np.ndarray[Any, Any]", plan_of: Callable[[int], P], *,
    same: Callable[[int, P], Hashable] | None = None, family: Callable[[int, P], Hashable | None] | None = None,
    most: int = 3,
) -> Iterator[tuple[int, P]]:
    """Candidates worth a simulation, with their plans: in the order of ``numbers``, of those that are the ``same`` the
    first, and of one ``family`` (None: like no other) ``most`` at most, as the model errs alike for them."""
    seen: set[Hashable] = set()
    taken: Counter[Hashable] = Counter()
    for i in numbers.tolist():
        plan = plan_of(i)
        key = None if same is None else same(i, plan)
        kind = None if family is None else family(i, plan)
        if (same is not None and key in seen) or (kind is not None and taken[kind] >= most):
            continue
        seen.add(key)
        if kind is not None:
            taken[kind] += 1
        yield i, plan
