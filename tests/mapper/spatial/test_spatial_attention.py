"""Attention over meshes of cores: every plan gives softmax(Q K^T) V, and the search finds a good one."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mesh import mesh as any_mesh
from archloom.acadl_models.triple_ring import triple_ring
from archloom.acadl_models.wormhole import wormhole
from archloom.mapper.spatial.attention import emit as attention_emit
from archloom.mapper.spatial.attention.cost import attention_cycles
from archloom.mapper.spatial.attention.space import Attention, attention_space, check, footprint
from archloom.mapper.spatial.attention.steps import turns
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import LEVELS, AttentionPlan
from archloom.mapper.spatial.programs.timing import simulated
from archloom.mapper.spatial.programs.touches import instances
from archloom.mapper.spatial.workloads import emitted, search_workload
from archloom.oracle.errors import MappingError
from archloom.oracle.interpreter import run
from archloom.oracle.resolve import MAX_INSTRUCTIONS
from archloom.oracle.xla import compile_stream
from benchmarks.cores.templates import vendor_attention
from tests.support.examples import every, examples, slow
from tests.support.mapper import small_meshes
from tests.support.mapper.spatial_checks import result_of

MESHES = ((1, 1), (1, 2), (2, 2), (2, 3))


def mesh(rows: int, columns: int) -> ArchitectureGraph:
    return small_meshes.mesh(rows, columns, sums=20, tiles=61, stats=32)


def divisors(extent: int) -> st.SearchStrategy[int]:
    return st.sampled_from([d for d in range(1, extent + 1) if extent % d == 0])


@st.composite
def plans(draw: st.DrawFn, rows: int, columns: int, split: bool = False) -> AttentionPlan:
    """Any plan; with ``split`` one that deals keys out as it may."""
    sizes = st.integers(1, 3)
    way = draw(st.sampled_from(("none", "row", "column", "down", "across")))
    parts = (draw(divisors(rows)), draw(divisors(columns))) if split else (1, 1)
    over = [(d, extent // part // d) for extent, part in ((rows, parts[0]), (columns, parts[1]))
            for d in [draw(divisors(extent // part))]]
    return AttentionPlan(
        (draw(sizes), draw(sizes)), *over, (way, draw(st.sampled_from(LEVELS))), parts)  # type: ignore[arg-type]


def tensors(attention: Attention) -> list[np.ndarray]:
    """Q, K and V, and what is added to the scores, as a model has them."""
    random = np.random.default_rng(attention.queries + 131 * attention.keys)
    shapes = [(attention.problems, attention.group, attention.queries, attention.width)]
    shapes += [(attention.problems, attention.keys, attention.width)] * 2
    found = [random.standard_normal(shape).astype(np.float16) for shape in shapes]
    if not attention.bias:
        return found
    # of each head's keys; some count for nothing, but never the first
    bias = random.standard_normal((attention.problems, attention.group, 1, attention.keys)).astype(np.float32)
    bias[..., 1:][random.random(bias[..., 1:].shape) < 0.2] = -1e9
    return [*found, bias]


def tiled(
    attention: Attention, q: np.ndarray, k: np.ndarray, v: np.ndarray, bias: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    found = {"Q": attention.query_tiles(q), "K": attention.key_tiles(k), "V": attention.key_tiles(v)}
    return found if bias is None else found | {"B": attention.bias_tiles(bias)}


def expected(attention: Attention, q: np.ndarray, k: np.ndarray, v: np.ndarray, *bias: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float32) @ k.astype(np.float32).transpose(0, 2, 1)[:, None] * attention.scale
    scores = sum(bias, start=scores)
    if attention.past is not None:
        last = np.arange(attention.queries)[:, None] + attention.past
        scores = np.where(np.arange(attention.keys) <= last, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v.astype(np.float32)[:, None]


def fits(attention: Attention, plan: AttentionPlan, machine: Machine) -> bool:
    try:
        check(attention, plan, machine)
    except MappingError:
        return False
    return True


@st.composite
def attentions(draw: st.DrawFn) -> Attention:
    """All queries see all keys, or a causal mask from any key on; of one head or a group."""
    past = draw(st.none() | st.integers(0, 70))
    return Attention(
        draw(st.integers(1, 4)), draw(st.integers(1, 100)), draw(st.integers(1, 130)),
        draw(st.sampled_from((16, 32, 40))), draw(st.integers(1, 3)), past, draw(st.booleans()))


def check_numbers(data: st.DataObject, size: tuple[int, int], attention: Attention) -> None:
    """Also where blocks have to end together, so that the program is short."""
    graph = mesh(*size)
    plan = data.draw(plans(*size, split=attention.past is None))
    assume(fits(attention, plan, Machine.of(graph)))
    given_tensors = tensors(attention)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_emit, "MAX_INSTRUCTIONS", data.draw(st.sampled_from((4096, 60, 20))))
        tiles = result_of(attention, plan, graph, tiled(attention, *given_tensors), attention.keys)
    result = attention.output(tiles).astype(np.float32)
    np.testing.assert_allclose(result, expected(attention, *given_tensors), atol=2e-3)


@examples(3, 300)
@given(st.data(), st.tuples(st.integers(1, 4), st.integers(1, 4)), attentions())
def test_every_plan_that_fits_gives_attention(
    data: st.DataObject, size: tuple[int, int], attention: Attention
) -> None:
    check_numbers(data, size, attention)


@examples(10, 100)
@given(st.integers(1, 900), st.integers(0, 70), st.integers(1, 9), st.sampled_from(((8, 8), (1, 4), (3, 2))),
       st.sampled_from((1, 2, 4, 8, 16)))
def test_cores_that_do_alike_are_one_part(
    queries: int, past: int, step: int, size: tuple[int, int], grain: int
) -> None:
    """Every place has the keys that its queries see, once, whatever it is grouped with, and masked ones behind them."""
    attention = Attention(1, queries, queries + past, 32, 1, past)
    plan = AttentionPlan((1, step), (1, size[0]), (1, size[1]), ("row", "stream"))
    found, numbers = turns(attention, plan, grain), []
    for turn in found:
        for number in range(turn.first, turn.first + turn.count):
            numbers.append(number)
            seen: dict[int, int] = {}
            clear: dict[int, int] = {}
            for run_of in turn.runs:
                for part in run_of.parts:
                    for place in (i * size[1] + j for i in part.zone.slow for j in part.zone.fast):
                        seen[place] = seen.get(place, 0) + run_of.count * part.keys
                        clear[place] = clear.get(place, 0) + run_of.count * part.keys * (not part.masked)
            for place, keys in seen.items():
                own = size[0] * size[1] - 1 - place if turn.turned else place
                row = number * size[0] * size[1] + own
                every, some = attention.seen(row, row)
                assert clear[place] <= every
                assert keys == some if grain == 1 else some <= keys <= min(attention.keys, some + 32 * (grain - 1))
            assert len(seen) == turn.places
    assert numbers == list(range(len(numbers)))
    assert len(found) <= len(turns(attention, plan))


@pytest.mark.slow
def test_a_long_causal_sequence_has_a_short_text() -> None:
    """Written out is what differs: the step of each core in which its last keys end."""
    attention, machine = Attention(8, 16384, 16384, 64, 1, 0), Machine.of(wormhole())
    plan = AttentionPlan((1, 23), (1, 8), (1, 8), ("row", "stream"))
    stream = emitted(attention, plan, machine)
    assert sum(1 for _ in instances(stream.body)) < 3000
    assert stream.count() > 200_000


@pytest.mark.slow
@pytest.mark.parametrize(("queries", "size"), [(1 << 15, (8, 8)), slow(15_000, (1, 2))])
def test_blocks_of_a_longer_one_end_together(queries: int, size: tuple[int, int]) -> None:
    """As few as can be, so that little is done beyond what is seen."""
    attention, machine = Attention(1, queries, queries, 64, 1, 0), Machine.of(wormhole(rows=size[0], columns=size[1]))
    plan = AttentionPlan((1, 16), (1, size[0]), (1, size[1]), ("row", "stream"))
    body = list(instances(emitted(attention, plan, machine).body))
    assert 1500 < len(body) <= MAX_INSTRUCTIONS
    done = sum(len(i.position) * i.instr["m"].constant * i.instr["n"].constant for i in body
               if i.instr.mnemonic == "score")
    tiles = -(-queries // 32)
    assert tiles * (tiles + 1) // 2 <= done < 1.03 * tiles * (tiles + 1) // 2


@pytest.mark.slow
@pytest.mark.parametrize(("attention", "plan"), every(3, [
    (Attention(2, 64, 70, 32), AttentionPlan((1, 2), (1, 1), (1, 2), ("row", "stream"))),
    (Attention(1, 50, 90, 16, 2, 20, True), AttentionPlan((1, 2), (1, 1), (1, 2), ("none", "stream"))),
    (Attention(1, 1, 90, 40, 3), AttentionPlan((1, 1), (1, 1), (1, 1), ("none", "stream"), (1, 2))),
]))
def test_the_oracle_runs_all_cores_and_equals_the_interpreter(attention: Attention, plan: AttentionPlan) -> None:
    graph = mesh(1, 2)
    given_tensors = tensors(attention)
    tiles = tiled(attention, *given_tensors)
    stream = emitted(attention, plan, Machine.of(graph))
    found = np.asarray(compile_stream(stream, isa_of(graph))(*tiles.values())[0])
    np.testing.assert_array_equal(found, run(stream, isa_of(graph), tiles)["O"])
    result = attention.output(found).astype(np.float32)
    np.testing.assert_allclose(result, expected(attention, *given_tensors), atol=2e-3)


@pytest.mark.slow
def test_sharing_and_keeping_keys_pays_where_blocks_of_queries_are_small() -> None:
    graph, attention = wormhole(rows=2, columns=4), Attention.of(2, 4, 256, 32)
    machine = Machine.of(graph)
    found = search_workload(attention, graph, top_k=3)
    assert found.best.cycles < simulated(
        emitted(attention, vendor_attention(attention, machine), machine), graph).cycles
    assert abs(found.best.estimated_cycles / found.best.cycles - 1) < 0.1


@pytest.mark.parametrize("attention", [
    Attention.of(1, 6, 100, 64), Attention.of(1, 6, 100, 64, 2, causal=True), Attention.of(2, 4, 1, 32, 2, keys=90),
])
def test_candidates_fit_and_are_costed(attention: Attention) -> None:
    machine = Machine.of(mesh(2, 3))
    found = attention_space(attention, machine)
    estimated = attention_cycles(attention, machine, found)
    assert len(found) == len(estimated) > 0 and (estimated > machine.launch_cycles).all()
    for i in range(len(found)):
        check(attention, found.plan(i), machine)


@pytest.mark.slow
@pytest.mark.parametrize("attention", every(2, [
    Attention.of(1, 8, 512, 32), Attention.of(1, 8, 512, 32, 4, causal=True), Attention.of(2, 16, 1, 32, 4, keys=900),
]))
def test_the_cost_model_ranks_plans_as_the_simulation_does(attention: Attention) -> None:
    estimated, real = sampled(attention, wormhole(rows=2, columns=4), 12)
    first, second = (np.argsort(np.argsort(values, kind="stable")) for values in (estimated, real))
    assert np.corrcoef(first, second)[0, 1] >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "attention"), every(4, [
    ("square", Attention.of(1, 32, 1, 128, 8, keys=4096)), ("small cores", Attention.of(1, 8, 384, 64, 2)),
    ("small cores", Attention.of(1, 32, 1, 128, 8, keys=4096)), ("rings", Attention.of(1, 8, 384, 64, 2, causal=True)),
]))
def test_the_cost_model_ranks_plans_of_other_machines(machine: str, attention: Attention) -> None:
    graphs = {"square": lambda: any_mesh(2, 2), "small cores": lambda: any_mesh(4, 4, l1_bytes=1 << 19, sums=24),
              "rings": triple_ring}
    estimated, real = sampled(attention, graphs[machine](), 12)
    first, second = (np.argsort(np.argsort(values, kind="stable")) for values in (estimated, real))
    assert np.corrcoef(first, second)[0, 1] >= 0.95


def sampled(attention: Attention, graph: ArchitectureGraph, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimated and simulated cycles of candidates from the whole range of estimates up to eight times the best."""
    machine = Machine.of(graph)
    found = attention_space(attention, machine)
    estimated = attention_cycles(attention, machine, found)
    order = np.argsort(estimated, kind="stable")
    order = order[estimated[order] <= 8 * estimated[order[0]]]
    chosen = order[np.linspace(0, len(order) - 1, count).astype(int)]
    real = [simulated(emitted(attention, found.plan(i), machine), graph).cycles for i in chosen.tolist()]
    return estimated[chosen], np.array(real)


