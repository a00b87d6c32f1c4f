"""Energy and area in reports: of layers, of objects of the graph, and as tables.

Objects of an array go together: ``core[0][1].l1`` is counted with all ``core[*][*].l1``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.acadl.graph import per_graph
from archloom.acadl_models.timing.result import EnergyUse
from archloom.mapper.accelerator import Configuration
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.search import Plan
from archloom.mapper.workload import Workload, plain
from archloom.oracle.errors import counted
from archloom.tvm_backend.report.repeats import shortened
from archloom.tvm_backend.report.table import Column, figures, percent, render

if TYPE_CHECKING:
    from archloom.tvm_backend.report.data import Layer, Report, TargetShare

MOST_KNOWN = 4096
"""Layers whose energies are remembered of a machine."""


@per_graph
def _known(graph: ArchitectureGraph) -> dict[tuple[Workload, TileMapping], EnergyUse]:
    """Energies by workload and mapping, as timings are kept: networks of a search share layers."""
    return {}


def energy_use(plan: Plan, made: Configuration) -> EnergyUse | None:
    """The energy of a layer, where anything is known of the graph's: what came with its plan, or else that of its
    stream."""
    from archloom.acadl_models.timing.energy import energy
    from archloom.acadl_models.timing.machine import bind
    from archloom.oracle.resolve import resolve

    if plan.energy is not None or not made.has_energy:
        return plan.energy
    key, known = (plain(plan.workload), plan.mapping), _known(made.graph)
    if key not in known:
        if len(known) >= MOST_KNOWN:
            known.clear()
        known[key] = energy(bind(made.graph, resolve(plan.stream, made.isa)), plan.timing).use
    return known[key]


def areas(made: Configuration) -> tuple[dict[str, float], tuple[str, ...]]:
    """Square millimetres by object, and the objects whose area is not known."""
    from archloom.acadl_models.energy import figures_of

    known = {name: figures.area_mm2 for name, figures in figures_of(made.graph).items()}
    if not made.has_energy and made.graph.total("area_mm2") is None:
        return {}, ()
    return (summed_by_array((name, area) for name, area in known.items() if area),
            tuple(f"area of {name}" for name, area in known.items() if area is None))


def summed_by_array(objects: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Sums over objects whose names differ in numbers alone."""
    found: dict[str, float] = {}
    for name, value in objects:
        alike = re.sub(r"\[\d+\]", "[*]", name)
        found[alike] = found.get(alike, 0.0) + value
    return found


@dataclass(frozen=True)
class Totals:
    """What a report says of a whole network; None: unknown without ``missing``."""

    joules: float | None
    watts: float | None
    picojoules_per_mac: float | None
    area_mm2: float | None
    areas: Mapping[str, float]
    energy_missing: tuple[str, ...]


def totals_of(layers: Sequence["Layer"], shares: Sequence["TargetShare"], made: Mapping[str, Configuration]) -> Totals:
    """Sums over the layers of accelerators and over the targets."""
    uses = [layer.energy for layer in layers if layer.energy is not None]
    known = [use.joules for use in uses if use.joules is not None]
    joules = math.fsum(known) if uses and len(known) == len(uses) else None
    seconds, macs = math.fsum(share.seconds for share in shares), sum(share.macs for share in shares)
    missing = dict.fromkeys(name for use in uses for name in use.missing)
    by_target = {name: areas(one) for name, one in made.items()}
    prefix = len(by_target) > 1
    parts = {f"{target}.{name}" if prefix else name: area
             for target, (objects, _) in by_target.items() for name, area in objects.items()}
    unknown = [name for _, names in by_target.values() for name in names]
    return Totals(
        joules, None if joules is None or not seconds else joules / seconds,
        None if joules is None or not macs else 1e12 * joules / macs,
        math.fsum(parts.values()) if parts and not unknown else None, parts,
        tuple(dict.fromkeys((*missing, *unknown))))


