"""The oracle runs all cores at once: whatever the plan, a stream becomes a few products of whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import Plan, TileGemm
from archloom.mapper.spatial.workloads import emitted
from archloom.oracle.interpreter import run
from archloom.oracle.xla.oracle import compile_stream
from tests.support.mapper.small_meshes import mesh

GEMM = TileGemm(8, 8, 8)
PLANS = {
    "rows and columns": Plan((2, 2, 2), (2, 1, 1), (1, 4, 1), "rows", "mn", ("row", "stream"), ("column", "stream")),
    "alone": Plan((2, 2, 2), (2, 1, 1), (1, 4, 1), "rows", "mn", ("none", "stream"), ("none", "stream")),
    "wave": Plan((2, 2, 2), (2, 1, 1), (1, 4, 1), "rows", "mn", ("wave", "stream"), ("wave", "stream"), 3),
    "down": Plan((1, 2, 2), (2, 1, 1), (4, 1, 1), "rows", "mn", ("none", "stream"), ("down", "stream")),
    "across": Plan((2, 1, 2), (1, 2, 1), (1, 4, 1), "columns", "nm", ("across", "stream"), ("none", "stream")),
    "reduction over cores": Plan(
        (2, 4, 2), (2, 1, 1), (1, 1, 4), "rows", "mn", ("row", "stream"), ("column", "stream")),
    "kept": Plan((2, 2, 2), (2, 1, 1), (1, 4, 1), "rows", "nm", ("row", "keep"), ("wave", "stream")),
    "ragged": Plan((3, 3, 3), (2, 1, 1), (1, 4, 1), "rows", "mn", ("row", "stream"), ("column", "stream")),
}
FEW = {"reduction over cores": 4, "ragged": 2}
"""Products of matrices: one for each step of the reduction (those of equal steps are one chain), and for each part of
the reduction that is added up over cores."""


@pytest.mark.first_case
@pytest.mark.parametrize("name", PLANS)
def test_plans_become_few_operations(name: str) -> None:
    graph = mesh(2, 4, 9, 40)
    oracle = compile_stream(emitted(GEMM, PLANS[name], Machine.of(graph)), isa_of(graph))
    assert oracle.raised
    operations = [o for o in oracle.report.results[0].operations if o.startswith("dot")]
    assert len(operations) == FEW.get(name, 1), operations
    assert all("256x256" in o for o in operations), operations


def test_blocks_of_a_sum_are_one_product_where_sums_may_be_reordered() -> None:
    graph = mesh(2, 4, 9, 40)
    stream = emitted(GEMM, PLANS["kept"], Machine.of(graph))
    oracle = compile_stream(stream, isa_of(graph), reassociate=True)
    assert oracle.report.results[0].operations == ("dot 256x256x256 float32 x float32 -> f32",)
    a, b = (np.random.default_rng(4).integers(-8, 9, (8, 8, 32, 32)).astype(np.float16) for _ in range(2))  # exact sums
    expected = run(stream, isa_of(graph), {"A": a, "B": b})["C"]
    np.testing.assert_array_equal(np.asarray(oracle(a, b)[0]), expected)


@pytest.mark.slow
def test_all_cores_add_in_the_order_of_the_machine() -> None:
    """Real numbers whose sums nearly cancel: every sum is f32 step by step, then over the cores that share a block."""
    graph = mesh(2, 4, 9, 40)
    random = np.random.default_rng(3)
    a, b = (random.standard_normal((8, 8, 32, 32)).astype(np.float16) for _ in range(2))
    a[:, 4:] = a[:, :4] + np.float16(2**-9) * random.standard_normal((8, 4, 32, 32)).astype(np.float16)
    b[4:] = -b[:4]
    for name, steps in (("kept", ("chain of 4 over 65536",)), ("reduction over cores", ())):
        stream = emitted(GEMM, PLANS[name], Machine.of(graph))
        oracle = compile_stream(stream, isa_of(graph))
        operations = [o for o in oracle.report.results[0].operations if not o.startswith("dot")]
        assert tuple(operations) == steps  # of sums in any order one over all of them would be made
        expected = run(stream, isa_of(graph), {"A": a, "B": b}, poison=3)["C"]
        np.testing.assert_array_equal(np.asarray(oracle(a, b)[0]), expected, name)
