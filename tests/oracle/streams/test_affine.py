"""The algebra of affine expressions against Python's own integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archloom.oracle.affine import Affine, Bounds, Div, Mod
from archloom.oracle.errors import StreamError
from tests.support.oracle.strategies import VARIABLES, affines, bounded_values

I, J, K = map(Affine.variable, "ijk")


@given(affines(), affines(), bounded_values(), st.tuples(st.integers(-9, 9), st.integers(1, 20)))
def test_operators_agree_with_integers(
    a: Affine, b: Affine, case: tuple[Bounds, dict[str, int]], constants: tuple[int, int]
) -> None:
    _, values = case
    c, d = constants
    x, y = a.evaluate(values), b.evaluate(values)
    assert (a + b).evaluate(values) == x + y
    assert (a - b).evaluate(values) == x - y
    assert (c - a).evaluate(values) == c - x
    assert (a * c).evaluate(values) == x * c
    assert (a // d).evaluate(values) == x // d
    assert (a % d).evaluate(values) == x % d


@given(affines(), affines(), affines())
def test_equal_sums_have_one_form(a: Affine, b: Affine, c: Affine) -> None:
    assert (a + b) + c == a + (c + b)
    assert hash((a + b) + c) == hash(a + (c + b))
    assert a + b - b == a
    assert 2 * a == a + a


@given(affines(), st.integers(-9, 9))
def test_numbers_are_compared_with_constants_alone(a: Affine, x: int) -> None:
    """What is written once for all iterations cannot depend on one of them."""
    assert (Affine(x) == x) and Affine(x) != x + 1 and hash(Affine(x)) == hash(x)
    if a.is_constant:
        assert (a == x) == (a.constant == x)
    else:
        with pytest.raises(StreamError, match=f"== {x} cannot be decided .* make a loop of its own"):
            assert a == x


@given(st.lists(st.integers(0, 8), min_size=4, max_size=4), st.integers(2, 9), st.integers(2, 9))
def test_parts_of_a_value_have_one_form(numbers: list[int], d: int, m: int) -> None:
    """Whatever is taken of ``d * (x // d) + x % d`` leaves the other, where no coefficient is cut down."""
    anything: Bounds = dict.fromkeys(VARIABLES, (-10**6, 10**6))
    x = Affine.build(numbers[0] % d, [(v, n % d) for v, n in zip("ijk", numbers[1:], strict=True)])
    assert (x - x // d * d).simplify(anything) == (x % d).simplify(anything)
    assert (x - x % d).simplify(anything) == (x // d * d).simplify(anything)
    assert ((I + J) % (d * m) // d).simplify(anything) == ((I + J) // d - (I + J) // (d * m) * m).simplify(anything)


@given(affines(), st.integers(1, 20), affines())
def test_multiples_leave_divisions(a: Affine, d: int, b: Affine) -> None:
    assert (a * d + b) % d == b % d
    assert ((a * d) + 0) // d == a


@given(affines(), bounded_values())
def test_simplify_keeps_values_and_range_contains_them(a: Affine, case: tuple[Bounds, dict[str, int]]) -> None:
    bounds, values = case
    value, simple = a.evaluate(values), a.simplify(bounds)
    assert simple.evaluate(values) == value
    for form in (a, simple):
        low, high = form.range(bounds)
        assert low <= value <= high


@given(affines(), bounded_values())
def test_simplify_leaves_variables_without_bounds_alone(a: Affine, case: tuple[Bounds, dict[str, int]]) -> None:
    bounds, values = case
    partial = {k: v for k, v in bounds.items() if k != "i"}
    for i in (-7, 0, 11):
        assert a.simplify(partial).evaluate({**values, "i": i}) == a.evaluate({**values, "i": i})


@given(affines(linear=True), bounded_values())
def test_range_of_a_linear_expression_is_attained(a: Affine, case: tuple[Bounds, dict[str, int]]) -> None:
    bounds, _ = case
    corners = [{}]
    for v in VARIABLES:
        corners = [{**c, v: e} for c in corners for e in bounds[v]]
    values = [a.evaluate(c) for c in corners]
    assert a.range(bounds) == (min(values), max(values))


@given(affines(), affines(), affines(), bounded_values())
def test_substitution_is_simultaneous(a: Affine, x: Affine, y: Affine, case: tuple[Bounds, dict[str, int]]) -> None:
    _, values = case
    replaced = a.substitute({"i": x, "j": y})
    assert replaced.evaluate(values) == a.evaluate({**values, "i": x.evaluate(values), "j": y.evaluate(values)})


@given(affines(), bounded_values())
def test_arrays_evaluate_element_by_element(a: Affine, case: tuple[Bounds, dict[str, int]]) -> None:
    _, values = case
    grid = {**values, "i": np.arange(-5, 6), "j": np.arange(3)[:, None]}
    expected = [[a.evaluate({**values, "i": i, "j": j}) for i in range(-5, 6)] for j in range(3)]
    assert np.broadcast_to(a.evaluate(grid), (3, 11)).tolist() == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (Affine(), "0"),
        (-I, "-i"),
        (16 * I - J + 3, "16*i - j + 3"),
        (I % 2 * 32 + (J + 5) // 16, "((j + 5) // 16) + 32*(i % 2)"),
        ((20 * I + 3) // 16, "i + ((4*i + 3) // 16)"),
        ((-I) % 16, "(15*i % 16)"),
    ],
)
def test_text(expression: Affine, text: str) -> None:
    assert str(expression) == text


@pytest.mark.parametrize(
    ("expression", "bounds", "simple"),
    [
        ((I * 16 + J) // 16, {"i": (0, 9), "j": (0, 15)}, I),
        ((I * 16 + J) % 16, {"i": (0, 9), "j": (0, 15)}, J),
        ((I * 16 + J) // 16, {"i": (0, 9), "j": (0, 16)}, I + J // 16),
        (I // 4 * 8 + I % 4 * 2, {"i": (0, 99)}, I * 2),
        ((20 * I + 3) // 16 * 16 + (20 * I + 3) % 16, {"i": (0, 99)}, 20 * I + 3),
        (I + 2 * J, {"i": (3, 3), "j": (0, 4)}, 2 * J + 3),
        ((I + 0x80000000) // 2**31, {"i": (0, 1023)}, Affine(1)),
    ],
)
def test_simplify_decides(expression: Affine, bounds: Bounds, simple: Affine) -> None:
    assert expression.simplify(bounds) == simple


def test_range_of_a_modulo_knows_its_stride() -> None:
    assert (I * 8 % 32).range({"i": (0, 99)}) == (0, 24)
    assert ((I * 8 + 3) % 32).range({"i": (0, 99)}) == (3, 27)
    assert ((I + 40) % 32).range({"i": (0, 7)}) == (8, 15)


def test_structure() -> None:
    e = I % 2 * 4 + J // 3 + 2 * K + 1
    assert e.variables() == {"i", "j", "k"}
    assert e.coefficient("k") == 2 and e.coefficient("i") == 0
    assert not e.is_linear and (I + J).is_linear
    assert [type(a) for a, _ in e.terms] == [str, Mod, Div]
    assert int(Affine(5)) == 5


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: I * J, r"\(i\) \* \(j\) is not affine"),
        (lambda: I // 0, "a divisor must be a positive constant, not 0"),
        (lambda: I % -3, "a divisor must be a positive constant, not -3"),
        (lambda: int(I), "i is not a constant"),
    ],
)
def test_what_is_not_affine_is_refused(bad: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bad()  # type: ignore[operator]


def test_fractions_are_refused() -> None:
    with pytest.raises(TypeError):
        Affine.of(1.5)  # type: ignore[arg-type]


@settings(max_examples=20)
@given(affines())
def test_missing_variable_is_an_error(a: Affine) -> None:
    if a.variables():
        with pytest.raises(KeyError):
            a.evaluate({})
        with pytest.raises(KeyError):
            a.range({})