# --- as text ------------------------------------------------------------------------------------------------------
def lines(report: "Report") -> list[str]:
    """The totals, or what is missing for them."""
    from archloom.acadl_models.timing.energy import listed

    found = []
    if report.joules is not None:
        rates = [f"{si(report.watts, 'W')}", f"{report.picojoules_per_mac or 0:.4g} pJ a MAC"]
        found.append(f"energy       {si(report.joules, 'J')}" + (f" = {', '.join(rates)}" if report.watts else ""))
    if report.area_mm2 is not None:
        found.append(f"area         {report.area_mm2:.4g} mm²")
    if report.energy_missing:
        found.append(f"not known    {listed(report.energy_missing)}: energy or area is not known without")
    return found


def si(value: float | None, unit: str) -> str:
    """With the prefix that leaves one to three digits before the point; a dash for what is not known."""
    if value is None:
        return "–"
    for power, prefix in ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")):
        if value >= power:
            return f"{value / power:.4g} {prefix}{unit}"
    return f"{value / 1e-12:.4g} p{unit}"


OBJECTS = (Column("object", limit=44), *figures("energy", "share", "area mm²", "share"))
LAYERS = (Column("layer", limit=36),
          *figures("energy", "share", "dynamic", "leakage", "clocks", "power", "pJ a MAC"))


def object_rows(report: "Report") -> list[list[str]]:
    """A row for each object that costs energy or area, the costliest first; those of less than a thousandth of both
    together in the last."""
    spent = summed_by_array(pair for layer in report.layers if layer.energy for pair in layer.energy.objects.items())
    energy, area = math.fsum(spent.values()), math.fsum(report.areas.values())
    both = {name: (spent.get(name), report.areas.get(name)) for name in {**spent, **report.areas}}
    small = {name for name, (e, a) in both.items() if 1e3 * (e or 0.0) < energy and 1e3 * (a or 0.0) < area}
    rows = sorted((row for row in both.items() if row[0] not in small),
                  key=lambda row: (-(row[1][0] or 0.0), -(row[1][1] or 0.0)))
    if small:
        rows.append((counted(len(small), "other"), (math.fsum(spent.get(name, 0.0) for name in small),
                                              math.fsum(report.areas.get(name, 0.0) for name in small))))
    return [[name, si(e, "J"), _share(e, energy), "–" if a is None else f"{a:.4g}", _share(a, area)]
            for name, (e, a) in rows]


def layer_rows(report: "Report") -> list[list[str]]:
    """A row for each layer with energies, in long tables equal blocks of them once."""
    known = [(layer, layer.energy) for layer in report.layers if layer.energy is not None]

    def row(pair: "tuple[Layer, EnergyUse]") -> list[str]:
        layer, use = pair
        watts = None if use.joules is None or not layer.seconds else use.joules / layer.seconds
        each = None if use.joules is None or not layer.macs else 1e12 * use.joules / layer.macs
        return [layer.name, si(use.joules, "J"), _share(use.joules, report.joules), si(use.dynamic_joules, "J"),
                si(use.leakage_joules, "J"), si(use.clock_joules, "J"), si(watts, "W"),
                "–" if each is None else f"{each:.4g}"]

    return shortened(known, row, lambda layers, block: [block.heading("layer"), *[""] * (len(LAYERS) - 1)])


def tables(report: "Report") -> str:
    """Joules and areas by object, and joules by layer, or that nothing is known of them."""
    rows, layers = object_rows(report), layer_rows(report)
    if not rows and not layers:
        return "no energy and no area: the target's graph states neither a technology nor figures (docs/energy.md)"
    return "\n\n".join(filter(None, [render(OBJECTS, rows) if rows else "", render(LAYERS, layers) if layers else ""]))


def _share(part: float | None, whole: float | None) -> str:
    return percent(part / whole if part is not None and whole else None)
