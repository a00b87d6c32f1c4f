"""Every plan of the space, on meshes of up to 4 x 4 small cores and for any extents: oracle, interpreter and NumPy have
the same bits, the simulation is exact, and no core holds more than it can."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.mapper.spatial.machines.machine import isa_of
from archloom.mapper.spatial.programs.deadlock import check_arrivals
from archloom.mapper.spatial.programs.timing import check_capacity
from archloom.mapper.spatial.workloads import emitted
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import resolve
from archloom.oracle.xla.oracle import compile_stream
from tests.support.mapper.spatial_cases import Case, cases

SOME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def holds(case: Case) -> None:
    """The oracle's results, the interpreter's with memories full of rubbish, and NumPy's; memories of cores."""
    stream, isa = emitted(case.gemm, case.plan, case.machine), isa_of(case.graph)
    check_capacity(resolve(stream, isa), case.graph)
    check_arrivals(stream, case.machine, str(case.plan))
    arguments, expected = case.operands()
    oracle = compile_stream(stream, isa)
    np.testing.assert_array_equal(case.untiled(oracle(*arguments.values())[0]), expected)
    np.testing.assert_array_equal(case.untiled(run(stream, isa, arguments, poison=5)["C"]), expected)


def exact(case: Case) -> None:
    """The engine's cycles are those of the step-by-step simulator."""
    resolved = resolve(emitted(case.gemm, case.plan, case.machine), isa_of(case.graph))
    assert simulate(case.graph, resolved).cycles == simulate_reference(case.graph, resolved).cycles


@settings(SOME, max_examples=6)
@given(cases(5))
def test_plans_give_the_product(case: Case) -> None:
    holds(case)


@settings(SOME, max_examples=2)
@given(cases(4, searched=True))
def test_chosen_plans_give_the_product(case: Case) -> None:
    holds(case)


@settings(SOME, max_examples=4)
@given(cases(2, side=3))
def test_simulation_is_exact(case: Case) -> None:
    exact(case)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
@settings(SOME, max_examples=100)
@given(case=cases(9))
def test_many_plans_give_the_product(part: int, case: Case) -> None:
    """In parts, each of which a busy machine does in some minutes."""
    holds(case)


@pytest.mark.slow
@settings(SOME, max_examples=60)
@given(cases(8, searched=True))
def test_many_chosen_plans_give_the_product(case: Case) -> None:
    holds(case)


@pytest.mark.slow
@settings(SOME, max_examples=60)
@given(cases(4))
def test_many_simulations_are_exact(case: Case) -> None:
    exact(case)


@pytest.mark.slow
@settings(SOME, max_examples=200)
@given(cases(9))
def test_all_plans_are_raised(case: Case) -> None:
    """No loop over cores, steps or waves is left in the oracle."""
    assert compile_stream(emitted(case.gemm, case.plan, case.machine), isa_of(case.graph)).raised
