"""Samplers by name, or of an object of Optuna's or pymoo's."""

from __future__ import annotations

from typing import Any

from archloom.oracle.errors import InputError, suggest
from archloom.tvm_backend.search.objectives import Aims
from archloom.tvm_backend.search.samplers import Sampler
from archloom.tvm_backend.search.space import Space

MANY = 1000
"""Trials from which on pymoo's sampler is taken where none is named: Optuna's take longer with each trial."""

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
    refuse_unknown(given)
    raise InputError(f"sampler: expected one of {', '.join(NAMES)}, or a sampler of Optuna's or an algorithm of "
                     f"pymoo's; found {type(given).__name__}")


def refuse_unknown(given: Any) -> None:
    """InputError for a name that no sampler has."""
    if isinstance(given, str) and given not in NAMES:
        raise InputError(f"sampler {given!r}: unknown{suggest(given, list(NAMES))}")
