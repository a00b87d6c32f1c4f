"""A study of Optuna's that a search writes to, for Optuna's dashboard and plots, whoever proposes its candidates.

A candidate is a trial of it: complete where it was measured, pruned where bounds ruled it out, failed where it failed.
Its key, by which it is told whether it is there, and all else are attributes of the trial. What proposes candidates
does not read the study.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from archloom.oracle.errors import InputError
from archloom.oracle.user_code import told
from archloom.tvm_backend.search.objectives import Aims
from archloom.tvm_backend.search.samplers import missing
from archloom.tvm_backend.search.store import Row, State, plain
from archloom.tvm_backend.search.trials import DecidedTrial, Domain, Trial

KEY = "key"
"""The attribute by which a candidate is known."""
_STATES: Mapping[State, str] = {"measured": "COMPLETE", "bounded": "PRUNED", "failed": "FAIL"}
_CHOICES = (int, float, str, bool, type(None))


class Study:
    """``given``: a study; or its storage, an object, an URL (``sqlite:///study.db``) or a journal's file, in which it
    has the ``name``. InputError for a study of other objectives."""

    def __init__(self, given: Any, name: str, aims: Aims) -> None:
        try:
            import optuna
        except ImportError as error:
            raise missing("Optuna") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._constraints = tuple(map(str, aims.constraints))
        ways: list[Literal["maximize", "minimize"]] = [
            "maximize" if o.maximize else "minimize" for o in aims.objectives]
        self.label = f"study {name!r} of {given}"
        with self._told():
            self._study = given if isinstance(given, optuna.Study) else optuna.create_study(
                storage=_storage(given), study_name=name, directions=ways, load_if_exists=True)
            found = [way.name.lower() for way in self._study.directions]
            if found != ways:
                raise InputError(f"{self.label}: expected {' and '.join(ways)}, found {' and '.join(found)}")
            self._study.set_metric_names([o.name for o in aims.objectives])
            self._known = {trial.user_attrs.get(KEY) for trial in self._study.get_trials(deepcopy=False)}

    def add(self, trial: Trial, row: Row) -> None:
        """A candidate that is done, unless it is there; InputError where it cannot be written."""
        if row.key in self._known:
            return
        import optuna

        measured = row.state == "measured"
        with self._told():
            domains = _distributions(trial)
            self._study.add_trial(optuna.trial.create_trial(
                state=optuna.trial.TrialState[_STATES[row.state]], values=_numbers(row.values) if measured else None,
                params={name: _choice(value) for name, value in trial.params.items()}, distributions=domains,
                user_attrs={**plain(trial.user_attrs), **_attributes(row)},
                constraints=dict(zip(self._constraints, _numbers(row.violations))) if measured else None))
        self._known.add(row.key)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Whatever storages raise, as what cannot be written; nothing is said of what is experimental."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                yield
            except InputError:
                raise
            except Exception as error:
                raise InputError(f"{self.label}: {told(error)}") from error


def _numbers(values: Sequence[float | None]) -> list[float]:
    """Those of a candidate that was measured are all known."""
    return [value for value in values if value is not None]


def _storage(given: Any) -> Any:
    """As Optuna takes it."""
    if not isinstance(given, str | Path) or "://" in str(given):
        return given
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(given)))


def _attributes(row: Row) -> dict[str, Any]:
    """All of a row that is no part of a trial of Optuna's."""
    known = {KEY: row.key, **plain(row.candidate), "figures": row.figures, "took": row.took, "error": row.error}
    bounds = {"bounds": list(row.values)} if row.state == "bounded" else {}
    return {name: value for name, value in (known | bounds).items() if value is not None}


def _distributions(trial: Trial) -> dict[str, Any]:
    from optuna.distributions import CategoricalDistribution

    if isinstance(trial, DecidedTrial):
        return {name: _distribution(domain) for name, domain in trial.domains.items()}
    found = dict(trial.distributions)  # type: ignore[attr-defined]  # one of Optuna's
    return {name: CategoricalDistribution(list(map(_choice, domain.choices)))
            if isinstance(domain, CategoricalDistribution) else domain for name, domain in found.items()}


def _distribution(domain: Domain) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if domain.choices:
        return CategoricalDistribution(list(map(_choice, domain.choices)))
    if domain.whole:
        return IntDistribution(int(domain.low), int(domain.high), domain.log, int(domain.step))
    return FloatDistribution(domain.low, domain.high, domain.log, domain.step or None)


def _choice(value: Any) -> Any:
    """Optuna's storages hold plain values alone; NumPy's numbers are such."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, _CHOICES) else str(value)
