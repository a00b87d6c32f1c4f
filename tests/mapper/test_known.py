"""What is known of machines that differ in sizes alone is what a search there finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.timing import simulate_bound
from archloom.acadl_models.timing.machine import bind
from archloom.mapper import disk, known
from archloom.mapper.accelerator import Accelerator, Configuration
from archloom.mapper.known import Kin, Run, Touched, noted, spread
from archloom.mapper.mapping import Mapping as TileMapping
from archloom.mapper.search import KEPT, known_cycles, search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle.errors import MappingError
from archloom.oracle.resolve import resolve
from archloom.tvm_backend.targets.choice import choose
from tests.support.examples import examples

SIZES = {"systolic_array": ("left_kib", "top_kib", "out_kib"), "qkv": ("operand_rows", "sum_rows"),
         "tpu_v1": ("unified_buffer_kib", "accumulator_kib"), "gemmini": ("scratchpad_kib", "accumulator_kib")}
LEAST = {"left_kib": 1, "top_kib": 1, "out_kib": 1, "operand_rows": 32, "sum_rows": 16, "unified_buffer_kib": 2,
         "accumulator_kib": 1, "scratchpad_kib": 1}
SHAPES = {"systolic_array": {"rows": 4, "columns": 8}, "qkv": {"dim": 8}, "tpu_v1": {"dim": 16}, "gemmini": {"dim": 4}}
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
    # what is told apart by its mapping fits wherever that does
    assert known_cycles(work, machine.configure(smaller)) == (cycles if target == "gemmini" else None)
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
    assert kin("amx") is None  # its caches have states
    made = accelerator("qkv").configure({"dim": 8})
    late = replace(made.graph["operands"], read_latency="cdiv(operand_rows, 64)")
    graph = replace(made.graph, objects={**made.graph.objects, "operands": late})
    found = Kin.of(graph, made.isa)
    assert found is not None and len(found.rows) == 1  # the operands' latency names their size


# --- banks and buses -------------------------------------------------------------------------------------------------
def test_what_lies_in_other_banks_is_told_apart() -> None:
    """The example of the docstring."""
    small, large = (accelerator("gemmini").configure({"dim": 4, "scratchpad_kib": kib}).graph for kib in (1, 2))
    mapping = TileMapping("add", "ws", ())

    def name(graph: ArchitectureGraph, *stretches: tuple[int, int]) -> str:
        return spread(Touched(mapping, {"spad": stretches}), graph)

    rows, more = (graph.buffers["spad"][-1].stop or 0 for graph in (small, large))
    bank = rows // 4
    assert name(small, (0, bank), (rows - 9, rows)) == name(large, (0, bank), (more - 9, more))
    assert name(small, (0, bank), (rows - 9, rows)) == name(large, (0, bank), (2 * bank, 2 * bank + 9))
    assert name(small, (0, bank + 1)) != name(large, (0, bank + 1))
    assert name(small, (0, 5), (5, 9)) != name(small, (0, 5), (bank, bank + 4))
    assert name(small, (0, 5)) != spread(Touched(replace(mapping, dataflow="os"), {"spad": ((0, 5),)}), small)


@st.composite
def layers(draw: st.DrawFn) -> Workload:
    epilogue = Epilogue(draw(st.booleans()), 1.0, False, draw(st.sampled_from(("int8", "int32"))))
    if draw(st.booleans()):
        m, n, k = (draw(st.integers(1, 40)) for _ in "mnk")
        return gemm(m, n, k, batch=draw(st.integers(1, 2)), shared_b=False, epilogue=epilogue)
    h, w, c, o = (draw(st.integers(3, 12)) for _ in "hwco")
    return conv2d(draw(st.integers(1, 2)), h, w, c, o, 3, 3, padding=(1, 1, 1, 1), groups=draw(st.integers(1, 2)),
                  epilogue=epilogue)


@st.composite
def gemminis(draw: st.DrawFn) -> tuple[Configuration, Configuration]:
    shared = {"dim": draw(st.sampled_from((4, 8))), "scratchpad_banks": draw(st.sampled_from((1, 2, 4))),
              "accumulator_banks": draw(st.sampled_from((1, 2))), "max_in_flight": draw(st.sampled_from((1, 16)))}
    one, other = ({"scratchpad_kib": draw(st.sampled_from((2, 4, 16, 64))), "accumulator_kib": draw(
        st.sampled_from((2, 4, 64))), "dma_bus_bits": draw(st.sampled_from((8, 32, 64)))} for _ in range(2))
    machine = accelerator("gemmini")
    return machine.configure(shared | one), machine.configure(shared | other)


@examples(20, 1000)
@given(layers(), gemminis(), st.integers(0, 1 << 20), st.sampled_from((1, 2, 16)))
def test_streams_by_one_name_take_as_long(
    work: Workload, machines: tuple[Configuration, Configuration], number: int, places: int
) -> None:
    """And touch what is said, on machines of the same kin; so do their steps, on which it depends what is tried."""
    try:
        space = machines[0].space(work)
        mapping = space.mapping(number % len(space))
        mappings = mapping, replace(mapping, buffers=tuple((dict(mapping.buffers) | {"C": places}).items()))
        programs = [bind(each.graph, resolve(each.emit(work, tried), each.isa))
                    for each, tried in zip(machines, mappings)]
    except MappingError:
        return
    kins, runs = [each.kin for each in machines], [simulate_bound(program) for program in programs]
    assert kins[0] is not None and kins[1] is not None and kins[0].key == kins[1].key
    names = [each.told_apart(work, tried, lambda: pytest.fail("is not needed"))
             for each, tried in zip(machines, mappings)]
    noted = Run(kins[0].rows, kins[0].ports, known.pieces(programs[0]), runs[0].cycles, 0, 0, 0)
    if names[0] == names[1] and known._tells(noted, kins[1].rows, kins[1].ports):
        assert (runs[0].cycles, runs[0].stepped_instructions) == (runs[1].cycles, runs[1].stepped_instructions)
    touched = machines[0].accelerator.touched
    assert touched is not None
    said = touched(work, mapping, machines[0].isa).rows
    for plan, values in ((plan, values) for static, values in programs[0].instances() for plan in static.plans):
        if plan.buffer.name in said and programs[0].count < 2000:
            words = plan.words + plan.word_offset.evaluate(values)
            assert any(first <= words[0] and words[-1] < end for first, end in said[plan.buffer.name])


def test_a_wider_bus_changes_nothing_for_what_is_as_short() -> None:
    """Rows of 4 bytes take a beat by 4 bytes a cycle as by 64, and two by 2."""
    work, machine = product("gemmini", 6, 6, 6), accelerator("gemmini")
    work = replace(work, epilogue=replace(work.epilogue, out_dtype="int8"), output=replace(work.output, dtype="int8"))
    with noted():
        cycles = search(work, machine, {"dim": 4, "dma_bus_bits": 32}, use_cache=False).timing.cycles
    assert known_cycles(work, machine.configure({"dim": 4, "dma_bus_bits": 512})) == cycles
    assert known_cycles(work, machine.configure({"dim": 4, "dma_bus_bits": 16})) is None
    assert known_cycles(work, machine.configure({"dim": 4, "dma_bus_bits": 32, "dram_latency_cycles": 99})) is None
