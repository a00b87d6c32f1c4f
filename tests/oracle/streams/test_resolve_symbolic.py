"""TAIDL's expressions over affine values agree with those over integers, or are left undecided."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.affine import Affine, Bounds
from archloom.oracle.errors import TaidlError
from archloom.oracle.resolution.symbolic import ANY, Evaluator, Ranges, Undecided, evaluate_grid
from archloom.oracle.taidl import ast
from archloom.oracle.taidl.evaluate import evaluate
from tests.support.oracle.strategies import affines, bounded_values

NUMBERS = st.integers(-20, 70).map(ast.Number)
AMOUNTS = {"//": st.integers(1, 9), "%": st.integers(1, 9), "<<": st.integers(0, 4), ">>": st.integers(0, 4),
           "*": st.integers(-4, 4), "&": st.integers(0, 255), "|": st.integers(0, 255)}
SCOPE = ("a", "b")


def expressions() -> st.SearchStrategy[ast.Expr]:
    """Expressions over a and b, conditions included."""
    leaves = NUMBERS | st.sampled_from(SCOPE).map(ast.Name)

    def grow(inner: st.SearchStrategy[ast.Expr]) -> st.SearchStrategy[ast.Expr]:
        scaled = st.sampled_from(sorted(AMOUNTS)).flatmap(
            lambda o: st.builds(ast.Binary, st.just(o), inner, AMOUNTS[o].map(ast.Number))
        )
        sums = st.builds(ast.Binary, st.sampled_from(["+", "-"]), inner, inner)
        conditions = st.builds(ast.Binary, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), inner, inner)
        both = st.builds(ast.Binary, st.sampled_from(["&&", "||"]), conditions, conditions)
        negated = conditions.map(lambda c: ast.Unary("!", c))
        extremes = st.builds(lambda f, x, y: ast.Call(f, (x, y)), st.sampled_from(["min", "max"]), inner, inner)
        select = st.builds(lambda c, x, y: ast.Call("select", (c, x, y)), conditions | both | negated, inner, inner)
        cdiv = st.builds(lambda x, d: ast.Call("cdiv", (x, ast.Number(d))), inner, st.integers(1, 9))
        return st.one_of(scaled, sums, extremes, select, cdiv, inner.map(lambda x: ast.Unary("-", x)), both)

    return st.recursive(leaves, grow, max_leaves=6)


@given(expressions(), affines(), affines(), bounded_values())
def test_decided_values_are_right(
    e: ast.Expr, a: Affine, b: Affine, case: tuple[Bounds, dict[str, int]]
) -> None:
    bounds, values = case
    scope = {"a": a, "b": b}
    want = int(evaluate(e, {k: v.evaluate(values) for k, v in scope.items()}))
    try:
        found = Evaluator(scope, bounds).value(e)
    except Undecided as u:
        # what is undecided is a real question about variables
        assert u.quantity.variables()
        return
    assert found.evaluate(values) == want


@given(expressions(), affines(), affines())
def test_grids_agree_with_integers(e: ast.Expr, a: Affine, b: Affine) -> None:
    i, j = np.arange(-3, 4), np.arange(0, 3)[:, None]
    arrays = {k: np.asarray(v.evaluate({"i": i, "j": j, "k": 2})) for k, v in (("a", a), ("b", b))}  # type: ignore[dict-item]
    found = np.broadcast_to(evaluate_grid(e, arrays.__getitem__), (3, 7))
    for y in range(3):
        for x in range(7):
            at = {"i": x - 3, "j": y, "k": 2}
            assert int(found[y, x]) == int(evaluate(e, {"a": a.evaluate(at), "b": b.evaluate(at)}))


@pytest.mark.parametrize(
    ("left", "operator", "right", "expected"),
    [
        (Affine.of("i") * 16 + 0x80000000, ">>", 31, Affine(1)),
        (Affine.of("i") * 16 + 0x80000040, "&", 0x1FFFFFFF, Affine.of("i") * 16 + 64),
        (Affine.of("i") * 16 + 0xC0000000, "&", 1 << 30, Affine(1 << 30)),
        (Affine.of("i") * 2, "|", 1, Affine.of("i") * 2 + 1),
        (Affine.of("i") * 16, "&", -16, Affine.of("i") * 16),
        (Affine.of("i") * 4 + 3, "&", 0b1010, None),
    ],
)
def test_bits_of_addresses(left: Affine, operator: str, right: int, expected: Affine | None) -> None:
    e = ast.Binary(operator, ast.Name("x"), ast.Number(right))
    found = Evaluator({"x": left}, {"i": (0, 63)}).value(e)
    if expected is not None:
        assert found == expected
    for i in range(64):
        scope = {"x": left.evaluate({"i": i})}
        assert found.evaluate({"i": i}) == evaluate(e, scope)


def test_either_side_of_a_junction_may_decide() -> None:
    scope, bounds = {"x": Affine.of("i"), "y": Affine(1)}, {"i": (0, 9)}
    open_, true = ast.Binary("<", ast.Name("x"), ast.Number(5)), ast.Binary("==", ast.Name("y"), ast.Number(1))
    evaluator = Evaluator(scope, bounds)
    assert evaluator.truth(ast.Binary("||", open_, true)) and evaluator.truth(ast.Binary("||", true, open_))
    assert not evaluator.truth(ast.Binary("&&", open_, ast.Unary("!", true)))
    with pytest.raises(Undecided, match=r"i - 5 < 0"):
        evaluator.truth(ast.Binary("&&", open_, true))


def test_products_need_a_constant_side() -> None:
    scope, bounds = {"x": Affine.of("i"), "y": Affine.of("j") + 1}, {"i": (0, 9), "j": (0, 9)}
    with pytest.raises(Undecided, match=r"the value of j \+ 1"):
        Evaluator(scope, bounds).value(ast.Binary("*", ast.Name("x"), ast.Name("y")))


@pytest.mark.parametrize(
    ("e", "message"),
    [
        (ast.Name("zz"), "unknown name 'zz'"),
        (ast.Element("r", ast.Number(3)), r"unknown name 'r\[3\]'"),
        (ast.Binary("//", ast.Name("x"), ast.Number(0)), "the right side of // must be positive, found 0"),
        (ast.Binary("<<", ast.Name("x"), ast.Number(-1)), r"the right side of << must be in 0..64, found -1"),
        (ast.Number(1.5), "expected an integer, found 1.5"),
    ],
)
def test_faults(e: ast.Expr, message: str) -> None:
    with pytest.raises(TaidlError, match=message):
        Evaluator({"x": Affine.of("i"), "r[0]": Affine(0)}, {"i": (0, 9)}).value(e)


def test_names_without_bounds_may_have_any_value() -> None:
    bounds = Ranges({"i": (0, 3)})
    assert Affine.of("?").range(bounds) == ANY
    with pytest.raises(Undecided):
        Evaluator({"x": Affine.of("?")}, bounds).truth(ast.Binary("==", ast.Name("x"), ast.Number(0)))
