"""TAIDL text and syntax trees: the paper's figures, the extensions, round trips, faults."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.parser import parse
from archloom.oracle.taidl.printer import print_expr, print_isa
from tests.support.examples import examples
from tests.support.oracle import lark_parser
from tests.support.oracle.taidl_trees import TPU, expressions, printed, statements


def body(text: str) -> tuple[ast.Statement, ...]:
    return parse(f"isa t; [i](a, b, C, H, W) {{ {text} }}").instructions[0].body


def expr(text: str) -> ast.Expr:
    (statement,) = body(f"let x = {text}")
    assert isinstance(statement, ast.Let)
    return statement.value


def n(value: int) -> ast.Number:
    return ast.Number(value)


def name(text: str) -> ast.Name:
    return ast.Name(text)


def test_figures_4_and_6() -> None:
    isa = parse(TPU)
    assert [b.name for b in isa.buffers] == ["unified_buffer", "accumulator", "weights", "fifo", "MXU_in_fifo"]
    assert isa.buffers[0] == ast.BufferDecl("unified_buffer", (n(96 * 1024),), ast.Type((n(256),), "i8"))
    assert isa.buffers[2].rows == ()
    assert isa.buffers[4].rows == (n(2), n(256))
    assert isa.registers == tuple(ast.RegisterDecl(r, None, n(0)) for r in ("occupancy", "push", "pop"))
    (instruction,) = isa.instructions
    assert instruction.attributes == ("addr",)
    assert instruction.body == (
        ast.Assert(ast.Binary("<", name("occupancy"), n(4))),
        ast.Read("In", ast.Type((n(65536),), "i8"),
                 ast.Slice("hbm", (ast.Range(name("addr"), ast.Binary("+", name("addr"), n(65536)), None),))),
        ast.Op("Out", ast.Type((n(1), n(256), n(256)), "i8"), "reshape", (ast.Tensor("In"),), ()),
        ast.Write("Out", ast.Type((n(1), n(256), n(256)), "i8"), ast.Slice("fifo", (ast.At(name("push")),))),
        ast.Assign("occupancy", None, ast.Binary("+", name("occupancy"), n(1))),
        ast.Assign("push", None, ast.Binary("%", ast.Binary("+", name("push"), n(1)), n(4))),
    )


def test_figure_9_types_with_expressions_and_names_in_capitals() -> None:
    first, second, third = body("""
        %T1:(C*H*W/4)x4xf32 <- $buffer[a:a+4, 0]
        %T2:HxWxCxf32        = reshape(%T1)
        %T3:CxHxWxf32        = transpose(%T2, dim={2,0,1})
    """)
    product = ast.Binary("*", ast.Binary("*", name("C"), name("H")), name("W"))
    assert isinstance(first, ast.Read) and isinstance(second, ast.Op) and isinstance(third, ast.Op)
    assert first.type == ast.Type((ast.Binary("//", product, n(4)), n(4)), "f32")
    assert second.type == ast.Type((name("H"), name("W"), name("C")), "f32")
    assert third.attributes == (("dim", ast.Group((n(2), n(0), n(1)))),)


def test_figures_10_and_11_blocks_and_bodies_without_braces() -> None:
    isa = parse("""isa g
        dataflow_flag = 0
        [config_execute_dataflow](new_dataflow_value)  dataflow_flag = new_dataflow_value
        [matmul_compute_preloaded](rs1, rs2)  IF (dataflow_flag == 0) { } ELSE { REPEAT (m, 16) { REPEAT (k, 16) { } } }
    """)
    first, second = isa.instructions
    assert first.body == (ast.Assign("dataflow_flag", None, name("new_dataflow_value")),)
    inner = ast.Repeat("m", n(16), (ast.Repeat("k", n(16), ()),))
    assert second.body == (ast.If(ast.Binary("==", name("dataflow_flag"), n(0)), (), (inner,)),)


def test_extensions_of_declarations() -> None:
    isa = parse("""isa e;
        param dim = 16 in 4..256; const NONE = 0xFFFF_FFFF; const ROWS = 2M
        [spad] (rows) (dim x i8)
        ld[3] = dim;
        def f(%X, n) { let m = n - 1; }
        [i]() { f(%T, 2); ld[n] = 3; }
    """)
    assert isa.parameters == (ast.Parameter("dim", 16, 4, 256),)
    assert isa.constants == (ast.Constant("NONE", n(0xFFFFFFFF)), ast.Constant("ROWS", n(2 * 1024 * 1024)))
    assert isa.buffers == (ast.BufferDecl("spad", (name("rows"),), ast.Type((name("dim"),), "i8")),)
    assert isa.registers == (ast.RegisterDecl("ld", n(3), name("dim")),)
    assert isa.definitions == (
        ast.Definition("f", ("%X", "n"), (ast.Let("m", ast.Binary("-", name("n"), n(1))),)),
    )
    assert isa.instructions[0].body == (
        ast.Invoke("f", (ast.Tensor("T"), n(2))), ast.Assign("ld", name("n"), n(3)),
    )


@pytest.mark.parametrize(("text", "axes"), [
    ("$x", ()), ("$x[]", ()), ("x[a]", (ast.At(name("a")),)),
    ("$x[a:]", (ast.Range(name("a"), None, None),)), ("$x[:]", (ast.Range(None, None, None),)),
    ("$x[:b, ::2]", (ast.Range(None, name("b"), None), ast.Range(None, None, n(2)))),
    ("$x[a + {b : C, 4 : 1}]", (ast.Walk(name("a"), ((name("b"), name("C")), (n(4), n(1)))),)),
    ("$x[a + b + {2 : 1}]", (ast.Walk(ast.Binary("+", name("a"), name("b")), ((n(2), n(1)),)),)),
    ("$x[{2 : 1}, a]", (ast.Walk(n(0), ((n(2), n(1)),)), ast.At(name("a")))),
])
def test_slices_and_windows(text: str, axes: tuple[ast.Axis, ...]) -> None:
    (statement,) = body(f"%T:4xi8 <- {text}")
    assert isinstance(statement, ast.Read)
    assert statement.source == ast.Slice("x", axes)


def test_modulo_and_tensors_share_a_sign() -> None:
    first, second = body("let x = a %T:8xi8 <- $b")
    assert first == ast.Let("x", name("a")) and isinstance(second, ast.Read)
    assert body("let x = a %b") == (ast.Let("x", ast.Binary("%", name("a"), name("b"))),)
    (read,) = body("%T:1xi8 <- $b[a%b:C]")
    assert isinstance(read, ast.Read)
    assert read.source.axes == (ast.Range(ast.Binary("%", name("a"), name("b")), name("C"), None),)


@pytest.mark.parametrize(("text", "printed"), [
    ("1+2*3", "1 + 2 * 3"), ("(1+2)*3", "(1 + 2) * 3"), ("a-(b-C)", "a - (b - C)"), ("a-b-C", "a - b - C"),
    ("a>>2&1==1", "a >> 2 & 1 == 1"), ("a/b", "a // b"), ("-a*b", "-a * b"), ("-(a*b)", "-(a * b)"),
    ("!(a<b)||b==1&&C>=2", "!(a < b) || b == 1 && C >= 2"), ("(a<b)==(b<C)", "(a < b) == (b < C)"),
    ("a|b&C<<1", "a | b & C << 1"), ("min(a,max(b,1))", "min(a, max(b, 1))"), ("a<-b", "a < -b"),
    ("select(a==0,1,cdiv(b,4))", "select(a == 0, 1, cdiv(b, 4))"), ("4K+0x10", "4096 + 16"),
])
def test_precedence_is_as_in_python(text: str, printed: str) -> None:
    assert print_expr(expr(text)) == printed
    assert expr(printed) == expr(text)


@given(expressions)
@examples(60, 1000)
def test_printed_expressions_parse_to_the_same_tree(tree: ast.Expr) -> None:
    assert expr(print_expr(tree)) == tree


@pytest.mark.slow
@given(st.lists(statements, max_size=4).map(tuple))
@examples(30, 500)
def test_printed_statements_parse_to_the_same_tree(tree: tuple[ast.Statement, ...]) -> None:
    assert parse(printed(tree)).instructions[0].body == tree


CANONICAL = """isa t;
[tiles] (8) (16x64 x i8);
push = 0;
[go](dst, rows) {
    assert(push < 4);
    %a:{rows * 16}x64xi8 <- $hbm[dst + {rows * 16 : 64, 64 : 1}];
    %b:64x{rows * 16}xi8 = transpose(%a, dim={1, 0});
    %c:{rows * 16}x{rows * 16}xi32 = dot_general(%a, %b, lhs_batch={}, rhs_batch={}, lhs_contracting={1},
        rhs_contracting={0});
    %d:{rows * 16}x{rows * 16}xf32 = convert(%c);
    %e:{rows * 16}x{rows * 16}xf32 = exp(%d);
    %f:{rows * 16}x{rows * 16}xi1 = is_finite(%e);
    REPEAT (m, 4) { push = (push + m) % 4; }
}
alias run(to, n) = go;
"""

SPELLED = """isa t;
[tiles] (8) (16x64 x s8);
push = 0;
[go](dst, rows) {
    assert(@s.push < 4);
    %a:`@a.rows * 16`x64xs8 <- hbm[`@a.dst` + {`@a.rows` * 16 : 64, 64 : 1}];
    %b:64x`rows * 16`xs8 = transpose(%a), dimensions={1, 0};
    %c:`@a.rows * 16`x`@a.rows * 16`xs32 = dot(%a, %b), lhs_batch_dims={}, rhs_batch_dims={}, lhs_contracting_dims={1},
        rhs_contracting_dims={0};
    %d:`@a.rows * 16`x`@a.rows * 16`xf32 = convert(%c);
    %e:`@a.rows * 16`x`@a.rows * 16`xf32 = exponential(%d);
    %f:`@a.rows * 16`x`@a.rows * 16`xpred = is_finite(%e);
    REPEAT (m, 4) { @s.push = (@s.push + @l.m) % 4; }
}
alias run(to, n) = go;
"""
"""The same, as XLA and the artifact of the paper write it."""


@pytest.mark.parametrize("read", [parse, lark_parser.parse])
def test_spellings_of_xla_and_of_the_artifact_mean_the_same(read: Callable[[str], ast.IsaDef]) -> None:
    tree = read(SPELLED)
    assert tree == read(CANONICAL) == parse(print_isa(tree))


def test_positions_take_no_part_in_equality() -> None:
    a, b = parse("isa t; const x = 1"), parse("isa t;\n\n  const x = 1")
    assert a == b and hash(a) == hash(b)
    assert (b.constants[0].position.line, b.constants[0].position.column) == (3, 9)


@pytest.mark.parametrize(("text", "message"), [
    ("", r"1:1: expected 'isa', found the end of the text"),
    ("isa t; ?", r"1:8: expected a declaration .*, found '\?'"),
    ("isa t; param p = 3 in 4..8", r"1:14: parameter p has the default 3, outside of its range 4\.\.8"),
    ("isa t; param p = x in 4..8", r"1:18: expected an integer, found 'x'"),
    ("isa t; [i](4) { }", r"1:9: the attributes of instruction i must be names"),
    ("isa t; [i](a) { x = }", r"1:21: expected a value, found '}'"),
    ("isa t; [i](a) { x = 3", r"1:22: expected a statement, found the end of the text"),
    ("isa t; [i](a) { x = mni(1, 2) }", r"unknown function 'mni'; did you mean 'min'\? \(valid: cdiv, max, min, sele"),
    ("isa t; [i](a) { x = cdiv(1) }", r"cdiv takes 2 arguments, 1 given"),
    ("isa t; [i](a) { x = min(1) }", r"min takes at least 2 arguments, 1 given"),
    ("isa t; [i](a) { %x:3 = f() }", r"1:22: expected 'x' and the element type, found '='"),
    ("isa t; [i](a) { %x:3xi7 = f() }", r"1:25: expected 'x' and the element type, found '='"),
    ("isa t; [i](a) { %x:+ }", r"1:20: expected a dimension or an element type, found '\+'"),
    ("isa t; [i](a) { %x }", r"expected ':' and a type, or '->', found '}'"),
    ("isa t; [i](a) { %x:i8 }", r"expected '<-', '->' or '=', found '}'"),
    ("isa t; [i](a) { %x:i8 <- }", r"expected \$buffer, found '}'"),
    ("isa t; [i](a) { IF a { } }", r"expected '\(', found 'a'"),
    ("isa t; [i](a) { assert(a == 1; }", r"expected '\)', found ';'"),
    ("isa t; [i](a) { f(a; }", r"expected ',' or '\)', found ';'"),
    ("isa t; [i](a) { x = a < 1 < 2 }", r"expected a statement, found '<'"),
])
def test_faults_say_what_was_expected_and_where(text: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        parse(text)


def test_faults_show_the_line_with_a_caret() -> None:
    with pytest.raises(TaidlError) as caught:
        parse("isa t;\n[i](a) {\n    x = ;\n}", "some.taidl")
    assert str(caught.value) == "some.taidl:3:9: expected a value, found ';'\n        x = ;\n            ^"


def test_error_positions_are_one_based() -> None:
    with pytest.raises(TaidlError) as caught:
        parse("@")
    assert caught.value.position is not None
    assert re.match(r"<string>:1:1", str(caught.value.position))
