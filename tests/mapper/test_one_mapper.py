"""Plans of every target are no slower than what its own code chose before there was one mapper, but for what searches
leave for the sake of their own time: they end with a plan that is proven to be nearly the best, and by budgets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archloom.mapper.explore import PROVEN, Effort, Steps
from archloom.tvm_backend.targets import registry
from benchmarks.mapper import one_mapper
from tests.support.examples import every

BEFORE = json.loads(one_mapper.BEFORE.read_text())["cases"]
CASES = {case.key: case for case in one_mapper.cases()}
SAMPLE = [
    "gemmini: 13 x 7 x 29", "gemmini: odd 3x3", "gemmini (dim=32,dataflow=os): 100 x 37 x 75",
    "systolic_array (dataflow=ws): 64 x 64 x 64", "systolic_array (dataflow=os): 257 x 129 x 65",
    "systolic_array (dataflow=is): 13 x 7 x 29", "gamma: 100 x 37 x 75", "ai_engine: 257 x 129 x 65",
    "amx: 13 x 7 x 29", "tpu_v1: 257 x 129 x 65", "plasticine: 64 x 64 x 64", "qkv: 3136 x 64 x 256",
    "qkv: attention 1x3x50x77x24x40 with bias", "ultratrail: 64 x 64 x 64", "ultratrail: temporal 25 x 32, 9",
    "oma: 64 x 64 x 64", "eyeriss: 16 x 16 x 16",
]


def most_cycles(key: str, found: dict[str, Any]) -> float:
    """What a plan may take: nearly what the former one did (the figure ``one_mapper: worst`` tells how nearly), or
    whatever is proven to be nearly the best. Where a budget ended the search before its first candidates were
    simulated, those left out may be better by as much as the estimates are not told apart by."""
    accelerator, former = registry.get(CASES[key].target).accelerator, BEFORE[key]["cycles"] or found["cycles"]
    ended = found["simulated"] < min(accelerator.top_k, found["considered"])
    near = Effort(Steps(key), accelerator.patience).near if ended else 1
    return PROVEN * max(near * former, found["bound"])


def test_the_table_has_every_case_and_every_target_of_one_core() -> None:
    assert set(CASES) == set(BEFORE)
    assert {case.target for case in CASES.values()} == {key.split(":")[0].split(" ")[0] for key in SAMPLE}


@pytest.mark.parametrize("key", every(4, SAMPLE))
def test_no_result_is_worse(key: str) -> None:
    found = one_mapper.planned(CASES[key])
    assert found["cycles"] <= most_cycles(key, found)


@pytest.mark.parametrize("key", every(4, [
    "amx: 196 x 256 x 1024", "gamma: 64 x 64 x 64", "oma: 16 x 16 x 16", "plasticine: 64 x 64 x 64",
    "systolic_array (dataflow=os): 64 x 64 x 64", "tpu_v1: 13 x 7 x 29", "ultratrail: 64 x 64 x 64",
    "ai_engine: 64 x 64 x 64", "qkv: attention 1x3x50x77x24x40",
    "eyeriss: 64 x 64 x 64", "eyeriss: 1 x 100 x 200",
]))
def test_the_model_ranks_candidates_as_the_simulator_does(key: str) -> None:
    correlation = one_mapper.ranked(CASES[key], seed=0, samples=16).correlation
    assert correlation is not None and correlation > 0.9


@pytest.mark.parametrize("key", [
    "qkv: 64 x 64 x 64", "gamma: 13 x 7 x 29", "plasticine: 13 x 7 x 29",
    pytest.param("eyeriss: 1 x 100 x 200", marks=pytest.mark.slow)])
def test_nearly_the_best_of_all_is_chosen(key: str) -> None:
    case = CASES[key]
    over = one_mapper.compared(case, one_mapper.planned(case))
    assert over is not None and over <= PROVEN


@pytest.mark.slow
def test_no_result_of_all_is_worse() -> None:
    found = {key: one_mapper.planned(case) for key, case in CASES.items()}
    assert all(plan["cycles"] for plan in found.values())
    assert not {key: plan for key, plan in found.items() if plan["cycles"] > most_cycles(key, plan)}
