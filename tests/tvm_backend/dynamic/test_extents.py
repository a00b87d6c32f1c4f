"""Open dimensions: how they are written, and the extents that shapes of inputs say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archloom.oracle.errors import InputError
from archloom.tvm_backend.dynamic.extents import Extent, OpenInput, OpenShapes, Symbol, symbols_of
from tests.support.examples import examples

NAMES = ("batch", "n", "x.0")
extents = st.builds(
    Extent, st.dictionaries(st.sampled_from(NAMES[:2]), st.integers(-3, 3).filter(bool), min_size=1).map(
        lambda terms: tuple(terms.items())), st.integers(-4, 4))


def shapes_of(*dims: tuple[str | int, ...], high: int | None = None) -> OpenShapes:
    inputs = tuple(
        OpenInput(f"x{i}", "float32", tuple(d if isinstance(d, int) else Extent.parse(d) for d in shape))
        for i, shape in enumerate(dims))
    return OpenShapes("net", inputs, symbols_of(inputs, lambda name: Symbol(name, 1, high)))


@given(extents)
@examples(50, 1000)
def test_what_is_shown_is_what_is_read(extent: Extent) -> None:
    again = Extent.parse(str(extent))
    assert isinstance(again, Extent)
    assert (dict(again.factors), again.offset) == (dict(extent.factors), extent.offset)


@pytest.mark.parametrize(("text", "shown"), [
    ("n", "n"), ("2*n", "2*n"), ("n*2 + 1", "2*n + 1"), ("(past + now)", "past + now"), ("2*(n - 1)", "2*n - 2"),
    ("-n + 8", "-n + 8"), ("n - n + 3", "3"), ("7", "7"), ("n*0", "0"),
])
def test_sums(text: str, shown: str) -> None:
    assert str(Extent.parse(text)) == shown


@pytest.mark.parametrize("text", ["n*n", "n//2", "f(n)", "n.real", "'n'", "", "n if n else 1", "True", "1.5*n",
                                  "(" * 500, "n" * 300])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        Extent.parse(text)


@given(st.integers(1, 50), st.integers(1, 50))
@examples(20, 200)
def test_shapes_say_the_extents(n: int, past: int) -> None:
    shapes = shapes_of(("n + past", 3), (8, "2*n"), ("3*past - 1",), (), high=50)
    wanted = {"n": n, "past": past}
    sizes = shapes.at(wanted)
    assert sizes == {"x0": (n + past, 3), "x1": (8, 2 * n), "x2": (3 * past - 1,), "x3": ()}
    assert shapes.read(sizes) == wanted


@pytest.mark.parametrize(("given_shapes", "message"), [
    ({"x0": (2, 3)}, "input 'x1' is missing; expected float32 of shape \\(n, 2\\*m\\)"),
    ({"x0": (2, 3, 1), "x1": (2, 4)}, "input 'x0': expected float32 of shape \\(n, 3\\), found shape \\(2, 3, 1\\)"),
    ({"x0": (2, 4), "x1": (2, 4)}, "dimension 1 of input 'x0': expected 3, found 4"),
    ({"x0": (2, 3), "x1": (5, 4)}, "dimension 0 of input 'x1' is n: expected 2, found 5 .n = 2 by dimension 0 of "
                                   "input 'x0'"),
    ({"x0": (2, 3), "x1": (2, 5)}, "dimension 1 of input 'x1': expected 2\\*m, found 5, which no whole number"),
    ({"x0": (10, 3), "x1": (10, 4)}, "symbol 'n': expected 1 to 9, found 10"),
    ({"x0": (0, 3), "x1": (0, 4)}, "symbol 'n': expected 1 to 9, found 0"),
])
def test_shapes_that_do_not_fit(given_shapes: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        shapes_of(("n", 3), ("n", "2*m"), high=9).read(given_shapes)


def test_extents_that_shapes_do_not_say() -> None:
    with pytest.raises(InputError, match="dimension 0 is n \\+ m, which does not say what n, m are; state"):
        shapes_of(("n + m",)).read({"x0": (4,)})


def test_dimensions_without_a_place() -> None:
    with pytest.raises(InputError, match="dimension 0 is n - 2, expected at least 1, found -1 .n=1"):
        shapes_of(("n - 2", "n")).at({"n": 1})


@pytest.mark.parametrize(("wrong", "message"), [
    ({}, "symbol 'n': expected 1 to 9, found no extent .given: none"),
    ({"n": 3, "b": 2}, "no symbol is named 'b'"), ({"nn": 3}, "no symbol is named 'nn'; did you mean 'n'"),
    ({"n": 0}, "symbol 'n': expected 1 to 9, found 0"), ({"n": -3}, "symbol 'n': expected 1 to 9, found -3"),
    ({"n": 10}, "symbol 'n': expected 1 to 9, found 10"), ({"n": 2.0}, "expected a positive integer, found 2.0"),
    ({"n": True}, "expected a positive integer, found True"), ({"n": "3"}, "expected a positive integer, found '3'"),
    ({"n": None}, "expected a positive integer, found None"),
])
def test_wrong_extents(wrong: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"net: .*{message}"):
        shapes_of(("n",), high=9).checked(wrong)
