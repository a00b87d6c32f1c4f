"""Integer expressions: evaluated, compiled to closures, and as Python computes them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import TaidlError
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import Compiler, evaluate, names, register_key
from archloom.oracle.taidl.expressions import parse_expression
from archloom.oracle.taidl.parser import parse
from tests.support.examples import examples

SCOPE = {"a": 7, "b": -3, "zero": 0, "k": 4, "r[0]": 10, "r[1]": 20}


def expr(text: str) -> ast.Expr:
    (statement,) = parse(f"isa t; [i]() {{ let x = {text} }}").instructions[0].body
    assert isinstance(statement, ast.Let)
    return statement.value


def compiled(tree: ast.Expr, known: tuple[str, ...] = ("k",)) -> int:
    slots = {name: i for i, name in enumerate(SCOPE) if name not in known}
    frame = [SCOPE[name] if name in slots else -999 for name in SCOPE]
    return Compiler({name: SCOPE[name] for name in known}, slots).value(tree)(frame)


@pytest.mark.parametrize(("text", "value"), [
    ("a + b * 2", 1), ("a - b - 1", 9), ("a // 2", 3), ("b / 2", -2), ("b % 4", 1), ("a << 3", 56), ("b >> 1", -2),
    ("a & 5", 5), ("b & 0xFF", 253), ("a | 8", 15), ("-a", -7), ("min(a, b)", -3), ("max(a, b, 9)", 9),
    ("cdiv(a, 2)", 4), ("cdiv(b, 2)", -1), ("select(a > b, 1, 2)", 1), ("r[0] + r[k - 3]", 30), ("r[b + 4]", 20),
    ("select(zero == 0, 5, a // zero)", 5), ("a - (b - k)", 14),
])
def test_values(text: str, value: int) -> None:
    assert evaluate(expr(text), SCOPE) == value
    assert compiled(expr(text)) == value


@pytest.mark.parametrize(("text", "value"), [
    ("a == 7", True), ("a != 7", False), ("a < b", False), ("a >= 7 && b <= -3", True), ("a < 0 || b < 0", True),
    ("!(a == 7)", False), ("zero != 0 && a // zero == 1", False), ("zero == 0 || a // zero == 1", True),
])
def test_conditions(text: str, value: bool) -> None:
    assert evaluate(expr(text), SCOPE) is value
    assert bool(compiled(expr(text))) is value


operand = st.one_of(st.integers(0, 300).map(ast.Number), st.sampled_from(["a", "b", "zero", "k"]).map(ast.Name))


def arithmetic(children: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
    positive = st.integers(1, 9).map(ast.Number)
    return st.one_of(
        st.builds(ast.Binary, st.sampled_from(["+", "-", "*", "&", "|"]), children, children),
        st.builds(ast.Binary, st.sampled_from(["//", "%", "<<", ">>"]), children, positive),
        st.builds(ast.Unary, st.just("-"), children),
        st.builds(ast.Call, st.sampled_from(["min", "max"]), st.lists(children, min_size=2, max_size=3).map(tuple)),
        st.builds(ast.Call, st.just("cdiv"), st.tuples(children, positive)),
        st.builds(lambda o, x, y, t, e: ast.Call("select", (ast.Binary(o, x, y), t, e)),
                  st.sampled_from(["<", "==", ">="]), children, children, children, children),
    )


@pytest.mark.slow
@given(st.recursive(operand, arithmetic, max_leaves=12))
@examples(100, 1000)
def test_closures_equal_evaluation_for_any_knowledge(tree: ast.Expr) -> None:
    value = evaluate(tree, SCOPE)
    for known in ((), ("k",), ("a", "b", "zero", "k")):
        assert compiled(tree, known) == value


@pytest.mark.parametrize(("text", "message"), [
    ("a // zero", "the right side of // must be positive, found 0"),
    ("a % b", "the right side of % must be positive, found -3"),
    ("a << b", "the right side of << must not be negative, found -3"),
    ("cdiv(a, b)", "the second argument of cdiv must be positive, found -3"),
    ("r[2]", r"unknown name 'r\[2\]'"), ("nothing", r"unknown name 'nothing' \(valid: "), ("1.5 + a", "found 1.5"),
])
def test_what_has_no_value(text: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        evaluate(expr(text), SCOPE)
    with pytest.raises(TaidlError, match=message):
        compiled(expr(text))


def test_names_and_keys() -> None:
    assert [getattr(n, "name", "") for n in names(expr("a + r[b] * min(k, -zero)"))] == ["a", "r", "b", "k", "zero"]
    assert register_key("r", 1) == "r[1]" and register_key("r", None) == "r"


def test_an_expression_as_a_text_of_its_own() -> None:
    assert evaluate(parse_expression(" select(a > b, a // 2, 1)  # a remark\n + r[k - 4]"), SCOPE) == 13


@pytest.mark.parametrize(("text", "message"), [
    ("", "f:1:1: expected a value, found the end of the text"),
    ("1 +\n  *", r"f:2:3: expected a value, found '\*'"),
    ("a b", "f:1:3: expected an operator or the end of the text, found 'b'"),
    ("a < b < 1", "f:1:7: expected an operator or the end of the text, found '<'"),
    ("least(a, b)", "f:1:1: unknown function 'least'"),
])
def test_what_is_no_expression(text: str, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        parse_expression(text, "f")
