"""Queues of cores: their numbers, the semaphores that two of them have in common, programs between any cores."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.acadl_models.triple_ring import triple_ring
from archloom.mapper.spatial.machines.machine import TILE_BYTES, Machine, isa_of
from archloom.mapper.spatial.machines.queues import QUEUES
from archloom.mapper.spatial.programs.signalling import signalled
from archloom.oracle.affine import Affine
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import HbmTensor, Instr, Loop, Stream
from tests.support.mapper.queue_executor import run_in_any_order
from tests.support.mapper.small_meshes import mesh

WITH = 400
"""Semaphores of a core."""


@pytest.mark.parametrize("graph", [mesh(2, 2, 9, 40, WITH), triple_ring(columns=3, semaphores=WITH)])
def test_the_isa_numbers_queues_as_the_graph_does(graph: ArchitectureGraph) -> None:
    cores = graph.parameters["cores"]
    assert isa_of(graph).buffer("progress").shape[0] == cores * len(QUEUES)
    units = Machine.of(graph).queues.units
    assert len({unit.queue for unit in units}) == len(units)
    assert len(units) == sum("wait" in unit.to_process for unit in graph.functional_units)
    assert {unit.queue % len(QUEUES) for unit in units} >= set(range(len(QUEUES))) - {QUEUES["south"]}


def test_what_no_unit_does_has_no_queue() -> None:
    machine = Machine.of(mesh(2, 2, 9, 40, WITH))
    with pytest.raises(MappingError, match="forward is in no queue of a core: no unit of the graph with a queue "
                                           "processes it and reads core 0 and writes core 3; expected one"):
        machine.queues.queue_of("forward", np.array([0]), np.array([3]))
    with pytest.raises(MappingError, match="several units of the graph .* and writes core 1; expected one"):
        machine.queues.queue_of("forward", None, np.array([1]))


@pytest.mark.slow
@pytest.mark.parametrize("graph", [mesh(2, 3, 9, 40, WITH), triple_ring(columns=3, semaphores=WITH)])
def test_both_queues_reach_their_semaphore(graph: ArchitectureGraph) -> None:
    """Or there is none: who reads and writes memory signals in its own core alone."""
    queues = Machine.of(graph).queues
    for sender in queues.units:
        for waiter in queues.units:
            pair = np.array([[sender.queue, waiter.queue]])
            if set(sender.signals) & set(waiter.waits):
                (core,) = queues.cores_of(pair)
                assert core in sender.signals and core in waiter.waits
            else:
                assert sender.queue // len(QUEUES) != waiter.queue // len(QUEUES)
                with pytest.raises(MappingError, match="expected a core with semaphores for both, found none"):
                    queues.cores_of(pair)


def thrown(machine: Machine, turns: int) -> Stream:
    """In each turn every core loads a tile and sends it to the one across the mesh, which stores it."""
    cores, t, c = machine.cores, Affine.variable("t"), Affine.variable("c")
    across = -c + (cores - 1)
    x = HbmTensor("X", 0, (turns, cores, 32, 32), "float16")
    y = HbmTensor("Y", turns * cores * TILE_BYTES, x.shape, "float16")
    steps = (
        Instr.make("load", dram=(t * cores + c) * TILE_BYTES, l1=c * machine.tiles, rows=1, cols=1, h0=0),
        Instr.make("unicast", source=c * machine.tiles, target=across * machine.tiles + 1, count=1),
        Instr.make("unpack", l1=across * machine.tiles + 1, acc=across * machine.sums, count=1),
        Instr.make("store", acc=across * machine.sums, dram=(t * cores + across) * TILE_BYTES + y.address, rows=1,
                   cols=1, h0=0, relu=0))
    body = (Instr.make("launch"), Loop("t", 0, turns, 1, (Loop("c", 0, cores, 1, steps),)))
    return Stream("wormhole", machine.isa_parameters, (x,), (y,), 2 * turns * cores * TILE_BYTES, body)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [mesh(2, 3, 9, 40, WITH), triple_ring(
    columns=3, sums=8, stats=16, l1_bytes=1 << 17, launch_cycles=10, dram_latency_cycles=20, semaphores=WITH)])
def test_tiles_go_to_any_core_in_programs_with_semaphores(graph: ArchitectureGraph) -> None:
    machine = Machine.of(graph)
    stream = signalled(thrown(machine, 3), machine, "plan P")
    x = np.random.default_rng(3).integers(-99, 99, (3, machine.cores, 32, 32)).astype(np.float16)
    np.testing.assert_array_equal(run_in_any_order(stream, machine, {"X": x}, 1)["Y"], x[:, ::-1])
    resolved = resolve(stream, isa_of(graph))
    assert simulate(graph, resolved).cycles == simulate_reference(graph, resolved).cycles
