"""What proposes candidates, and what it is told of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.objectives import Aims
from archloom.tvm_backend.search.trials import Trial


@dataclass(frozen=True)
class Told:
    """What became of a trial: values of the objectives (less is better) and violations of the constraints; None where
    it failed."""

    values: tuple[float, ...]
    violations: tuple[float, ...]


class Sampler(Protocol):
    """``name`` says what is used, ``ahead`` how many trials may be asked for before any is told, None for as many as
    there are workers; ``learns``: whether trials depend on what it was told of others."""

    name: str
    ahead: int | None
    learns: bool

    def ask(self) -> Trial | None:
        """The next trial; None where there is none, or none before others are told."""

    def tell(self, trial: Trial, found: Told | None) -> None:
        """What became of a trial."""

    @property
    def is_done(self) -> bool:
        """Whether there will be no further trial."""


def require_one(aims: Aims, name: str) -> None:
    """InputError for several objectives."""
    if len(aims.objectives) > 1:
        raise InputError(f"sampler {name!r}: takes one objective, found {len(aims.objectives)}")


def missing(package: str) -> InputError:
    """The error for what is not installed."""
    return InputError(f"{package} is not installed: pip install 'archloom[search]'")

