"""What a convolution needs at least is what its definition in NumPy touches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.systolic_array.conventions import CONVENTIONS
from archloom.acadl_models.timing import simulate
from archloom.mapper.accelerator import Configuration
from archloom.mapper.bounds import exchanged, least, needs
from archloom.mapper.hardware import Hardware
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, conv2d, gemm
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.resolve import resolve
from archloom.tvm_backend.targets.choice import choose
from archloom.uma_targets.gemmini.target import GEMMINI
from archloom.uma_targets.qkv import Qkv
from archloom.uma_targets.systolic_array.target import SystolicArray
from tests.mapper.test_places import graph_of
from tests.support.acadl_models.reordering import exchanged as with_objects
from tests.support.examples import examples
from tests.support.mapper.numpy_workload import evaluate

SUMS = Epilogue(False, 1.0, False, "int32")
few, sides = st.integers(1, 3), st.integers(1, 6)


@st.composite
def convolutions(draw: st.DrawFn) -> Workload:
    h, w, kh, kw = draw(sides), draw(sides), draw(few), draw(few)
    stride, dilation = (draw(few), draw(few)), (draw(few), draw(few))
    padding = tuple(draw(st.integers(0, 2)) for _ in range(4))
    assume(h + padding[0] + padding[2] > (kh - 1) * dilation[0])
    assume(w + padding[1] + padding[3] > (kw - 1) * dilation[1])
    return conv2d(1, h, w, draw(few), draw(few), kh, kw, stride=stride, dilation=dilation, groups=draw(few),
                  padding=padding, epilogue=SUMS)  # type: ignore[arg-type]


def touched(workload: Workload, which: int) -> int:
    """Elements of an operand on which the result depends, where the other is all ones."""
    ones = {t.name: np.ones(t.shape, np.int8) for t in workload.inputs}
    tensor, found = workload.inputs[which], 0
    for index in np.ndindex(*tensor.shape):
        alone = np.zeros(tensor.shape, np.int8)
        alone[index] = 1
        found += bool(evaluate(workload, {**ones, tensor.name: alone}).any())
    return found


@pytest.mark.slow
@examples(40, 1000)
@given(convolutions())
def test_a_convolution_needs_what_its_definition_touches(workload: Workload) -> None:
    ones = {t.name: np.ones(t.shape, np.int8) for t in workload.inputs}
    found = needs(workload)
    assert found.macs == evaluate(workload, ones).sum()
    assert found.read == touched(workload, 0) + touched(workload, 1)
    assert found.written == workload.output.size_bytes


def test_a_product_needs_all_of_its_matrices() -> None:
    found = needs(gemm(3, 4, 5, epilogue=SUMS))
    assert (found.macs, found.read, found.written) == (60, 15 + 20, 4 * 12)


def test_matrices_beyond_what_is_on_chip_are_moved_again() -> None:
    """By hand: 64 KiB of scratchpad and as much of an accumulator, 4 KiB of sums in the array, and statistics."""
    graph = GEMMINI.graph({"scratchpad_kib": 64, "accumulator_kib": 64, "dim": 32})
    room = (64 << 10) + (64 << 10) + 4096 + 6 * 4 * 4
    large = exchanged(gemm(2048, 2048, 2048, epilogue=SUMS), graph)
    assert large == int(2048**3 * (2 * 1 * 1 * 4 / room) ** 0.5 - 4 * room)
    assert large > 4 * 2048**2 and exchanged(gemm(64, 64, 64, epilogue=SUMS), graph) == 0
    assert exchanged(conv2d(1, 64, 64, 64, 64, 3, 3, epilogue=SUMS), graph) == 0


# --- several memories, and bursts --------------------------------------------------------------------------------
def of_graph(graph: ArchitectureGraph) -> Configuration:
    made = replace(GEMMINI, make_graph=lambda _: graph, macs_per_cycle=lambda _: 1 << 20, is_bounded=False)
    return Configuration(made, ())  # as it is, though no ISA fits it


def apart() -> ArchitectureGraph:
    """Constants in a memory of a byte a cycle, other tensors in one of 64."""
    graph = graph_of(("fast", 1 << 16, ("activations",)), ("slow", 1 << 16, ("weights",)))
    slow, fast = graph["slow"], graph["fast"]
    return with_objects(graph, replace(slow, read_latency=50), replace(fast, port_width=64, read_latency=3))


def test_what_lies_in_a_memory_passes_its_port() -> None:
    work = replace(gemm(10, 20, 30, epilogue=SUMS), constants=("B",))
    configuration = of_graph(apart())
    assert least(work, configuration).cycles == 50 + 20 * 30  # all of B
    assert least(replace(work, constants=("A",)), configuration).cycles == 50 + 10 * 30


def test_the_memory_of_a_tensor_is_that_of_its_role() -> None:
    hardware, work = Hardware.from_graph(apart()), replace(gemm(10, 20, 30, epilogue=SUMS), constants=("B",))
    found = [hardware.memory_of(work, name) for name in ("A", "B")]
    assert [(m.storage, m.size_bytes, m.bytes_per_cycle, m.read_latency_cycles) for m in found] == [
        ("fast", 1 << 16, 64, 3), ("slow", 1 << 16, 1, 50)]
    assert hardware.way("move").memory.storage == "slow" and hardware.way("move", "activations").latency == 3
    with pytest.raises(TargetError, match=r"several memories hold 'hbm' \(fast with activations, slow with weights\)"):
        hardware.memory("hbm")
    with pytest.raises(TargetError, match=r"no memory holds 'hbm' of tables"):
        hardware.memory("hbm", "tables")


@examples(3, 100)
@given(st.sampled_from([4, 64, 256]), *3 * [st.integers(1, 40)])
def test_nothing_is_below_its_bound_in_bursts(burst: int, m: int, n: int, k: int) -> None:
    def graph(options: object) -> ArchitectureGraph:
        found = GEMMINI.make_graph(options)  # type: ignore[arg-type]
        return with_objects(found, *(replace(d, burst_bytes=burst) for d in found.tensor_memories))

    work, machine = gemm(m, n, k, epilogue=SUMS), replace(GEMMINI, make_graph=graph)
    found = search(work, machine, {}, use_cache=False)
    assert found.timing.cycles >= least(work, machine.configure()).cycles
    assert found.timing.storage(machine.graph().tensor_memories[0].name).bytes_read % burst == 0


@examples(3, 100)
@given(st.sampled_from(["amx", "mte"]), st.sampled_from([1, 4, 64]), st.sampled_from([None, 1, 8]),
       st.sampled_from([1, 30, 220]), *3 * [st.integers(1, 40)])
def test_nothing_is_below_its_bound_behind_caches(
    name: str, slots: int, registers: int | None, misses: int, m: int, n: int, k: int
) -> None:
    """A line on its way keeps a slot of memory and a register."""
    (chosen,) = choose(name, {})
    accelerator, dtype = chosen.backend.accelerator, {"amx": "int8", "mte": "float32"}[name]

    def graph(options: object) -> ArchitectureGraph:
        found = accelerator.make_graph(options)
        last = next(cache for cache in found.caches if found.backing(cache) in found.tensor_memories)
        memory = replace(found.tensor_memories[0], max_concurrent_requests=slots)
        return with_objects(found, memory, replace(last, miss_latency=misses, miss_registers=registers))

    work, machine = gemm(m, n, k, epilogue=SUMS, dtype=dtype), replace(accelerator, make_graph=graph)
    found = search(work, machine, {}, use_cache=False).timing.cycles
    bound = least(work, machine.configure({})).cycles
    assert bound <= found
    if registers is None:  # the lines of both operands, of 64 bytes or more
        assert bound >= (m + n) * k // (128 * slots) * misses


# --- what targets prove of their mappings ----------------------------------------------------------------------------
@st.composite
def products_on_qkv(draw: st.DrawFn) -> tuple[Workload, Configuration]:
    dim = draw(st.sampled_from((4, 8)))
    options = {"dim": dim, "operand_rows": dim * draw(st.integers(4, 40)), "sum_rows": dim * draw(st.integers(2, 9)),
               "bus_bytes": draw(st.sampled_from((4, 8, 32))), "dram_cycles": draw(st.sampled_from((1, 20, 50))),
               "in_flight": draw(st.sampled_from((1, 2, 8)))}
    return products(draw, "float32", "float32"), Qkv.kit.accelerator.configure(options)


@st.composite
def products_on_arrays(draw: st.DrawFn) -> tuple[Workload, Configuration]:
    options = {name: draw(st.sampled_from((1, 3, 4, 8))) for name in ("rows", "columns")}
    options |= {name: draw(st.sampled_from((1, 4))) for name in ("left_kib", "top_kib", "out_kib")}
    options |= {"dma_bytes": draw(st.sampled_from((1, 4, 16))), "dram_latency": draw(st.sampled_from((1, 20, 100)))}
    flow, charged = draw(st.sampled_from(("ws", "is", "os"))), draw(st.sampled_from(sorted(CONVENTIONS)))
    configuration = SystolicArray.kit.accelerator.configure({**options, "dataflow": flow, "convention": charged})
    return products(draw, "int8", draw(st.sampled_from(("int8", "int32")))), configuration


def products(draw: st.DrawFn, dtype: str, out: str) -> Workload:
    m, n, k = (draw(st.integers(1, 50)) for _ in "mnk")
    return gemm(m, n, k, batch=draw(few), epilogue=Epilogue(draw(st.booleans()), 1.0, False, out), dtype=dtype,
                shared_b=False)


@examples(16, 600)
@given(products_on_qkv() | products_on_arrays())
def test_no_mapping_takes_less_than_its_target_proves(case: tuple[Workload, Configuration]) -> None:
    work, machine = case
    try:
        space = machine.space(work)
    except MappingError:
        return
    (table,) = space.tables
    assert table.least is not None
    proven = np.broadcast_to(table.least(table.columns), len(table))
    for i in sorted({*range(0, len(table), -(-len(table) // 8)), int(np.argmin(proven))}):
        found = simulate(machine.graph, resolve(machine.emit(work, space.mapping(i)), machine.isa)).cycles
        assert 0 < proven[i] <= found, space.mapping(i)


def test_what_takes_turns_by_hand() -> None:
    """The example of its docstring: 6,912 tiles of A, of which two lie in the operands at a time."""
    machine = Qkv.kit.accelerator.configure({"dim": 8, "operand_rows": 256, "sum_rows": 1024, "bus_bytes": 8})
    work = gemm(96, 192, 192, epilogue=Epilogue(False, 1.0, False, "float32"), dtype="float32")
    (table,) = machine.space(work).tables
    assert table.least is not None
    assert min(table.least(table.columns)[table.columns["dataflow"] == 1]) == 6912 * (90 + 24) // 2 == 393984


def test_folds_by_hand() -> None:
    """The example of the docstring: one tile, of which the weights come last, and 128 folds; and the same in two, each
    of which comes after 100 + 128 - 1 + 256 cycles, as 10 instructions and their two drains are over."""
    machine = SystolicArray.kit.accelerator.configure({"rows": 4, "columns": 8, "left_kib": 16, "top_kib": 16})
    work = gemm(2, 32, 128, epilogue=Epilogue(False, 1.0, False, "int8"))
    (table,) = machine.space(work).tables
    assert table.least is not None
    proven = {(int(m), int(n), int(k)): int(p) for m, n, k, p in zip(
        table.columns["m"], table.columns["n"], table.columns["k"], table.least(table.columns))}
    assert proven[2, 32, 128] == 867 + 128 * 18 - 4 - 12 + 105 == 3260
    window = machine.hardware.issue_entries + machine.hardware.unit("stream").queue + 2
    wait = 483 - (window + -(-window // 6) * 11)
    assert proven[2, 32, 64] == 483 + 128 * 18 + wait - 4 - 12 + 105
    assert least(work, machine).cycles == min(proven.values()) > 0.9 * search(work, machine.accelerator, dict(
        machine.values), use_cache=False).timing.cycles
