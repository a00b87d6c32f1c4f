"""Runs that are not waited for: the rest of long loops in proportion, as many instructions, nearly as many cycles."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.timing import Patience, simulate_bound
from archloom.acadl_models.timing.engine import remembered, run
from archloom.acadl_models.timing.machine import bind
from archloom.acadl_models.timing.program import Program
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.explore import ENVIRONMENT, patience
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from archloom.tvm_backend.targets.choice import choose
from tests.support.examples import examples

IMPATIENT = Patience(whole=0, begin=1 << 12, part=1 << 11, seen=1 << 12)
"""In small programs, too, loops are long."""

TARGETS: dict[str, dict[str, int]] = {
    "amx": {"l1_kib": 3, "l1_ways": 3, "l2_kib": 16, "l2_ways": 4}, "oma": {}, "plasticine": {}, "gemmini": {"dim": 4}}


def accelerator(name: str) -> Accelerator:
    return choose(name, {})[0].backend.accelerator


def product(sizes: tuple[int, int, int], name: str = "amx") -> Workload:
    """A product of what a target takes: bytes, or floats."""
    result, dtype = ("float32", "float32") if name == "plasticine" else ("int32", "int8")
    return gemm(*sizes, epilogue=Epilogue(False, 1.0, False, result), dtype=dtype)


def program(name: str, sizes: tuple[int, int, int]) -> Program:
    """The first mapping of a product that there is."""
    configuration = accelerator(name).configure(TARGETS[name])
    work = product(sizes, name)
    mapping, _ = configuration.space(work).first()
    return bind(configuration.graph, resolve(configuration.emit(work, mapping), configuration.isa))


@examples(6, 300)
@given(st.sampled_from(sorted(TARGETS)), st.tuples(*[st.integers(1, 70)] * 3), st.booleans())
def test_as_many_instructions_in_nearly_as_many_cycles(
    name: str, sizes: tuple[int, int, int], is_patient: bool
) -> None:
    try:
        found = program(name, sizes)
    except MappingError:
        return
    exact = simulate_bound(found)
    near = simulate_bound(found, patience=Patience() if is_patient else IMPATIENT)
    assert exact.exact
    if is_patient or near.exact:
        assert near == exact
        return
    assert near.stepped_instructions <= exact.stepped_instructions
    assert near.instructions == exact.instructions
    for unit, other in zip(near.units, exact.units, strict=True):  # up to what is under way at a pass, times the passes
        assert unit.instructions == pytest.approx(other.instructions, rel=0.1, abs=16)
    # on oma iterations of a few rows differ by as much as they find of each other in 32 lines: 14.7 % of 22 x 24 x 24
    assert near.cycles == pytest.approx(exact.cycles, rel=0.25 if name == "oma" else 0.1)


def test_a_long_product_behind_caches_is_taken_in_proportion() -> None:
    """So that the property above has something to say."""
    found = program("amx", (256, 512, 500))
    exact, near = simulate_bound(found), simulate_bound(found, patience=IMPATIENT)
    assert not near.exact and near.stepped_instructions < exact.stepped_instructions / 2
    assert near.cycles == pytest.approx(exact.cycles, rel=0.02)
    for cache, other in zip(near.caches, exact.caches, strict=True):
        assert cache.read_misses == pytest.approx(other.read_misses, rel=0.1)


def test_states_that_are_too_long_to_be_compared_are_taken_in_proportion_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As those of vectors whose elements lie in a line each: thousands of requests for each instruction in flight."""
    found = program("amx", (256, 512, 500))
    exact = simulate_bound(found)
    monkeypatch.setattr(remembered, "MOST_STATE_WORDS", 64)
    stepped, near = simulate_bound(found), simulate_bound(found, patience=IMPATIENT)
    assert stepped == exact and stepped.stepped_instructions == stepped.instructions
    assert not near.exact and near.stepped_instructions < stepped.stepped_instructions / 2
    assert near.cycles == pytest.approx(exact.cycles, rel=0.02)


@examples(3, 100)
@given(st.tuples(*[st.integers(20, 70)] * 3))
def test_loops_that_move_by_parts_of_lines(sizes: tuple[int, int, int]) -> None:
    """Of rows of odd bytes on scalar loads: of a cache of 1 KiB, iterations find their lines better or worse."""
    found = program("oma", sizes)
    exact, near = simulate_bound(found), simulate_bound(found, patience=replace(IMPATIENT, parts=1 << 14))
    assert near.instructions == exact.instructions
    for unit, other in zip(near.units, exact.units, strict=True):
        assert unit.instructions == pytest.approx(other.instructions, rel=0.1, abs=16)
    assert near.cycles == pytest.approx(exact.cycles, rel=0.5)


def test_rows_of_odd_bytes_are_taken_in_proportion_in_runs_that_are_very_long() -> None:
    """So that the property above has something to say. No 16 of the 61 rows of 67 bytes are whole lines of 32."""
    found = program("oma", (61, 33, 67))
    exact = simulate_bound(found)
    whole, parts = (simulate_bound(found, patience=replace(IMPATIENT, parts=n)) for n in (1 << 30, 1 << 14))
    assert whole.stepped_instructions == exact.stepped_instructions > 3 * parts.stepped_instructions
    assert not parts.exact and parts.cycles == pytest.approx(exact.cycles, rel=0.02)


def test_a_run_that_is_late_judges_by_less() -> None:
    found = program("oma", (61, 33, 67))
    exact, near = simulate_bound(found), simulate_bound(found, patience=IMPATIENT)
    late = simulate_bound(found, patience=replace(IMPATIENT, late=1 << 14))
    assert late.instructions == exact.instructions
    assert exact.stepped_instructions >= near.stepped_instructions > 2 * late.stepped_instructions
    assert late.cycles == pytest.approx(exact.cycles, rel=0.03)


@pytest.mark.parametrize("words", [1, 1 << 12])
def test_a_machine_with_too_little_room_for_what_is_in_flight_starts_again_with_more(
    monkeypatch: pytest.MonkeyPatch, words: int
) -> None:
    found = program("amx", (40, 40, 40))
    exact = simulate_bound(found)
    monkeypatch.setattr(run, "FIRST_WORDS", words)
    assert simulate_bound(found) == exact


def test_searches_wait_for_every_cycle_where_steps_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """One in proportion is the last of its search, and is not kept for a search that has patience."""
    monkeypatch.setattr("archloom.mapper.simulations.patience", lambda: IMPATIENT if patience() else None)
    work, machine = product((128, 256, 500)), accelerator("amx")
    near = search(work, machine, TARGETS["amx"])
    assert not near.timing.exact and near.simulated == 1
    monkeypatch.setenv(ENVIRONMENT, "100000000")
    exact = search(work, machine, TARGETS["amx"])
    anew = search(work, machine, TARGETS["amx"], use_cache=False)
    assert exact.timing.exact and exact == replace(anew, emit=exact.emit)
