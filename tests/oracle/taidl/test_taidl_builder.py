"""ISAs written in Python: the same trees as their texts, and errors with the place in the Python code."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import archloom.oracle.taidl.builder as module
from archloom.oracle import taidl
from archloom.oracle.errors import TaidlError
from archloom.oracle.kernel import isa as kernel_isa
from archloom.oracle.taidl.builder import (
    Block,
    Body,
    Builder,
    Tensor,
    Value,
    all_of,
    any_of,
    cdiv,
    greatest,
    least,
    negated,
    number,
    select,
    window,
)
from archloom.oracle.taidl.parser import parse

PAGE = (Path(__file__).parents[3] / "docs" / "taidl.md").read_text(encoding="utf-8")


def tiny() -> Builder:
    """The example of docs/taidl.md."""
    isa = Builder("tiny")
    dim = isa.param("dim", 4, 2, 64)
    isa.const("NONE", 0xFFFF)
    ram = isa.buffer("ram", (1024,), (dim, "i8"))
    total = isa.buffer("sum", (), (dim, "i32"))
    stride = isa.registers("stride", 2, dim)

    @isa.instruction
    def configure(b: Body, which: Value, value: Value) -> None:
        b.require(all_of(number(0) <= which, which < 2))
        b.set(stride[which], value)

    @isa.block("X", "Y")
    def widen(b: Body, X: Tensor, Y: Tensor, rows: Value) -> None:
        b.convert(X, type=(rows, dim, "i32"), name=Y)

    @isa.instruction
    def load(b: Body, dram: Value, row: Value, rows: Value) -> None:
        b.require(all_of(number(1) <= rows, rows <= dim))
        x = b.read(isa.hbm[dram + window((rows, stride[0]), (dim, 1))], (rows, dim, "i8"), "In")
        b.write(x, ram[row + window((rows, 1))])

    @isa.instruction
    def accumulate(b: Body, row: Value, rows: Value) -> None:
        x = b.read(ram[row:row + rows], (rows, dim, "i8"), "In")
        wide = b.tensor("Wide", (rows, dim, "i32"))
        b.call(widen, x, wide, rows)
        added = b.reduce(wide, dim=(0,), kind="add", type=(dim, "i32"), name="Total")
        old = b.read(total, (dim, "i32"), "Old")
        b.write(b.add(old, added, name="New"), total)

    return isa


def test_the_example_of_the_page_is_the_same_tree() -> None:
    (example,) = re.findall(r"```\n(isa tiny.*?)```", PAGE, re.DOTALL)
    assert tiny().definition() == parse(example)
    assert parse(tiny().text()) == tiny().definition()


def test_parts_of_gemmini_are_the_same_trees() -> None:
    isa = Builder("gemmini")
    acc_rows = isa.param("acc_rows", 1024, 16, 1 << 24)
    dim = isa.param("dim", 16, 4, 1024)
    acc = isa.buffer("acc", (acc_rows,), (dim, "i32"))
    registers = {n: isa.registers(n, 3) for n in ("ld_stride", "ld_scale", "ld_shrunk", "ld_block")}

    @isa.block("X", "Y")
    def scale_i8(b: Body, X: Tensor, Y: Tensor, bits: Value, blocks: Value, rows: Value, width: Value) -> None:
        shape = (blocks, rows, width)
        factor = b.bitcast_convert(b.constant(bits, "u32", "Bits"), type="f32", name="Scale")
        spread = b.broadcast(factor, type=(*shape, "f32"), name="Factor")
        product = b.multiply(b.convert(X, type=(*shape, "f32"), name="Float"), spread, name="Product")
        rounded = b.round_nearest_even(product, name="Rounded")
        low, high = b.constant(-128, "f32", "Low"), b.constant(127, "f32", "High")
        b.convert(b.clamp(low, rounded, high, type=(*shape, "f32"), name="Clamped"), type=(*shape, "i8"), name=Y)

    @isa.block("V")
    def put_acc(b: Body, V: Tensor, local: Value, row: Value, step: Value, blocks: Value, rows: Value,
                width: Value) -> None:
        place = acc[row + window((blocks, step), (rows, 1)), 0:width]
        with b.IF((local >> 30) & 1 == 1):
            old = b.read(place, (blocks, rows, width, "i32"), "Old")
            b.write(b.add(old, V, name="New"), place)
        with b.ELSE():
            b.write(V, place)

    @isa.instruction
    def config_ld(b: Body, channel: Value, stride: Value, scale: Value, shrunk: Value, block_stride: Value) -> None:
        b.require(all_of(number(0) <= channel, channel <= 2))
        b.require(number(0) <= stride)
        b.require(all_of(number(0) <= scale, scale <= 0xFFFFFFFF))
        b.require(any_of(shrunk == 0, shrunk == 1))
        b.require(all_of(number(0) <= block_stride, block_stride <= 0xFFFF))
        for name, value in zip(registers, (stride, scale, shrunk, block_stride), strict=True):
            b.set(registers[name][channel], value)

    parsed = taidl.load("gemmini").definition
    built = isa.definition()
    for group in ("definitions", "instructions"):
        expected = {n.name: n for n in getattr(parsed, group)}
        for node in getattr(built, group):
            assert node == expected[node.name]


def test_every_kind_of_expression_and_statement_prints_and_parses() -> None:
    isa = Builder("every")
    n = isa.param("n", 4, 1, 8)
    half = isa.const("half", (n + 1) // 2)
    cube = isa.buffer("cube", (n, 8), (4, "i8"))
    turn = isa.register("turn")

    @isa.block("X", "Y")
    def larger(b: Body, X: Tensor, Y: Tensor, Z: Tensor) -> None:
        pass

    @isa.instruction
    def go(b: Body, i: Value, j: Value) -> None:
        b.require(any_of(negated(i == 0), all_of(2 - i > 3 % j, i != 1 << j, 7 & i >= 1 | j)))
        k = b.let("k", select(i > j, least(i, 2 * j, 7), greatest(cdiv(i, 3), 8 >> j, -i - 5 // j)))
        x = b.read(cube[i, ::2, -3:], (1, half * 2, 3, "i8"))
        y = b.constant(-1.5, "f32")
        b.convert(y, type="bf16")
        b.and_(x, x)
        with b.REPEAT("m", k) as m, b.IF(m < 2):
            b.set(turn, turn + m)
        z = b.pad(x, low=(0, 0, 0), high=(0, 0, 1), value=-1, type=(1, half * 2, 4, "i8"))
        b.write(z, cube[i, 0:half * 2])

    assert parse(isa.text()) == isa.definition()


def test_operators_take_blocks_as_functions() -> None:
    isa = Builder("functions")
    v = isa.buffer("v", (4,), (8, "i32"))

    @isa.block("X", "Y")
    def twice(b: Body, X: Tensor, Y: Tensor) -> None:
        b.add(X, X, type=(1, 8, "i32"), name=Y)

    @isa.instruction
    def go(b: Body, row: Value) -> None:
        x = b.read(v[row], (1, 8, "i32"))
        b.write(b.op("call", x, function=twice), v[row])

    assert "%t2:1x8xi32 = call(%t1, function=twice);" in isa.text()
    assert isa.build().instructions["go"].attributes == ("row",)


def test_a_built_isa_runs() -> None:
    isa = kernel_isa(tiny(), dim=8)

    @isa.kernel(arg={"start": 0, "shape": (4, 8), "dtype": "int8"}, res=[])
    def run() -> None:
        isa.api.configure(0, 8)
        isa.api.load(dram=0, row=3, rows=4)
        isa.api.accumulate(row=3, rows=4)
        isa.debug("sum: ", isa.sum)

    run.run(np.ones((4, 8), np.int8))
    assert isa.dim == 8


def place(error: TaidlError) -> str:
    assert error.position is not None and error.position.file == __file__
    return Path(__file__).read_text(encoding="utf-8").splitlines()[error.position.line - 1].strip()


def test_faults_name_the_lines_of_python() -> None:
    isa = Builder("faulty")
    ram = isa.buffer("ram", (8,), (4, "i8"))

    @isa.instruction
    def wrong(b: Body, row: Value) -> None:
        x = b.read(ram[row], (1, 5, "i8"))
        b.set(row, 1)
        b.write(x, ram[9])

    with pytest.raises(TaidlError, match=r"(?s)is 1x5xi8.*\^.*cannot assign to row.*spans.*3 errors") as caught:
        isa.build()
    assert [place(f) for f in caught.value.faults] == [
        'x = b.read(ram[row], (1, 5, "i8"))', "b.set(row, 1)", "b.write(x, ram[9])"]


def failing(body: object) -> TaidlError:
    isa = Builder("failing")
    isa.buffer("ram", (8,), (4, "i8"))
    with pytest.raises(TaidlError) as caught:
        isa.instruction(body)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.parametrize(("body", "message"), [
    (lambda b, a: b.read(Builder.hbm[a], (4, "i7")), "'i7' is no element type"),
    (lambda b, a: b.read(Builder.hbm[a], (4, 8)), "a type ends with the element type"),
    (lambda b, a: b.read(Builder.hbm[a][a], (4, "i8")), r"\$hbm is sliced already"),
    (lambda b, a: b.read(Builder.hbm["a"], (4, "i8")), "expected an integer or an expression, found 'a'"),
    (lambda b, a: b.ad(), "unknown operator 'ad'; did you mean 'and'"),
    (lambda b, a: b.iota(dim=0), "iota needs a type"),
    (lambda b, a: b.require(1 <= a <= 2), "is not known in Python"),
    (lambda b, a: b.set(a + 1, 2), r"expected a control register, found a \+ 1"),
    (lambda b, a: b.ELSE().__enter__(), "ELSE must come directly after the IF"),
    (lambda b, a: b.require(all_of()), "expected at least one condition"),
])
def test_wrong_calls_fail_where_they_stand(body: object, message: str) -> None:
    error = failing(body)
    assert re.search(message, str(error))
    assert "lambda b, a" in place(error)


def test_wrong_declarations() -> None:
    isa = Builder("wrong")
    with pytest.raises(TaidlError, match="outside of its range 4..8"):
        isa.param("p", 3, 4, 8)
    with pytest.raises(TaidlError, match="needs a first parameter for its body"):
        isa.instruction(lambda: None)
    with pytest.raises(TaidlError, match="has no parameter 'Y'"):
        isa.block("Y")(lambda b, X: None)
    assert isinstance(isa.block("X")(lambda b, X: None), Block)


def test_the_example_of_the_module() -> None:
    assert doctest.testmod(module).failed == 0
