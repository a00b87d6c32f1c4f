"""Figures of a candidate: what reports of its networks say together, and bounds of that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from archloom.tvm_backend.report.data import Report

Mix: TypeAlias = Sequence[tuple[Report, float]]
"""The report of each network, and how often that counts."""


@dataclass(frozen=True)
class Figure:
    """What is read off the reports of a mix; None where they do not say it. ``better``: whether less or more of it is.
    ``bound``: what it is where reports are bounds: no more than the figure, no less, or the figure itself."""

    name: str
    help: str
    of: Callable[[Mix], float | None]
    better: Literal["less", "more"]
    bound: Literal["least", "most", "exact"]
    unit: str = ""
    """"%" for shares"""
    missing: str = ""
    """what is not there where it is None"""


def _sum(mix: Mix, of: Callable[[Report], float | None]) -> float | None:
    """Each network as often as it counts."""
    parts = [of(report) for report, _ in mix]
    if any(part is None for part in parts):
        return None
    return sum(part * weight for part, (_, weight) in zip(parts, mix) if part is not None)


def _edp(mix: Mix) -> float | None:
    joules, seconds = _sum(mix, lambda r: r.joules), _sum(mix, lambda r: r.seconds)
    return None if joules is None or seconds is None else joules * seconds


def _peak_bytes(mix: Mix) -> float | None:
    found = [report.memory.peak_bytes for report, _ in mix if report.memory is not None]
    return max(found) if len(found) == len(mix) else None


def _utilization(mix: Mix) -> float | None:
    """Multiply-accumulates over what the machine could do in its cycles."""
    macs = sum(report.offloaded_macs * weight for report, weight in mix)
    possible = sum(s.cycles * s.peak_macs_per_cycle * weight for report, weight in mix for s in report.targets)
    return macs / possible if possible else None


PEAK_BYTES = "peak_bytes"

_STATED = "of the target's graph are missing: state a technology and components; archloom estimate --energy names them"
_NO_ENERGY = f"figures {_STATED}"

_FIGURES = (
    Figure("seconds", "latency of accelerator and host", lambda m: _sum(m, lambda r: r.seconds), "less", "least", "s"),
    Figure("cycles", "the same in cycles of the accelerator", lambda m: _sum(m, lambda r: r.cycles), "less", "least",
           "cycles"),
    Figure("accelerator_seconds", "latency of the accelerator's layers",
           lambda m: _sum(m, lambda r: r.accelerator_seconds), "less", "least", "s"),
    Figure("accelerator_cycles", "the same in its cycles", lambda m: _sum(m, lambda r: r.accelerator_cycles), "less",
           "least", "cycles"),
    Figure("joules", "energy of the accelerator", lambda m: _sum(m, lambda r: r.joules), "less", "least", "J",
           _NO_ENERGY),
    Figure("edp", "joules times seconds", _edp, "less", "least", "J·s", _NO_ENERGY),
    Figure("area_mm2", "area of the accelerator", lambda m: m[0][0].area_mm2, "less", "exact", "mm²",
           f"areas {_STATED}"),
    Figure(PEAK_BYTES, "activations in memory at a time, of the network that needs most", _peak_bytes, "less",
           "exact", "B", "live ranges of the network's tensors are not known"),
    Figure("utilization", "part of the peak multiply-accumulates", _utilization, "more", "most", "%",
           "nothing runs on the accelerator"),
)

FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _FIGURES}
"""By name."""

ACCURACY = "accuracy"
"""Share of the user's samples that get their label: a figure of the candidate, or else found by a check."""


def measured(mix: Mix) -> dict[str, float | None]:
    """All figures of a mix."""
    return {name: figure.of(mix) for name, figure in FIGURES.items()}
