"""Simulations of all mappings of a workload: what the search of a target is compared with."""

from __future__ import annotations

from typing import Any

from archloom.acadl_models.timing import simulate
from archloom.mapper.accelerator import Accelerator, Configuration
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Workload
from archloom.oracle.resolve import resolve


def exhaustive(workload: Workload, accelerator: Accelerator, options: Any = None) -> tuple[Mapping, int]:
    """The best mapping and its cycles by simulating every candidate: what ``search`` is held against."""
    configuration = accelerator.configure(options)
    estimated, mapping_of = configuration.space(workload).ranked()
    cycles = (simulated_cycles(workload, mapping_of(i), configuration) for i in range(len(estimated)))
    best = min((found, i) for i, found in enumerate(cycles))
    return mapping_of(best[1]), best[0]


def simulated_cycles(workload: Workload, mapping: Mapping, configuration: Configuration) -> int:
    """Cycles of a workload with a mapping; MappingError or StreamError where it turns out to be impossible."""
    return simulate(
        configuration.graph, resolve(configuration.emitter.emit(workload, mapping), configuration.isa)).cycles
