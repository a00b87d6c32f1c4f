"""The systolic array with every PE an object: the same cycles as the array as one unit, from dependences alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archloom.acadl_models.fit import misfits
from archloom.acadl_models.systolic_array import CONVENTIONS, DATAFLOWS, Design, systolic_array
from archloom.acadl_models.systolic_array.design import FETCH_CYCLES
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle.resolve import resolve
from benchmarks.published.systolic import Problem, machine
from tests.support.acadl_models.simulators import InstanceLog, simulate_logged
from tests.support.acadl_models.systolic_data import expected
from tests.support.examples import examples

designs = st.builds(
    Design, st.integers(1, 4), st.integers(1, 4), st.sampled_from(DATAFLOWS), st.just("scalar"),
    st.sampled_from(sorted(CONVENTIONS)), st.just(1), st.just(1), st.just(4),
)  # fmt: skip
problems = st.builds(Problem, st.integers(1, 7), st.integers(1, 7), st.integers(1, 7))


def step_by_step(design: Design, problem: Problem) -> tuple[int, list[InstanceLog]]:
    """The counted cycles of the step-by-step simulator, and its log."""
    made, log = machine(design), []  # type: ignore[var-annotated]
    timing = simulate_logged(made.graph, resolve(made.stream(problem), made.isa), log)
    return problem.counted(design, timing.cycles), log


def last_fold_has_left(log: list[InstanceLog]) -> int:
    """When the last sum of the last fold is stored."""
    return max(log, key=lambda entry: entry.number).finished - FETCH_CYCLES


@pytest.mark.slow
@examples(40, 600)
@given(designs, problems)
@example(Design(1, 1, "os", "scalar", "scalesim"), Problem(1, 1, 1))
@example(Design(1, 1, "ws", "scalar", "scalesim"), Problem(2, 3, 2))
@example(Design(4, 3, "is", "scalar", "equeue"), Problem(5, 7, 6))
def test_every_pe_for_itself_takes_the_cycles_of_the_array_as_one_unit(design: Design, problem: Problem) -> None:
    cycles, log = step_by_step(design, problem)
    tensor = replace(design, level="tensor")
    made = machine(tensor)
    timing = simulate_reference(made.graph, resolve(made.stream(problem), made.isa))
    one_unit = problem.counted(tensor, timing.cycles)
    assert one_unit == expected(tensor, problem)
    if design.charging.sums_overlap and design.dataflow == "os":
        # this count ends with the last fold, also where a larger one before it is still on its way
        assert last_fold_has_left(log) == one_unit <= cycles
    else:
        assert cycles == one_unit


@pytest.mark.slow
@examples(8, 125)
@given(designs, problems)
def test_the_fast_engine_equals_the_step_by_step_simulator(design: Design, problem: Problem) -> None:
    made = machine(design)
    stream = resolve(made.stream(problem), made.isa)
    stepped = simulate_reference(made.graph, stream)
    assert simulate(made.graph, stream, skip=False) == simulate(made.graph, stream) == stepped


@pytest.mark.first_case
@pytest.mark.parametrize(("design", "problem"), [
    (Design(8, 8, "ws", "scalar", "scalesim"), Problem(41, 16, 19)),
    (Design(8, 6, "os", "scalar", "scalesim"), Problem(17, 13, 40)),
    (Design(5, 9, "is", "scalar", "equeue"), Problem(20, 33, 11)),
    (Design(16, 16, "ws", "scalar", "equeue"), Problem(30, 20, 40)),
])  # fmt: skip
def test_larger_grids_take_the_cycles_of_the_array_as_one_unit(design: Design, problem: Problem) -> None:
    tensor = replace(design, level="tensor")
    assert machine(design).run(problem).cycles == machine(tensor).run(problem).cycles == expected(tensor, problem)


def test_pes_start_along_the_diagonals() -> None:
    _, log = step_by_step(Design(3, 4, "os", "scalar", "scalesim"), Problem(3, 4, 2))
    starts: dict[str, int] = {}
    for entry in sorted(log, key=lambda e: e.number):
        if entry.mnemonic == "mac":
            starts.setdefault(entry.unit, entry.started)
    first = min(starts.values())
    assert {unit: start - first for unit, start in starts.items()} == {
        f"grid.pe[{i}][{j}].unit": i + j for i in range(3) for j in range(4)
    }


@pytest.mark.parametrize("dataflow", DATAFLOWS)
@pytest.mark.parametrize("convention", sorted(CONVENTIONS))
def test_graph_and_isa_fit(dataflow: str, convention: str) -> None:
    made = machine(Design(2, 3, dataflow, "scalar", convention))
    assert misfits(made.graph, made.isa) == []


def test_pes_know_their_neighbours_alone() -> None:
    graph = systolic_array(3, 3, "os", level="scalar", convention="scalesim")
    unit = graph["grid.pe[1][1].unit"]
    assert [r.name for r in graph.reads(unit)] == ["grid.pe[1][1].registers"]  # type: ignore[arg-type]
    assert sorted(r.name for r in graph.writes(unit)) == [  # type: ignore[arg-type]
        "grid.pe[1][1].registers", "grid.pe[1][2].registers", "grid.pe[2][1].registers",
    ]  # fmt: skip


def test_operands_enter_in_the_first_row_and_column_only() -> None:
    graph = systolic_array(3, 2, "ws", level="scalar", convention="scalesim")
    loaded = {r.name for u in graph.functional_units if u.name.startswith(("west", "north")) for r in graph.writes(u)}
    assert loaded == {"sync"} | {f"grid.pe[{i}][{j}].registers" for i in range(3) for j in range(2) if 0 in (i, j)}


def test_a_grid_of_1024_pes_is_made_and_checked() -> None:
    graph = systolic_array(32, 32, "ws", level="scalar", convention="scalesim")
    assert sum(u.name.startswith("grid.pe") for u in graph.functional_units) == 1024
