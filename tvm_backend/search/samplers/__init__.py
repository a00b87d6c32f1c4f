"""What proposes candidates, by name or as an object of Optuna's or pymoo's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.search.objectives import Aims
from archloom.tvm_backend.search.space import Space
from archloom.tvm_backend.search.trials import Trial

MANY = 1000
"""Trials from which on pymoo's sampler is taken where none is named: Optuna's take longer with each trial."""


@dataclass(frozen=True)
class Told:
    """What became of a trial: values of the objectives (less is better) and violations of the constraints; None where
    it failed."""

    values: tuple[float, ...]
    violations: tuple[float, ...]


class Sampler(Protocol):
    """``name`` says what is used, ``ahead`` how many trials may be asked for before any is told, None for as many as
    there are workers."""

    name: str
    ahead: int | None

    def ask(self) -> Trial | None:
        """The next trial; None where there is none, or none before others are told."""

    def tell(self, trial: Trial, found: Told | None) -> None:
        """What became of a trial."""

    @property
    def is_done(self) -> bool:
        """Whether there will be no further trial."""


OPTUNA = ("tpe", "nsga2", "cmaes", "qmc", "random", "gp")
NAMES = (*OPTUNA, "grid", "pymoo")


def sampler(given: Any, space: Space, aims: Aims, seed: int, trials: int | None) -> Sampler:
    """The sampler of a name or an object; by default TPE, and pymoo's NSGA-II for more than ``MANY`` trials."""
    if given is None:
        given = "tpe" if trials is not None and trials <= MANY else "pymoo"
    if given == "grid":
        from archloom.tvm_backend.search.samplers.grid import Grid

        return Grid()
    kind = type(given).__module__.partition(".")[0]
    if given == "pymoo" or kind == "pymoo":
        from archloom.tvm_backend.search.samplers.pymoo import Generations

        return Generations(None if given == "pymoo" else given, space, aims, seed, trials)
    if given in OPTUNA or kind in ("optuna", "optunahub") or hasattr(given, "sample_relative"):
        from archloom.tvm_backend.search.samplers.optuna import Study

        return Study(given, aims, seed)
    if isinstance(given, str):
        raise InputError(f"sampler {given!r}: unknown{suggest(given, list(NAMES))}")
    raise InputError(f"sampler: expected one of {', '.join(NAMES)}, or a sampler of Optuna's or an algorithm of "
                     f"pymoo's; found {type(given).__name__}")


def require_one(aims: Aims, name: str) -> None:
    """InputError for several objectives."""
    if len(aims.objectives) > 1:
        raise InputError(f"sampler {name!r}: takes one objective, found {len(aims.objectives)}")


def missing(package: str) -> InputError:
    """The error for what is not installed."""
    return InputError(f"{package} is not installed: pip install 'archloom[search]'")

