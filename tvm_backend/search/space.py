"""A space: a function of a trial that returns a candidate, written by a user."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from archloom.oracle.errors import ArchloomError, InputError
from archloom.oracle.user_code import in_user_code, told
from archloom.tvm_backend.search.candidate import Candidate, checked
from archloom.tvm_backend.search.trials import Trial
from archloom.tvm_backend.targets import registry

FUNCTION = "space"
"""What the function is called in a file."""


@dataclass(frozen=True)
class Space:
    """``make`` returns a candidate, or a network."""

    make: Callable[[Any], Any]
    name: str

    def candidate(self, trial: Trial) -> Candidate:
        """What the space makes of a trial; ArchloomError with file and line where it fails."""
        try:
            with in_user_code(lambda: f"{self.name}, at {trial.params}"):
                return checked(self.make(trial))
        except ArchloomError:
            raise
        except Exception as error:  # of code without a file, as in notebooks
            raise InputError(f"{self.name}, at {trial.params}: {told(error)}") from error

    def tried(self, trial: Trial) -> None:
        """Make the space ask for its parameters; whether it fails afterwards is found out when it counts."""
        with suppress(ArchloomError):
            self.candidate(trial)


def space_of(given: Any) -> Space:
    """Of a function, or of a file that has one of the name ``space``."""
    if callable(given):
        function = given
        while isinstance(function, partial):
            function = function.func
        _send_by_value(function)
        return Space(given, getattr(function, "__qualname__", type(function).__name__))
    if isinstance(given, str | Path):
        return _of_file(Path(given))
    raise InputError(f"space: expected a function of a trial, or a Python file with one called {FUNCTION!r}; found "
                     f"{type(given).__name__}")


def _of_file(path: Path) -> Space:
    names = registry.run_file(path).values
    if not callable(names.get(FUNCTION)):
        raise InputError(f"{path}: expected a function {FUNCTION!r} of a trial, found none")
    _send_by_value(names[FUNCTION])
    return Space(names[FUNCTION], str(path))


def _send_by_value(function: Any) -> None:
    """Send what the function's module defines to other processes as it is: they need not find the module."""
    module = sys.modules.get(getattr(function, "__module__", ""))
    if module is None or module.__name__ == "__main__" or module.__name__.startswith("archloom."):
        return
    with suppress(ImportError):  # then processes can only be sent what they find
        import cloudpickle

        cloudpickle.register_pickle_by_value(module)
