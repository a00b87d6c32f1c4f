"""Element-wise operators, reductions and norms over meshes of cores: every plan gives NumPy's results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.mesh.vector import TABLE, passes
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import SweepPlan
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import Columns, Normed, Reduced, Rows
from archloom.mapper.spatial.sweeps.sweep import Sweep, check_sweep, sweep_cycles, sweep_space
from archloom.mapper.spatial.workloads import emitted, search_workload
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.stream import Instr, Node
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples, slow
from tests.support.mapper.small_meshes import MESHES, mesh, operands
from tests.support.mapper.spatial_checks import result_of

BINARY: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
UNARY: dict[str, Any] = {"relu": lambda x: np.maximum(x, 0), "negate": np.negative, "abs": np.abs, "square": np.square,
         "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "tanh": np.tanh, "silu": lambda x: x / (1 + np.exp(-x))}


def ran(data: st.DataObject, size: tuple[int, int], work: Sweep, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The result of some plan."""
    graph = mesh(*size)
    machine = Machine.of(graph)
    found = sweep_space(work, machine)
    assume(len(found))
    plan = found.plan(data.draw(st.integers(0, len(found) - 1)))
    check_sweep(work, plan, machine)
    return unpacked(work, result_of(work, plan, graph, packed(work, arrays), len(found)))


