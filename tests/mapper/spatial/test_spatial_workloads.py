"""Batches of products on meshes of cores: every plan gives NumPy's results, and the search finds a good one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.mesh import mesh as any_mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.explore import HOPELESS
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import PartedPlan, Plan
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.products.parts import check_parts, parted_space
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import Columns, Rows
from archloom.mapper.spatial.trials import TOP_K
from archloom.mapper.spatial.workloads import AnyWork, emitted, search_workload
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.xla import compile_stream
from tests.support.examples import every, examples
from tests.support.mapper.small_meshes import MESHES, mesh, operands, some_plan
from tests.support.mapper.spatial_checks import result_of


def product(work: Product, given_arrays: Mapping[str, np.ndarray]) -> np.ndarray:
    a, b = (given_arrays[name].astype(np.float32) for name in "AB")
    a = a.swapaxes(-1, -2) if work.transposed_a else a
    b = b.swapaxes(-1, -2) if work.transposed_b else b
    y = a @ b + given_arrays.get("bias", np.float16(0)) + given_arrays.get("residual", np.float16(0))
    match work.epilogue.activation:
        case "relu":
            return np.maximum(y, 0)
        case "gelu":
            return y / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (y + 0.044715 * y ** 3)))
        case "silu":
            return y / (1 + np.exp(-np.maximum(y, -60)))
    return y


EPILOGUES = st.builds(Epilogue, st.booleans(), st.booleans(), st.sampled_from((None, "relu", "gelu", "silu")))


PRODUCTS = st.builds(Product, st.integers(1, 7), *[st.integers(1, 150)] * 3, *[st.booleans()] * 3, EPILOGUES)


@pytest.mark.slow
@examples(3, 500)
@given(st.data(), st.sampled_from(MESHES), PRODUCTS)
def test_every_plan_of_a_batch_gives_the_products(data: st.DataObject, size: tuple[int, int], work: Product) -> None:
    gives_the_products(data, size, work)


def gives_the_products(data: st.DataObject, size: tuple[int, int], work: Product) -> None:
    graph, epilogue = mesh(*size), work.epilogue
    plan = some_plan(data, work, Machine.of(graph))
    arrays = operands(work.shapes(), work.m + work.n)
    result = work.unpack(result_of(work, plan, graph, work.pack(arrays), work.k))
    expected = product(work, arrays)
    if epilogue.activation in (None, "relu"):
        np.testing.assert_array_equal(result, expected)
    else:
        np.testing.assert_allclose(result, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("work", [
    Product(3, 40, 40, 33, transposed_b=True, epilogue=Epilogue(True, True, "silu")),
    Product(2, 33, 64, 70, transposed_a=True),
])
def test_the_oracle_runs_all_products(work: Product) -> None:
    graph = mesh(2, 2)
    plan = search_workload(work, graph, top_k=1).best.plan
    arrays = operands(work.shapes(), 1)
    compiled = compile_stream(emitted(work, plan, Machine.of(graph)), isa_of(graph))
    result = work.unpack(np.asarray(compiled(*work.pack(arrays).values())[0]))
    np.testing.assert_allclose(result, product(work, arrays), rtol=2e-3, atol=2e-3)


@pytest.mark.first_case
@pytest.mark.parametrize("name", ["mesh", "triple_ring"])
@pytest.mark.parametrize("work", every(2, [
    Product(5, 70, 40, 64, transposed_b=True, epilogue=Epilogue(True, True, "relu")),
    Convolution(1, 9, 7, 40, 33, (3, 3), padding=(1, 1, 1, 1), epilogue=Epilogue(bias=True)),
    Elementwise(70, 100, (Operation("add", "tensor"), Operation("relu"))), Columns(150, 100, "sum"),
    Rows(70, 100, "max"),
]), ids=lambda work: type(work).__name__)
def test_other_machines_run_them_as_wormhole_does(name: str, work: AnyWork) -> None:
    if name == "mesh":
        graph = any_mesh(x=3, y=2, sums=8, stats=16, l1_bytes=2048 * 60)
    else:
        graph = triple_ring(columns=2, rows=2, sums=8, stats=16, l1_bytes=2048 * 160)
    machine = Machine.of(graph)
    plan: Any = search_workload(work, graph, top_k=1).best.plan
    arrays: Any = work
    packed = arrays.pack(operands(arrays.shapes(), 5))
    result = run(emitted(work, plan, machine), isa_of(graph), packed)
    other = mesh(2, 2)
    plan = search_workload(work, other, top_k=1).best.plan
    expected = run(emitted(work, plan, Machine.of(other)), isa_of(other), packed)
    for label, value in result.items():
        np.testing.assert_array_equal(arrays.unpack(value), arrays.unpack(expected[label]))


@pytest.mark.slow
def test_products_of_a_batch_run_at_the_same_time() -> None:
    """Two on a part each take less than twice as long as one on all cores, and far less than one after the other."""
    graph = wormhole(rows=2, columns=4)
    one, eight = (search_workload(Product(b, 64, 64, 256), graph) for b in (1, 8))
    assert eight.best.plan.parts != (1, 1)
    launch = Machine.of(graph).launch_cycles
    assert eight.best.cycles - launch < 5 * (one.best.cycles - launch)


@pytest.mark.slow
def test_the_search_is_near_the_best_of_all() -> None:
    graph, work = mesh(2, 2), Product(3, 64, 64, 32)
    found, machine = parted_space(work, Machine.of(graph)), Machine.of(graph)
    every = {found.plan(i) for i in range(len(found))}
    exhaustive = min(simulated(emitted(work, plan, machine), graph).cycles for plan in every)
    assert search_workload(work, graph).best.cycles <= 1.01 * exhaustive


def test_a_shared_operand_makes_the_batch_rows() -> None:
    work = Product(4, 48, 32, 64, shared=True)
    assert (work.problems, work.gemm.m) == (1, 6)
    assert Product(4, 48, 32, 64, transposed_a=True, shared=True).problems == 4


def test_what_is_wrong_is_named() -> None:
    machine = Machine.of(mesh(2, 2))
    with pytest.raises(MappingError, match="0 products of 3 x 5 by 5 x 4 elements: every extent must be at least 1"):
        Product(0, 3, 4, 5)
    with pytest.raises(MappingError, match="activation 'selu': expected one of relu, gelu"):
        Epilogue(activation="selu")
    work = Product(2, 96, 96, 96, epilogue=Epilogue(True, True))
    with pytest.raises(MappingError, match=r"operand B: expected float16 of shape .*, found float32 of shape .1,."):
        work.pack({**operands(work.shapes(), 1), "B": np.zeros(1, np.float32)})  # type: ignore[dict-item]
    with pytest.raises(MappingError, match="expected the operands A, B, bias, residual, found A"):
        work.pack({"A": np.zeros((2, 96, 96), np.float16)})
    plan = Plan((2, 2, 3), (1, 1, 1), (1, 2, 1), "rows", "mn", ("across", "stream"), ("none", "stream"), 3)
    with pytest.raises(MappingError, match="it needs 36 tiles of operands and 12 of the epilogue's in a core, which "
                                           "holds 40; A goes to all cores .across., but only a part of them"):
        check_parts(work, PartedPlan((2, 1), plan), machine)
    with pytest.raises(MappingError, match="2 rows cannot be cut into 3 equal parts"):
        check_parts(work, PartedPlan((3, 1), plan), machine)
    tiny = wormhole(rows=1, columns=1, sums=1, stats=1, l1_bytes=2048 * 8)
    with pytest.raises(MappingError, match="4 of the epilogue, need 8 tiles in a core, which holds 5"):
        search_workload(work, tiny)


def test_more_plans_are_simulated_where_programs_are_short() -> None:
    """None of them is estimated to be hopeless; objectives that ask for energy are not of cycles."""
    work, graph = Product(1, 100, 60, 237), any_mesh(2, 2)
    short, long = search_workload(work, graph), search_workload(Product(1, 2048, 2048, 2048), graph)
    assert len(long.trials) < 2 * TOP_K < len(short.trials)
    lowest = short.trials[0].estimated_cycles
    assert all(trial.estimated_cycles <= HOPELESS * lowest for trial in short.trials)
    assert len(search_workload(work, graph, objective="edp").trials) < 2 * TOP_K
