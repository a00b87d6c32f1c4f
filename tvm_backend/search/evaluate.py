"""What workers do: bounds and figures of a candidate. What they are asked and answer can be pickled."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from archloom.mapper.known import noted
from archloom.oracle.errors import ArchloomError, InputError
from archloom.oracle.memory import Remembered
from archloom.oracle.user_code import in_user_code, place_of, told
from archloom.tvm_backend.estimate.network import report_of
from archloom.tvm_backend.estimate.request import Request
from archloom.tvm_backend.host.profile import HostProfile
from archloom.tvm_backend.report.build import with_host
from archloom.tvm_backend.report.data import Report
from archloom.tvm_backend.search import content
from archloom.tvm_backend.search.candidate import Candidate, number
from archloom.tvm_backend.search.figures import ACCURACY, FIGURES, PEAK_BYTES, Mix, measured
from archloom.tvm_backend.search.objectives import Interval
from archloom.tvm_backend.sources.source import Source
from archloom.tvm_backend.targets.choice import spelled

_networks: Remembered[str, Any] = Remembered(64)
"""What functions have made, by the content of those."""
_own: Remembered[str, float] = Remembered(4096)
_IN_NUMBERS = frozenset(("name", "operator", "layers"))
"""Kinds of networks that are in the numbers of their target already."""


@dataclass(frozen=True)
class Context:
    """What is the same for all candidates: the host, the names of the figures that are asked for, functions of reports
    among them, and samples with labels for accuracies. ``notes``: what is simulated is kept for machines that are
    alike."""

    profile: HostProfile | None = None
    names: frozenset[str] = frozenset()
    functions: Mapping[str, Callable[[Report], float]] = field(default_factory=dict)
    inputs: Any = None
    labels: Any = None
    notes: bool = False

    @property
    def has_labels(self) -> bool:
        """Whether accuracies can be found; data sets by name have labels of their own."""
        return self.labels is not None or isinstance(self.inputs, str)


@dataclass(frozen=True)
class Question:
    """A candidate, those of the user's figures that were found before, by their keys, and its target as whoever
    answers finds it: by default by name."""

    candidate: Candidate
    known: Mapping[str, float] = field(default_factory=dict)
    target: str | None = None

    @property
    def asked(self) -> str:
        """The target, spelled."""
        return self.target or spelled(self.candidate.target)


@dataclass(frozen=True)
class Answer:
    """Figures by name, or the error; ``own``: the user's figures by their keys."""

    figures: dict[str, float | None] = field(default_factory=dict)
    own: dict[str, float] = field(default_factory=dict)
    error: str | None = None
    took: float = 0.0


def packed(thing: Any) -> bytes:
    """Bytes for other processes, which may not have the modules that functions in it come from."""
    try:
        import cloudpickle
    except ImportError:
        dumps = pickle.dumps
    else:
        dumps = cloudpickle.dumps
    try:
        return dumps(thing)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InputError(f"what a space gives cannot be sent to other processes: {error}; give networks as files, "
                         "names or functions of the file's top level, or use one worker") from error


@lru_cache(maxsize=4)
def _context(data: bytes) -> Context:
    found: Context = pickle.loads(data)  # noqa: S301  # what this very search has packed
    return found


def unpacked_bounds(context: bytes, question: bytes) -> Answer:
    """:func:`bounds_of` of what was packed."""
    return _unpacked(bounds_of, context, question)


def unpacked_known_bounds(context: bytes, question: bytes) -> Answer:
    """:func:`known_bounds_of` of what was packed."""
    return _unpacked(known_bounds_of, context, question)


def unpacked_figures(context: bytes, question: bytes) -> Answer:
    """:func:`figures_of` of what was packed."""
    return _unpacked(figures_of, context, question)


def _unpacked(find: Callable[[Context, Question], Answer], context: bytes, question: bytes) -> Answer:
    try:
        about = _context(context)
        asked = pickle.loads(question)  # noqa: S301  # what this very search has packed
    except Exception as error:  # whatever a user's modules raise where they are imported
        return Answer(error=f"a worker cannot read the candidate: {told(error)}")
    return find(about, asked)


def bounds_of(context: Context, question: Question) -> Answer:
    """Figures where each layer costs what no mapping is below: nothing is simulated, and nothing of the user's called
    but what makes networks."""
    return _answered(lambda: (measured(_mix(context, question, bound=True)), {}))


def known_bounds_of(context: Context, question: Question) -> Answer:
    """As :func:`bounds_of`, where layers cost what is known of them by now, if that says what they cost."""
    return _answered(lambda: (measured(_mix(context, question, bound=True, known=True)), {}))


