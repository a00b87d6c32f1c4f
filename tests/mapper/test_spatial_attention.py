"""Attention over meshes of cores: every plan gives softmax(Q K^T) V, and the search finds a good one."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from acadl_models.acadl import ArchitectureGraph
from acadl_models.timing import simulate
from acadl_models.timing.reference.simulator import simulate_reference
from acadl_models.wormhole import wormhole
from mapper.spatial.attention import Attention, AttentionPlan, check, footprint, from_tiles, to_tiles
from mapper.spatial.attention_emit import emit_attention
from mapper.spatial.attention_search import attention_cycles, attention_space, search_attention, vendor_attention
from mapper.spatial.machine import Machine
from mapper.spatial.plan import LEVELS
from mapper.spatial.timing import isa_of, simulated
from oracle.errors import MappingError
from oracle.interpreter import run
from oracle.resolve import resolve
from oracle.xla import compile_stream

MESHES = ((1, 1), (1, 2), (2, 2), (2, 3))

QUICK = {
    "launch_cycles": 10, "product_cycles": 3, "block_cycles": 10, "vector_cycles": 1, "dram_latency_cycles": 20,
    "dram_bytes_per_cycle": 2048, "noc_bytes_per_cycle": 256,
}
"""Times that are short for the step-by-step simulator."""


@cache
def mesh(rows: int, columns: int) -> ArchitectureGraph:
    l1_bytes = 2048 * (40 + 62)
    return wormhole(rows=rows, columns=columns, sums=20, stats=32, l1_bytes=l1_bytes, **QUICK)  # type: ignore[arg-type]


def pairs(extent: int) -> list[tuple[int, int]]:
    return [(a, extent // a) for a in range(1, extent + 1) if extent % a == 0]


@st.composite
def plans(draw: st.DrawFn, rows: int, columns: int) -> AttentionPlan:
    sizes = st.integers(1, 3)
    way = draw(st.sampled_from(("none", "row", "column", "down", "across")))
    return AttentionPlan(
        (draw(sizes), draw(sizes)), draw(st.sampled_from(pairs(rows))), draw(st.sampled_from(pairs(columns))),
        (way, draw(st.sampled_from(LEVELS))),  # type: ignore[arg-type]
    )


def tensors(attention: Attention) -> list[np.ndarray]:
    random = np.random.default_rng(attention.queries + 131 * attention.keys)
    shapes = [(attention.problems, n, attention.width) for n in (attention.queries, attention.keys, attention.keys)]
    return [random.standard_normal(shape).astype(np.float16) for shape in shapes]


def expected(attention: Attention, q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1) * attention.scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.astype(np.float32)


def fits(attention: Attention, plan: AttentionPlan, machine: Machine) -> bool:
    try:
        check(attention, plan, machine)
    except MappingError:
        return False
    return True


@settings(max_examples=15, deadline=None)
@given(st.data(), st.sampled_from(MESHES), st.integers(1, 4), *[st.integers(1, 100)] * 2, st.sampled_from((16, 32, 40)))
def test_every_plan_that_fits_gives_attention(
    data: st.DataObject, size: tuple[int, int], problems: int, queries: int, keys: int, width: int
) -> None:
    attention, graph = Attention(problems, queries, keys, width), mesh(*size)
    plan = data.draw(plans(*size))
    assume(fits(attention, plan, Machine.of(graph)))
    q, k, v = tensors(attention)
    stream = emit_attention(attention, plan, Machine.of(graph))
    tiles = run(stream, isa_of(graph), dict(zip("QKV", map(to_tiles, (q, k, v)))), poison=3)["O"]
    result = from_tiles(tiles, (queries, width))
    np.testing.assert_allclose(result.astype(np.float32), expected(attention, q, k, v), atol=2e-3)


def test_the_oracle_runs_all_cores() -> None:
    graph, attention = mesh(1, 2), Attention(2, 64, 70, 32)
    machine = Machine.of(graph)
    plan = AttentionPlan((1, 2), (1, 1), (1, 2), ("row", "stream"))
    q, k, v = tensors(attention)
    stream = emit_attention(attention, plan, machine)
    result = from_tiles(np.asarray(compile_stream(stream, isa_of(graph))(*map(to_tiles, (q, k, v)))[0]), (64, 32))
    np.testing.assert_allclose(result.astype(np.float32), expected(attention, q, k, v), atol=2e-3)


def test_the_engine_equals_the_step_by_step_simulator() -> None:
    graph, attention = mesh(1, 2), Attention(2, 64, 96, 32)
    plan = AttentionPlan((1, 1), (1, 1), (1, 2), ("row", "keep"))
    resolved = resolve(emit_attention(attention, plan, Machine.of(graph)), isa_of(graph))
    assert simulate(graph, resolved).cycles == simulate_reference(graph, resolved).cycles


def test_sharing_and_keeping_keys_pays_where_blocks_of_queries_are_small() -> None:
    graph, attention = wormhole(rows=2, columns=4), Attention.of(2, 4, 256, 32)
    machine = Machine.of(graph)
    found = search_attention(attention, graph, top_k=3)
    assert found.best.cycles < simulated(
        emit_attention(attention, vendor_attention(attention, machine), machine), graph).cycles
    assert abs(found.best.estimated_cycles / found.best.cycles - 1) < 0.1


def test_candidates_fit_and_are_costed() -> None:
    attention, machine = Attention.of(1, 6, 100, 64), Machine.of(mesh(2, 3))
    found = attention_space(attention, machine)
    assert found and len(attention_cycles(attention, machine, found)) == len(found)
    for plan in found:
        check(attention, plan, machine)


def test_grouped_queries_share_keys() -> None:
    assert Attention.of(2, 8, 64, 32, kv_heads=2) == Attention(4, 256, 64, 32)
    with pytest.raises(MappingError, match="the heads of keys must divide those of queries"):
        Attention.of(2, 8, 64, 32, kv_heads=3)


def test_a_plan_that_needs_too_much_names_what() -> None:
    machine, attention = Machine.of(mesh(1, 2)), Attention(1, 512, 4096, 32)
    plan = AttentionPlan((4, 4), (1, 1), (1, 2), ("none", "keep"))
    assert footprint(attention, plan) == (8 + 32 + 256, 40, 24)
    with pytest.raises(MappingError, match="296 tiles of operands in a core, which holds 60; it needs 40 sums"):
        check(attention, plan, machine)
    with pytest.raises(MappingError, match="spreads loops over 4 columns, of which there are 2"):
        check(attention, AttentionPlan((1, 1), (1, 1), (2, 2), ("none", "stream")), machine)
