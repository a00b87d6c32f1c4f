"""What holds for the program of any plan, whatever it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.machines.queues import Queues
from archloom.mapper.spatial.programs.deadlock import check_arrivals
from archloom.mapper.spatial.programs.timing import check_capacity
from archloom.mapper.spatial.workloads import AnyPlan, AnyWork, emitted
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from tests.support.mapper.queue_executor import run_in_any_order

SEMAPHORES = 1 << 14
"""Enough for any program."""


@cache
def queues_of(rows: int, columns: int) -> Queues:
    """Those of a mesh with semaphores of so many cores, whatever these hold."""
    return Machine.of(mesh(columns, rows, semaphores=1)).queues


def result_of(
    work: AnyWork, plan: AnyPlan, graph: ArchitectureGraph, arguments: Mapping[str, np.ndarray], seed: int
) -> np.ndarray:
    """The only result of a plan's program.

    No core holds more than it can and none uses a tile that nobody sent; where the machine has semaphores, any order of
    the queues gives the same bits.
    """
    machine = Machine.of(graph)
    stream = emitted(work, plan, machine)
    check_capacity(resolve(stream, isa_of(graph)), graph)
    check_arrivals(stream, machine, stream.name)
    (tensor,) = stream.results
    found = run(stream, isa_of(graph), dict(arguments), poison=3)[tensor.name]
    counted = replace(machine, semaphores=SEMAPHORES, queues=queues_of(machine.rows, machine.columns))
    shaken = emitted(work, plan, counted, semaphores=True)
    np.testing.assert_array_equal(run_in_any_order(shaken, counted, arguments, seed)[tensor.name], found)
    return found