def figures_of(context: Context, question: Question) -> Answer:
    """All figures that are asked for."""
    return _answered(lambda: _figures(context, question))


def intervals(context: Context, candidate: Candidate, bounds: Mapping[str, float | None]) -> dict[str, Interval]:
    """Between what figures are, as far as that follows from bounds; those of the user's that are numbers are known."""
    found: dict[str, Interval] = {}
    for name, value in bounds.items():
        if value is not None and is_bounded(context, candidate, name):
            kind = FIGURES[name].bound
            found[name] = (float("-inf") if kind == "most" else value, float("inf") if kind == "least" else value)
    found.update({name: (float(value), float(value)) for name, value in candidate.figures.items()
                  if not callable(value)})
    return found


def is_bounded(context: Context, candidate: Candidate, name: str) -> bool:
    """Whether :func:`intervals` says anything of a figure: not of the user's functions, which it calls for nothing."""
    if name in candidate.figures:
        return not callable(candidate.figures[name])
    return name in FIGURES and name not in context.functions


def _answered(find: Callable[[], tuple[dict[str, float | None], dict[str, float]]]) -> Answer:
    """What is found, with the time that it took; any failure is one of the candidate, with the place in the user's
    code, if it is there."""
    start = time.monotonic()
    try:
        figures, own = find()
    except ArchloomError as error:
        return Answer(error=str(error), took=time.monotonic() - start)
    except Exception as error:
        place = place_of(error)
        return Answer(error=f"{place}: {told(error)}" if place else told(error), took=time.monotonic() - start)
    return Answer(figures, own, took=time.monotonic() - start)


def _figures(context: Context, question: Question) -> tuple[dict[str, float | None], dict[str, float]]:
    candidate = question.candidate
    with noted() if context.notes else nullcontext():
        mix = _mix(context, question)
    found = measured(mix)
    for name, function in context.functions.items():
        found[name] = _objective(name, function, mix)
    own: dict[str, float] = {}
    for name, value in candidate.figures.items():
        found[name] = _number(name, value, candidate.figure_keys.get(name), question.known, own)
    if ACCURACY in context.names and ACCURACY not in found and context.has_labels:
        found[ACCURACY] = _accuracy(context, question)
    return found, own


def _objective(name: str, function: Callable[[Report], float], mix: Mix) -> float:
    with in_user_code(lambda: f"objective {name!r}"):
        return sum(number(name, function(report), "objective") * weight for report, weight in mix)


def _number(name: str, value: Any, key: str | None, known: Mapping[str, float], own: dict[str, float]) -> float:
    """One of the user's figures, which is called for where it is new."""
    if key is None:
        return number(name, value)
    if key in known:
        return known[key]
    if (found := _own.get(key)) is None:
        with in_user_code(lambda: f"figure {name!r}"):
            found = number(name, value())
        _own[key] = found
    own[key] = found
    return found


def _mix(context: Context, question: Question, *, bound: bool = False, known: bool = False) -> Mix:
    candidate = question.candidate
    request = Request(question.asked, candidate.resolved, details=PEAK_BYTES in context.names, on_disk=False,
                      bound=bound, known=known)
    sources = _sources(candidate)
    reports = [report_of(s, replace(request, as_int8=as_if_int8(candidate.as_int8, s))) for s in sources]
    return [(with_host(r, context.profile), weight) for r, weight in zip(reports, candidate.counts)]


def as_if_int8(asked: bool, source: Source) -> bool:
    """Whether a network is taken as if it were quantized, where a candidate asks for that."""
    return asked and source.kind not in _IN_NUMBERS


def _sources(candidate: Candidate) -> list[Source]:
    found = []
    for key, network in zip(candidate.network_keys, candidate.networks):
        if content.is_builder(network) and (made := _networks.get(key)) is None:
            made = _networks[key] = _built(network)
        given, inputs = content.split(made if content.is_builder(network) else network)
        found.append(Source.of(given, example_inputs=inputs))
    return found


def _built(builder: Callable[[], Any]) -> Any:
    """What a function of the user's makes."""
    with in_user_code(lambda: content.title(builder)):
        return builder()


def _accuracy(context: Context, question: Question) -> float:
    """Of each network on the accelerator, as often as it counts."""
    from archloom.tvm_backend.check.network import check

    candidate, target, total = question.candidate, question.asked, 0.0
    for source, weight in zip(_sources(candidate), candidate.counts):
        result = check(source.load_for(target), target, candidate.resolved, inputs=context.inputs,
                       labels=context.labels)
        assert result.accuracy is not None  # there are labels
        total += result.accuracy.accelerator * weight
    return total / sum(candidate.counts)
