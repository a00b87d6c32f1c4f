"""A candidate of a search, and the key by which it is told from others: its content."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from archloom.mapper.cache import key_of
from archloom.oracle.errors import InputError
from archloom.tvm_backend.estimate.request import Request
from archloom.tvm_backend.search import content
from archloom.tvm_backend.sources.source import is_network
from archloom.tvm_backend.targets.choice import choose, named_options, names_of, spelled

Own: TypeAlias = "float | Callable[[], float]"
"""A figure of the user's: a number, or what is called for it once for each content that it has."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One or several networks on a machine.

    ``network``: whatever :func:`archloom.load` takes, a pair of a torch module and its example inputs, or a function
    without arguments that makes one of these, which is called where the network is new; a list of them is a workload
    of several, of which each counts ``weights`` times (once by default). ``figures``: numbers of the user's own by
    name, or functions without arguments that find them. ``as_int8``: float networks as if they were quantized.
    """

    network: Any
    target: str | Sequence[str] = "gemmini"
    options: Mapping[str, Any] = field(default_factory=dict)
    figures: Mapping[str, Own] = field(default_factory=dict)
    weights: Sequence[float] | None = None
    as_int8: bool = False

    @cached_property
    def networks(self) -> tuple[Any, ...]:
        """The networks; InputError where there is none."""
        found = tuple(self.network) if isinstance(self.network, list) else (self.network,)
        if not found:
            raise InputError("network: expected at least one, found an empty list")
        return found

    @cached_property
    def counts(self) -> tuple[float, ...]:
        """How often each network counts; InputError where weights and networks do not fit together."""
        found = (1.0,) * len(self.networks) if self.weights is None else tuple(map(float, self.weights))
        if len(found) != len(self.networks) or not all(0 < weight < float("inf") for weight in found):
            raise InputError(f"weights: expected {len(self.networks)} positive numbers, one for each network; found "
                             f"{list(found)}")
        return found

    @cached_property
    def resolved(self) -> dict[str, Any]:
        """All options of the targets with their values; TargetError for those that are not taken."""
        return dict(named_options(choose(spelled(self.target), self.options)))

    @cached_property
    def network_keys(self) -> tuple[str, ...]:
        return tuple(map(content.of_network, self.networks))

    @cached_property
    def figure_keys(self) -> dict[str, str]:
        """By name the content of the figures that are functions."""
        return {name: key_of(["figure", content.of_function(value)])
                for name, value in self.figures.items() if callable(value)}

    @cached_property
    def key(self) -> str:
        """SHA-256 of all that its results follow from, but for archloom's code."""
        given = {name: number(name, value) for name, value in self.figures.items() if not callable(value)}
        return key_of([
            *map(content.of_target, names_of(self.target)), Request(spelled(self.target), self.resolved).text(),
            json.dumps([self.network_keys, self.counts, self.as_int8, self.figure_keys, given], sort_keys=True)])

    def to_json(self) -> dict[str, Any]:
        """What people call its parts; ``named``: whether these are names and files that a command takes, too."""
        return {"networks": [content.title(network) for network in self.networks], "weights": list(self.counts),
                "target": spelled(self.target), "options": dict(self.options), "as_int8": self.as_int8,
                "named": all(isinstance(network, str | Path) for network in self.networks)}


def number(name: str, value: Any, kind: str = "figure") -> float:
    """A figure or objective of the user's as a number; InputError where it is none."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InputError(f"{kind} {name!r}: expected a number, found {value!r}") from None


def checked(made: Any) -> Candidate:
    """What a space has returned, if it is a candidate; InputError otherwise."""
    if isinstance(made, Candidate):
        return made
    if is_network(content.split(made)[0]):
        return Candidate(made)
    raise InputError("a space returns a Candidate, a network, or a pair of a module and its example inputs; found "
                     f"{type(made).__name__}")
