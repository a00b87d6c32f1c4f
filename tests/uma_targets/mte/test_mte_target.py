"""The vector core with tiles: what its graph says, and products of all architectures, on registers of other sizes."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given

import archloom
from archloom.acadl_models.acadl import ArchitectureGraph
from archloom.acadl_models.mte import ARCHITECTURES, macs_per_cycle, mte
from archloom.acadl_models.timing import simulate
from archloom.acadl_models.timing.engine import machine as engine_machine
from archloom.mapper.mapping import Mapping
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError, TargetError
from archloom.oracle.nests import walk
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Stream
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.kit.gemm import GemmEmitter
from archloom.uma_targets.mte.emit import Machine, emit
from tests.support.examples import examples, randoms, slow


def workload(m: int, n: int, k: int, bias: bool = True, relu: bool = True, residual: bool = False) -> Workload:
    return gemm(m, n, k, epilogue=Epilogue(bias, 1.0, relu, "float32", residual=residual), dtype="float32")


def stream_of(machine: Machine, work: Workload, m: int, n: int, k: int, held: int = 1) -> Stream:
    """A product in blocks of so many rows and columns, for blocks of K, with so many tiles of B."""
    mapping = Mapping("gemm", "", (("m", m), ("n", n), ("k", k)), buffers=(("B", held),))
    return GemmEmitter("mte", tuple(vars(machine).items()), emit).emit(work, mapping)


MACHINES = [Machine(512, 128, 32), Machine(512, 128, 8), Machine(1024, 512, 32), Machine(512, 512, 32)]
"""4 x 4 tiles of 4, few of them, 2 x 16 of 2, and vectors of 16."""


# --- the core --------------------------------------------------------------------------------------------------------
@pytest.mark.slow
def test_all_instructions_are_processed() -> None:
    graph = mte()
    processed = {name for unit in graph.functional_units for name in unit.to_process}
    assert processed == set(taidl.load("mte", **graph.parameters).instructions)


def products(graph: ArchitectureGraph, count: int) -> int:
    """Cycles of so many products of whole tiles into registers of their own, or into one."""
    machine = Machine(**graph.parameters)
    sizes = [Instr.make(f"tss{d}", rd=0, request=1 << 12, ttypeio=2) for d in "mnk"]
    into = [Instr.make("tfmul", vd=k, vs1=6, vs2=7) for k in range(count)]
    return simulate(graph, resolve(Stream("mte", tuple(vars(machine).items()), (), (), 64, (*sizes, *into)),
                                   taidl.load("mte", **graph.parameters))).cycles


@pytest.mark.parametrize(("architecture", "dynamic", "static"), [
    ("mte8s", 16, 36), ("mte32s", 16, 36), ("mte32v", 64, 36), ("sifive_int", 16, 28)])
def test_products_take_what_table_vii_says(architecture: str, dynamic: int, static: int) -> None:
    graph = mte(architecture=architecture)
    one = products(graph, 1)
    units = ARCHITECTURES[architecture].arrays or ARCHITECTURES[architecture].vector_units
    assert products(graph, units + 1) == one + dynamic
    assert products(mte(architecture=architecture, static_cycles=0), 1) == one - static


@pytest.mark.parametrize(("architecture", "cycles"), [("vector1kb", 4), ("vector2kb", 8)])
def test_the_front_end_overlaps_whatever_is_computed(architecture: str, cycles: int) -> None:
    """Neither the registers that are free nor what waits for one another pays the static latency more than once."""
    graph = mte(architecture=architecture)

    def multiply_adds(count: int, registers: int) -> int:
        size = Instr.make("vsetvli", rd=0, avl=1 << 16, vtypei=2 << 3)
        body = [Instr.make("vfmacc_vv", vd=k % registers, vs1=30, vs2=31, vm=1) for k in range(count)]
        return simulate(graph, resolve(Stream("mte", tuple(graph.parameters.items()), (), (), 64, (size, *body)),
                                       taidl.load("mte", **graph.parameters))).cycles

    assert multiply_adds(96, 24) - multiply_adds(48, 24) == 48 * cycles // 4
    assert multiply_adds(48, 1) - multiply_adds(24, 1) == 24 * cycles


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_have_one_peak(architecture: str) -> None:
    assert macs_per_cycle(mte(architecture=architecture)) == 256


@pytest.mark.parametrize(("options", "message"), [
    ({"vlen": 3000}, "vlen must be a power of two, not 3000"),
    ({"rlen": 16384}, r"rlen \(16384\) must be at most vlen \(8192\)"),
    ({"architecture": "mte"}, "architecture must be one of vector1kb, "),
    ({"physical": 32}, r"physical \(32\) must be more than registers \(32\)"),
    ({"registers": 4}, "registers must be an integer from 8 to 32, not 4"),
    ({"l1_ways": 7}, r"l1_kib \(48\) must be whole sets of l1_ways \(7\) lines of 64 bytes"),
])
def test_figures_that_cannot_be(options: dict[str, object], message: str) -> None:
    with pytest.raises(TargetError, match=message):
        mte(**options)  # type: ignore[arg-type]


# --- products --------------------------------------------------------------------------------------------------------
@examples(8, 300)
@given(randoms)
def test_products_of_any_size_and_blocks(r: Random) -> None:
    machine = r.choice(MACHINES)
    work = workload(r.randint(1, 11), r.randint(1, 21), r.randint(1, 13), *(r.random() < 0.5 for _ in range(3)))
    tall, wide, held = r.randint(1, 3), r.randint(1, 2), r.randint(1, 5)
    k = r.choice((16, machine.deep(), 2 * machine.deep()))
    try:
        stream = stream_of(machine, work, tall * machine.rows, wide * machine.columns(), k, held)
    except MappingError:
        assert machine.used(tall, wide, held) > machine.registers
        return
    rng = np.random.default_rng(r.getrandbits(32))
    inputs = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in work.inputs}
    made = interpreter.run(stream, taidl.load("mte", **vars(machine)), inputs)["C"]
    a, b, *added = (inputs[t.name].astype(np.float64) for t in work.inputs)
    sums = sum(added, a @ b)
    np.testing.assert_allclose(made, np.maximum(sums, 0) if work.epilogue.relu else sums, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("machine", [MACHINES[0], *map(slow, MACHINES[1:])])
def test_the_oracle_equals_the_interpreter(machine: Machine) -> None:
    stream = stream_of(machine, workload(7, 18, 9, residual=True), machine.rows, machine.columns(), 16)
    isa = taidl.load("mte", **vars(machine))
    rng = np.random.default_rng(0)
    inputs = {t.name: rng.standard_normal(t.shape).astype(np.float32) for t in stream.arguments}
    expected = interpreter.run(stream, isa, inputs)["C"]
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(*inputs.values())[0]), expected)


def test_a_run_sees_nothing_of_the_one_before() -> None:
    """Its machine lies where that one's did; what caches were asked is not cleared."""
    graph, isa = mte(), taidl.load("mte", **mte().parameters)
    machine = Machine(**graph.parameters)
    text = resolve(stream_of(machine, workload(96, 40, 64), machine.rows, machine.columns(), 32), isa)
    found = simulate(graph, text)
    room = engine_machine._rooms.machine
    for number in (-1, 1 << 20):
        room[:] = number
        assert simulate(graph, text) == found and engine_machine._rooms.machine is room


