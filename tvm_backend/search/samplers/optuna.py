"""Samplers of Optuna's, asked for a trial at a time."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.objectives import Aims
from archloom.tvm_backend.search.samplers import Told, missing, require_one
from archloom.tvm_backend.search.trials import Trial

_CLASSES: Mapping[str, str] = {
    "tpe": "TPESampler", "nsga2": "NSGAIISampler", "cmaes": "CmaEsSampler", "qmc": "QMCSampler",
    "random": "RandomSampler", "gp": "GPSampler"}
_OF_ONE = frozenset(("cmaes",))


class Study:
    """A study in memory; ``given`` is a sampler or its name."""

    ahead: int | None = None
    is_done, learns = False, True

    def __init__(self, given: Any, aims: Aims, seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise missing("Optuna") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        # this study is never stored, so that choices may be of any type
        warnings.filterwarnings("ignore", "Choices for a categorical distribution", UserWarning)
        if isinstance(given, str) and given in _OF_ONE:
            require_one(aims, given)
        own = _made(getattr(optuna.samplers, _CLASSES[given]), seed) if isinstance(given, str) else given
        self.name = f"Optuna's {type(own).__name__}"
        self._failed = optuna.trial.TrialState.FAIL
        self._constraints = tuple(map(str, aims.constraints))
        self._study = optuna.create_study(directions=["minimize"] * len(aims.objectives), sampler=own)

    def ask(self) -> Trial:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of experimental samplers
            return self._study.ask()

    def tell(self, trial: Any, found: Told | None) -> None:
        if found is None:
            self._study.tell(trial, state=self._failed)
            return
        for name, violation in zip(self._constraints, found.violations):
            trial.set_constraint(name, violation)
        self._study.tell(trial, list(found.values))


def _made(kind: Callable[..., Any], seed: int) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # experimental ones say so
        try:
            return kind(seed=seed)
        except ImportError as error:
            raise InputError(f"{getattr(kind, '__name__', kind)}: {error}: pip install 'archloom[search]'") from error
