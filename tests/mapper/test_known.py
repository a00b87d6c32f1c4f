"""What is known of machines that differ in sizes alone is what a search there finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.mapper import disk, known
from archloom.mapper.accelerator import Accelerator
from archloom.mapper.known import Kin, noted
from archloom.mapper.search import KEPT, known_cycles, search
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle.errors import MappingError
from archloom.tvm_backend.targets.choice import choose
from tests.support.examples import examples

SIZES = {"systolic_array": ("left_kib", "top_kib", "out_kib"), "qkv": ("operand_rows", "sum_rows"),
         "tpu_v1": ("unified_buffer_kib", "accumulator_kib")}
LEAST = {"left_kib": 1, "top_kib": 1, "out_kib": 1, "operand_rows": 32, "sum_rows": 16, "unified_buffer_kib": 2,
         "accumulator_kib": 1}
SHAPES = {"systolic_array": {"rows": 4, "columns": 8}, "qkv": {"dim": 8}, "tpu_v1": {"dim": 16}}
extents = st.sampled_from((1, 7, 16, 20, 33, 64))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(disk.ENVIRONMENT, str(tmp_path))
    _forget()
    yield
    _forget()


def _forget() -> None:
    KEPT.forget()
    known.RUNS.forget()


def accelerator(target: str) -> Accelerator:
    return choose(target, {})[0].backend.accelerator


def product(target: str, m: int, n: int, k: int) -> Workload:
    dtype = {"qkv": "float32", "tpu_v1": "int8"}.get(target, "int32")
    return gemm(m, n, k, epilogue=Epilogue(False, 1.0, False, dtype), dtype="float32" if target == "qkv" else "int8")


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, dict[str, int], dict[str, int]]:
    """A target, and two machines: the second has as much room or more in each of its memories."""
    target = draw(st.sampled_from(sorted(SIZES)))
    less = {name: LEAST[name] << draw(st.integers(0, 3)) for name in SIZES[target]}
    more = {name: rows << draw(st.integers(0, 3)) for name, rows in less.items()}
    return target, SHAPES[target] | less, SHAPES[target] | more


@examples(8, 300)
@given(pairs(), extents, extents, extents)
def test_what_is_known_is_what_a_search_finds(
    machines: tuple[str, dict[str, int], dict[str, int]], m: int, n: int, k: int
) -> None:
    target, less, more = machines
    work, machine = product(target, m, n, k), accelerator(target)
    _forget()
    try:
        with noted():
            search(work, machine, less, use_cache=False)
        found = known_cycles(work, machine.configure(more))
        assert found in (None, search(work, machine, more, use_cache=False).timing.cycles)
        assert less != more or found is not None
    except MappingError:
        assert known_cycles(work, machine.configure(less)) is None


@pytest.mark.parametrize("target", sorted(SIZES))
def test_more_room_changes_nothing_for_what_fits(target: str) -> None:
    work, machine = product(target, 8, 8, 8), accelerator(target)
    less = SHAPES[target] | {name: LEAST[name] << 5 for name in SIZES[target]}
    more = less | {name: LEAST[name] << 6 for name in SIZES[target]}
    assert known_cycles(work, machine.configure(more)) is None
    search(work, machine, less, use_cache=False)
    assert known_cycles(work, machine.configure(more)) is None  # nothing was to be noted
    with noted():
        cycles = search(work, machine, less, use_cache=False).timing.cycles
    known.RUNS.forget()  # what other processes find is on disk
    assert known_cycles(work, machine.configure(more)) == cycles
    smaller = less | {SIZES[target][0]: LEAST[SIZES[target][0]] << 4}
    assert known_cycles(work, machine.configure(smaller)) is None
    assert known_cycles(product(target, 8, 8, 9), machine.configure(more)) is None


def test_a_plan_that_is_kept_is_known() -> None:
    work, machine = product("gemmini", 8, 8, 8), accelerator("gemmini")
    assert known_cycles(work, machine.configure({"dim": 4})) is None
    assert search(work, machine, {"dim": 4}).timing.cycles == known_cycles(work, machine.configure({"dim": 4}))


def kin(target: str, **options: int) -> Kin | None:
    return accelerator(target).configure(options).kin


def test_only_what_says_nothing_else_may_differ() -> None:
    one, other = kin("qkv", dim=8, operand_rows=64, sum_rows=16), kin("qkv", dim=8, operand_rows=32, sum_rows=32)
    third = kin("qkv", dim=16, operand_rows=64, sum_rows=16)
    assert one is not None and other is not None and third is not None
    assert one.key == other.key != third.key and (one.rows, other.rows) == ((64, 16), (32, 32))
    assert kin("gemmini") is None  # borders of its banks move with the size
    made = accelerator("qkv").configure({"dim": 8})
    late = replace(made.graph["operands"], read_latency="cdiv(operand_rows, 64)")
    graph = replace(made.graph, objects={**made.graph.objects, "operands": late})
    found = Kin.of(graph, made.isa)
    assert found is not None and len(found.rows) == 1  # the operands' latency names their size