def test_tiles_of_a_stay_for_a_step() -> None:
    """A step of a block of 3 x 2 tiles of C loads 3 tiles of A and 2 of B for 6 products."""
    machine = Machine(8192, 512, 32)
    stream = stream_of(machine, workload(96, 64, 160, False, False), 48, 32, 160)
    found: Counter[str] = Counter()
    for instr, around in walk(resolve(stream, taidl.load("mte", **vars(machine))).body):
        found[instr.mnemonic] += math.prod(loop.extent for loop in around)
    blocks, steps = 2 * 2, 10
    assert found["tfmul"] == 6 * blocks * steps and found["tla"] == 3 * blocks * steps
    assert found["tlb"] == 2 * blocks * steps and found["tsc"] == 6 * blocks


@examples(3, 100)
@given(randoms)
def test_fewer_columns_in_a_tile_take_no_longer(r: Random) -> None:
    """A product takes as long for them, so that lines are asked for as long before."""
    graph, m, k = mte(), r.randrange(50, 300), r.randrange(200, 600)
    held, tall = r.choice((1, 2, 4)), r.randrange(1, 15)
    few, many = sorted(r.sample(range(1, 17), 2))
    taken = []
    for n in (few, many):
        stream = stream_of(Machine(**graph.parameters), workload(m, n, k, False, False), 16 * tall, 16, k, held)
        taken.append(simulate(graph, resolve(stream, taidl.load("mte", **graph.parameters))).cycles)
    assert taken[0] <= 1.1 * taken[1]  # where lines of a cache begin is worth as much


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_page_has_what_is_estimated(architecture: str) -> None:
    (layer,) = archloom.estimate("gemm(m=512,n=512,k=512)", "mte", {"architecture": architecture}).accelerator_layers
    share = 512**3 / macs_per_cycle(mte(architecture=architecture)) / layer.cycles
    page = (Path(__file__).parents[3] / "docs" / "mte.md").read_text()
    assert f"| `{architecture}` | {layer.cycles:,} | {layer.instructions:,} | {share:.1%} |".replace("%", " %") in page
