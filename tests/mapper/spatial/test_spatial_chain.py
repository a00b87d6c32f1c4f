"""Chains of two products over meshes of cores: every plan gives activation(A W1) W2, the search finds a good one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.chain.cost import chain_cycles
from archloom.mapper.spatial.chain.space import PATTERNS, Chain, chain_space, check, footprint
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import LEVELS, ChainPlan
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.workloads import emitted, search_workload
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.xla import compile_stream
from tests.support.examples import examples, slow
from tests.support.mapper import small_meshes
from tests.support.mapper.spatial_checks import result_of

MESHES = ((1, 1), (1, 2), (2, 2), (2, 3), (1, 4), (3, 1), (3, 3))


def mesh(rows: int, columns: int) -> ArchitectureGraph:
    return small_meshes.mesh(rows, columns, tiles=60)


def pairs(extent: int) -> list[tuple[int, int]]:
    return [(a, extent // a) for a in range(1, extent + 1) if extent % a == 0]


@st.composite
def plans(draw: st.DrawFn, rows: int, columns: int) -> ChainPlan:
    sizes = st.integers(1, 3)
    return ChainPlan(
        (draw(sizes), draw(sizes), draw(sizes), draw(sizes)), draw(st.sampled_from(pairs(rows))),
        draw(st.sampled_from(pairs(columns))),
        (draw(st.sampled_from(PATTERNS)), draw(st.sampled_from(LEVELS))), draw(st.booleans()), draw(sizes),
    )


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    m, k, hidden, n = (draw(st.integers(1, 160)) for _ in range(4))
    biases = draw(st.booleans()), draw(st.booleans())
    activation = draw(st.sampled_from((None, "relu", "gelu", "tanh", "sigmoid")))
    return Chain(m, k, hidden, n, activation, biases, draw(st.booleans()))


def tensors(chain: Chain) -> dict[str, np.ndarray]:
    random = np.random.default_rng(chain.m + 131 * chain.hidden)
    return {name: (random.standard_normal(shape) / math.sqrt(shape[0] if name[0] == "W" else 1)).astype(np.float16)
            for name, shape in chain.shapes().items()}


def expected(chain: Chain, arrays: dict[str, np.ndarray]) -> np.ndarray:
    given = {name: array.astype(np.float32) for name, array in arrays.items()}
    x = given["A"] @ given["W1"] + given.get("bias1", 0)
    functions = {
        None: lambda: x, "relu": lambda: np.maximum(x, 0), "tanh": lambda: np.tanh(x),
        "sigmoid": lambda: 1 / (1 + np.exp(-x)),
        "gelu": lambda: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    }
    hidden = functions[chain.activation]().astype(np.float16).astype(np.float32)
    return np.asarray(hidden @ given["W2"] + given.get("bias2", 0) + given.get("residual", 0))


def check_numbers(data: st.DataObject, size: tuple[int, int], chain: Chain) -> None:
    graph = mesh(*size)
    plan = data.draw(plans(*size))
    try:
        check(chain, plan, Machine.of(graph))
    except MappingError:
        assume(False)
    arrays = tensors(chain)
    result = chain.unpack(result_of(chain, plan, graph, chain.pack(arrays), chain.n)).astype(np.float32)
    np.testing.assert_allclose(result, expected(chain, arrays), atol=4e-3, rtol=2e-3)


@pytest.mark.slow
@examples(4, 300)
@given(st.data(), st.tuples(st.integers(1, 4), st.integers(1, 4)), chains())
def test_every_plan_that_fits_gives_the_chain(data: st.DataObject, size: tuple[int, int], chain: Chain) -> None:
    check_numbers(data, size, chain)


@pytest.mark.first_case
@pytest.mark.parametrize(("chain", "plan"), [
    (Chain(60, 40, 100, 70), ChainPlan((1, 2, 1, 1), (1, 1), (1, 2), ("none", "stream"), True)),
    (Chain(100, 40, 60, 30, "relu"), ChainPlan((2, 1, 1, 2), (1, 1), (2, 1), ("row", "keep"), False)),
    (Chain(100, 40, 90, 70, "gelu", (True, True), True),
     ChainPlan((1, 1, 2, 1), (1, 1), (1, 2), ("none", "stream"), True)),
])
def test_the_oracle_runs_all_cores_and_equals_the_interpreter(chain: Chain, plan: ChainPlan) -> None:
    graph, arrays = mesh(1, 2), tensors(chain)
    stream, tiles = emitted(chain, plan, Machine.of(graph)), chain.pack(arrays)
    oracle = compile_stream(stream, isa_of(graph))
    found = np.asarray(oracle(*tiles.values())[0])
    np.testing.assert_array_equal(found, run(stream, isa_of(graph), tiles)["C"])
    result = chain.unpack(found).astype(np.float32)
    np.testing.assert_allclose(result, expected(chain, arrays), atol=4e-3, rtol=2e-3)


def test_biases_and_a_residual_need_room_and_lie_behind_the_weights() -> None:
    chain = Chain(128, 64, 256, 64, "gelu", (True, True), True)
    plan = ChainPlan((1, 2, 1, 2), (1, 1), (1, 2), ("none", "stream"), True)
    stream, plain = (emitted(c, plan, Machine.of(mesh(1, 2))) for c in (chain, Chain(128, 64, 256, 64)))
    assert [t.name for t in stream.arguments] == ["A", "W1", "W2", "bias1", "bias2", "residual"]
    assert stream.hbm_bytes == plain.hbm_bytes + 2048 * 8 + 64 * (8 + 2)
    # two blocks of a bias of two tiles, or of one and of a tile of the residual
    assert footprint(chain, plan)[0] == footprint(Chain(128, 64, 256, 64), plan)[0] + 2 * 2
    with pytest.raises(MappingError, match="expected the operands A, W1, W2, bias1, bias2, residual, found A"):
        chain.pack({"A": np.zeros((128, 64), np.float16)})


def test_the_block_in_the_middle_is_not_stored() -> None:
    chain, plan = Chain(128, 64, 256, 64), ChainPlan((1, 2, 1, 2), (1, 1), (1, 2), ("none", "stream"), True)
    stream = emitted(chain, plan, Machine.of(mesh(1, 2)))
    assert [(t.name, t.shape[:2]) for t in (*stream.arguments, *stream.results)] == [
        ("A", (4, 2)), ("W1", (2, 8)), ("W2", (8, 2)), ("C", (4, 2))]
    assert stream.hbm_bytes == 64 + 2048 * (8 + 16 + 16 + 8)


@pytest.mark.slow
@pytest.mark.parametrize("chain", [slow(Chain(512, 256, 1024, 256)), Chain(64, 256, 512, 128, "relu")])
def test_the_cost_model_ranks_plans_as_the_simulation_does(chain: Chain) -> None:
    graph = wormhole(rows=2, columns=2)
    machine = Machine.of(graph)
    found = chain_space(chain, machine)
    estimated = chain_cycles(chain, machine, found)
    order = np.argsort(estimated, kind="stable")
    order = order[estimated[order] <= 4 * estimated[order[0]]]
    chosen = order[np.linspace(0, len(order) - 1, 20).astype(int)].tolist()
    plans_of = [found.plan(i) for i in chosen]
    real = [simulated(emitted(chain, plan, machine), graph).cycles for plan in plans_of]
    ranks = [np.argsort(np.argsort(values, kind="stable")) for values in (estimated[chosen], real)]
    assert np.corrcoef(*ranks)[0, 1] > 0.9


@pytest.mark.slow
def test_the_search_finds_the_best_of_all_plans() -> None:
    graph, chain = wormhole(rows=1, columns=2, sums=8, stats=32, l1_bytes=2048 * 42), Chain(40, 40, 160, 40, "relu")
    machine = Machine.of(graph)
    found = chain_space(chain, machine)
    every = [simulated(emitted(chain, found.plan(i), machine), graph).cycles for i in range(len(found))]
    assert search_workload(chain, graph).best.cycles <= 1.01 * min(every)


@pytest.mark.slow
def test_a_chain_takes_less_time_than_its_two_products() -> None:
    graph, chain = wormhole(rows=2, columns=4), Chain(512, 256, 1024, 256)
    best = search_workload(chain, graph, top_k=2).best
    apart = [
        search_workload(Product(1, 512, 1024, 256, epilogue=Epilogue(activation="gelu")), graph, top_k=2),
        search_workload(Product(1, 512, 256, 1024), graph, top_k=2),
    ]
    assert best.cycles < sum(found.best.cycles for found in apart)


def test_a_plan_that_needs_too_much_names_what() -> None:
    machine, chain = Machine.of(mesh(2, 2)), Chain(512, 512, 1024, 512)
    plan = ChainPlan((3, 4, 2, 4), (1, 2), (1, 2), ("down", "stream"), False)
    assert footprint(chain, plan) == (3 * 48 + 32, 12)
    with pytest.raises(MappingError) as error:
        check(chain, plan, machine)
    for part in ("weights go to all cores", "it needs 12 sums", "176 tiles"):
        assert part in str(error.value)
    with pytest.raises(MappingError, match="it needs 96 tiles of operands in a core, which holds 60"):
        search_workload(Chain(32, 32 * 80, 32 * 14, 32), mesh(1, 2))
    with pytest.raises(MappingError, match="activation 'swash': expected one of relu, gelu"):
        Chain(1, 1, 1, 1, "swash")
    with pytest.raises(MappingError, match="every extent must be at least 1"):
        Chain(1, 0, 1, 1)