@pytest.mark.slow
@pytest.mark.parametrize(("size", "attention"), [
    ((2, 2), Attention.of(1, 8, 1, 64, 2, keys=300)), ((1, 2), Attention.of(1, 2, 96, 32, 1, causal=True)),
])
def test_the_search_finds_the_best_of_all_plans(size: tuple[int, int], attention: Attention) -> None:
    graph = wormhole(rows=size[0], columns=size[1], sums=12, stats=32, l1_bytes=2048 * (40 + 2 * 12 + 2))
    machine = Machine.of(graph)
    found = attention_space(attention, machine)
    every = [simulated(emitted(attention, found.plan(i), machine), graph).cycles for i in range(len(found))]
    assert search_workload(attention, graph).best.cycles <= 1.01 * min(every)


def test_grouped_queries_share_keys() -> None:
    assert Attention.of(2, 8, 64, 32, kv_heads=2) == Attention(4, 64, 64, 32, 4)
    assert Attention.of(2, 8, 64, 32, kv_heads=2).tiles == (8, 2, 1)
    # queries of a step of decoding fill one tile together; under a mask each head has tiles of its own
    assert Attention.of(2, 8, 1, 32, kv_heads=2, keys=100, causal=True) == Attention(4, 1, 100, 32, 4)
    assert Attention.of(2, 8, 1, 32, kv_heads=2, keys=100, causal=True).tiles == (1, 4, 1)
    assert Attention.of(2, 8, 5, 32, kv_heads=2, keys=100, causal=True).tiles == (4, 4, 1)
    with pytest.raises(MappingError, match="the heads of keys must divide those of queries"):
        Attention.of(2, 8, 64, 32, kv_heads=3)
    with pytest.raises(MappingError, match="the first query sees no key, as it stands 36 before the first"):
        Attention.of(2, 8, 64, 32, keys=28, causal=True)


