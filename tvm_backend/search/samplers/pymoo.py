"""Algorithms of pymoo's, asked for a generation at a time: a trial costs them little, however many there were."""

from __future__ import annotations

import itertools
from collections import deque
from random import Random
from typing import Any

import numpy as np

from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.objectives import Aims
from archloom.tvm_backend.search.samplers import Told, missing
from archloom.tvm_backend.search.space import Space
from archloom.tvm_backend.search.trials import DecidedTrial, Domain, Trial

POPULATION = 100
LOOKS = 64
"""Random trials by which the parameters of a space are found: some may be there for values of others only."""


class Generations:
    """A genome has a number from 0 to 1 for each parameter. All trials of a generation may be under way together, and
    are told in their order, so that what follows does not depend on which of them end first."""

    is_done, learns = False, True
    ahead: int | None = 1 << 30

    def __init__(self, given: Any, space: Space, aims: Aims, seed: int, trials: int | None) -> None:
        try:
            from pymoo.core.problem import Problem
            from pymoo.core.termination import NoTermination
        except ImportError as error:
            raise missing("pymoo") from error
        self._genes = {name: i for i, name in enumerate(_parameters(space, seed))}
        self._shape = len(aims.objectives), len(aims.constraints) + 1  # the last one says whether it failed
        self._algorithm = _nsga2(trials) if given is None else given
        self.name = f"pymoo's {type(self._algorithm).__name__}, a generation at a time"
        problem = Problem(n_var=len(self._genes), n_obj=self._shape[0], n_ieq_constr=self._shape[1], xl=0.0, xu=1.0)
        self._algorithm.setup(problem, termination=NoTermination(), seed=seed, verbose=False)
        self._problem = problem
        self._waiting: deque[DecidedTrial] = deque()
        self._asked: list[DecidedTrial] = []
        self._told: dict[int, Told | None] = {}
        self._numbers = itertools.count()

    def ask(self) -> DecidedTrial | None:
        if not self._asked:
            self._generation = self._algorithm.ask()
            self._asked = [self._trial(genome) for genome in self._generation.get("X")]
            self._waiting.extend(self._asked)
        return self._waiting.popleft() if self._waiting else None

    def _trial(self, genome: np.ndarray) -> DecidedTrial:
        def decide(domain: Domain) -> Any:
            if domain.name not in self._genes:
                raise InputError(f"parameter {domain.name!r}: was in none of the first {LOOKS} trials; this sampler "
                                 "takes spaces whose parameters are found in so many")
            return domain.within(float(genome[self._genes[domain.name]]))

        return DecidedTrial(decide, next(self._numbers))

    def tell(self, trial: Trial, found: Told | None) -> None:
        self._told[id(trial)] = found
        if len(self._told) < len(self._asked):
            return
        from pymoo.core.evaluator import Evaluator
        from pymoo.problems.static import StaticProblem

        rows = [self._row(self._told[id(asked)]) for asked in self._asked]
        objectives = self._shape[0]
        found_values = np.array(rows)
        Evaluator().eval(StaticProblem(self._problem, F=found_values[:, :objectives], G=found_values[:, objectives:]),
                         self._generation)
        self._algorithm.tell(infills=self._generation)
        self._asked, self._told = [], {}

    def _row(self, told: Told | None) -> list[float]:
        if told is None:
            return [0.0] * self._shape[0] + [0.0] * (self._shape[1] - 1) + [1.0]
        return [*told.values, *told.violations, 0.0]


def _nsga2(trials: int | None) -> Any:
    from pymoo.algorithms.moo.nsga2 import NSGA2

    return NSGA2(pop_size=POPULATION if trials is None else max(2, min(POPULATION, trials)))


def _parameters(space: Space, seed: int) -> list[str]:
    """Names of the parameters in random trials, in their order; where there is none, what the space fails with, or
    InputError."""
    random, found = Random(seed), dict[str, None]()

    def drawn() -> DecidedTrial:
        return DecidedTrial(lambda domain: domain.within(random.random()))

    for _ in range(LOOKS):
        trial = drawn()
        space.tried(trial)
        found.update(dict.fromkeys(trial.params))
    if not found:
        space.candidate(drawn())
        raise InputError(f"{space.name}: suggests no parameter: there is nothing to search")
    return list(found)