def packed(work: Sweep, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    assert isinstance(work, Elementwise | Rows | Columns)
    return work.pack(arrays)


def unpacked(work: Sweep, result: np.ndarray) -> np.ndarray:
    assert isinstance(work, Elementwise | Rows | Columns)
    return work.unpack(result)


OPERATIONS = st.one_of(
    st.builds(Operation, st.sampled_from(sorted(UNARY))),
    st.builds(Operation, st.just("linear"), st.just("none"), st.sampled_from((0.5, 2.0)), st.sampled_from((0.0, 1.0))),
    st.builds(Operation, st.sampled_from(sorted(BINARY)), st.sampled_from(("tensor", "row"))),
)


@examples(3, 100)
@given(st.data(), st.sampled_from(MESHES), *[st.integers(1, 200)] * 2, st.lists(OPERATIONS, min_size=1, max_size=3))
def test_every_plan_works_on_every_number(
    data: st.DataObject, size: tuple[int, int], rows: int, columns: int, operations: list[Operation]
) -> None:
    work = Elementwise(rows, columns, tuple(operations))
    arrays = operands(work.shapes(), rows)
    expected, number = arrays["X"].astype(np.float32), 0
    for op in operations:
        if op.operand != "none":
            expected = BINARY[op.kind](expected, arrays[f"Y{number}"].astype(np.float32))
            number += 1
        else:
            expected = expected * op.factor + op.shift if op.kind == "linear" else UNARY[op.kind](expected)
    np.testing.assert_allclose(ran(data, size, work, arrays), expected, rtol=2e-3, atol=2e-3)


@examples(3, 100)
@given(st.data(), st.sampled_from(MESHES), *[st.integers(1, 300)] * 2, st.sampled_from(("sum", "mean", "max")))
def test_every_plan_reduces_rows_and_columns(
    data: st.DataObject, size: tuple[int, int], rows: int, columns: int, kind: str
) -> None:
    reduce: Any = {"sum": np.sum, "mean": np.mean, "max": np.max}[kind]
    for axis, work in ((1, Rows(rows, columns, kind)), (0, Columns(rows, columns, kind))):  # type: ignore[arg-type]
        arrays = operands(work.shapes(), rows)
        arrays["X"] -= np.float16(2 * (kind == "max"))  # padding must not count as the largest
        expected = reduce(arrays["X"].astype(np.float32), axis=axis)
        np.testing.assert_allclose(ran(data, size, work, arrays), expected, rtol=1e-3, atol=1e-6)


@pytest.mark.slow
@examples(3, 100)
@given(st.data(), st.sampled_from(MESHES), st.integers(1, 200), st.integers(1, 400),
       st.sampled_from(("softmax", "layer_norm", "rms_norm")))
def test_every_plan_gives_norms_of_rows(
    data: st.DataObject, size: tuple[int, int], rows: int, columns: int, kind: str
) -> None:
    work = Rows(rows, columns, kind, scale=0.5 if kind == "softmax" else 1.0, epsilon=0.25)  # type: ignore[arg-type]
    arrays = operands(work.shapes(), rows)
    np.testing.assert_allclose(ran(data, size, work, arrays), normed(work, arrays), atol=4e-3, rtol=2e-3)


def normed(work: Rows, arrays: dict[str, np.ndarray]) -> np.ndarray:
    x = arrays["X"].astype(np.float32)
    if work.kind == "softmax":
        weights = np.exp(work.scale * (x - x.max(1, keepdims=True)))
        return weights / weights.sum(1, keepdims=True)
    centred = x - x.mean(1, keepdims=True) if work.kind == "layer_norm" else x
    y = centred / np.sqrt((centred ** 2).mean(1, keepdims=True) + work.epsilon) * arrays["gamma"]
    return y + arrays.get("beta", np.float16(0))


WORKS = (
    Elementwise(70, 100, (Operation("add", "tensor"), Operation("multiply", "row"), Operation("relu"))),
    Rows(40, 60, "softmax"), Rows(33, 64, "layer_norm"), Columns(70, 60, "sum"), Rows(40, 70, "max"),
)


@pytest.mark.slow
@pytest.mark.parametrize("work", [slow(WORKS[1]), WORKS[2], slow(WORKS[3])])
def test_the_oracle_runs_sweeps(work: Sweep) -> None:
    graph = mesh(2, 2)
    assert isinstance(work, Elementwise | Rows | Columns)
    plan = search_workload(work, graph, top_k=1).best.plan
    given_operands = work.pack(operands(work.shapes(), 3))
    stream = emitted(work, plan, Machine.of(graph))
    result = np.asarray(compile_stream(stream, isa_of(graph))(*given_operands.values())[0])
    np.testing.assert_allclose(result, run(stream, isa_of(graph), given_operands)["Z"], rtol=1e-3, atol=1e-6)


def worked(nodes: Sequence[Node]) -> int:
    """Passes of all vector units."""
    total = 0
    for node in nodes:
        if isinstance(node, Instr):
            values = {name: value.constant for name, value in node.attributes}
            total += passes(node.mnemonic, **values) if node.mnemonic in TABLE else 0
        else:
            total += node.extent * worked(node.body)
    return total


@examples(3, 100)
@given(st.data(), st.sampled_from(MESHES), *[st.integers(1, 300)] * 2, st.sampled_from((
    *(("rows", kind, scale) for kind in get_args(Reduced) + get_args(Normed) for scale in (1.0, 0.5)),
    *(("columns", kind, 1.0) for kind in get_args(Reduced)))))
def test_the_model_counts_the_passes_of_the_stream(
    data: st.DataObject, size: tuple[int, int], rows: int, columns: int, kind: tuple[str, Any, float]
) -> None:
    """But for what is done once with finished columns, and where cores put theirs together."""
    work = Rows(rows, columns, *kind[1:]) if kind[0] == "rows" else Columns(rows, columns, kind[1])
    machine, (m, n) = Machine.of(mesh(*size)), work.tiles
    found = sweep_space(work, machine)
    assume(len(found))
    plan = found.plan(data.draw(st.integers(0, len(found) - 1)))
    *_, counted = work.work(*(np.array([float(extent)]) for extent in ((1, n) if kind[0] == "rows" else (m, n))))
    once = 0 if kind[0] == "rows" or kind[1] == "sum" else n
    assert worked(emitted(work, plan, machine).body) == int(counted[0]) * (m if kind[0] == "rows" else 1) + once


@pytest.mark.first_case
@pytest.mark.parametrize("work", [
    Elementwise(1024, 2048, (Operation("add", "tensor"),)), Columns(4096, 1024, "sum"), Rows(4096, 384, "max"),
])
def test_what_memory_limits_takes_what_memory_takes(work: Sweep) -> None:
    graph = wormhole(rows=4, columns=4)
    machine, found = Machine.of(graph), search_workload(work, graph, top_k=3)
    moved = sum(2 * int(np.prod(shape)) for _, shape in work.tensors())
    passes = 1 if isinstance(work, Columns) else 2
    vector = work.tiles[0] * work.tiles[1] * passes * machine.vector_cycles / machine.cores
    bound = machine.launch_cycles + max(moved / machine.dram_bytes, vector)
    assert bound <= found.best.cycles < 1.2 * bound


@pytest.mark.slow
def test_the_cost_model_ranks_as_the_simulator_does() -> None:
    graph, work = wormhole(rows=2, columns=4), Elementwise(900, 1000, (Operation("gelu"),))
    machine = Machine.of(graph)
    found = sweep_space(work, machine)
    estimated = sweep_cycles(work, machine, found)
    chosen = np.argsort(estimated, kind="stable")[np.linspace(0, len(found) - 1, 20).astype(int)].tolist()
    cycles = [simulated(emitted(work, found.plan(i), machine), graph).cycles for i in chosen]
    order = np.argsort(np.argsort(cycles))
    assert np.corrcoef(order, np.arange(len(order)))[0, 1] > 0.9


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(MappingError, match="operation 'add' with operand 'none': expected one of relu"):
        Operation("add")
    with pytest.raises(MappingError, match="there must be an operation"):
        Elementwise(2, 2, ())
    with pytest.raises(MappingError, match="the kind one of sum, mean, max, softmax"):
        Rows(2, 2, "median")  # type: ignore[arg-type]
    with pytest.raises(MappingError, match=r"the kind one of sum, mean, max$"):
        Columns(2, 2, "softmax")  # type: ignore[arg-type]
    with pytest.raises(MappingError, match="smallest block of 1 x 1 tiles needs in a core 63 tiles of operands, of "
                                           "which it holds 40"):
        search_workload(Rows(8, 2000, "sum"), mesh(1, 1))
    machine = Machine.of(mesh(2, 2))
    with pytest.raises(MappingError, match="over 4 rows, of which there are 2; columns of tiles cannot be dealt"):
        check_sweep(Rows(64, 64, "sum"), SweepPlan((1, 2), (2, 2), (2, 1)), machine)
    with pytest.raises(MappingError, match="a block must have 1 rows of tiles, not 2"):
        check_sweep(Rows(64, 64, "sum"), SweepPlan((2, 1), (2, 1), (2, 1)), machine)
    with pytest.raises(MappingError, match="expected the JSON form of a plan of a sweep"):
        SweepPlan.from_json('{"block":[1]}')
