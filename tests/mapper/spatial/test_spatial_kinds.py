"""What holds of every kind of workload: simulators agree on its plans, which are kept, written and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.reference.simulator import simulate_reference
from archloom.mapper.cache import PLANS
from archloom.mapper.spatial import workloads
from archloom.mapper.spatial.attention.space import Attention
from archloom.mapper.spatial.chain.space import Chain
from archloom.mapper.spatial.epilogue import Epilogue
from archloom.mapper.spatial.machines.machine import Machine, isa_of
from archloom.mapper.spatial.plan import AttentionPlan, ChainPlan, PartedPlan, Plan, SweepPlan, TileGemm
from archloom.mapper.spatial.products.batched import Product
from archloom.mapper.spatial.products.convolution import Convolution
from archloom.mapper.spatial.sweeps.elementwise import Elementwise, Operation
from archloom.mapper.spatial.sweeps.reduction import Columns, Rows
from archloom.mapper.spatial.workloads import AnyPlan, AnyWork, emitted, planned, search_workload
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from tests.support.kept import change
from tests.support.mapper.small_meshes import mesh


@pytest.mark.slow
@pytest.mark.parametrize(("work", "plan"), [
    (Product(3, 64, 40, 64, epilogue=Epilogue(True, True, "gelu")), None),
    (Convolution(1, 8, 8, 64, 33, (3, 3), padding=(1, 1, 1, 1)), None),
    (Elementwise(70, 100, (Operation("gelu"),)), None), (Rows(70, 100, "softmax"), None),
    (Attention(2, 64, 96, 32), AttentionPlan((1, 1), (1, 1), (1, 2), ("row", "keep"))),
    (Chain(60, 40, 100, 70), ChainPlan((1, 2, 1, 1), (1, 1), (1, 2), ("none", "stream"), True)),
])
def test_the_engine_equals_the_step_by_step_simulator(work: AnyWork, plan: AnyPlan | None) -> None:
    graph = mesh(1, 2) if plan else mesh(2, 2)
    stream = emitted(work, plan or search_workload(work, graph, top_k=1).best.plan, Machine.of(graph))
    resolved = resolve(stream, isa_of(graph))
    assert simulate(graph, resolved).cycles == simulate_reference(graph, resolved).cycles


@pytest.mark.parametrize("work", [
    TileGemm(2, 3, 2), Product(2, 33, 64, 70), Attention.of(1, 2, 64, 32, causal=True), Chain(64, 64, 128, 64, "relu"),
    Columns(70, 100, "sum"),
])
def test_a_workload_is_searched_once(work: AnyWork, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHLOOM_CACHE_DIR", str(tmp_path))
    graph = mesh(1, 2)
    workloads.forget()
    first = planned(work, graph, top_k=2)
    assert planned(work, graph, top_k=2) is first
    assert type(first.plan).from_json(first.plan.to_json()) == first.plan
    workloads.forget()
    with monkeypatch.context() as without:
        without.setattr("archloom.mapper.spatial.workloads.search_workload", None)
        assert planned(work, graph, top_k=2) == first
    change(PLANS, lambda _: b"{")
    workloads.forget()
    assert planned(work, graph, top_k=2) == first


NO_PLANS = {
    Plan: ['{"block":[1,1,1]}'], PartedPlan: ['{"parts":[0,1],"plan":{}}', '{"parts":[1,1]}'],
    AttentionPlan: ['{"block":[1,0],"rows":[1,1],"columns":[1,1],"keys":["none","keep"]}'],
    ChainPlan: ['{"block":[1,1,1,0],"rows":[1,1],"columns":[1,1]}'], SweepPlan: ['{"block":[1]}'],
}


@pytest.mark.parametrize(("plan", "text"), [
    (plan, text) for plan, own in NO_PLANS.items() for text in ("", "[]", "{}", "null", "[1]", *own)
])
def test_what_is_no_plan_is_refused(plan: type[AnyPlan], text: str) -> None:
    with pytest.raises(MappingError, match=f"expected the {plan.form}, found"):
        plan.from_json(text)
