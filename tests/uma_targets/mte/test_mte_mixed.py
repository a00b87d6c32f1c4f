"""Products in mixed precision, bytes into sums of int32 and float16 into those of float32: any geometry of tiles,
exact, planned by the mapper."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from archloom.acadl_models.mte import ARCHITECTURES
from archloom.mapper.bounds import least
from archloom.mapper.mapping import Mapping
from archloom.mapper.packing import packed
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, Workload, gemm
from archloom.oracle import interpreter, taidl
from archloom.oracle.errors import MappingError
from archloom.oracle.nests import walk
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Stream
from archloom.oracle.xla import compile_stream
from archloom.uma_targets.kit.gemm import GemmEmitter
from archloom.uma_targets.mte.emit import F16, I8, Machine, emit
from archloom.uma_targets.mte.target import Mte, _layouts
from tests.support.examples import examples, randoms, slow

MACHINES = [Machine(vlen, rlen, registers) for vlen, rlen, registers in (
    (512, 128, 32), (512, 128, 8), (1024, 512, 32), (512, 256, 16), (2048, 64, 32), (256, 64, 32))]
"""Rows, columns and K of a tile: 4, 4, 16; the same of few registers; 2, 2, 64; 2, 2, 32; 32, 2, 8; 4, 2, 8."""
INT32 = Epilogue(False, 1.0, False, "int32")


def workload(m: int, n: int, k: int, *, bias: bool = False, constant: bool = False, batch: int = 1) -> Workload:
    work = gemm(m, n, k, epilogue=replace(INT32, bias=bias), batch=batch, shared_b=batch == 1)
    sizes = {"vlen": 2, "rlen": 1}
    return packed(replace(work, constants=("B",)), _layouts(work, sizes)) if constant else work


def stream_of(machine: Machine, work: Workload, m: int, n: int, k: int, held: int = 1) -> Stream:
    """A product in blocks of so many rows and columns, for blocks of K, with so many tiles of B."""
    mapping = Mapping("gemm", "", (("m", m), ("n", n), ("k", k)), buffers=(("B", held),))
    return GemmEmitter("mte", tuple(vars(machine).items()), emit, sums=True).emit(work, mapping)


def drawn(work: Workload, seed: int) -> dict[str, np.ndarray]:
    """Bytes, all values of them, and whole numbers of 32 bits as a bias."""
    rng = np.random.default_rng(seed)
    limits = {t.name: np.iinfo(t.dtype) for t in work.inputs}
    return {t.name: rng.integers(limits[t.name].min, limits[t.name].max, t.shape, t.dtype, endpoint=True)
            for t in work.inputs}


def stored(work: Workload, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {t.name: t.stored(inputs[t.name]) for t in work.inputs}


def expected(inputs: dict[str, np.ndarray]) -> np.ndarray:
    """With the wraps of 32 bits."""
    a, b, *bias = (inputs[name].astype(np.int64) for name in inputs)
    return np.asarray(sum(bias, a @ b)).astype(np.int32)


@examples(12, 400)
@given(randoms)
def test_products_of_any_geometry_size_and_blocks(r: Random) -> None:
    vlen = r.randint(8, 12)
    machine = Machine(1 << vlen, 1 << r.randint(6, vlen), r.choice((8, 16, 32)))
    work = workload(r.randint(1, 11), r.randint(1, 11), r.randint(1, 70), bias=r.random() < 0.5,
                    constant=r.random() < 0.5 and machine.rows > 1, batch=r.choice((1, 1, 2)))
    tall, wide, held = r.randint(1, 3), r.randint(1, 2), r.randint(1, 5)
    deep = machine.deep(I8)
    blocks = tall * machine.rows, wide * machine.columns(I8), r.choice((deep, 2 * deep, 128))
    try:
        stream = stream_of(machine, work, *blocks, held)
    except MappingError:
        assert machine.used(tall, wide, held, I8) > machine.registers
        return
    inputs = drawn(work, r.getrandbits(32))
    made = interpreter.run(stream, taidl.load("mte", **vars(machine)), stored(work, inputs))["C"]
    np.testing.assert_array_equal(made, expected(inputs))


HALVES = Epilogue(False, 1.0, False, "float32")


def halves(m: int, n: int, k: int, *, dtype: str = "float16", constant: bool = False, **epilogue: bool) -> Workload:
    work = gemm(m, n, k, epilogue=replace(HALVES, **epilogue), dtype=dtype)
    return packed(replace(work, constants=("B",)), _layouts(work, {"vlen": 2, "rlen": 1})) if constant else work


def drawn_halves(work: Workload, seed: int) -> dict[str, np.ndarray]:
    """Numbers of so few bits that float64 has sums of their products, which float32 rounds."""
    rng = np.random.default_rng(seed)
    return {t.name: (rng.integers(-1023, 1024, t.shape) / 256).astype(t.dtype) for t in work.inputs}


def in_mixed_precision(inputs: dict[str, np.ndarray], work: Workload, depth: int, deep: int) -> np.ndarray:
    """Sums by steps of ``deep`` of K, each a chain from zero on whose steps are rounded once, added to what is there;
    steps begin anew with each block of ``depth``."""
    a, b = (inputs[name].astype(np.float64) for name in "AB")
    total = np.zeros((*a.shape[:-1], b.shape[-1]), np.float32) + inputs.get("bias", np.float32(0))
    for block in range(0, a.shape[-1], depth):
        for first in range(block, min(block + depth, a.shape[-1]), deep):
            chain = np.zeros_like(total)
            for k in range(first, min(first + deep, block + depth, a.shape[-1])):
                chain = (a[..., k, None] * b[k] + chain).astype(np.float32)
            total = total + chain
    total = total + inputs["residual"] if work.epilogue.residual else total
    return np.maximum(total, 0) if work.epilogue.relu else total


@examples(12, 400)
@given(randoms)
def test_halves_are_summed_as_the_instruction_says(r: Random) -> None:
    vlen = r.randint(8, 12)
    machine = Machine(1 << vlen, 1 << r.randint(6, vlen - 1), r.choice((8, 16, 32)))
    work = halves(r.randint(1, 11), r.randint(1, 11), r.randint(1, 40), constant=r.random() < 0.5,
                  dtype=r.choice(("float16", "bfloat16")), bias=r.random() < 0.5, relu=r.random() < 0.5,
                  residual=r.random() < 0.5)
    tall, wide, held = r.randint(1, 3), r.randint(1, 2), r.randint(1, 5)
    deep = machine.deep(F16)
    depth = r.choice((deep, 2 * deep, 128))
    try:
        stream = stream_of(machine, work, tall * machine.rows, wide * machine.columns(F16), depth, held)
    except MappingError:
        assert machine.used(tall, wide, held, F16) > machine.registers
        return
    inputs = drawn_halves(work, r.getrandbits(32))
    made = interpreter.run(stream, taidl.load("mte", **vars(machine)), stored(work, inputs))["C"]
    np.testing.assert_array_equal(made, in_mixed_precision(inputs, work, depth, deep))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_oracle_sums_halves_as_the_interpreter(dtype: str) -> None:
    machine, work = MACHINES[0], halves(7, 9, 40, dtype=dtype, bias=True, constant=True)
    stream = stream_of(machine, work, machine.rows, machine.columns(F16), 2 * machine.deep(F16))
    isa, inputs = taidl.load("mte", **vars(machine)), stored(work, drawn_halves(work, 2))
    by_rule = interpreter.run(stream, isa, inputs)["C"]
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(*inputs.values())[0]), by_rule)


@pytest.mark.slow
def test_the_mapper_plans_halves() -> None:
    """In fewer cycles than float32, and not below what is proven."""
    options = {"architecture": "mte32s"}
    machine = Mte.kit.accelerator.configure(options)
    work = machine.packed(replace(halves(50, 70, 300), constants=("B",)))
    plan = search(work, Mte.kit.accelerator, options, top_k=2)
    assert least(work, machine).cycles <= plan.timing.cycles
    wide = search(gemm(50, 70, 300, epilogue=HALVES, dtype="float32"), Mte.kit.accelerator, options, top_k=2)
    assert plan.timing.cycles < wide.timing.cycles


@pytest.mark.parametrize("machine", MACHINES, ids=str)
def test_tiles_are_what_the_machine_grants(machine: Machine) -> None:
    """A tile each way takes one product, one more row of A another."""
    rows, columns, deep = machine.rows, machine.columns(I8), machine.deep(I8)
    assert (rows, columns, deep) == (
        machine.vlen // machine.rlen, min(machine.vlen // machine.rlen, machine.rlen // 32), machine.rlen // 8)
    isa, work = taidl.load("mte", **vars(machine)), workload(rows + 1, columns, deep)
    stream = stream_of(machine, work, rows, columns, deep)
    assert [instr.mnemonic for instr, _ in walk(resolve(stream, isa).body)].count("twmul") == 2
    inputs = drawn(work, 1)
    made = interpreter.run(stream, isa, inputs)["C"]
    np.testing.assert_array_equal(made, expected(inputs))


@pytest.mark.slow
@pytest.mark.parametrize(("machine", "constant"), [(MACHINES[0], True), *((each, False) for each in MACHINES[2:])])
def test_the_oracle_equals_the_interpreter(machine: Machine, constant: bool) -> None:
    work = workload(7, 9, 40, bias=True, constant=constant)
    stream = stream_of(machine, work, machine.rows, machine.columns(I8), 2 * machine.deep(I8))
    isa = taidl.load("mte", **vars(machine))
    inputs = stored(work, drawn(work, 2))
    by_rule = interpreter.run(stream, isa, inputs)["C"]
    np.testing.assert_array_equal(np.asarray(compile_stream(stream, isa)(*inputs.values())[0]), by_rule)


@pytest.mark.parametrize("architecture", ["mte32s", *map(slow, set(ARCHITECTURES) - {"mte32s"})])
def test_the_mapper_plans_them(architecture: str) -> None:
    """A plan is exact, and no bound is above it; where an array multiplies, bytes take less than float32."""
    machine = Mte.kit.accelerator.configure({"architecture": architecture})
    work = machine.packed(replace(gemm(50, 70, 300, epilogue=INT32), constants=("B",)))
    plan = search(work, Mte.kit.accelerator, {"architecture": architecture}, top_k=2)
    assert least(work, machine).cycles <= plan.timing.cycles
    inputs = drawn(work, 3)
    made = interpreter.run(plan.stream, machine.isa, stored(work, inputs))["C"]
    np.testing.assert_array_equal(made, expected(inputs))
    floats = gemm(50, 70, 300, epilogue=replace(INT32, out_dtype="float32"), dtype="float32")
    wide = search(floats, Mte.kit.accelerator, {"architecture": architecture}, top_k=2).timing.cycles
    assert plan.timing.cycles < wide or not ARCHITECTURES[architecture].arrays


@pytest.mark.parametrize(("work", "options", "message"), [
    (gemm(4, 4, 4, epilogue=Epilogue(False, 0.5, False, "int8")), {}, "stored as their sums of 32 bits"),
    (gemm(4, 4, 4, epilogue=Epilogue(False, 1.0, True, "int32")), {}, "int32 sums, without an activation"),
    (halves(4, 4, 4), {"architecture": "vector1kb"}, "16 bits take tiles: expected rlen below vlen, found 8192"),
])
def test_what_is_not_taken(work: Workload, options: dict[str, Any], message: str) -> None:
    with pytest.raises(MappingError, match=message):
        search(work, Mte.kit.accelerator, options)
