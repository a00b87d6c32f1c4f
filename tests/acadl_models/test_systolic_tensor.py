"""The systolic array as one unit: recorded cycle counts, products bit for bit, and options."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from archloom.acadl_models.fit import misfits
from archloom.acadl_models.systolic_array import CONVENTIONS, DATAFLOWS, LEVELS, Design, systolic_array
from archloom.acadl_models.timing.reference import simulate_reference
from archloom.oracle import interpreter
from archloom.oracle.errors import StreamError, TargetError
from archloom.oracle.resolve import resolve
from archloom.oracle.xla.oracle import compile_stream
from benchmarks.published.systolic import Machine, Problem, machine
from tests.support.acadl_models.systolic_data import equeue_rows, expected, scale_sim_rows
from tests.support.examples import examples

SMALL = {"left_kib": 1, "top_kib": 1, "out_kib": 4}

designs = st.builds(
    Design, st.integers(1, 5), st.integers(1, 5), st.sampled_from(DATAFLOWS), st.just("tensor"),
    st.sampled_from(sorted(CONVENTIONS)), st.just(1), st.just(1), st.just(4),
)  # fmt: skip
problems = st.builds(Problem, st.integers(1, 13), st.integers(1, 13), st.integers(1, 13))
quiet = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
def test_every_recorded_layer_of_scale_sim_takes_its_cycles_and_reads_its_elements() -> None:
    for design, problem, cycles, ifmap, weights in scale_sim_rows():
        found = machine(design).run(problem)
        assert (found.cycles, found.ifmap_reads, found.filter_reads) == (cycles, ifmap, weights), (design, problem)


def test_every_recorded_convolution_of_equeue_takes_its_cycles() -> None:
    rows = list(equeue_rows())
    assert len(rows) == 65
    for design, problem, cycles in rows:
        assert machine(design).run(problem).cycles == cycles, (design, problem)


@pytest.mark.slow
@quiet
@given(designs, problems)
def test_any_product_takes_the_cycles_of_the_closed_forms(design: Design, problem: Problem) -> None:
    assert machine(design).run(problem).cycles == expected(design, problem)


@examples(10, 125)
@given(designs, st.builds(Problem, st.integers(1, 300), st.integers(1, 300), st.integers(1, 300)))
def test_large_products_too(design: Design, problem: Problem) -> None:
    roomy = Design(design.rows, design.columns, design.dataflow, "tensor", design.convention, 1024, 1024, 1024)
    assert machine(roomy).run(problem).cycles == expected(design, problem)


@pytest.mark.slow
@quiet
@given(designs, problems)
def test_the_memories_move_what_the_dataflow_says(design: Design, problem: Problem) -> None:
    found = machine(design).run(problem)
    m, n, k = problem.m, problem.n, problem.k
    over_m, over_n, over_k = -(-m // design.rows), -(-n // design.columns), -(-k // design.rows)
    if design.dataflow == "os":
        reads, writes = (over_n * m * k, over_m * k * n), m * n
    elif design.dataflow == "ws":
        reads, writes = (over_n * m * k, k * n), over_k * m * n
    else:
        reads, writes = (m * k, -(-m // design.columns) * k * n), over_k * m * n
    assert (found.ifmap_reads, found.filter_reads, found.ofmap_writes) == (*reads, writes)


@pytest.mark.slow
@examples(10, 125)
@given(st.integers(1, 5), st.integers(2, 5), st.sampled_from(DATAFLOWS), st.lists(problems, min_size=1, max_size=6))
def test_a_network_takes_the_cycles_of_its_layers(
    rows: int, columns: int, dataflow: str, layers: list[Problem]
) -> None:
    made = machine(Design(rows, columns, dataflow, convention="scalesim"))
    layers = [*layers, layers[0]]
    assert made.run_network(layers) == sum(made.run(layer).cycles for layer in layers)


def test_layers_that_overlap_are_no_network() -> None:
    with pytest.raises(TargetError, match="in convention scalesim and on more than one PE; found level tensor"):
        machine(Design(4, 4, convention="equeue")).run_network([Problem(1, 2, 3)])


@examples(6, 150)
@given(designs, problems)
def test_the_step_by_step_simulator_gives_the_same(design: Design, problem: Problem) -> None:
    made = machine(design)
    stream = resolve(made.stream(problem), made.isa)
    assert simulate_reference(made.graph, stream) == made.run(problem).timing


@pytest.mark.slow
@quiet
@given(
    st.builds(Design, st.integers(1, 4), st.integers(1, 4), st.sampled_from(DATAFLOWS), st.sampled_from(LEVELS),
              st.sampled_from(sorted(CONVENTIONS)), st.just(1), st.just(1), st.just(4)),
    st.builds(Problem, st.integers(1, 7), st.integers(1, 7), st.integers(1, 7)), st.integers(0, 1 << 30),
)  # fmt: skip
def test_both_levels_compute_products_bit_for_bit(design: Design, problem: Problem, seed: int) -> None:
    made = Machine(design)
    random = np.random.default_rng(seed)
    a = random.integers(-128, 128, (problem.m, problem.k), dtype=np.int8)
    b = random.integers(-128, 128, (problem.k, problem.n), dtype=np.int8)
    found = interpreter.run(made.gemm(problem), made.isa, {"A": a, "B": b}, poison=seed)["C"]
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.first_case
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_the_compiled_oracle_computes_the_same_product(dataflow: str, level: str) -> None:
    made = machine(Design(3, 2, dataflow, level, "equeue", **SMALL))
    random = np.random.default_rng(7)
    a = random.integers(-128, 128, (7, 5), dtype=np.int8)
    b = random.integers(-128, 128, (5, 3), dtype=np.int8)
    (found,) = compile_stream(made.gemm(Problem(7, 3, 5)), made.isa)(a, b)
    np.testing.assert_array_equal(np.asarray(found), a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("dataflow", DATAFLOWS)
def test_graph_and_isa_fit(dataflow: str) -> None:
    made = machine(Design(4, 3, dataflow, convention="scalesim"))
    assert misfits(made.graph, made.isa) == []


def test_instructions_of_another_dataflow_are_refused() -> None:
    stationary, streaming = (machine(Design(2, 2, dataflow, convention="scalesim")) for dataflow in ("os", "ws"))
    stream = streaming.stream(Problem(2, 2, 2))
    changed = type(stream)(stream.isa, stationary.isa.parameters, (), (), 0, stream.body, stream.name)
    with pytest.raises(StreamError, match="dataflow != OS"):
        resolve(changed, stationary.isa)


def test_all_bad_options_are_listed_at_once() -> None:
    with pytest.raises(TargetError) as error:
        systolic_array(0, 2.5, "xs", convention="none", clock_hz=-1)  # type: ignore[arg-type]
    assert str(error.value) == (
        "systolic_array: rows must be an integer from 1 to 4096, not 0; columns must be an integer from 1 to 4096, "
        "not 2.5; dataflow must be one of os, ws, is, not 'xs'; convention must be one of scalesim, equeue, not 'none'"
        "; clock_hz must be a positive number, not -1"
    )


def test_an_unknown_option_is_named() -> None:
    with pytest.raises(TargetError, match="unknown option 'convension'; did you mean 'convention'"):
        systolic_array(2, 2, "os", convension="equeue")


def test_a_large_array_is_one_unit() -> None:
    graph = systolic_array(256, 256, "ws")
    assert len(graph.functional_units) == 4
    assert graph.parameters["rows"] == 256