def test_keys_that_nobody_sees_are_skipped() -> None:
    causal = Attention.of(1, 1, 512, 32, causal=True)
    plan = AttentionPlan((2, 2), (1, 1), (1, 1), ("none", "stream"))
    found = turns(causal, plan)
    assert [(t.first, t.steps) for t in found] == [(i, i + 1) for i in range(8)]
    masked = [[(steps.first, part.masked) for steps in t.runs for part in steps.parts] for t in found]
    assert masked[3] == [(0, False), (3, True)]
    seen = sum(s.count * part.tiles * part.zone.size for t in found for s in t.runs for part in s.parts)
    assert seen == 4 * 36  # 8 * 9 / 2 of the 64 blocks


def test_blocks_are_dealt_out_so_that_cores_have_equal_work() -> None:
    causal, plan = Attention.of(1, 1, 512, 32, causal=True), AttentionPlan((1, 1), (1, 1), (1, 4), ("none", "stream"))
    work = [0] * 4
    for turn in turns(causal, plan):
        for steps in turn.runs:
            for part in steps.parts:
                for place in part.zone.fast:
                    work[place] += turn.count * steps.count * part.tiles
    assert work == [34] * 4


@given(st.data())
def test_no_core_loads_keys_twice_that_it_keeps(data: st.DataObject) -> None:
    rows, columns = data.draw(st.sampled_from(MESHES))
    plan = replace(data.draw(plans(rows, columns)), keys=("none", "keep"))
    group, queries = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 200))
    attention = Attention(data.draw(st.integers(1, 2)), queries, queries, 32, group, 0)
    machine = Machine.of(mesh(rows, columns))
    assume(fits(attention, plan, machine))
    stream = emitted(attention, plan, machine)
    first, seen = next(a.address for a in stream.arguments if a.name == "K"), Counter[tuple[int, int]]()
    for each in instances(stream.body):
        if each.instr.mnemonic == "load":
            loads = zip(each.attribute("dram").tolist(), each.attribute("l1").tolist())
            seen.update((dram, l1 // machine.tiles) for dram, l1 in loads if dram >= first)
    assert seen and set(seen.values()) == {1}


def test_a_plan_that_needs_too_much_names_what() -> None:
    machine, attention = Machine.of(mesh(1, 2)), Attention(1, 512, 4096, 32)
    plan = AttentionPlan((4, 4), (1, 1), (1, 2), ("none", "keep"))
    assert footprint(attention, plan) == (8 + 32 + 256, 40, 24)
    with pytest.raises(MappingError, match="296 tiles of operands in a core, which holds 60; it needs 40 sums"):
        check(attention, plan, machine)
    with pytest.raises(MappingError, match="spreads loops over 4 columns, of which there are 2"):
        check(attention, AttentionPlan((1, 1), (1, 1), (2, 2), ("none", "stream")), machine)
