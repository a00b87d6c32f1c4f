"""Products whose tiles go from core to core by instructions that no plan uses are the same products."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.programs.signalling import signalled
from archloom.mapper.spatial.programs.timing import check_capacity
from archloom.mapper.spatial.workloads import emitted
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from benchmarks.cores import tl_network
from tests.support.examples import slow
from tests.support.mapper.queue_executor import run_in_any_order
from tests.support.mapper.small_meshes import mesh


@pytest.mark.parametrize("plan", [
    Plan((2, 2, 2), (2, 1, 1), (1, 2, 1), "rows", "mn", ("row", "stream"), ("column", "stream")),
    slow(Plan((2, 2, 2), (2, 1, 1), (1, 2, 1), "rows", "mn", ("wave", "stream"), ("wave", "keep"), 2)),
], ids=str)
def test_rewritten_programs_give_the_product(plan: Plan) -> None:
    graph, gemm = mesh(2, 2, 9, 60), TileGemm(4, 5, 6)
    machine, random = Machine.of(graph), np.random.default_rng(0)
    shapes = {"A": (4, 6, 32, 32), "B": (6, 5, 32, 32)}
    arguments = {name: random.integers(-2, 3, shape).astype(np.float16) for name, shape in shapes.items()}
    stream = emitted(gemm, plan, machine)
    expected = run(stream, isa_of(graph), arguments)["C"]
    gathered = tl_network.gathered(gemm, plan, machine)
    assert gathered is not None
    shared, unicast = (tl_network.rewritten(stream, way) for way in (tl_network.share, tl_network.unicast))
    for found in (shared, unicast, gathered):
        check_capacity(resolve(found, isa_of(graph)), graph)
        np.testing.assert_array_equal(run(found, isa_of(graph), arguments, poison=3)["C"], expected)
    used = {name for name in ("unicast", "gather_row") if any(name in repr(f.body) for f in (unicast, gathered))}
    assert used == {"unicast", "gather_row"}
    with_semaphores = Machine.of(mesh(2, 2, 9, 60, 400))
    for found in (shared, unicast, gathered):
        # waits alone keep cores apart
        handed = signalled(replace(found, parameters=with_semaphores.isa_parameters), with_semaphores, "plan P")
        result = run_in_any_order(handed, with_semaphores, arguments, 1)["C"]
        np.testing.assert_array_equal(result, expected)
