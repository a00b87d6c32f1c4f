"""Sweeps: every combination of some options of a target, for given networks."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from archloom.oracle.errors import InputError
from archloom.tvm_backend.search.candidate import Candidate
from archloom.tvm_backend.search.content import refuse_unreadable
from archloom.tvm_backend.search.result import SearchResult
from archloom.tvm_backend.search.searching import search
from archloom.tvm_backend.search.trials import Trial
from archloom.tvm_backend.targets.choice import choose, named_options, spelled

MOST_VALUES = 10_000
"""That a range may stand for."""

_RANGE = re.compile(r"(-?\d{1,18})\.\.(-?\d{1,18})(?::([x+])(\d{1,18}))?")


def sweep(
    networks: Any, target: str | Sequence[str] = "gemmini", options: Mapping[str, Any] | None = None, *,
    weights: Sequence[float] | None = None, as_int8: bool = False, **how: Any,
) -> SearchResult:
    """Every combination of ``options``, of which those that are lists vary; ``how`` as for :func:`search`."""
    space = space_of_options(networks, target, options or {}, weights, as_int8)
    return search(space, **{"sampler": "grid", **how})


def space_of_options(
    networks: Any, target: str | Sequence[str], options: Mapping[str, Any], weights: Sequence[float] | None = None,
    as_int8: bool = False,
) -> Callable[[Trial], Candidate]:
    """The space of a sweep; before anything begins, TargetError where the target has no such options,
    InputError where there are other than as many weights as networks, and ModelError where one is not there."""
    varied = {name: list(values) for name, values in options.items() if isinstance(values, list | tuple | range)}
    if empty := [name for name, values in varied.items() if not values]:
        raise InputError(f"option {empty[0]!r}: expected at least one value, found none")
    name = spelled(target)
    fixed = {option: _read(name, option, value) for option, value in options.items() if option not in varied}
    varied = {option: [_read(name, option, value) for value in values] for option, values in varied.items()}

    def space(trial: Trial) -> Candidate:
        chosen = {option: trial.suggest_categorical(option, values) for option, values in varied.items()}
        return Candidate(networks, name, {**fixed, **chosen}, weights=weights, as_int8=as_int8)

    first = Candidate(networks, name, fixed, weights=weights)
    _ = first.counts  # which refuses weights that do not fit
    for network in first.networks:
        refuse_unreadable(network)
    return space


def _read(target: str, option: str, value: Any) -> Any:
    """The value of an option, which may be text, as the target takes it."""
    return named_options(choose(target, {option: value})).get(option, value)


def values_of(text: str) -> "str | list[str | int]":
    """What ``4..64:x2`` (4, 8, 16, 32, 64), ``1..9:+2``, ``1..4`` and ``64,128`` stand for; other texts themselves."""
    parts: list[str | int] = []
    for part in text.split(","):
        match = _RANGE.fullmatch(part.strip())
        parts += _range(text, match) if match else [part.strip()]
    return text if len(parts) == 1 and ".." not in text else parts


def _range(text: str, match: "re.Match[str]") -> list[int]:
    first, last, step = int(match[1]), int(match[2]), int(match[4] or 1)
    grows = step > 1 and first > 0 if match[3] == "x" else step > 0
    if first > last or not grows:
        raise InputError(f"range {text!r}: expected FIRST..LAST, FIRST..LAST:+STEP or FIRST..LAST:xFACTOR (2 or more, "
                         "from a FIRST above 0), ascending")
    found = [first]
    while (following := found[-1] * step if match[3] == "x" else found[-1] + step) <= last:
        found.append(following)
        if len(found) > MOST_VALUES:
            raise InputError(f"range {text!r}: stands for more than {MOST_VALUES:,} values")
    return found


def network_of(text: str) -> str | Path:
    """A network as a command names it: a path in full, so that workers find it wherever they are."""
    return Path(text).absolute() if Path(text).suffix and Path(text).exists() else text
