"""Accumulation is recognized from the equation: rewriting an ISA's text without changing its meaning leaves cycles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

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
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.isa import Isa, instantiate
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.printer import print_isa
from archloom.tvm_backend.targets import registry
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


class Rewriter:
    """Writes additions of a description otherwise, at random."""

    def __init__(self, random: Random) -> None:
        self.random, self.count = random, 0

    def isa(self, definition: ast.IsaDef) -> ast.IsaDef:
        blocks: dict[str, Any] = {name: tuple(replace(part, body=self.block(part.body)) for part in parts)
                                  for name, parts in (("definitions", definition.definitions),
                                                      ("instructions", definition.instructions))}
        return replace(definition, **blocks)

    def block(self, body: tuple[ast.Statement, ...]) -> tuple[ast.Statement, ...]:
        return tuple(made for s in body for made in self.statement(s))

    def statement(self, s: ast.Statement) -> Iterator[ast.Statement]:
        if isinstance(s, ast.If):
            yield replace(s, then=self.block(s.then), otherwise=self.block(s.otherwise))
        elif isinstance(s, ast.Repeat):
            yield replace(s, body=self.block(s.body))
        elif isinstance(s, ast.Op) and s.opcode == "add" and s.type.dtype in ("i32", "f32", "i64"):
            yield from self.sum(s)
        else:
            yield s

    def sum(self, s: ast.Op) -> Iterator[ast.Statement]:
        a, b = s.operands if self.random.random() < 0.5 else s.operands[::-1]
        way = self.random.randrange(4)
        if way == 0:
            yield replace(s, operands=(a, b))
        elif way == 1:
            yield (minus := self.new(s, "negate", b))
            yield replace(s, opcode="subtract", operands=(a, ast.Tensor(minus.dst)))
        elif way == 2:
            yield (minus := self.new(s, "negate", a))
            yield (less := self.new(s, "subtract", ast.Tensor(minus.dst), b))
            yield replace(s, opcode="negate", operands=(ast.Tensor(less.dst),))
        else:
            yield (copy := self.new(s, "copy", a))
            yield replace(s, operands=(ast.Tensor(copy.dst), b))

    def new(self, like: ast.Op, opcode: str, *operands: Any) -> ast.Op:
        self.count += 1
        return ast.Op(f"{like.dst}.r{self.count}", like.type, opcode, operands, ())


TARGETS = ("gemmini", "oma", "systolic_array", "tpu_v1", "gamma", "ultratrail", "eyeriss", "amx")


@lru_cache
def planned(target: str) -> tuple[ArchitectureGraph, Isa, Stream, int]:
    """A small product on a target."""
    accelerator = registry.get(target).accelerator
    work = gemm(9, 17, 20, epilogue=Epilogue(True, 0.01, False, "int8"))
    plan = search(work, accelerator)
    return accelerator.graph({}), accelerator.isa(), plan.stream, plan.timing.cycles


@pytest.mark.first_case
@pytest.mark.parametrize("target", TARGETS)
@examples(3, 100)
@given(random=randoms)
def test_rewriting_leaves_every_cycle(target: str, random: Random) -> None:
    machine, isa, stream, cycles = planned(target)
    text = print_isa(Rewriter(random).isa(isa.definition))
    other = instantiate(parse(text), dict(isa.parameters))
    assert simulate(machine, resolve(stream, other)).cycles == cycles
    rng = np.random.default_rng(0)
    given_ = {a.name: rng.integers(-99, 99, a.shape).astype(a.dtype) for a in stream.arguments}
    first, second = (interpreter.run(stream, i, given_) for i in (isa, other))
    assert all(np.array_equal(first[name], second[name]) for name in first)
