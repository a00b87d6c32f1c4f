"""What a page shows of a report: the report itself, and what follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from archloom.oracle.errors import InputError, TargetError, counted
from archloom.tvm_backend.report.data import Layer, Report
from archloom.tvm_backend.report.energy import summed_by_array
from archloom.tvm_backend.report.headline import headline, warnings
from archloom.tvm_backend.report.table import WARNING
from archloom.tvm_backend.report.uses import UnitUse
from archloom.tvm_backend.targets.choice import Chosen, choose

MOST_OBJECTS = 14
_CYCLES = [f.name for f in fields(UnitUse) if f.name.endswith("_cycles")]


def network_view(title: str, report: Report) -> dict[str, Any]:
    """JSON for ``networkView`` of the page's scripts."""
    missing = report.energy_missing
    return {
        "title": title, "headline": headline(report), "report": report.to_json(), "order": running_order(report),
        "warnings": [text.removeprefix(WARNING) for text in warnings(report)],
        "busiest": [_busiest(layer) for layer in report.layers], "causes": causes(report), "objects": objects(report),
        "energy_note": f"Not known without: {', '.join(missing)}." if missing else "", "hardware": hardware(report)}


def running_order(report: Report) -> list[int]:
    """The numbers of the layers, in the order in which they run, as far as that is known."""
    if report.memory is None:
        return list(range(len(report.layers)))
    places: dict[str, list[int]] = {}
    for place, name in enumerate(report.memory.layers):
        places.setdefault(name, []).append(place)
    taken = {name: iter(found) for name, found in places.items()}
    last = len(report.memory.layers)
    rank = [next(taken.get(layer.name, iter(())), last) for layer in report.layers]
    return sorted(range(len(rank)), key=lambda i: rank[i])


def _busiest(layer: Layer) -> str | None:
    """The name of the unit that works for the most cycles."""
    return max(layer.units, key=lambda name: layer.units[name].busy_cycles, default=None) if layer.cycles else None


def causes(report: Report) -> list[dict[str, Any]]:
    """For each target what the cycles of all its layers went into, by the busiest unit of each."""
    found = []
    for target in report.targets:
        units = [unit for layer in report.accelerator_layers if layer.target in (None, target.name) and layer.cycles
                 and (unit := layer.busiest) is not None]
        if units:
            cycles = {name: sum(getattr(unit, name) for unit in units) for name in _CYCLES}
            found.append({"name": target.name if len(report.targets) > 1 else "all layers", "cycles": cycles})
    return found


def objects(report: Report) -> list[tuple[str, float | None, float | None]]:
    """Joules and square millimetres by object, the costliest first; the least of them together in the last."""
    joules = summed_by_array(pair for layer in report.layers if layer.energy for pair in layer.energy.objects.items())
    rows = sorted(((name, joules.get(name), report.areas.get(name)) for name in {**joules, **report.areas}),
                  key=lambda row: (-(row[1] or 0.0), -(row[2] or 0.0)))
    if len(rows) <= MOST_OBJECTS:
        return rows
    rest = rows[MOST_OBJECTS - 1:]
    others = (counted(len(rest), "other"), sum(row[1] or 0.0 for row in rest), sum(row[2] or 0.0 for row in rest))
    return [*rows[:MOST_OBJECTS - 1], others]


# the machine ----------------------------------------------------------------------------------------------------------


def hardware(report: Report) -> list[dict[str, Any]]:
    """For each target what it can do at most and its drawing, or why there is none: a report outlives its target."""
    try:
        chosen: Sequence[Chosen] = choose(report.target, _given(report.options)) if report.target else ()
    except (TargetError, InputError) as error:
        return [{"target": report.target, "missing": str(error)}]
    return list(map(_machine, chosen))


def _given(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _machine(chosen: Chosen) -> dict[str, Any]:
    from archloom.acadl_models.acadl.draw import to_svg
    from archloom.mapper.bounds import bytes_per_cycle

    made = chosen.backend.accelerator.configure(chosen.accelerator_options)
    graph = made.graph
    found = {"target": chosen.name, "peak_macs_per_cycle": made.macs_per_cycle,
             "bytes_per_cycle": bytes_per_cycle(graph)}
    try:
        return {**found, "svg": to_svg(graph)}
    except InputError as error:
        return {**found, "missing": str(error)}
