"""Accumulation is recognized from the equation: rewriting an ISA's text without changing its meaning leaves cycles."""

from __future__ import annotations

from functools import lru_cache
from random import Random

import numpy as np
import pytest
from hypothesis import given

from archloom.acadl_models.acadl import ArchitectureGraph, architecture, create_ag, generate
from archloom.acadl_models.parts import Fetch, QueuedUnit, connect, row_memory
from archloom.acadl_models.timing import simulate
from archloom.mapper.search import search
from archloom.mapper.workload import Epilogue, gemm
from archloom.oracle import interpreter
from archloom.oracle.resolve import resolve
from archloom.oracle.stream import Instr, Loop, Stream
from archloom.oracle.taidl.isa import Isa, instantiate
from archloom.oracle.taidl.parser import parse
from archloom.tvm_backend.targets import registry
from tests.support.acadl_models.rewriting import Rewriter
from tests.support.examples import examples, randoms

TEXT = """
isa sums;
[v] (4) (8 x f32);
[acc] (2) (8 x f32);
[mac](a) {{
    %X:1x8xf32 <- $v[a:a + 1];
    %Y:1x8xf32 <- $v[a + 1:a + 2];
    %Old:1x8xf32 <- $acc[0:1];
    {equation}
    %New -> $acc[0:1];
}}
"""
PRODUCT, MINUS = "%P:1x8xf32 = multiply(%X, %Y);", "%M:1x8xf32 = negate(%P);"
SUMS = [
    f"{PRODUCT} %New:1x8xf32 = add(%Old, %P);", f"{PRODUCT} %New:1x8xf32 = add(%P, %Old);",
    f"{PRODUCT} {MINUS} %New:1x8xf32 = subtract(%Old, %M);", "%New:1x8xf32 = fma(%X, %Y, %Old);",
    f"{PRODUCT} {MINUS} %D:1x8xf32 = subtract(%M, %Old); %New:1x8xf32 = negate(%D);",
    "%First:1x8xf32 = add(%Old, %X); %New:1x8xf32 = add(%First, %Y);",
    f"{PRODUCT} %Flat:8xf32 = reshape(%Old); %Q:8xf32 = reshape(%P); %S:8xf32 = add(%Q, %Flat);"
    " %New:1x8xf32 = reshape(%S);",
]
OTHERS = [
    f"{PRODUCT} %New:1x8xf32 = maximum(%Old, %P);", f"{PRODUCT} %New:1x8xf32 = subtract(%P, %Old);",
    f"{PRODUCT} %D:1x8xf32 = subtract(%Old, %P); %New:1x8xf32 = negate(%D);", "%New:1x8xf32 = fma(%Old, %X, %Y);",
    "%Twice:1x8xf32 = multiply(%Old, %X); %New:1x8xf32 = add(%Old, %Twice);",
]


def graph() -> ArchitectureGraph:
    """One unit that begins a sum a cycle, of which each takes four."""
    @generate
    def build() -> None:
        v, acc = (row_memory(name, 256, rows, requests=8, ports=8) for name, rows in (("v", 4), ("acc", 2)))
        unit = QueuedUnit("unit", Fetch("fetch", 8, 2), {"mac"}, depth=8, latency=4, interval=1, in_flight=8).unit
        connect(unit, [v, acc], [acc])
        architecture("sums", clock_hz=1e9, parameters={}, buffers={"v": v, "acc": acc})

    return create_ag(build())


def cycles_of(equation: str) -> int:
    isa = instantiate(parse(TEXT.format(equation=equation)), {})
    stream = Stream("sums", (), (), (), 0, (Loop("i", 0, 1000, 1, (Instr.make("mac", a=0),)),))
    return simulate(graph(), resolve(stream, isa)).cycles


def test_a_thousand_sums_however_they_are_written() -> None:
    """Two of them are under way at a time only where both add to what is there."""
    found = {cycles_of(equation) for equation in SUMS}
    assert len(found) == 1 and found.pop() < 1100


@pytest.mark.parametrize("equation", OTHERS)
def test_what_adds_nothing_to_the_old_contents_waits_for_them(equation: str) -> None:
    assert cycles_of(equation) > 4000


FLOATS = ("mte", "plasticine", "qkv")
CORES = {"mesh": {"x": 1, "y": 1}, "triple_ring": {"rows": 2, "columns": 2}, "wormhole": {"rows": 1, "columns": 2}}


@lru_cache
def planned(target: str) -> tuple[ArchitectureGraph, Isa, Stream, int]:
    """A small product on a target."""
    accelerator = registry.get(target).accelerator
    options = CORES.get(target, {})
    if options:
        work = gemm(64, 64, 64, epilogue=Epilogue(False, 1.0, False, "float16"), dtype="float16", tile=32)
    else:
        dtype = "float32" if target in FLOATS else "int8"
        work = gemm(9, 17, 20, epilogue=Epilogue(True, 1.0 if target in FLOATS else 0.01, False, dtype), dtype=dtype)
    plan = search(work, accelerator, options)
    return accelerator.graph(options), accelerator.isa(options), plan.stream, plan.timing.cycles


@pytest.mark.first_case
@pytest.mark.parametrize("target", sorted(registry.BUILT_IN))
@examples(3, 100)
@given(random=randoms)
def test_rewriting_leaves_every_cycle(target: str, random: Random) -> None:
    machine, isa, stream, cycles = planned(target)
    rewriter = Rewriter(random)
    other = rewriter.isa(isa)
    assert simulate(machine, resolve(stream, other)).cycles == cycles
    rng = np.random.default_rng(0)
    given_ = {a.name: rng.integers(-99, 99, a.shape).astype(a.dtype) for a in stream.arguments}
    first, second = (interpreter.run(stream, i, given_) for i in (isa, other))
    close = (lambda a, b: np.allclose(a, b, rtol=1e-5)) if rewriter.rounds else np.array_equal
    assert all(close(first[name], second[name]) for name in first)
