"""Loaded ISAs: parameters, buffers, registers, inlined instructions, caching."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from archloom.oracle import taidl
from archloom.oracle.errors import StreamError, TaidlError, TargetError
from archloom.oracle.resolved import Buffer
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.builder import Builder
from archloom.oracle.taidl.inline import inline
from archloom.oracle.taidl.isa import check, instantiate
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.printer import print_isa
from tests.support.oracle.taidl_trees import printed


def test_gemmini_with_its_defaults() -> None:
    isa = taidl.load("gemmini")
    assert isa.name == "gemmini"
    assert isa.parameters == (("dim", 16), ("spad_rows", 16384), ("acc_rows", 1024), ("dma_bytes", 64))
    assert isa.buffers == (
        Buffer("spad", (16384, 16), "i8"), Buffer("acc", (1024, 16), "i32"), Buffer("pe", (16, 16), "i32"),
        *(Buffer(f"stat_{name}", (4,), "i32") for name in ("sum", "top", "max", "mean")),
        *(Buffer(f"stat_{name}", (4,), "f32") for name in ("inv_stddev", "inv_sum_exp")),
    )
    assert isa.buffer("hbm", 100) == Buffer("hbm", (100,), "i8")
    assert isa.instruction("mvin").attributes == ("dram", "local", "cols", "rows")
    registers = isa.initial_registers()
    assert registers["ld_scale[2]"] == 0x3F800000 and registers["ld_block[0]"] == 16
    assert registers["pre_addr"] == 0xFFFFFFFF and "ld_scale" not in registers
    with pytest.raises(StreamError, match=r"ISA gemmini has no instruction 'mvinn'; did you mean 'mvin'\?"):
        isa.instruction("mvinn")
    with pytest.raises(StreamError, match=r"ISA gemmini has no buffer 'spd'; did you mean 'spad'\?"):
        isa.buffer("spd")


@pytest.mark.parametrize("dim", [4, 5, 16, 17, 128, 256])
def test_parameters_shape_the_buffers(dim: int) -> None:
    isa = taidl.load("gemmini", dim=dim, acc_rows=64)
    assert isa.buffer("acc").shape == (64, dim) and isa.buffer("pe").shape == (dim, dim)
    assert isa.initial_registers()["ld_block[1]"] == dim


def test_loading_is_cached_and_equality_is_by_content() -> None:
    a, b = taidl.load("gemmini", dim=8), taidl.load("gemmini", dim=8)
    assert a is b and a != taidl.load("gemmini", dim=9)
    rebuilt = taidl.instantiate(parse(print_isa(a.definition)), {"dim": 8})
    assert rebuilt == a and hash(rebuilt) == hash(a)
    assert a.digest != taidl.load("gemmini", dim=9).digest and len(a.digest) == 64


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "tiny.taidl"
    path.write_text("isa tiny; [b] () (4xi8);")
    assert taidl.load(path).buffer("b").shape == (4,)
    path.write_text("isa tiny; [b] () (40xi8);")
    assert taidl.load(str(path)).buffer("b").shape == (40,)


def inlined(text: str) -> list[str]:
    isa = parse(text)
    return [line[4:] for line in printed(inline(isa, isa.instructions[0])).splitlines()[4:-1]]


def test_defs_are_put_in_place_with_names_of_their_own() -> None:
    assert inlined("""isa t; r = 0;
        def twice(%X, %Y, n) { let m = n * 2; %Z:{m}xi8 = negate(%X); %Y:{m}xi8 = add(%Z, %Z); }
        [i](a) { %X:{a}xi8 = constant(0); twice(%X, %P, a); twice(%P, %Q, 3); }
    """) == [
        "%X:{a}xi8 = constant(0);",
        "let m~1 = a * 2;", "%Z~1:{m~1}xi8 = negate(%X);", "%P:{m~1}xi8 = add(%Z~1, %Z~1);",
        "let m~2 = 3 * 2;", "%Z~2:{m~2}xi8 = negate(%P);", "%Q:{m~2}xi8 = add(%Z~2, %Z~2);",
    ]


def test_an_argument_is_evaluated_once_before_the_block() -> None:
    """The block updates the register that the argument came from; the parameter keeps the old value."""
    assert inlined("""isa t; r = 0;
        def f(n) { r = r + 1; r = n; }
        [i](a) { f(r); f(r + a); f(a); }
    """) == [
        "let n~1 = r;", "r = r + 1;", "r = n~1;",
        "let n~2 = r + a;", "r = r + 1;", "r = n~2;",
        "r = r + 1;", "r = a;",
    ]


def test_nested_defs_and_blocks() -> None:
    assert inlined("""isa t; r = 0;
        def inner(%T, n) { REPEAT (m, n) { %T:{n}xi8 -> $hbm[m : m + n]; } }
        def outer(%T, k) { IF (k == 1) { inner(%T, k + 1); } ELSE { r = k; } }
        [i](a) { %V:{a}xi8 = constant(0); outer(%V, a); }
    """) == [
        "%V:{a}xi8 = constant(0);", "IF (a == 1) {", "    let n~2 = a + 1;", "    REPEAT (m~2, n~2) {",
        "        %V:{n~2}xi8 -> $hbm[m~2:m~2 + n~2];", "    }", "} ELSE {", "    r = a;", "}",
    ]


def test_gemmini_is_free_of_calls_after_loading() -> None:
    def statements(body: tuple[ast.Statement, ...]) -> list[ast.Statement]:
        found = list(body)
        for s in body:
            if isinstance(s, ast.If):
                found += statements(s.then) + statements(s.otherwise)
        return found

    for instruction in taidl.load("gemmini").instructions.values():
        assert not any(isinstance(s, ast.Invoke) for s in statements(instruction.body))


@pytest.mark.slow
def test_the_language_loads_without_frameworks() -> None:
    code = ("import sys; from archloom.oracle import taidl; taidl.load('gemmini'); "
            "print([m for m in ('jax', 'tvm', 'torch', 'lark', 'ml_dtypes') if m in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[3])
    assert done.stdout.strip() == "[]"


def test_buffers_without_rows_are_absent(tmp_path: Path) -> None:
    path = tmp_path / "optional.taidl"
    path.write_text("isa optional;\nparam n = 0 in 0..8;\n[here] (4) (2 x i8);\n[there] ({2 * n}) (2 x i8);\n"
                    "def touch(at) { %T:1x2xi8 <- $there[at]; %T -> $there[at]; }\n"
                    "[one](at) { %T:1x2xi8 <- $here[at]; %T -> $here[at]; }\n"
                    "[two](at, c) { IF (c == 1) { touch(at); } ELSE { %T:1x2xi8 <- $here[at]; %T -> $here[at]; } }\n")
    without, some = taidl.load(path), taidl.load(path, n=3)
    assert [b.name for b in without.buffers] == ["here"] and list(without.instructions) == ["one"]
    assert some.buffer("there").shape == (6, 2) and list(some.instructions) == ["one", "two"]


CONDITION = "isa t;\nparam dim = {default} in 2..64 where {condition};\n[b] (8) (dim x i8);\n"


def conditioned(condition: str, default: int = 16) -> ast.IsaDef:
    return parse(CONDITION.format(condition=condition, default=default))


@pytest.mark.parametrize(("condition", "kept"), [
    ("dim & (dim - 1) == 0", {2, 4, 8, 16, 32, 64}), ("dim % 16 == 0", {16, 32, 48, 64}),
    ("dim > 10 && dim < 20", set(range(11, 20)))])
def test_parameters_keep_their_conditions(condition: str, kept: set[int]) -> None:
    definition = conditioned(condition)
    assert parse(print_isa(definition)) == definition
    for value in range(2, 65):
        if value in kept:
            assert dict(instantiate(definition, {"dim": value}).parameters) == {"dim": value}
        else:
            with pytest.raises(TargetError, match=f"parameter dim of ISA t must keep .*, found {value}"):
                instantiate(definition, {"dim": value})


def test_conditions_of_parameters_that_are_none() -> None:
    for condition, default, message in (
        ("dim % 16 == 0", 8, "parameter dim of ISA t must keep dim % 16 == 0, found 8"),
        ("dim - 1", 16, "parameter dim: expected a condition, found dim - 1"), ("dom == 1", 16, "unknown name 'dom'"),
    ):
        with pytest.raises(TaidlError, match=message):
            check(conditioned(condition, default))


def test_a_program_states_conditions_of_parameters() -> None:
    built = Builder("t")
    dim = built.param("dim", 16, 2, 64, where=lambda dim: dim % 16 == 0)
    built.buffer("b", (8,), (dim, "i8"))
    assert built.definition() == conditioned("dim % 16 == 0")
