"""The first lines of a report: the latency of the network, and what must be known before it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from archloom.oracle.errors import TargetError
from archloom.tvm_backend.report.table import WARNING, duration, percent, several
from archloom.tvm_backend.targets.choice import choose, named_options

if TYPE_CHECKING:
    from archloom.tvm_backend.report.data import HostLayer, Report

ENOUGH = 0.99
"""Part of the multiply-accumulates that may be on the accelerator without a warning."""
SHOWN = 3
"""Reasons that a warning gives, of those that leave most on the host."""


def headline(report: "Report") -> str:
    """What was timed on what, and how long it takes there: accelerator and host, or which of them alone."""
    options = ", ".join(f"{k}={v}" for k, v in _notable_options(report).items())
    what = f"{report.model} on {report.target}" + (f" ({options})" if options else "")
    if report.host_seconds is None:
        return f"{what}, accelerator only: {duration(report.seconds)}"
    if not report.host_seconds:
        return f"{what}: {duration(report.seconds)}, all of it on the accelerator"
    return (f"{what}: {duration(report.seconds)} = {duration(report.accelerator_seconds)} accelerator + "
            f"{duration(report.host_seconds)} host")


def warnings(report: "Report") -> Iterator[str]:
    """What a figure hides: floats where a target takes integers, and work that is left to the host."""
    if report.unquantized:
        yield (f"{WARNING}{report.model} is a network of floats, {report.target} takes int8:\n"
               "  --calibrate FILE (archloom.quantize) quantizes it, --int8 (as_int8=True) estimates it as if it were")
    if report.offloaded_macs_share >= ENOUGH or not report.host or (report.accelerator_layers and not report.macs):
        return
    what = f"{percent(report.offloaded_macs_share)} of the multiply-accumulates run"
    if not report.accelerator_layers:
        what = "nothing of it runs"
    yield "\n".join([f"{WARNING}{what} on {report.target}; on the host are (more: archloom compile --coverage)",
                     *_costliest(report.host, report.macs)])


def _costliest(host: "Sequence[HostLayer]", macs: int) -> Iterator[str]:
    """The operators that cost most, by kind and reason, one line for each."""
    alike: dict[tuple[str, str], list[HostLayer]] = {}
    for op in host:
        alike.setdefault((op.op, op.reason), []).append(op)
    weights = {key: sum(op.macs for op in ops) for key, ops in alike.items()}
    for key in sorted(alike, key=lambda k: -weights[k])[:SHOWN]:
        if weights[key] or not macs:
            kind, reason = key
            share = f"{percent(weights[key] / macs)} " if macs else ""
            yield f"  {share}{several([op.name for op in alike[key]])} ({kind}): {reason}"


def _notable_options(report: "Report") -> Mapping[str, Any]:
    """The first option (the size of the array, as a rule) and those that are not at their default."""
    try:
        defaults = named_options(choose(report.target))
    except TargetError:  # a report of a target that is not installed here
        return report.options
    return {k: v for i, (k, v) in enumerate(report.options.items()) if i == 0 or v != defaults.get(k)}
