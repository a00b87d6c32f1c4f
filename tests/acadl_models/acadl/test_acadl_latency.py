"""Latencies: TAIDL's expressions with Python's values, and the messages for texts that do not parse."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archloom.acadl_models.acadl.latency import LatencyError, parse

NAMES = ("rows", "dim", "k")
Meaning = Callable[[dict[str, int]], int]
Pair = tuple[str, Meaning]
"""A text and what it means, built side by side."""

def divided(operation: Callable[[int, int], int]) -> Callable[[int, int], int]:
    """A division by what is not positive has no value, as one by zero."""
    return lambda a, b: operation(a, max(b, 0))


BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "//": divided(operator.floordiv),
    "%": divided(operator.mod),
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}


def binary(pair: tuple[Pair, str, Pair]) -> Pair:
    (left, f), op, (right, g) = pair
    return f"({left} {op} {right})", lambda v: int(BINARY[op](f(v), g(v)))


def logical(pair: tuple[Pair, bool, Pair]) -> Pair:
    (left, f), both, (right, g) = pair
    if both:
        return f"({left} && {right})", lambda v: int(bool(f(v) and g(v)))
    return f"({left} || {right})", lambda v: int(bool(f(v) or g(v)))


def choice(parts: tuple[Pair, Pair, Pair]) -> Pair:
    (then, f), (condition, c), (otherwise, g) = parts
    return f"select({condition}, {then}, {otherwise})", lambda v: f(v) if c(v) else g(v)


def extreme(parts: tuple[Pair, Pair]) -> Pair:
    (a, f), (b, g) = parts
    return f"(max({a}, {b}) - min({a}, 7, {b}))", lambda v: max(f(v), g(v)) - min(f(v), 7, g(v))


def rounded_up(parts: tuple[Pair, Pair]) -> Pair:
    (a, f), (b, g) = parts
    return f"cdiv({a}, {b})", lambda v: -divided(operator.floordiv)(-f(v), g(v))


def expressions() -> st.SearchStrategy[Pair]:
    numbers = st.integers(0, 20).map(lambda n: (str(n), lambda v: n))
    names = st.sampled_from(NAMES).map(lambda name: (name, lambda v: v[name]))

    def extend(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
        return st.one_of(
            st.tuples(inner, st.sampled_from(sorted(BINARY)), inner).map(binary),
            st.tuples(inner, st.booleans(), inner).map(logical),
            st.tuples(inner, inner, inner).map(choice),
            st.tuples(inner, inner).map(extreme),
            st.tuples(inner, inner).map(rounded_up),
            inner.map(lambda p: (f"(-{p[0]})", lambda v: -p[1](v))),
            inner.map(lambda p: (f"(!{p[0]})", lambda v: int(not p[1](v)))),
        )

    return st.recursive(numbers | names, extend, max_leaves=8).filter(lambda pair: len(pair[0]) < 300)


def meaning(f: Meaning, values: dict[str, int]) -> int | None:
    """None for a divisor that is not positive in a part that is evaluated."""
    try:
        return f(values)
    except ZeroDivisionError:
        return None


@pytest.mark.slow
@given(expressions(), st.lists(st.tuples(*[st.integers(0, 30)] * 3), min_size=1, max_size=5))
def test_expressions_mean_what_python_means(pair: Pair, points: list[tuple[int, ...]]) -> None:
    text, f = pair
    expression = parse(text)
    for point in points:
        values = dict(zip(NAMES, point))
        expected = meaning(f, values)
        if expected is None:
            with pytest.raises(LatencyError):
                expression.evaluate(values)
        else:
            assert expression.evaluate(values) == expected
    columns = {name: np.array(column) for name, column in zip(NAMES, zip(*points))}
    meant = [meaning(f, dict(zip(NAMES, point))) for point in points]
    if None in meant:
        with pytest.raises(LatencyError):
            expression.evaluate_columns(columns)
    else:
        assert np.broadcast_to(expression.evaluate_columns(columns), len(points)).tolist() == meant


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 + 3 * 4", 14), ("(2 + 3) * 4", 20), ("10 - 4 - 3", 3), ("-7 // 2", -4), ("-7 % 4", 1), ("cdiv(7, 2)", 4),
        ("select(0, 1, select(0, 2, 3))", 3), ("!(1 == 2)", 1), ("1 || 1 // 0", 1), ("0 && 1 // 0", 0), ("- -3", 3),
        ("max(1, min(5, 9), 3)", 5), ("ld_stride[1] * 2", 14), (5, 5), ("2 * 3 % 4", 2),
        ("select(2 > 1, 7, 1 // 0)", 7), ("1 + 2 >= 3", 1),
    ],
)
def test_values(text: str | int, value: int) -> None:
    expression = parse(text)
    assert expression.evaluate({"ld_stride[1]": 7}) == value


def test_names() -> None:
    assert parse("max(rows, 4) + 2 * dim - ld_stride[0]").names == {"rows", "dim", "ld_stride[0]"}
    assert parse("3 + 4").is_constant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected a value, found the end of the text"),
        ("1 +", "column 4: expected a value"),
        ("rows dim", "column 6: expected an operator or the end of the text, found 'dim'"),
        ("log(rows)", "column 1: unknown function 'log'"),
        ("cdiv(1)", "column 1: cdiv takes 2 arguments, 1 given"),
        ("1 < 2 < 3", "column 7: expected an operator"),
        ("rows $ 2", "column 6: expected an operator or the end of the text, found '\\$'"),
        ("2 << 3", "column 1: a latency has no <<"),
        ("2 + 1.5", "column 5: expected an integer of at most 1099511627776, found 1.5"),
        ("9999999999999", "found 9999999999999"),
        ("stride[rows]", "column 8: the number of a register in a latency must be an integer"),
        ("(1 + 2", "column 7: expected '\\)'"),
        ("1 if 2 else 3", "column 3: .* found 'if'; write select\\(c, a, b\\) for 'a if c else b'"),
        ("rows and not dim", "&& || ! for 'and', 'or', 'not'"),
        ("__import__('os')", "expected a value"),
        ("(" * 60 + "1" + ")" * 60, "brackets are nested more than 50 deep"),
        ("1" + "+1" * 300, "more than 100 operators deep"),
        (1.5, "an integer or an expression in a string, not 1.5"),
        (True, "not True"),
        (None, "not None"),
    ],
)
def test_messages(text: object, message: str) -> None:
    with pytest.raises(LatencyError, match=message):
        parse(text)  # type: ignore[arg-type]


def test_missing_name() -> None:
    with pytest.raises(KeyError, match="rows"):
        parse("rows + 1").evaluate({})


@pytest.mark.slow
@given(expressions(), expressions(), expressions(), st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES}))
def test_let_names_parts(first: Pair, second: Pair, whole: Pair, values: dict[str, int]) -> None:
    """``rows`` and ``dim`` of the whole are what is named; the second part may use the first one."""
    text = f"let rows = {first[0]};let dim = {second[0]}; {whole[0]}"

    def named() -> int:
        rows = first[1](values)
        return whole[1]({**values, "rows": rows, "dim": second[1]({**values, "rows": rows})})

    used = {**values, "rows": 0, "dim": 0}
    assume(meaning(first[1], values) is not None)
    assume(meaning(second[1], {**values, "rows": first[1](values)}) is not None)
    try:
        expected: int | None = named()
    except ZeroDivisionError:
        expected = None
    if expected is not None and 0 <= abs(expected) < 1 << 40:
        assert parse(text).evaluate(values) == expected
        assert parse(text).names <= set(used)


@pytest.mark.parametrize(("text", "message"), [
    ("let n = rows +; n", r"column 15: expected a value"), ("let n = rows; n +", "column 18: expected a value"),
    (f"let a = rows;{''.join('let a = a + a;' for _ in range(60))} a", "more than 1000 names, written out"),
    ("let n == 3; n", "column 5: "), ("let n = rows", "column 5: "),
])
def test_let_that_is_none(text: str, message: str) -> None:
    with pytest.raises(LatencyError, match=message):
        parse(text)
